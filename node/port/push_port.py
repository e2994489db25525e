"""The border between a group and the push wire: attempts go out, outcomes come back.

    group -- PushWork --> wire -- request --> receiver
      '<---- PushDone -----'

A group numbers its attempts, and bounds how many are on the wire. The wire asks the group's TrustWindow right before a
request leaves, and ends every attempt within its timeout. It reports each attempt once, in any order, perhaps before
`send` returns. A group ignores outcomes that it does not wait for. If the wire dies or is closed, or the group is
detached, the group hears nothing. Leases end, and the messages come again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Final, NamedTuple, Protocol

import msgspec
from msgspec import Meta

from node.port.failure_code import ERROR_BYTES_MAX
from node.port.plain import U16, U32, Count, Ms
from node.port.trust_window import TrustWindow

#: A header's name, or a method (RFC 9110).
TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_OURS: Final = ("webhook-", "hourwheel-")
#: Headers of the connection and of the body's length, which a message may not set. Also Expect, which would hold the
#: body back until the receiver asks for it.
_NOT_THEIRS: Final = frozenset(
    ("host", "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te")
    + ("trailer", "transfer-encoding", "upgrade", "content-length", "expect")
)


class Origin(NamedTuple):
    """The scheme, host and port of a receiver. The number of concurrent attempts to it is bounded."""

    scheme: str
    host: str
    port: U16


class PushTarget(msgspec.Struct, frozen=True, eq=False, array_like=True, forbid_unknown_fields=True):
    """The target of an attempt, with what all its requests have in common.

    - `headers` have names in lower case.
    - `timeout_ms` runs from connecting to the answer's end.
    - `start` has the request's first lines, which no message can change.
    - `key` signs the requests; None: they are not signed.
    - `topic` is the topic's number, by which the push wire shares look-ups of names among topics.
    """

    url: str
    origin: Origin
    method: str
    headers: dict[str, str]
    timeout_ms: U32
    key: bytes | None
    start: bytes
    topic: U32 = 0


class PushWork(
    msgspec.Struct, frozen=True, eq=False, kw_only=True, gc=False, array_like=True, forbid_unknown_fields=True
):
    """One attempt: the message, its target and its lease. `number` is the group's number for it. `attempt` counts the
    message's hand-overs. The request may not leave once the lease has ended, or another term has begun."""

    number: Count
    group: U16
    term: U32
    target: PushTarget
    id: str
    topic: str
    attempt: U16
    handed_over_ms: Ms
    lease_end_ms: Ms
    asked_due_ms: Ms
    content_type: str
    tags: tuple[str, ...]
    headers: dict[str, str]
    body: bytes


class PushDone(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The outcome of an attempt.

    - `number`: that of the PushWork.
    - `code`: the HTTP status or one of failure_code.REASONS.
    - `text`: the error text of the receiver or the system, "" on success.
    - `retry_after_ms`: the wait that a 429 or 503 asked for.
    - `took_us`: the time since `send`.
    """

    number: Count
    code: U16
    text: Annotated[str, Meta(max_length=ERROR_BYTES_MAX)] = ""
    retry_after_ms: Count | None = None
    took_us: Count = 0

    @property
    def delivered(self) -> bool:
        """True if the receiver took the message."""
        return 200 <= self.code < 300


class Receivers(Protocol):
    """The push wire, as a group sees it."""

    def attach(self, group: int, window: TrustWindow, done: Callable[[PushDone], None]) -> None:
        """Take work of this group from now on, and call `done` with each outcome. `window` says until when work may
        leave. A group may attach again only after `detach`, and then hears nothing of older work."""

    def detach(self, group: int) -> None:
        """Forget the group: none of its work leaves any more, and it hears no more outcomes."""

    def send(self, work: PushWork) -> None:
        """Begin an attempt. Work of a group that is not attached does not leave, and is not reported."""


def chosen_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that a request may carry, with names in lower case: without Hourwheel's own and those of the
    connection. The API refuses most of those already. Any that get here must not forge a signature's headers or the
    length of the body."""
    lowered = {name.lower(): value for name, value in headers.items()}
    return {name: value for name, value in lowered.items() if name not in _NOT_THEIRS and not name.startswith(_OURS)}
