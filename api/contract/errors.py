"""The errors of the contract for people: which ones a route may answer, and what a client does about each."""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from api.contract.operation import Operation
from api.port.problem import TABLE

#: Codes that every route may answer, and codes that every route with a body may answer. Pages name them once.
ALWAYS: Final = ("malformed-request", "forbidden", "invalid-field", "unknown-field", "busy", "internal", "draining")
WITH_BODY: Final = ("malformed-json", "request-timeout", "too-large", "unsupported-media-type")
_KEYED: Final = ("key-reused", "not-supported-yet")
_FIELDS: Final = ("invalid-field", "unknown-field")

_CORRECT: Final = "Correct the request: `errors` names the field and its limit."
_AGAIN: Final = "Nothing happened. Send it again after `Retry-After`."
_NOT_YET: Final = "No route of this version answers it."
#: code -> what a client does about it.
ADVICE: Final[Mapping[str, str]] = {
    "malformed-json": "Correct the JSON. A document nests 256 levels at most.",
    "malformed-line": "Correct the JSON of this line of a batch.",
    "malformed-request": "Correct the HTTP request. Its header holds 32,768 bytes at most.",
    "unauthenticated": _NOT_YET,
    "forbidden": "A page of another site sent it. An operator lists the names for browsers in `[http] names`.",
    "unknown-message": "Look at the id. A message that ended is forgotten after its retention.",
    "unknown-topic": "Look at the name, or make the topic.",
    "unknown-schedule": _NOT_YET,
    "unknown-operation": "Look at the ids in `GET /v1/operations`. Those that ended are kept for 7 days.",
    "unknown-node": "Look at the ids in `GET /v1/cluster`.",
    "unknown-route": "Look at the path. `detail` says if a later version has it.",
    "method-not-allowed": "Take a method that `Allow` names.",
    "request-timeout": "Send the whole body within 30 s.",
    "leased": "Wait until `leased_until`, or until the delivery has ended.",
    "already-settled": "The message or operation has ended. Begin another one.",
    "key-conflict": "`id` is the message that has the key. Take another key, or `on_conflict`.",
    "not-empty": "Cancel the messages that are open, or wait: `pending` says how many there are.",
    "change-in-progress": "Wait for the change that is under way.",
    "in-progress": "Wait for the end of the operation, or abort it.",
    "not-caught-up": "Wait, or name another node. Nothing has changed.",
    "quorum-loss": "Bring other nodes up first. Nothing has changed.",
    "revision-mismatch": "Read it again, and decide again.",
    "too-large": "Send less. `detail` says the limit.",
    "unsupported-media-type": "Send the `Content-Type` that `detail` names.",
    "invalid-field": _CORRECT,
    "key-reused": "Take a new `Idempotency-Key` for a new request. Nothing happened.",
    "unknown-field": "Correct the name: `detail` says which one is meant.",
    "beyond-max-delay": "Take an earlier due time. `[limits] max_delay_ms` is the limit.",
    "not-supported-yet": "Leave it out, or wait for the version that has it.",
    "revision-required": _NOT_YET,
    "over-limit": "Nothing happened. `detail` says which limit is reached. Send it again after `Retry-After`.",
    "busy": "Send less at once and read what is answered. Send it again after `Retry-After`.",
    "internal": "It is a defect. Look for `request_id` in the log of the node.",
    "no-leader": _AGAIN,
    "draining": "Nothing happened. Ask another node.",
    "backup-failed": "Make room where backups are written. The node goes on.",
    "disk-full": "Nothing happened. Acks and pulls go on, and make room. Send it again after `Retry-After`.",
    "outcome-unknown": "It may or may not have happened. Send it again with the same `key`.",
}


class Answering(Protocol):
    """The properties of a route that decide which errors it may answer."""

    @property
    def method(self) -> str:
        """The HTTP method."""

    @property
    def keyed(self) -> bool:
        """True if it takes an `Idempotency-Key`."""

    @property
    def leader(self) -> bool:
        """True if only the leader answers."""


def refusals(route: Answering, says: Operation) -> dict[int, list[str]]:
    """Return the codes that a route may answer, by status. They come from its operation, from its body or parameters,
    and from asking the leader. Two groups are left out: ALWAYS and WITH_BODY, and codes with a status that this route
    also answers on success."""
    codes = [*says.errors, *(_KEYED if route.keyed else ())]
    if says.request is not None or says.parameters:
        codes += _FIELDS
    if route.leader:
        codes += ("no-leader",) if route.method == "GET" else ("no-leader", "outcome-unknown")
    found: dict[int, list[str]] = {}
    for code, (status, _) in TABLE.items():
        if code in codes and status not in says.answers:
            found.setdefault(status, []).append(code)
    return dict(sorted(found.items()))


def listed(codes: Sequence[str]) -> str:
    """Return the codes as text within a sentence: each in backticks, with commas between."""
    return ", ".join(f"`{code}`" for code in codes)
