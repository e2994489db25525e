"""A sorted run: units of one second in dispatch order, taken from the front.

The order (due_ms, local_index) within a second is one number per unit: milliseconds into the second above 40 bits of
global_index, since both indexes count appends. With it, one binary search cuts off the due units, and another finds a
unit again. One stable sort of two sorted halves merges two runs.
"""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from storage.format.array import U8, U32, U64
from storage.format.position import INDEX_BITS, INDEX_MAX
from storage.wheel.slot import DueUnits

_SHIFT: Final = np.uint64(INDEX_BITS)
_MASK: Final = np.uint64(INDEX_MAX)


@dataclass(slots=True, eq=False)
class Run:
    """The columns of a run. `rank` rises strictly. All arrays have shape [n]. Rows before `start` are taken."""

    tick: int
    rank: U64
    topic: U32
    tags: U64
    priority: U8
    start: int = 0

    def __len__(self) -> int:
        return len(self.rank) - self.start

    @classmethod
    def of(cls, tick: int, units: DueUnits) -> Self:
        """The run of units of second `tick` (absolute), given in dispatch order."""
        hour = np.uint64(tick // 3600)
        assert len(units), "a run of no units"
        assert (units.position >> _SHIFT == hour).all(), f"units of another hour in second {tick}"
        offset = (units.due_ms - tick * 1000).astype(np.uint64)
        assert int(offset.max()) < 1000, f"units of another second in second {tick}"
        rank = offset << _SHIFT | units.position & _MASK
        assert (rank[1:] > rank[:-1]).all(), f"units of second {tick} out of order, or one of them twice"
        return cls(tick, rank, units.topic, units.tags, units.priority)

    @classmethod
    def merge(cls, runs: "list[Run]") -> "Run":
        """Merge the remaining units of several runs of one second."""
        if len(runs) == 1:
            return runs[0]
        rank = np.concatenate([run.rank[run.start :] for run in runs])
        order = np.argsort(rank, kind="stable")
        return cls(
            runs[0].tick,
            rank[order],
            np.concatenate([run.topic[run.start :] for run in runs])[order],
            np.concatenate([run.tags[run.start :] for run in runs])[order],
            np.concatenate([run.priority[run.start :] for run in runs])[order],
        )

    @property
    def first_ms(self) -> int:
        """Due time of the first remaining unit, which must exist."""
        return self.tick * 1000 + (int(self.rank[self.start]) >> INDEX_BITS)

    def take(self, until_ms: int) -> "Run":
        """Cut off the units due at or before `until_ms` and return them. The result may be empty."""
        head = self.head(until_ms)
        self.start += len(head)
        return head

    def head(self, until_ms: int) -> "Run":
        """The units due at or before `until_ms`. They stay in the run. The result may be empty."""
        rows = slice(self.start, self._end(until_ms))
        return Run(self.tick, self.rank[rows], self.topic[rows], self.tags[rows], self.priority[rows])

    def after_ms(self, until_ms: int) -> int | None:
        """Due time of the first remaining unit that is due later than `until_ms`. None if there is none."""
        end = self._end(until_ms)
        return self.tick * 1000 + (int(self.rank[end]) >> INDEX_BITS) if end < len(self.rank) else None

    def _end(self, until_ms: int) -> int:
        """The index of the row behind the units due at or before `until_ms`."""
        offset = min(until_ms - self.tick * 1000, 999)
        # rank < (offset + 1) << 40 means due_ms <= until_ms for every global_index.
        limit = np.uint64((offset + 1) << INDEX_BITS) if offset >= 0 else np.uint64(0)
        return max(self.start, int(np.searchsorted(self.rank, limit)))

    def without(self, other: "Run") -> "Run":
        """A run of this one's remaining units, without the units that also remain in `other`."""
        mine, theirs = self.rank[self.start :], other.rank[other.start :]
        if not len(mine) or not len(theirs) or mine[-1] < theirs[0] or mine[0] > theirs[-1]:
            return self
        at = np.minimum(np.searchsorted(theirs, mine), len(theirs) - 1)
        return self._keep(theirs[at] != mine)

    def units(self) -> DueUnits:
        """The remaining units, as columns with due times and positions."""
        rank = self.rank[self.start :]
        due_ms = (rank >> _SHIFT).astype(np.int64) + self.tick * 1000
        position = rank & _MASK | np.uint64(self.tick // 3600 << INDEX_BITS)
        left = slice(self.start, None)
        return DueUnits(due_ms, position, self.topic[left], self.tags[left], self.priority[left])

    def _keep(self, mask: npt.NDArray[np.bool_]) -> "Run":
        if mask.all():
            return self
        left = slice(self.start, None)
        return Run(
            self.tick, self.rank[left][mask], self.topic[left][mask], self.tags[left][mask], self.priority[left][mask]
        )
