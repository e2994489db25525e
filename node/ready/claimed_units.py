"""Claims: they keep a unit from being found twice. A unit is claimed from the moment at which it goes into a window
until its Lease is applied or it is dropped.

The settle records alone decide which units are ready. So the wheel and the reader of the backlog can both find the same
unit, and the reader can find it twice. Whichever finds a claimed unit leaves it out. There is one byte per unit of the
hours that have claims, so that many units are checked and marked in one step of numpy. The bytes of an hour are dropped
when nothing in it is claimed.
"""

from __future__ import annotations

import numpy as np

from storage.format.array import U64, Mask
from storage.format.position import in_hours

_LEAST_ROWS = 4096


class ClaimedUnits:
    """A set of positions. Every call takes positions that are distinct among themselves, shape [n], in any order."""

    def __init__(self) -> None:
        self._marks: dict[int, Mask] = {}  # hour -> one mark per unit; may be shorter than the hour
        self._counts: dict[int, int] = {}  # hour -> marks set, always the sum of its marks

    def __len__(self) -> int:
        return sum(self._counts.values())

    def mask(self, positions: U64) -> Mask:
        """True, shape [n], where a position is claimed."""
        claimed = np.zeros(len(positions), np.bool_)
        for hour, rows, index in in_hours(positions):
            marks = self._marks.get(hour)
            if marks is not None:
                known = index < len(marks)
                claimed[rows] = marks[np.where(known, index, 0)] & known
        return claimed

    def take(self, positions: U64) -> None:
        """Claim positions, none of which is claimed."""
        for hour, _, index in in_hours(positions):
            marks = self._grown(hour, int(index.max()) + 1)
            assert not marks[index].any(), f"hour {hour}: a unit is claimed twice"
            marks[index] = True
            self._counts[hour] += len(index)

    def free(self, positions: U64) -> None:
        """Give up claims on positions, all of which are claimed."""
        for hour, _, index in in_hours(positions):
            marks = self._marks[hour]
            assert marks[index].all(), f"hour {hour}: a unit that is not claimed is freed"
            marks[index] = False
            self._counts[hour] -= len(index)

    def sweep(self) -> None:
        """Drop the bytes of hours without claims. `free` does not do it, because the claims of the present hour often
        come to zero and grow again at once."""
        for hour in [hour for hour, count in self._counts.items() if not count]:
            del self._marks[hour], self._counts[hour]

    def _grown(self, hour: int, rows: int) -> Mask:
        marks = self._marks.get(hour)
        if marks is None or len(marks) < rows:
            grown = np.zeros(max(rows, 2 * len(marks) if marks is not None else _LEAST_ROWS), np.bool_)
            if marks is not None:
                grown[: len(marks)] = marks
            marks = self._marks[hour] = grown
            self._counts.setdefault(hour, 0)
        return marks
