"""The border between a group and the push wire: what is to be sent goes out, what became of it comes back.

    group -- PushWork --> wire -- request --> receiver
      '<---- PushDone -----'

A group numbers its work, and bounds how much of it is on the wire. The wire asks the group's TrustWindow right before a
request leaves, and ends every attempt within its timeout. It tells of each once, in any order, perhaps before `send`
returns; a group passes over what it does not wait for. When the wire dies or is closed, or the group is detached, the
group hears nothing: leases end, and the messages come again.
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
#: Those of the hop, of the body's length, and Expect, which would hold the body back until the receiver asks for it.
_NOT_THEIRS: Final = frozenset(
    ("host", "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te")
    + ("trailer", "transfer-encoding", "upgrade", "content-length", "expect")
)


class Origin(NamedTuple):
    """What concurrency is bounded by: one receiver."""

    scheme: str
    host: str
    port: U16


class PushTarget(msgspec.Struct, frozen=True, eq=False, array_like=True, forbid_unknown_fields=True):
    """Where a request goes. `headers` have names in lower case; `timeout_ms` is from connecting to the answer's end;
    `start` is the request's first lines, those that no message can change; `key` signs it; `topic` is its number, for
    those who share among topics."""

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
    """One attempt. `number` is the group's; `attempt` counts the message's hand-overs. It may not leave once the lease
    has ended, or another term has begun."""

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
    """What became of it. `code` is the HTTP status or one of failure_code.REASONS; `text` what was said, by the
    receiver or the system, "" on success; `retry_after_ms` the wait that a 429 or 503 asked for; `took_us`: since
    `send`."""

    number: Count
    code: U16
    text: Annotated[str, Meta(max_length=ERROR_BYTES_MAX)] = ""
    retry_after_ms: Count | None = None
    took_us: Count = 0

    @property
    def delivered(self) -> bool:
        """Whether the receiver took the message."""
        return 200 <= self.code < 300


class Receivers(Protocol):
    """The push wire, as a group sees it."""

    def attach(self, group: int, window: TrustWindow, done: Callable[[PushDone], None]) -> None:
        """Work of this group comes from now on; its window says when it may leave. Again only after `detach`: then the
        group is told nothing of what it sent before."""

    def detach(self, group: int) -> None:
        """The group is closed: it is told of nothing any more, and nothing of it leaves."""

    def send(self, work: PushWork) -> None:
        """Begin an attempt; of a group that is not attached nothing leaves, and nobody is told."""


def chosen_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """By name in lower case, without those that are ours or the connection's. The API refuses most of them; what gets
    here all the same must not forge a signature's headers or the length of the body."""
    lowered = {name.lower(): value for name, value in headers.items()}
    return {name: value for name, value in lowered.items() if name not in _NOT_THEIRS and not name.startswith(_OURS)}
