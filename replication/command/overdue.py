"""The command about what a restored cluster does with messages that became due while it was not there."""

from __future__ import annotations

from dataclasses import dataclass

from replication.command.column import ColumnReader, filled, pack_map
from replication.command.entry import Kind, Packed, Section


@dataclass(frozen=True, slots=True)
class OverdueCutoff:
    """What was due before `cutoff_ms` is not wanted; `done`: all of it is given up. The first leader fixes the moment,
    so a second one is a no-op; so is the end of what another moment began."""

    cutoff_ms: int
    done: bool = False

    def pack(self) -> Packed:
        """As a section."""
        return Kind.OVERDUE_CUTOFF, 1, [pack_map({"cutoff_ms": self.cutoff_ms, "done": self.done})]

    @classmethod
    def unpack(cls, section: Section) -> OverdueCutoff:
        """From a section; raises `EntryRefused`."""
        reader = ColumnReader(section.payload, section.rows)
        value = reader.map()
        reader.end()
        return cls(filled(value.get("cutoff_ms"), int, "cutoff_ms"), filled(value.get("done"), bool, "done"))
