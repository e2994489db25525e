"""The commands of a leader's dispatcher. One says how far its wheel came. With another a new leader sets the tick to
its clock. The first command of a new leader says how it came to lead, and which units are in doubt for that reason.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replication.command.column import DUE_MS_MAX, ColumnReader, filled, pack_map
from replication.command.entry import EntryRefused, Kind, Packed, Section

HANDED_ON = -1


@dataclass(frozen=True, slots=True)
class DispatchState:
    """How far the leader's wheel came. The command has the same size for one dispatched unit or a million.

    All slots before `tick` are dispatched, and of slot `tick` the first `local_index` units in order. Entry
    `applied_index` is the newest that the leader had applied then. Units of later entries do not count for
    `local_index`.
    """

    tick: int  # absolute second
    local_index: int
    applied_index: int

    def pack(self) -> Packed:
        """The command as a section."""
        row = np.array([self.tick, self.local_index, self.applied_index], np.int64)
        return Kind.DISPATCH_STATE, 1, [row.tobytes()]

    @classmethod
    def unpack(cls, section: Section) -> DispatchState:
        """The command out of a section. Raises `EntryRefused`."""
        return cls(*_three(section))


@dataclass(frozen=True, slots=True)
class Realign:
    """Set the tick and the time `now_ms` of the dispatch state to a new leader's clock. A new leader proposes it if the
    replicated tick is far from that clock.
    """

    tick: int  # absolute second
    now_ms: int
    applied_index: int

    def pack(self) -> Packed:
        """The command as a section."""
        return Kind.REALIGN, 1, [np.array([self.tick, self.now_ms, self.applied_index], np.int64).tobytes()]

    @classmethod
    def unpack(cls, section: Section) -> Realign:
        """The command out of a section. Raises `EntryRefused`."""
        return cls(*_three(section))


@dataclass(frozen=True, slots=True)
class Promotion:
    """The first command of a leader.

    If the leader was elected, the leader before may have handed over units without a record (storage/catalog/doubt.py).
    Those are the units in the log that were due by `until_ms`. If the leader before gave leadership away, the log has
    all its hand-overs, and `until_ms` is HANDED_ON.
    """

    until_ms: int

    def pack(self) -> Packed:
        """The command as a section."""
        return Kind.PROMOTION, 1, [pack_map({"until_ms": self.until_ms})]

    @classmethod
    def unpack(cls, section: Section) -> Promotion:
        """The command out of a section. Raises `EntryRefused`."""
        reader = ColumnReader(section.payload, section.rows)
        value = reader.map()
        reader.end()
        until_ms = filled(value.get("until_ms"), int, "until_ms")
        if not HANDED_ON <= until_ms <= DUE_MS_MAX:
            raise EntryRefused(f"until_ms {until_ms}; {HANDED_ON} to {DUE_MS_MAX} expected")
        return cls(until_ms)


def _three(section: Section) -> tuple[int, int, int]:
    reader = ColumnReader(section.payload, 3)
    tick, second, third = reader.column(np.int64).tolist()
    reader.end()
    if not 0 <= tick <= DUE_MS_MAX // 1000:
        raise EntryRefused(f"tick {tick}; 0 to {DUE_MS_MAX // 1000} expected")
    if second < 0 or third < 0:
        raise EntryRefused(f"tick {tick} with {second} and {third}; none of them is negative")
    return tick, second, third
