"""The two commands of the dispatch state. One says how far the leader's wheel came. With the other a new leader sets
the tick to its clock.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replication.command.column import DUE_MS_MAX, ColumnReader
from replication.command.entry import EntryRefused, Kind, Packed, Section


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


def _three(section: Section) -> tuple[int, int, int]:
    reader = ColumnReader(section.payload, 3)
    tick, second, third = reader.column(np.int64).tolist()
    reader.end()
    if not 0 <= tick <= DUE_MS_MAX // 1000:
        raise EntryRefused(f"tick {tick}; 0 to {DUE_MS_MAX // 1000} expected")
    if second < 0 or third < 0:
        raise EntryRefused(f"tick {tick} with {second} and {third}; none of them is negative")
    return tick, second, third
