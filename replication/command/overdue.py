"""The command of a restored cluster for messages that became due before the restore."""

from __future__ import annotations

from dataclasses import dataclass

from replication.command.column import ColumnReader, filled, pack_map
from replication.command.entry import Kind, Packed, Section


@dataclass(frozen=True, slots=True)
class OverdueCutoff:
    """Fix the moment `cutoff_ms`: messages that were due before it are given up. With `done`: all of them are given up
    now.

    The first command fixes the moment, so another one without `done` has no effect. A `done` for another moment has no
    effect either.
    """

    cutoff_ms: int
    done: bool = False

    def pack(self) -> Packed:
        """The command as a section."""
        return Kind.OVERDUE_CUTOFF, 1, [pack_map({"cutoff_ms": self.cutoff_ms, "done": self.done})]

    @classmethod
    def unpack(cls, section: Section) -> OverdueCutoff:
        """The command out of a section. Raises `EntryRefused`."""
        reader = ColumnReader(section.payload, section.rows)
        value = reader.map()
        reader.end()
        return cls(filled(value.get("cutoff_ms"), int, "cutoff_ms"), filled(value.get("done"), bool, "done"))
