"""The command of a restored cluster about messages that were due before a moment. It gives them up, which means that
they are not delivered any more.
"""

from __future__ import annotations

from dataclasses import dataclass

from replication.command.column import ColumnReader, filled, pack_map
from replication.command.entry import Kind, Packed, Section


@dataclass(frozen=True, slots=True)
class OverdueCutoff:
    """Without `done` it sets the moment: messages that were due before `cutoff_ms` are to be given up. With `done` it
    says that all of them are given up now.

    The first command sets the moment, so another one without `done` has no effect. A command with `done` and another
    moment has no effect either.
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
