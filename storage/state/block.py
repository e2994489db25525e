"""A block of states: columns of up to a million units, by their number in it."""

import mmap
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from storage.format.array import I64, U8, U16, U32

BLOCK_UNITS: Final = 1 << 20

PART_UNITS: Final = 1 << 17
"""A part of a block is released as a whole. Each column of a part fills whole pages of memory."""

Columns = tuple[U8, U16, U32, I64, U32]
"""state, attempt, term, when, newest: see Block."""

_SMALL_PAGES: Final[int | None] = getattr(mmap, "MADV_NOHUGEPAGE", None)
"""Advice to the kernel to use no huge pages. With them a single unit would take 2 MiB of memory in each column."""

_TAKES_PAGES_BACK: Final = sys.platform == "linux"
"""True if pages read as zeros after MADV_DONTNEED. On other systems they may keep their content."""

_KINDS: Final = (np.uint8, np.uint16, np.uint32, np.int64, np.uint32)


class Block:
    """The columns of one block, zero where nothing was put.

    A block of more than a part is mapped with room for all units that it may ever have. The kernel gives a zeroed page
    of memory at the first touch. Pages never touched take no memory.
    """

    __slots__ = ("_maps", "attempt", "newest", "reached", "state", "term", "when")

    def __init__(self, columns: Columns, maps: Sequence[mmap.mmap] = ()) -> None:
        self.reached = 0
        """1 + the largest number of a unit that was put."""
        self._set(columns, maps)

    def _set(self, columns: Columns, maps: Sequence[mmap.mmap]) -> None:
        self.state, self.attempt, self.term = columns[:3]
        self.when = columns[3]  # end of the lease of a leased unit, place of a forwarded one, else 0
        self.newest = columns[4]  # 1 + ordinal of the unit's newest settle record; 0: none
        self._maps = maps

    @classmethod
    def zeros(cls, units: int) -> "Block":
        """A block with room for `units` units, in memory that is not mapped."""
        return cls(_columns([np.zeros(units, kind) for kind in _KINDS]))

    @classmethod
    def mapped(cls) -> "Block":
        """A block with room for all units that a block may have."""
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # the kernel would not take a shared map's pages back
        maps = [mmap.mmap(-1, BLOCK_UNITS * np.dtype(kind).itemsize, flags) for kind in _KINDS]
        if _SMALL_PAGES is not None:
            for each in maps:
                with suppress(OSError):  # a kernel without huge pages
                    each.madvise(_SMALL_PAGES)
        return cls(_columns([np.frombuffer(each, kind) for each, kind in zip(maps, _KINDS, strict=True)]), maps)

    @property
    def is_mapped(self) -> bool:
        """True if the block is mapped, with room for all units that a block may have. Then its parts may be
        released."""
        return bool(self._maps)

    @property
    def columns(self) -> Columns:
        """The five columns of the block: state, attempt, term, when, newest."""
        return self.state, self.attempt, self.term, self.when, self.newest

    def _all(self) -> tuple[npt.NDArray[Any], ...]:
        return self.columns

    def get(self, at: I64) -> Columns:
        """The columns of these units, which must be in the block."""
        return self.state[at], self.attempt[at], self.term[at], self.when[at], self.newest[at]

    def put(self, at: I64, columns: tuple[npt.NDArray[np.generic], ...]) -> None:
        """Set the columns of these units, which must be in the block."""
        for mine, theirs in zip(self._all(), columns, strict=True):
            mine[at] = theirs

    def reach(self, units: int) -> None:
        """Make room for `units` units. A block doubles, so that growing stays O(1) a unit. Once it needs more than a
        part, it is mapped, with room for all units that a block may have."""
        have = len(self.state)
        if units <= have:
            return
        larger = Block.mapped() if units > PART_UNITS else Block.zeros(min(PART_UNITS, max(units, 2 * have)))
        for old, new in zip(self._all(), larger._all(), strict=True):
            new[:have] = old
        self._set(larger.columns, larger._maps)

    def let_go(self, part: int) -> None:
        """Release a part of a mapped block: give back the memory of all its columns but the states. The other columns
        are zero afterwards."""
        low, high = part * PART_UNITS, (part + 1) * PART_UNITS
        for column, memory in zip(self._all()[1:], self._maps[1:], strict=True):
            begin, end = -(-low * column.itemsize // mmap.PAGESIZE), high * column.itemsize // mmap.PAGESIZE
            if begin < end and _TAKES_PAGES_BACK:
                # To write zeros instead would bring the pages to memory first, and take five times as long.
                memory.madvise(mmap.MADV_DONTNEED, begin * mmap.PAGESIZE, (end - begin) * mmap.PAGESIZE)
                column[low : begin * mmap.PAGESIZE // column.itemsize] = 0
                column[end * mmap.PAGESIZE // column.itemsize : high] = 0
            else:
                column[low:high] = 0


def _columns(columns: list[Any]) -> Columns:
    state, attempt, term, when, newest = columns
    return state, attempt, term, when, newest
