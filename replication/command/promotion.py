"""The first command of a new leader. It says how the leader came to lead, and which units are in doubt for that
reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from replication.command.column import DUE_MS_MAX, ColumnReader, filled, pack_map
from replication.command.entry import EntryRefused, Kind, Packed, Section

HANDED_ON = -1


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
