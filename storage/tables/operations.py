"""Operations: changes of many messages, as the log has begun them, and how far each has come.

An operation has two rows. One is written once, in the entry that begins it: its predicate, and for each hour the index
of the next unit. These two fix its set at that entry: units that come later are of no set. The other row is the
progress, of fixed size. Every entry that takes messages out of the set writes it anew, so the counts are exact.

Work goes in the order of positions. The progress names the position up to which all is done. When the operation has
ended, its row is written again without the hours.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec
import numpy as np

from storage.format.array import I64, U32, U64
from storage.format.position import hours_of, indexes_of
from storage.format.predicate import Mask, Predicate
from storage.lmdb.table import Table
from storage.tables.topic import DEFAULT_NAMESPACE

CANCEL: Final = "cancel"

RUNNING: Final = 1
DONE: Final = 3
STATE_WORDS: Final = {RUNNING: "running", DONE: "done"}

RUNNING_MAX: Final = 16
HOURS_MAX: Final = 10_000
"""A set meets at most so many hours that hold units."""
KEPT_MAX: Final = 1_000
KEPT_MS: Final = 7 * 86_400_000
"""So many operations that have ended are kept, for so long."""

_KEY: Final = struct.Struct(">Q")
_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")


class OperationRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An operation as it was begun.

    - `number`: the log index of its entry. It is never given to another operation.
    - `topics`: their names as asked, None for all topics. `numbers`: theirs in the same order.
    - `tag`: only messages with this tag. `note` is for people.
    - `hours`, `firsts`, `ends`: hours that held open units then, rising, the global_index of the first unit of each,
      and behind which global_index each ended. All are i64, little endian, and empty once the operation has ended.
    """

    number: int
    kind: str
    namespace: str = DEFAULT_NAMESPACE
    topics: tuple[str, ...] | None = None
    numbers: tuple[int, ...] | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    tag: str | None = None
    note: str = ""
    begun_ms: int = 0
    hours: bytes = b""
    firsts: bytes = b""
    ends: bytes = b""

    def with_hours(self, hours: I64, firsts: I64, ends: I64) -> OperationRow:
        """The same operation with the hours of its set."""
        return msgspec.structs.replace(self, hours=hours.tobytes(), firsts=firsts.tobytes(), ends=ends.tobytes())

    @property
    def which(self) -> Predicate:
        """The predicate of its set."""
        return Predicate.of(self.numbers, self.from_ms, self.to_ms, self.tag)


_DECODER: Final = msgspec.msgpack.Decoder(OperationRow)


class Progress(NamedTuple):
    """How far an operation has come, as a row of fixed size.

    All messages that stand at positions below `place` are done. `changed` is the sum
    of `none`, `known` and `unknown`, which say what was known of earlier hand-overs. `log_index` is that of the
    entry of the last change, and `at_ms` the time of that entry.
    """

    state: int = RUNNING
    place: int = 0
    none: int = 0
    known: int = 0
    unknown: int = 0
    leased: int = 0
    settled: int = 0
    log_index: int = 0
    at_ms: int = 0

    @property
    def changed(self) -> int:
        """How many messages it has changed."""
        return self.none + self.known + self.unknown


_PROGRESS: Final = struct.Struct("<qQQQQQQQq")


@dataclass(slots=True)
class Operation:
    """An operation that is known: its row, and its progress now."""

    row: OperationRow
    progress: Progress

    @property
    def runs(self) -> bool:
        """True until it has ended."""
        return self.progress.state == RUNNING


