"""The topics whose names are near one that does not exist."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final
from urllib.parse import quote

import click

from cli.connection import Connection
from cli.failure import Failure

#: The longest wait for the list of topics. The answer that the user asked for is there already.
LIST_S: Final = 3.0


def name_near_topics(failure: Failure, options: Mapping[str, Any]) -> None:
    """If a Failure has the code `unknown-topic`, add topics with near names to its message. `options` are those of the
    command that failed."""
    if failure.document.get("code") != "unknown-topic":
        return
    asked = options.get("topic") or options.get("name")
    several = options.get("topics")
    if isinstance(several, tuple) and len(several) == 1:
        asked = several[0]
    if not isinstance(asked, str) or "url" not in options:
        return
    if near := _near(options["url"], asked):
        failure.message += f"\n  did you mean {' or '.join(near)}?"


def note_topic(url: str, topic: str, timeout_s: float) -> None:
    """Says on stderr why a pull may get nothing: the topic does not exist yet, or its messages are pushed."""
    try:
        found = Connection(url, min(LIST_S, timeout_s)).call("GET", f"/v1/topics/{quote(topic, safe='')}").document
        if found.get("mode") == "push":
            click.echo(f"{topic} is a push topic: its messages go to their target, not to a pull", err=True)
    except Failure as failure:
        if failure.document.get("code") == "unknown-topic":
            near = _near(url, topic)
            mean = f"; did you mean {' or '.join(near)}?" if near else ""
            click.echo(f"no topic is named {topic} yet{mean}", err=True)


def _near(url: str, asked: str) -> list[str]:
    try:
        items = Connection(url, LIST_S).call("GET", "/v1/topics").document.get("items", [])
    except Failure:
        return []
    return get_close_matches(asked, [str(item.get("topic")) for item in items])
