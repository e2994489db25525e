"""A block of states: columns of up to 131,072 units, by their number in it."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from storage.array import I64, U8, U16, U32

BLOCK_UNITS: Final = 1 << 17

Columns = tuple[U8, U16, U32, I64, U32]
"""state, attempt, term, when, newest: see Block."""


class Block:
    """Zero where nothing was put. Memory comes from the kernel zeroed, so what nobody touches takes none.

    One that is thin has no column but `state`."""

    __slots__ = ("attempt", "newest", "state", "term", "when")

    def __init__(self, columns: Columns) -> None:
        self._set(columns)

    def _set(self, columns: Columns) -> None:
        self.state, self.attempt, self.term = columns[:3]
        self.when = columns[3]  # lease end of a leased unit, place of a forwarded one, else 0
        self.newest = columns[4]  # 1 + ordinal of the unit's newest settle record; 0: none

    @classmethod
    def zeros(cls, units: int) -> "Block":
        """Of so many units."""
        return cls(
            (
                np.zeros(units, np.uint8),
                np.zeros(units, np.uint16),
                np.zeros(units, np.uint32),
                np.zeros(units, np.int64),
                np.zeros(units, np.uint32),
            )
        )

    @property
    def is_thin(self) -> bool:
        """Whether the states are all there is of it."""
        return len(self.newest) < len(self.state)

    def thin(self) -> None:
        """Let go of all but the states."""
        self._set((self.state, *Block.zeros(0).columns[1:]))

    def fill(self) -> None:
        """Have the other columns again, zero."""
        self._set((self.state, *Block.zeros(len(self.state)).columns[1:]))

    @property
    def columns(self) -> Columns:
        """All of it."""
        return self.state, self.attempt, self.term, self.when, self.newest

    def _all(self) -> tuple[npt.NDArray[Any], ...]:
        return self.columns

    def get(self, at: I64) -> Columns:
        """Of these units, all of which it has."""
        return self.state[at], self.attempt[at], self.term[at], self.when[at], self.newest[at]

    def put(self, at: I64, columns: tuple[npt.NDArray[np.generic], ...]) -> None:
        """For these units, all of which it has."""
        for mine, theirs in zip(self._all(), columns, strict=True):
            mine[at] = theirs

    def reach(self, units: int) -> None:
        """Make room for so many units, doubling so that growing stays O(1) a unit."""
        have = len(self.state)
        if units <= have:
            return
        larger = Block.zeros(min(BLOCK_UNITS, max(units, 2 * have)))
        for old, new in zip(self._all(), larger._all(), strict=True):
            new[:have] = old
        self._set(larger.columns)