class RunningSet:
    """The set of an operation that runs: the messages that it still has to change."""

    def __init__(self, operation: Operation) -> None:
        row = operation.row
        self.operation, self.number, self.kind, self.which = operation, row.number, row.kind, row.which
        self.hours: I64 = np.frombuffer(row.hours, np.int64)
        self.ends: I64 = np.frombuffer(row.ends, np.int64)

    def end_of(self, hour: int) -> int:
        """The global_index behind the last unit of an hour that may be in the set, 0 if none is."""
        at = int(self.hours.searchsorted(hour))
        return int(self.ends[at]) if at < len(self.hours) and self.hours[at] == hour else 0

    def has(
        self, positions: U64, due_ms: I64, topic: U32, tags: U64, tags_of: Callable[[U64], Sequence[Sequence[str]]]
    ) -> Mask:
        """True, shape [n], for units of the set, whatever their state. The columns are those of the index. `tags_of`
        reads the tags in the records of units."""
        test = self.which.tags
        keep = self.may_have(positions, due_ms, topic, tags)
        if test is not None and len(rows := np.flatnonzero(keep)):
            keep[rows] = [test.matches(found) for found in tags_of(positions[rows])]
        return keep

    def may_have(self, positions: U64, due_ms: I64, topic: U32, tags: U64) -> Mask:
        """The same by the masks of tags alone: True also for units that only may carry the wanted tag."""
        keep = self.which.may_match(due_ms, topic, tags)
        keep &= positions >= np.uint64(self.operation.progress.place)
        if keep.any():
            keep &= self._began_before(positions)
        return keep

    def _began_before(self, positions: U64) -> Mask:
        """True for units that were appended before the set was fixed."""
        if not len(self.hours):
            return np.zeros(len(positions), np.bool_)
        hours = hours_of(positions)
        at = np.minimum(self.hours.searchsorted(hours), len(self.hours) - 1)
        before: Mask = (self.hours[at] == hours) & (indexes_of(positions) < self.ends[at])
        return before


class Operations:
    """All operations that are known, in memory, and their two tables."""

    def __init__(self, table: Table, progress: Table) -> None:
        self._table, self._progress = table, progress
        self._all: dict[int, Operation] = {}
        self.running: tuple[RunningSet, ...] = ()
        """The sets of operations that run, oldest first."""

    def load(self) -> None:
        """Read all rows. Raises Corrupt if a checksum does not match."""
        progress = dict(self._progress.rows())
        for key, value in self._table.rows():
            row = _DECODER.decode(value)
            self._all[row.number] = Operation(row, Progress._make(_PROGRESS.unpack(progress[key])))
        self._look()

    def all(self) -> list[Operation]:
        """All operations, oldest first."""
        return list(self._all.values())

    def find(self, number: int) -> Operation | None:
        """The operation of this number. None if there never was one, or if it is forgotten."""
        return self._all.get(number)

    def held_topics(self, topics: Iterable[int]) -> frozenset[int]:
        """Those of these topics whose messages an operation that runs may have."""
        sets = [each.which.topics for each in self.running]
        return frozenset(number for number in topics if any(named is None or number in named for named in sets))

    def begin(self, row: OperationRow, progress: Progress) -> None:
        """Add an operation. Its number is greater than all others."""
        assert row.number > max(self._all, default=-1), row.number
        self._all[row.number] = Operation(row, progress)
        self._write(row)
        self._put(row.number, progress)
        self._look()

    def advance(self, number: int, progress: Progress) -> None:
        """Set the progress of an operation that runs. If it has ended with that, its set is dropped."""
        operation = self._all[number]
        assert operation.runs, number
        operation.progress = progress
        self._put(number, progress)
        if not operation.runs:
            operation.row = msgspec.structs.replace(operation.row, hours=b"", firsts=b"", ends=b"")
            self._write(operation.row)
            self._look()

    def forget(self, before_ms: int) -> None:
        """Drop operations that ended before this time, and the oldest beyond KEPT_MAX."""
        ended = [number for number, operation in self._all.items() if not operation.runs]
        over = len(ended) - KEPT_MAX
        for at, number in enumerate(ended):
            if at < over or self._all[number].progress.at_ms < before_ms:
                del self._all[number]
                self._table.drop(_KEY.pack(number))
                self._progress.drop(_KEY.pack(number))

    def _write(self, row: OperationRow) -> None:
        self._table.put(_KEY.pack(row.number), _ENCODER.encode(row))

    def _put(self, number: int, progress: Progress) -> None:
        self._progress.put(_KEY.pack(number), _PROGRESS.pack(*progress))

    def _look(self) -> None:
        kept = {each.number: each for each in self.running}
        runs = [each for each in self._all.values() if each.runs]
        self.running = tuple(kept.get(each.row.number) or RunningSet(each) for each in runs)
