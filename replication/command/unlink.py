"""The command that removes hours of which nothing is needed any more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replication.command.column import ColumnReader, pack_columns
from replication.command.entry import EntryRefused, Kind, Packed, Section
from storage.format.array import I64
from storage.format.position import HOUR_MAX


@dataclass(frozen=True, slots=True)
class Unlink:
    """Numbers of hours that may be unlinked: all their messages have ended longer ago than retention. Apply checks that
    again.
    """

    hour: I64

    def pack(self) -> Packed:
        """The command as a section."""
        return Kind.UNLINK, len(self.hour), pack_columns(self.hour)

    @classmethod
    def unpack(cls, section: Section) -> Unlink:
        """The command out of a section. Raises `EntryRefused`."""
        reader = ColumnReader(section.payload, section.rows)
        unlink = cls(reader.column(np.int64))
        reader.end()
        if ((unlink.hour < 0) | (unlink.hour > HOUR_MAX)).any():
            raise EntryRefused(f"hours {unlink.hour.tolist()}; 0 to {HOUR_MAX} expected")
        return unlink
