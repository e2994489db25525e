"""The ended messages of an hour that an operation takes, in the order of due times.

A message stands where it ended. Its due time there may be that of a retry. The window of a set is of the due times that
clients asked for, so the records are read. A settle record tells by which failure a message died. It also tells if the
message ended in time: what ended behind a given record of the hour is of no set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from storage.format.array import I64, U8, U16, U32, Mask
from storage.format.rows import Units
from storage.hour.hour import Hour
from storage.query.hour_members import HourMembers, MemberPoint
from storage.query.selection import Selected, Selection

Codes = Callable[[U16], Mask]
"""True, [n], for the codes of records by which wanted messages ended."""


class EndedMembers(HourMembers):
    """Finds them, as HourMembers does."""

    def __init__(
        self,
        hour: Hour,
        selection: Selection,
        now_ms: int,
        begin: MemberPoint,
        end: int,
        most: int,
        *,
        settles: int,
        codes: Codes,
    ) -> None:
        """`settles`: the ordinal behind the last settle record by which they may have ended."""
        # Nobody's due time is before the one that its client asked for, so an earlier unit is not wanted.
        units = replace(selection, which=replace(selection.which, to_ms=None))
        super().__init__(hour, units, now_ms, begin, end, most, by_due=True)
        self._asked, self._settles, self._codes = selection.which, settles, codes
        self._in_time = np.zeros(0, np.bool_)

    def states(self) -> U8:
        """See SelectedHour. It also finds the units that ended in time, by a wanted code."""
        newest, code = np.zeros(self.units, np.int64), np.zeros(self.units, np.uint16)
        ordinal = 0
        for rows in self.settle_blocks():
            at = rows["global_index"].astype(np.int64) - self.content.first
            newest[at] = np.arange(ordinal, ordinal + len(rows))
            code[at] = rows["code"]
            ordinal += len(rows)
        self._in_time = (newest < self._settles) & self._codes(code)
        return super().states()

    def wanted(self, units: Units, state: U8) -> Selected:
        """See SelectedHour."""
        found = super().wanted(units, state)
        keep = self._in_time[units["global_index"][found.rows].astype(np.int64) - self.content.first]
        return Selected(found.rows[keep], found.due_ms[keep], found.standing[keep])

    def tagged(self, at: I64, size: U32) -> Mask:
        """See SelectedHour. Here it is also asked if the due time that the client asked for is in the window."""
        which = self._asked
        if which.tags is None and which.from_ms is None and which.to_ms is None:
            return np.ones(len(at), np.bool_)
        wanted = [
            (which.tags is None or which.tags.matches(record.tags)) and which.has_due(record.asked_due_ms)
            for record in self.records(at, size)
        ]
        return np.array(wanted, np.bool_)
