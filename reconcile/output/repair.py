"""Repairs, carried out over HTTP so that doing it twice is doing it once.

| action | what is sent | why twice is once |
|---|---|---|
| redeliver | GET the message, POST its content, due now, with the key `repair-<id>` | the key: answered with the same |
| suppress | DELETE the message | cancelled twice is 200 twice |

What is sent again has a header `repair-of: <id>`, for consumers that remember what they got.

Nothing is done on a guess: a message that is still open is not sent again beside itself, one that meanwhile ended is
left alone, one whose content no node has any more cannot come again, and each of these is said by name. That a message
equals another one is a guess (a producer may mean both), so those are cancelled only if that is asked for. And a
message is lost because no account tells of a hand-over: where an account is missing or has a hole none is sent again.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import pyarrow.dataset as ds

from reconcile.files.problem import DataRefused
from reconcile.output.directory import REDELIVER_REFUSED, REPAIRS_TABLE, REPORT
from reconcile.output.tables import REDELIVER, SUPPRESS, TWICE
from storage.format.states import ENDED_STANDINGS, words

DONE: Final = "done"
"""Carried out, now or by an earlier run."""
NOT_NEEDED: Final = "not_needed"
"""The message has ended meanwhile, or is open and comes by itself."""
GONE: Final = "gone"
"""No node knows the message: there is nothing to send."""
REFUSED: Final = "refused"
"""It was not sent again: the reconciliation did not have all that could tell of a hand-over."""
LATER: Final = "later"
"""It is with a consumer now, or the nodes cannot take it now: run again."""
OUTCOMES: Final = (DONE, NOT_NEEDED, GONE, REFUSED, LATER)

KEY_PREFIX: Final = "repair-"
REPAIR_OF: Final = "repair-of"
_COPIED: Final = ("topic", "body", "body_base64", "tags", "target", "retry")
_BATCH_ROWS: Final = 4096

Call = Callable[[str, str, Mapping[str, Any] | None], tuple[int, Mapping[str, Any]]]
"""(method, path, document) -> (HTTP status, document of the answer)."""


class Repair(NamedTuple):
    """One row of the repairs."""

    action: str
    reason: str
    id: str

    @property
    def guessed(self) -> bool:
        """Whether its producer may have meant the message after all."""
        return self.reason == TWICE


class Outcome(NamedTuple):
    """What came of one: a word of OUTCOMES, and what is to be said beside it."""

    repair: Repair
    word: str
    said: str


def read_repairs(out: Path) -> Iterator[Repair]:
    """The repairs that a reconciliation wrote below `out`. Raises DataRefused if it wrote none."""
    if not (out / REPORT).is_file() or not (out / REPAIRS_TABLE).is_dir():
        raise DataRefused(f"{out} is not the output of a finished reconciliation: it has no {REPORT}")
    table = ds.dataset(out / REPAIRS_TABLE, format="parquet")
    for batch in table.to_batches(columns=["action", "reason", "id"], batch_size=_BATCH_ROWS):
        for row in batch.to_pylist():
            yield Repair(row["action"], row["reason"], row["id"])


def read_refusals(out: Path) -> list[str]:
    """Why the reconciliation below `out` is no ground to send anything again; empty if it is. Raises DataRefused if
    its report cannot be read."""
    try:
        document = json.loads((out / REPORT).read_bytes())
    except FileNotFoundError:
        raise DataRefused(f"{out} is not the output of a finished reconciliation: it has no {REPORT}") from None
    except (OSError, ValueError) as error:
        raise DataRefused(f"{out / REPORT} is damaged: {error}") from error
    if not isinstance(document, dict) or REDELIVER_REFUSED not in document:
        return ["an older build made this report, and did not look whether all delivery logs are whole"]
    found = document[REDELIVER_REFUSED]
    if not isinstance(found, list) or not all(isinstance(sentence, str) for sentence in found):
        raise DataRefused(f"{out / REPORT} is damaged: {REDELIVER_REFUSED} is no list of sentences")
    return found


def carry_out(repair: Repair, call: Call) -> Outcome:
    """Does what one row asks for. Raises what `call` raises: no node can be reached, and a later run goes on."""
    path = f"/v1/messages/{quote(repair.id, safe='')}"
    if repair.action == SUPPRESS:
        return _suppress(repair, path, call)
    assert repair.action == REDELIVER, f"action {repair.action}"
    return _redeliver(repair, path, call)


def _suppress(repair: Repair, path: str, call: Call) -> Outcome:
    status, document = call("DELETE", path, None)
    if status == 200:
        return Outcome(repair, DONE, "cancelled")
    code = str(document.get("code"))
    if status == 404:
        return Outcome(repair, GONE, "no node knows it")
    if code == "already-settled":
        return Outcome(repair, NOT_NEEDED, "it has ended by itself")
    return Outcome(repair, LATER, f"{code} (HTTP {status})")


def _redeliver(repair: Repair, path: str, call: Call) -> Outcome:
    status, message = call("GET", path, None)
    if status == 404:
        return Outcome(repair, GONE, "no node has its content")
    if status != 200:
        return Outcome(repair, LATER, f"{message.get('code')} (HTTP {status})")
    if message["state"] not in words(ENDED_STANDINGS):  # one that only a newer build knows may come by itself as well
        return Outcome(repair, NOT_NEEDED, f"it is {message['state']} and comes by itself")
    status, answer = call("POST", "/v1/messages", _again(repair, message))
    if status == 201:
        return Outcome(repair, DONE, f"comes as {answer['id']}")
    return Outcome(repair, LATER, f"{answer.get('code')} (HTTP {status}): {answer.get('detail')}")


def _again(repair: Repair, message: Mapping[str, Any]) -> dict[str, Any]:
    """The same content as a new message, the same at every run."""
    document = {name: message[name] for name in _COPIED if message.get(name) is not None}
    if "body_base64" in document:
        document["content_type"] = message["content_type"]
    document["headers"] = {**(message.get("headers") or {}), REPAIR_OF: repair.id}
    document["key"] = f"{KEY_PREFIX}{repair.id}"
    return document
