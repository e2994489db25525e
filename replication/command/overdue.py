"""The command about what a restored cluster does with messages that became due while it was not there."""

from __future__ import annotations

from dataclasses import dataclass

from replication.command.column import ColumnReader, filled, pack_map
from replication.command.entry import Kind, Packed, Section
from storage.catalog.catalog import Catalog
from storage.catalog.overdue import CatchUp as CatchUpRow


@dataclass(frozen=True, slots=True)
class CatchUp:
    """What was due before `cutoff_ms` is not wanted; `done`: all of it is given up. The first leader fixes the moment,
    so a second one is a no-op; so is the end of what another moment began."""

    cutoff_ms: int
    done: bool = False

    def pack(self) -> Packed:
        """As a section."""
        return Kind.CATCH_UP, 1, [pack_map({"cutoff_ms": self.cutoff_ms, "done": self.done})]

    @classmethod
    def unpack(cls, section: Section) -> CatchUp:
        """From a section; raises `EntryRefused`."""
        reader = ColumnReader(section.payload, section.rows)
        value = reader.map()
        reader.end()
        return cls(filled(value.get("cutoff_ms"), int, "cutoff_ms"), filled(value.get("done"), bool, "done"))


def apply_catch_up(catalog: Catalog, command: CatchUp) -> CatchUpRow | None:
    """Returns what is left to be done."""
    row = catalog.catch_up
    if row is not None and row.cutoff_ms is None and not command.done:
        catalog.set_catch_up(CatchUpRow(last_ms=row.last_ms, cutoff_ms=command.cutoff_ms))
    elif row is not None and row.cutoff_ms == command.cutoff_ms and command.done:
        catalog.set_catch_up(None)
    return catalog.catch_up
