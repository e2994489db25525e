"""A batch of units put in the order of its hours, so that each hour's part is one slice of every column.

Most batches are for one hour, or in order already, and cost one comparison. Other batches are sorted once, stably. So
the order of arrival stays within an hour, and with it the order of ordinals.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from storage.format.array import I64, U32, U64
from storage.format.batches import UnitBatch
from storage.format.chain import NOT_LINKED, falls, run_edges
from storage.format.position import HOUR_MS
from storage.format.rows import UNIT, UNIT_MOVED, Units

_COLUMNS: Final = ("size", "due_ms", "tags", "topic", "kind", "priority", "attempt", "flags")

_RANKS_MAX: Final = 1 << 16


@dataclass(slots=True)  # not frozen: setting five fields past the guard takes 1 us, a fortieth of a one-row append
class BatchByHour:
    """The rows of a batch in rising order of their hours: the columns, and in `words` a writable copy of the
    records."""

    columns: UnitBatch
    words: U64
    hour: I64  # of each row
    hours: list[int]  # each once, rising
    edges: npt.NDArray[np.intp]  # where each hour begins, and the last one ends
    order: npt.NDArray[np.intp] | None  # row i here was row order[i] of the batch; None: same order

    @classmethod
    def of(cls, batch: UnitBatch) -> "BatchByHour":
        """Put the rows of a batch, at least one, in order of their hours."""
        hour = batch.due_ms // HOUR_MS
        words = np.frombuffer(batch.records, np.uint64)
        if not falls(hour):
            edges = run_edges(hour)
            return cls(batch, words.copy(), hour, hour[edges[:-1]].tolist(), edges, None)
        order = hour_order(hour)
        created_ms = batch.created_ms if isinstance(batch.created_ms, int) else batch.created_ms[order]
        homes = None if batch.homes is None else batch.homes[order]
        ordered = {name: getattr(batch, name)[order] for name in _COLUMNS}
        columns = replace(batch, **ordered, created_ms=created_ms, homes=homes)
        hour = hour[order]
        edges = run_edges(hour)
        words = gather_records(words, batch.size, order)
        return cls(columns, words, hour, hour[edges[:-1]].tolist(), edges, order)

    def indexes(self, following: I64) -> I64:
        """The global_index of each row, [n]. `following` has the next free global_index of each hour."""
        if len(following) == 1:
            return np.arange(following[0], following[0] + len(self.hour))
        return np.arange(len(self.hour)) + self._spread(following - self.edges[:-1])

    def units(self, indexes: I64, starts: I64, log_ends: I64) -> Units:
        """Make the units of the index, [n], still without chain and checksum.

        `indexes` are their global indexes, `starts` the first word of each record. `log_ends` are the bytes at which
        the hours' logs end.
        """
        units = np.zeros(len(indexes), UNIT)
        for name in _COLUMNS:
            units[name] = getattr(self.columns, name)
        units["offset"] = (starts << 3) + self._spread(log_ends - (starts[self.edges[:-1]] << 3))
        units["global_index"] = indexes
        units["pre_global_index"] = NOT_LINKED
        if self.columns.homes is not None:
            units["flags"] |= np.uint32(UNIT_MOVED)
        return units

    def _spread(self, values: I64) -> I64:
        """Turn one value for each hour into one value for each row. A single value stays single and stands for every
        row."""
        return values if len(values) == 1 else values.repeat(self.edges[1:] - self.edges[:-1])

    def restore(self, values: U64) -> U64:
        """Put values, one for each row of this object, into the order of the batch."""
        if self.order is None:
            return values
        result = np.empty_like(values)
        result[self.order] = values
        return result


def hour_order(hour: I64) -> npt.NDArray[np.intp]:
    """The indexes that sort rows by hour and keep the order within each."""
    rank = hour - hour.min()
    narrow = int(rank.max()) < _RANKS_MAX  # which numpy sorts by radix
    order: npt.NDArray[np.intp] = (rank.astype(np.uint16) if narrow else rank).argsort(kind="stable")
    return order


def gather_records(words: U64, size: U32, order: npt.NDArray[np.intp]) -> U64:
    """The words of all records, with the records in the order `order`. One step of numpy, whatever the records'
    sizes."""
    lengths = (size >> np.uint32(3)).astype(np.int64)
    if bool((lengths == lengths[0]).all()):
        return words.reshape(len(size), -1)[order].reshape(-1)
    starts = np.cumsum(lengths) - lengths
    moved = lengths[order]
    shift = np.repeat(starts[order] - (np.cumsum(moved) - moved), moved)
    gathered: U64 = words[np.arange(len(words)) + shift]
    return gathered
