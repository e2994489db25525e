"""Queries and operations at the port over many messages: how many there are, the dead ones, and changes of many.

A part of the service port (api/port/port.py), whose rules hold here too.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Protocol

import msgspec

from storage.format.states import ENDED_STANDINGS, LIVE_STANDINGS, OPEN_STANDINGS, words

#: States of an open message. A count takes these by default.
OPEN_STATES: Final = words(OPEN_STANDINGS)
#: States of any message.
STATES: Final = words(LIVE_STANDINGS) + words(ENDED_STANDINGS)
#: Most buckets of a histogram whose step the client gives, and of one whose step the leader chooses.
HISTOGRAM_BUCKETS_MAX: Final = 1_000
HISTOGRAM_CHOSEN_MAX: Final = 60
#: Bytes of a note, in UTF-8, and topics that an operation may name.
NOTE_BYTES_MAX: Final = 200
TOPICS_MAX: Final = 100
#: Bytes of the reason by which a redrive chooses, messages a second of a rate, and the most that a shift moves.
REASON_BYTES_MAX: Final = 40
RATE_MAX: Final = 100_000
SHIFT_MAX_MS: Final = 3_650 * 86_400_000
#: So many seconds an operation is waited for. After that the answer says that it runs. The second number is for routes
#: that promise to wait.
WAIT_S: Final = 1.0
WAIT_LONG_S: Final = 30.0


class CountQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Messages in one of `states`, with the tag `tag`, that are due in [from_ms, to_ms). The due time is the present
    one, which a retry moves, not the one that the client asked for. A field that is None restricts nothing."""

    topic: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    tag: str | None = None
    states: tuple[str, ...] = OPEN_STATES  # of storage.format.states.STANDINGS


class ListQuery(CountQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of the messages that a CountQuery takes. `cursor`: where the page begins, None for the first page. With
    `body` False the messages come without their bodies."""

    limit: int = 100  # 1 .. 1,000
    cursor: str | None = None
    body: bool = True


class MessageCount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A number of messages. `settling`: so many of them a running cancel has cancelled already, and has not reached
    yet."""

    count: int
    settling: int = 0


class HistogramBucket(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`count` messages whose due time is in the step that begins at `from_ms`."""

    from_ms: int
    count: int


class Histogram(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Messages by due time. The buckets are `step_ms` long, in the order of their times, without a hole. `settling` is
    as in MessageCount."""

    step_ms: int
    buckets: Sequence[HistogramBucket]
    settling: int = 0


class WheelQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The hour of the wheel that holds `at_ms`, None for the present one. With `topic` only its messages count."""

    at_ms: int | None = None
    topic: str | None = None


class WheelSecond(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A second with messages, since 1970: how many of them are open, and how many units it has."""

    second: int
    open_units: int
    units: int


class WheelHour(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The hour that begins at `hour_ms`, and its seconds with messages, ascending. `tick` is the second, since 1970,
    that the leader dispatches."""

    hour_ms: int
    tick: int
    seconds: Sequence[WheelSecond]


class DeadQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dead messages of a topic with the tag `tag`. The due time that their client asked for is in [from_ms, to_ms). A
    field that is None restricts nothing."""

    topic: str
    from_ms: int | None = None
    to_ms: int | None = None
    tag: str | None = None
    limit: int = 100  # 1 .. 1,000
    cursor: str | None = None


class DeadMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A dead letter. `reason` is a word of node.port.failure_code.REASONS or `http-<status>`."""

    id: str
    due_ms: int
    asked_due_ms: int
    died_ms: int
    reason: str
    attempts: int
    tags: Sequence[str] = ()
    key: str | None = None


class DeadPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page of dead letters, ordered by hour, then by arrival in the hour. `next_cursor` None: the last page."""

    items: Sequence[DeadMessage]
    next_cursor: str | None = None


OperationKind = Literal["cancel", "shift", "release", "redrive", "resend"]
KIND_FIELDS: Final[Mapping[OperationKind, tuple[str, ...]]] = {
    "cancel": (),
    "shift": ("by", "to_due", "rate"),
    "release": ("rate",),
    "redrive": ("reason", "rate"),
    "resend": ("rate",),
}
"""By kind of operation: the fields that only some kinds take."""
OperationVerb = Literal["pause", "resume", "abort"]


class Wish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operation as a client asks for it.

    - `topics` None: all topics.
    - The due time is in [from_ms, to_ms): the present one of open messages, the asked one of ended messages.
    - `reason`: of a redrive, only messages that died of it. A field that is None restricts nothing.
    - `by_ms`, `to_due_ms`: of a shift, exactly one of them. `rate`: at most so many messages a second.
    """

    kind: OperationKind
    topics: tuple[str, ...] | None
    from_ms: int | None = None
    to_ms: int | None = None
    tag: str | None = None
    reason: str | None = None
    by_ms: int | None = None
    to_due_ms: int | None = None
    rate: int | None = None
    note: str = ""


class OperationIn(Wish, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new operation.

    - `confirm`: with all topics, the number of messages that match, which a dry run gave.
    - `wait_s`: so long the answer waits for the end.
    """

    confirm: int | None = None
    dry_run: bool = False
    wait_s: float = WAIT_S


GONE: Final = "gone"
"""The state of an operation that began and is forgotten, in the answer to a repeated request."""


class OperationView(Wish, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operation as it is now. A dry run has only `matched`.

    - `matched`: None until it has ended. Then it is `changed` and all of `skipped`.
    - `prior`: of the changed ones, what was known of earlier hand-overs.
    - `index`: the log entry of its last change. `progress`: how much of its work is done, 0 to 1.
    """

    id: str = ""
    state: str = ""
    begun_ms: int = 0
    ended_ms: int | None = None
    matched: int | None = None
    changed: int = 0
    prior: Mapping[str, int] = {}
    skipped: Mapping[str, int] = {}
    index: int = 0
    progress: float = 0.0


class OperationPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page of operations, the newest first. `next_cursor` None: the last page."""

    items: Sequence[OperationView]
    next_cursor: str | None = None


class BeginPort(Protocol):
    """The begin of operations. A part of `api.port.port.KeyedPort`."""

    async def begin_operation(self, wish: OperationIn, *, principal: Any) -> OperationView:
        """Begin an operation, and wait for its end at most `wait_s`. A dry run only counts.

        Raises `unknown-topic`, `not-supported-yet`, `beyond-max-delay`, and `invalid-field`, such as for a wrong
        `confirm`. Raises `over-limit` if too many run or the window meets too many hours. Raises `in-progress` if
        another one has messages of these topics and this window.
        """


class OperationPort(Protocol):
    """Operations that have begun. A part of `api.port.port.Port`."""

    async def change_operation(self, id: str, verb: OperationVerb, *, principal: Any) -> OperationView:
        """Pause an operation, let it go on, or end it early. Raises `unknown-operation`, `already-settled` (it has
        ended, or is a cancel)."""

    async def operation(self, id: str, *, principal: Any) -> OperationView:
        """Return an operation. Raises `unknown-operation`."""

    async def operations(self, after: str | None, most: int, *, principal: Any) -> OperationPage:
        """Return at most `most` operations, newest first, that began before the operation `after`. Raises
        `invalid-field` if `after` is no id."""
