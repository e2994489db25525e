"""The command that raises the level of the cluster."""

from __future__ import annotations

from dataclasses import dataclass

from replication.command.column import ColumnReader, filled, pack_map
from replication.command.entry import EntryRefused, Kind, Packed, Section


@dataclass(frozen=True, slots=True)
class RaiseLevel:
    """Raise the level to `level`. The envelope has the version `level`, so a build that does not read that version
    stops at it.

    `basis` is the log index of the newest change of the members that its proposer had applied. On another basis the
    command is void, because the new member was not asked what it reads.
    """

    level: int
    basis: int

    def pack(self) -> Packed:
        """As a section."""
        return Kind.RAISE_LEVEL, 1, [pack_map({"level": self.level, "basis": self.basis})]

    @classmethod
    def unpack(cls, section: Section) -> RaiseLevel:
        """From a section. Raises `EntryRefused`."""
        reader = ColumnReader(section.payload, section.rows)
        value = reader.map()
        reader.end()
        level, basis = (filled(value.get(name), int, name) for name in ("level", "basis"))
        if level < 2:
            raise EntryRefused(f"a level raised to {level}; every cluster begins at 1")
        return cls(level, basis)
