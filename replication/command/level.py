"""The command that raises the level of the cluster."""

from __future__ import annotations

from dataclasses import dataclass

from replication.command.column import ColumnReader, filled, pack_map
from replication.command.entry import EntryRefused, Kind, Packed, Section


@dataclass(frozen=True, slots=True)
class RaiseLevel:
    """Raise the level of the cluster to `level`. The entry itself has the version `level`. So a build that does not
    read that version stops at it.

    `basis` is the log index of the newest change of members that the leader had applied when it proposed this. If there
    is a newer change, the command has no effect, because the new member may not read the level.
    """

    level: int
    basis: int

    def pack(self) -> Packed:
        """The command as a section."""
        return Kind.RAISE_LEVEL, 1, [pack_map({"level": self.level, "basis": self.basis})]

    @classmethod
    def unpack(cls, section: Section) -> RaiseLevel:
        """The command out of a section. Raises `EntryRefused`."""
        reader = ColumnReader(section.payload, section.rows)
        value = reader.map()
        reader.end()
        level, basis = (filled(value.get(name), int, name) for name in ("level", "basis"))
        if level < 2:
            raise EntryRefused(f"a level raised to {level}; every cluster begins at 1")
        return cls(level, basis)
