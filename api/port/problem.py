"""The table of errors, and the exception that carries an error to the client.

Every refusal that a client can meet is a row here: code, status, title. Handlers and the port raise `Problem`. Only the
server turns it into application/problem+json, so every answer has the status of its code's row. A code that is not in
the table is a mistake of ours. It fails where it is raised, not on the wire.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

#: The detail of `no-leader` where a request waited for a leader and none came.
NO_LEADER_CAME: Final = "nothing was sent, for no node leads; most nodes must be up to elect one (GET /v1/cluster)"

#: code -> (HTTP status, title). 408 is about the request's transport.
TABLE: Final[Mapping[str, tuple[int, str]]] = {
    "malformed-json": (400, "The request body is not valid JSON"),
    "malformed-line": (400, "This line is not valid JSON"),
    "malformed-request": (400, "The request is not valid HTTP"),
    "unauthenticated": (401, "Authentication is required"),
    "forbidden": (403, "Not allowed"),
    "unknown-message": (404, "No such message"),
    "unknown-topic": (404, "No such topic"),
    "unknown-schedule": (404, "No such schedule"),
    "unknown-operation": (404, "No such operation"),
    "unknown-node": (404, "No such node"),
    "unknown-route": (404, "No such route"),
    "method-not-allowed": (405, "This route does not take this method"),
    "request-timeout": (408, "The request body came too slowly"),
    "leased": (409, "A delivery of the message has a lease that runs"),
    "already-settled": (409, "The message is settled"),
    "key-conflict": (409, "The key belongs to another request"),
    "not-empty": (409, "The topic has unsettled messages"),
    "change-in-progress": (409, "Another change is in progress"),
    "in-progress": (409, "An operation is about to change these messages"),
    "not-caught-up": (409, "The node has not caught up"),
    "quorum-loss": (409, "This would lose the majority"),
    "revision-mismatch": (412, "The revision is another one"),
    "too-large": (413, "The request is too large"),
    "unsupported-media-type": (415, "This content type is not taken here"),
    "invalid-field": (422, "A field has a value that is not accepted"),
    "key-reused": (422, "The Idempotency-Key belongs to another request"),
    "unknown-field": (422, "A field is not known"),
    "beyond-max-delay": (422, "The due time is too far ahead"),
    "not-supported-yet": (422, "A part of the contract that is not there yet"),
    "revision-required": (428, "If-Match is required"),
    "over-limit": (429, "Too much at once"),
    "busy": (429, "The node is busy"),
    "internal": (500, "An error of the server"),
    "no-leader": (503, "The cluster has no leader at the moment"),
    "draining": (503, "This node is shutting down"),
    "backup-failed": (503, "The backup could not be written"),
    "disk-full": (503, "Free space is below the reserve"),
    "outcome-unknown": (504, "The request may or may not have taken effect"),
}

#: Seconds that a client should wait, by default. An election takes 0.4 to 0.8 s.
RETRY_AFTER_S: Final[Mapping[str, int]] = {
    "over-limit": 1,
    "busy": 1,
    "no-leader": 1,
    "draining": 1,
    "disk-full": 10,
    "backup-failed": 60,
}


class FieldFault(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An entry of `errors`: the place of a fault, and what to do about it.

    `pointer` is an RFC 6901 pointer into the body ("" = the body as a whole). A fault outside the body names the query
    parameter or the header instead. It keeps the empty pointer, so `errors[].pointer` is always a string.
    """

    pointer: str
    detail: str
    parameter: str = ""
    header: str = ""
    line: int = 0  # of an atomic batch, from 1
    code: str = ""  # of that line alone

    def shape(self) -> dict[str, str | int]:
        """Return the entry as it goes out."""
        shape: dict[str, str | int] = {"pointer": self.pointer, "detail": self.detail}
        if self.line:
            shape |= {"line": self.line, "code": self.code}
        if self.parameter:
            shape["parameter"] = self.parameter
        if self.header:
            shape["header"] = self.header
        return shape


class Problem(Exception):
    """A refusal with its code. The server renders it.

    - `code`: a key of `TABLE` (KeyError otherwise: a mistake of ours).
    - `errors`: the fields at fault.
    - `extra`: further members of the answer, e.g. `id=...` of a key's holder, `leader="n2"`. The raiser renders times
      in it (`api.port.timestamp.render_time`).
    - `retry_after_s`: overrides the code's default Retry-After.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        errors: Sequence[FieldFault] = (),
        retry_after_s: int | None = None,
        headers: Mapping[str, str] | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.status, self.title = TABLE[code]
        self.code = code
        self.detail = detail
        self.errors = tuple(errors)
        self.retry_after_s = RETRY_AFTER_S.get(code) if retry_after_s is None else retry_after_s
        self.headers = dict(headers or {})
        self.extra = extra

    def shape(self, **context: Any) -> dict[str, Any]:
        """Return the members of the problem document. `context` has facts of the server only (term, request_id,
        leader)."""
        shape: dict[str, Any] = {
            "type": f"/problems/{self.code}",
            "title": self.title,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
        }
        if self.errors:
            shape["errors"] = [fault.shape() for fault in self.errors]
        shape.update(context)
        shape.update(self.extra)
        return shape


def readable(value: Any) -> Any:
    """Return the value with `?` for characters that are no text: bytes of a request line that are not UTF-8."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, Mapping):
        return {name: readable(each) for name, each in value.items()}
    return [readable(each) for each in value] if isinstance(value, list | tuple) else value


def draining() -> Problem:
    """Return the refusal of a node that shuts down."""
    return Problem("draining", "this node is shutting down; ask another node")
