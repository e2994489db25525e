"""Operations: changes of many messages, as the log has begun them, and how far each has come.

An operation has two rows. One is written once, in the entry that begins it: its predicate, and for each hour the index
of the next unit. These two fix its set at that entry: units that come later are of no set. An operation on ended
messages also keeps the ordinal of the next settle record of each hour: what ends later is of no set. The other row is
the progress, of fixed size. Every entry that takes messages out of the set writes it anew, so the counts are exact.

A cancel goes through its set in the order of positions. The other kinds go in the order of due times, then positions,
because many of their messages may become due at the same moment. The progress names the point up to which all is done.
When the operation has ended, its row is written again without the hours.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from storage.format.array import I64
from storage.format.position import GONE
from storage.format.predicate import Predicate
from storage.tables.operation_kind import OPERATION_KINDS, OperationKind
from storage.tables.topic import DEFAULT_NAMESPACE

RUNNING: Final = 1
PAUSED: Final = 2
DONE: Final = 3
ABORTED: Final = 4
STATE_WORDS: Final = {RUNNING: "running", PAUSED: "paused", DONE: "done", ABORTED: "aborted"}

RUNNING_MAX: Final = 16
HOURS_MAX: Final = 10_000
"""A set meets at most so many hours that hold units."""
KEPT_MAX: Final = 1_000
KEPT_MS: Final = 7 * 86_400_000
"""So many operations that have ended are kept, for so long."""
PAUSE_MAX_MS: Final = 86_400_000
"""A paused operation goes on after so long."""

_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")


def id_of(number: int) -> str:
    """The id of an operation."""
    return f"op-{number}"


class Point(NamedTuple):
    """A point in the order of an operation's work. For a cancel `due_ms` is always 0."""

    due_ms: int = 0
    place: int = 0


FIRST: Final = Point()
LAST: Final = Point((1 << 63) - 1, GONE)
"""The points before all messages, and behind them."""


class OperationWish(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An operation as it is asked for.

    - `topics`: their names, None for all topics. `from_ms`, `to_ms`: the window of due times.
    - `tag`: only messages with this tag. `reason`: only those that died of it. `note` is for people.
    - `by_ms`, `to_due_ms`: how far a shift moves, or to which time. No message moves past `latest_ms`.
    - `rate`: at most so many messages a second.
    """

    kind: str
    namespace: str = DEFAULT_NAMESPACE
    topics: tuple[str, ...] | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    tag: str | None = None
    reason: str | None = None
    by_ms: int | None = None
    to_due_ms: int | None = None
    rate: int | None = None
    latest_ms: int | None = None
    note: str = ""

    def as_map(self) -> dict[str, Any]:
        """Its fields, of which `wish_of` makes it again."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found

    def begun(self, number: int, topics: Iterable[int] | None, now_ms: int) -> OperationRow:
        """The operation that begins with it. `topics` are the numbers of its topics, None for all."""
        numbers = None if topics is None else tuple(topics)
        return OperationRow(**msgspec.structs.asdict(self), number=number, numbers=numbers, begun_ms=now_ms)


def wish_of(fields: dict[str, Any]) -> OperationWish:
    """The wish with these fields. Others are left out. Raises ValueError, which names the field that is wrong."""
    try:
        return msgspec.convert(fields, OperationWish)
    except msgspec.ValidationError as wrong:
        raise ValueError(str(wrong)) from None


class OperationRow(OperationWish, frozen=True, kw_only=True, gc=False):
    """An operation as it was begun.

    - `number`: the log index of its entry. It is never given to another operation.
    - `numbers`: of its topics, in the order of their names, None for all.
    - `hours`, `firsts`, `ends`: hours that held such units then, rising, the global_index of the first unit of each,
      and behind which global_index each ended. `settles`: the ordinal of the next settle record of each, for ended
      messages only. All are i64, little endian, and empty once the operation has ended.
    """

    number: int
    numbers: tuple[int, ...] | None = None
    begun_ms: int = 0
    hours: bytes = b""
    firsts: bytes = b""
    ends: bytes = b""
    settles: bytes = b""

    def with_hours(self, hours: I64, firsts: I64, units: I64, settles: I64) -> OperationRow:
        """The same operation with the hours of its set: the columns of their extents."""
        columns = {"hours": hours, "firsts": firsts, "ends": firsts + units, "settles": settles}
        return msgspec.structs.replace(self, **{name: column.tobytes() for name, column in columns.items()})

    def without_hours(self) -> OperationRow:
        """The same operation once it has ended."""
        return msgspec.structs.replace(self, hours=b"", firsts=b"", ends=b"", settles=b"")

    @property
    def rule(self) -> OperationKind:
        """The row of its kind."""
        return OPERATION_KINDS[self.kind]

    @property
    def which(self) -> Predicate:
        """The predicate of its set. For ended messages its window is of the due times that clients asked for."""
        return Predicate.of(self.numbers, self.from_ms, self.to_ms, self.tag)

    def meets(self, other: OperationRow) -> bool:
        """True if the topics and the windows of both have something in common."""
        if self.numbers is not None and other.numbers is not None and not set(self.numbers) & set(other.numbers):
            return False
        before = self.to_ms is not None and other.from_ms is not None and self.to_ms <= other.from_ms
        behind = self.from_ms is not None and other.to_ms is not None and other.to_ms <= self.from_ms
        return not (before or behind)

    def packed(self) -> bytes:
        """The row as the table keeps it."""
        return _ENCODER.encode(self)


ROW_DECODER: Final = msgspec.msgpack.Decoder(OperationRow)


class Progress(NamedTuple):
    """How far an operation has come, as a row of fixed size.

    All messages before the point (`due_ms`, `place`) are done. `changed` is the sum of `none`, `known` and `unknown`,
    which say what was known of earlier hand-overs. The next four counts are of messages that were left as they are.
    `log_index` is that of the entry of the last change, and `at_ms` the time of that entry. `paused_ms`: when it was
    paused last, 0 if never.
    """

    state: int = RUNNING
    due_ms: int = 0
    place: int = 0
    none: int = 0
    known: int = 0
    unknown: int = 0
    leased: int = 0
    settled: int = 0
    gone: int = 0
    key_taken: int = 0
    log_index: int = 0
    at_ms: int = 0
    paused_ms: int = 0

    @property
    def reached(self) -> Point:
        """All messages before this point are done."""
        return Point(self.due_ms, self.place)

    @property
    def changed(self) -> int:
        """How many messages it has changed."""
        return self.none + self.known + self.unknown

    @property
    def skipped(self) -> int:
        """How many it has left as they are."""
        return self.leased + self.settled + self.gone + self.key_taken

    def packed(self) -> bytes:
        """The row as the table keeps it."""
        return _PROGRESS.pack(*self)


_PROGRESS: Final = struct.Struct("<qqQQQQQQQQQqq")


def unpacked_progress(row: bytes) -> Progress:
    """The progress out of its row."""
    return Progress._make(_PROGRESS.unpack(row))


@dataclass(slots=True)
class Operation:
    """An operation that is known: its row, and its progress now."""

    row: OperationRow
    progress: Progress

    @property
    def ended(self) -> bool:
        """True once it is done or aborted. Until then it has its set, also while it is paused."""
        return self.progress.state in (DONE, ABORTED)

    @property
    def works(self) -> bool:
        """True if it has not ended, and is not paused."""
        return self.progress.state == RUNNING
