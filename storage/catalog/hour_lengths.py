"""What a checkpoint says of each hour: the lengths of its files and how many units it holds, 64 bytes a row.

The rows stay one array, as they stand in the checkpoint record: 87,600 hours are 5.6 MB, not 87,600 objects.
"""

from collections.abc import ItemsView, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from storage.format.rows import HEADER_SIZE, SETTLE

LENGTHS_ROW: Final = np.dtype(
    [
        ("hour", "<u4"),
        ("generation", "<u4"),
        ("log_len", "<u8"),
        ("index_len", "<u8"),
        ("settle_len", "<u8"),
        ("units", "<u8"),
        ("unsettled", "<u8"),
        ("forwarded", "<u8"),
        ("moved", "<u8"),
    ]
)
assert LENGTHS_ROW.itemsize == 64


class HourLengths(NamedTuple):
    """Lengths in bytes of an hour's three files, and how many units it holds: in all, not settled for good, of those
    not open (`forwarded`: of today's states no other is), and of all how many were born elsewhere. `generation` is its
    directory's, see unlinked_hours."""

    log_len: int
    index_len: int
    settle_len: int
    units: int
    unsettled: int
    forwarded: int = 0
    moved: int = 0
    generation: int = 0


def settle_count(lengths: HourLengths) -> int:
    """How many settle records a file of this length holds."""
    return max(0, lengths.settle_len - HEADER_SIZE) // SETTLE.itemsize


class HourRows(Mapping[int, HourLengths]):
    """HourLengths by hour over an array of LENGTHS_ROW whose hours rise. It is never changed."""

    __slots__ = ("_hours", "rows")

    def __init__(self, rows: npt.NDArray[np.void]) -> None:
        self.rows = rows
        self._hours = np.ascontiguousarray(rows["hour"])

    @classmethod
    def of(cls, hours: Mapping[int, HourLengths]) -> "HourRows":
        """The same as rows."""
        if isinstance(hours, HourRows):
            return hours
        rows = [(hour, lengths.generation, *lengths[:-1]) for hour, lengths in sorted(hours.items())]
        return cls(np.array(rows, LENGTHS_ROW))

    def place(self, hour: int) -> int | None:
        """The row of an hour, or None."""
        at = int(self._hours.searchsorted(self._hours.dtype.type(hour)))  # of a Python number all hours are converted
        return at if at < len(self._hours) and self._hours[at] == hour else None

    def __getitem__(self, hour: int) -> HourLengths:
        place = self.place(hour)
        if place is None:
            raise KeyError(hour)
        return _lengths(self.rows[place].item())

    def __iter__(self) -> Iterator[int]:
        return iter(self._hours.tolist())

    def __len__(self) -> int:
        return len(self._hours)

    def items(self) -> ItemsView[int, HourLengths]:
        """All of them, rising, in one pass."""
        return _Items(self)


class _Items(ItemsView[int, HourLengths]):
    _mapping: HourRows

    def __iter__(self) -> Iterator[tuple[int, HourLengths]]:
        for row in self._mapping.rows.tolist():
            yield row[0], _lengths(row)


def _lengths(row: tuple[Any, ...]) -> HourLengths:
    return HourLengths._make((*row[2:], row[1]))
