"""A batch of units put in the order of its hours, so that each hour's part is one slice of every column.

Most batches are for one hour, or in order already, and cost one comparison. The others are sorted once, stably: within
an hour the order of arrival is kept, and with it the order of ordinals.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from storage.chain import NOT_LINKED
from storage.columns import U32, UnitBatch
from storage.format import UNIT, Units
from storage.position import HOUR_MS, I64, U64

_COLUMNS: Final = ("size", "due_ms", "tags", "topic", "kind", "priority", "attempt", "flags")


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The batch's columns by rising hour. `words` is a copy of its records that may be written to."""

    columns: UnitBatch
    words: U64
    hour: I64  # of each row
    segments: list[tuple[int, int, int]]  # (hour, first row, end) of each hour, rising
    order: npt.NDArray[np.intp] | None  # row i here was row order[i] of the batch; None: they are the same

    @classmethod
    def of(cls, batch: UnitBatch) -> "Arrangement":
        """Arrange a batch of at least one row."""
        hour = batch.due_ms // HOUR_MS
        words = np.frombuffer(batch.records, np.uint64)
        if bool((hour[1:] >= hour[:-1]).all()):
            return cls(batch, words.copy(), hour, _segments(hour), None)
        order = np.argsort(hour, kind="stable")
        columns = replace(batch, **{name: getattr(batch, name)[order] for name in _COLUMNS})
        hour = hour[order]
        return cls(columns, _gather(words, batch.size, order), hour, _segments(hour), order)

    def units(self, indexes: list[int], log_ends: list[int]) -> Units:
        """Units not linked and not sealed, given for each segment's hour the next global_index and the end of log."""
        sizes = self.columns.size.astype(np.int64)
        ends = np.cumsum(sizes)
        begins = np.array([first for _, first, _ in self.segments])
        lengths = np.array([last - first for _, first, last in self.segments])
        units = np.empty(len(sizes), UNIT)
        for name in _COLUMNS:
            units[name] = getattr(self.columns, name)
        units["offset"] = ends - sizes + np.repeat(np.array(log_ends) - (ends - sizes)[begins], lengths)
        units["global_index"] = np.arange(len(sizes)) + np.repeat(np.array(indexes) - begins, lengths)
        units["pre_global_index"] = NOT_LINKED
        units["local_index"] = 0
        units["checksum"] = 0
        return units

    def restore(self, values: U64) -> U64:
        """Values by row here, in the batch's own order."""
        if self.order is None:
            return values
        result = np.empty_like(values)
        result[self.order] = values
        return result


def _segments(hour: I64) -> list[tuple[int, int, int]]:
    cuts = (np.flatnonzero(hour[1:] != hour[:-1]) + 1).tolist()
    firsts = [0, *cuts]
    return list(zip(hour[firsts].tolist(), firsts, [*cuts, len(hour)], strict=True))


def _gather(words: U64, size: U32, order: npt.NDArray[np.intp]) -> U64:
    """The records' words in another order of records: one fancy index, whatever their sizes."""
    lengths = (size >> np.uint32(3)).astype(np.int64)
    if bool((lengths == lengths[0]).all()):
        return words.reshape(len(size), -1)[order].reshape(-1)
    starts = np.cumsum(lengths) - lengths
    moved = lengths[order]
    shift = np.repeat(starts[order] - (np.cumsum(moved) - moved), moved)
    gathered: U64 = words[np.arange(len(words)) + shift]
    return gathered
