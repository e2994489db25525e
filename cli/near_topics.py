"""Beside the answer that nobody has named a topic: the topics whose names are near."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from cli.connection import Connection
from cli.failure import Failure

#: The answer is there already: the list of topics may take no longer than this.
LIST_S: Final = 3.0


def name_near_topics(failure: Failure, options: Mapping[str, Any]) -> None:
    """Adds `did you mean` to the sentence of an `unknown-topic`; `options` are those of the command that failed."""
    if failure.document.get("code") != "unknown-topic":
        return
    asked = options.get("topic") or options.get("name")
    if not isinstance(asked, str) or "url" not in options:
        return
    try:
        items = Connection(options["url"], LIST_S).call("GET", "/v1/topics").document.get("items", [])
    except Failure:
        return
    if near := get_close_matches(asked, [str(item.get("topic")) for item in items]):
        failure.message += f"\n  did you mean {' or '.join(near)}?"
