"""The position of a unit: 24 bits of hour and 40 bits of global_index in one 64-bit number.

Everywhere inside the service a position names a message. An id is a position with group and random bits.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from storage.format.array import I64, U64

INDEX_BITS: Final = 40
HOUR_MAX: Final = (1 << 24) - 1
INDEX_MAX: Final = (1 << INDEX_BITS) - 1
HOUR_MS: Final = 3_600_000
MS_PER_TICK: Final = 1_000
"""A tick is an absolute second. Its slot begins at tick * MS_PER_TICK."""
EVER_MS: Final = 1 << 62
"""A time behind all others, ms."""

GONE: Final = (1 << 64) - 1
"""Stands for a message whose newest place is unlinked. No unit has this position, for no hour has that many units."""

_SHIFT: Final = np.uint64(INDEX_BITS)
_MASK: Final = np.uint64(INDEX_MAX)


def pack(hour: int, global_index: int) -> int:
    """The position of one unit."""
    assert 0 <= hour <= HOUR_MAX, f"hour {hour}"
    assert 0 <= global_index <= INDEX_MAX, f"global_index {global_index}"
    return hour << INDEX_BITS | global_index


def hours_of(positions: U64) -> I64:
    """The hour of each position, shape [n]."""
    return (positions >> _SHIFT).astype(np.int64)


def indexes_of(positions: U64) -> I64:
    """The global_index of each position, shape [n]."""
    return (positions & _MASK).astype(np.int64)


def in_hours(positions: U64) -> Iterator[tuple[int, npt.NDArray[np.intp] | slice, I64]]:
    """Yield (hour, rows, global indexes) for each hour in `positions`, rising. `rows` says which rows of `positions`
    are of this hour, in order: an index array or a slice."""
    if len(positions) == 1:  # one message: almost without arrays
        place = int(positions[0])
        yield place >> INDEX_BITS, slice(None), np.array([place & INDEX_MAX], np.int64)
        return
    indexes = indexes_of(positions)
    for hour, rows in by_hour(hours_of(positions)):
        yield hour, rows, indexes[rows]


def by_hour(hours: I64) -> Iterator[tuple[int, npt.NDArray[np.intp] | slice]]:
    """Yield (hour, rows) for each distinct hour, rising. `rows` are the rows of `hours` with this hour, in order: an
    index array or a slice. It sorts once and takes one step an hour, none a row."""
    if not len(hours):
        return
    first = int(hours[0])
    if not (hours != first).any():
        yield first, slice(None)
        return
    order = np.argsort(hours, kind="stable")
    ranked = hours[order]
    starts = np.flatnonzero(np.diff(ranked, prepend=ranked[0] - 1))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
        yield int(ranked[start]), order[start:end]
