"""Types of the service port (port.py) about one message as clients see it."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


class Target(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The receiver of a webhook. `secret` (a topic's only) signs it. None means the topic's value, or the default."""

    url: str
    method: str = "POST"
    headers: dict[str, str] | None = None
    timeout_ms: int | None = None  # 100 ms .. 5 min
    secret: str | None = None  # "whsec_" and base64 of 24 to 64 bytes


class HistoryEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event in a message's history. `at_ms` is None and `node` empty for a delivery at an unknown time."""

    at_ms: int | None
    event: str
    node: str
    term: int
    attempt: int


class Held(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule holds a message that is due. `by` is a name of storage.format.hold_reasons. `since_ms` is when the message
    fell due or the reason began, whichever is later. None: not known."""

    by: str
    since_ms: int | None


class MessageView(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message as GET shows it. `content_type` "" means a JSON body, as in `MessageIn`."""

    id: str
    topic: str
    state: str  # scheduled | ready | leased | delivered | cancelled | dead | expired
    due_ms: int
    asked_due_ms: int
    created_ms: int
    revision: int
    attempt: int
    body: bytes
    content_type: str = ""
    tags: Sequence[str] = ()
    headers: Mapping[str, str] | None = None
    key: str | None = None
    handed_over_ms: int | None = None  # the newest delivery
    settled_ms: int | None = None
    lateness_ms: int | None = None  # newest delivery minus asked due time
    last_error: str | None = None
    history: Sequence[HistoryEvent] = ()
    dead: Mapping[str, Any] | None = None  # as in `Delivery`
    target: Target | None = None  # the message's own; None: its topic's
    held: Held | None = None
    extension: Mapping[str, Any] = {}  # fields in the record's extension, as it keeps them (`api.contract.fields`)


class MessagePage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page of messages without their history, in order of (due time, place). `next_cursor` None: the last page. A
    page before the last one may have fewer messages than asked for, or none. `settling`: so many of them a running
    cancel has cancelled already, and has not reached yet."""

    items: Sequence[MessageView]
    next_cursor: str | None = None
    settling: int = 0
