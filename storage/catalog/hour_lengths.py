"""The rows of hours in a checkpoint: the lengths of an hour's files and the counts of its units, 64 bytes a row.

The rows stay one array, as they stand in the checkpoint record. 87,600 hours are 5.6 MB, not 87,600 objects.
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
    """Lengths of an hour's three files in bytes, and counts of its units.

    - `units`: the number of all units.
    - `unsettled`: the number of units that are not settled for good.
    - `forwarded`: the number of unsettled units that are not open. Today that is only the state `forwarded`.
    - `moved`: the number of units whose messages were born in another hour.
    - `generation`: a number in the name of the hour's directory, see checkpoint/unlinked_hours.py.
    """

    log_len: int
    index_len: int
    settle_len: int
    units: int
    unsettled: int
    forwarded: int = 0
    moved: int = 0
    generation: int = 0


def settle_count(lengths: HourLengths) -> int:
    """The number of settle records in a file of this length."""
    return max(0, lengths.settle_len - HEADER_SIZE) // SETTLE.itemsize


class HourRows(Mapping[int, HourLengths]):
    """The HourLengths of each hour, by number, over an array of LENGTHS_ROW in rising order of hours. It never
    changes."""

    __slots__ = ("_hours", "rows")

    def __init__(self, rows: npt.NDArray[np.void]) -> None:
        self.rows = rows
        self._hours = np.ascontiguousarray(rows["hour"])

    @classmethod
    def of(cls, hours: Mapping[int, HourLengths]) -> "HourRows":
        """The HourLengths of these hours as HourRows."""
        if isinstance(hours, HourRows):
            return hours
        rows = [(hour, lengths.generation, *lengths[:-1]) for hour, lengths in sorted(hours.items())]
        return cls(np.array(rows, LENGTHS_ROW))

    def place(self, hour: int) -> int | None:
        """The index of an hour's row, or None if the hour has no row."""
        at = int(self._hours.searchsorted(self._hours.dtype.type(hour)))  # a Python number would convert all hours
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
        """All pairs of hour and HourLengths, in rising order of hours, made in one pass."""
        return _Items(self)


class _Items(ItemsView[int, HourLengths]):
    _mapping: HourRows

    def __iter__(self) -> Iterator[tuple[int, HourLengths]]:
        for row in self._mapping.rows.tolist():
            yield row[0], _lengths(row)


def _lengths(row: tuple[Any, ...]) -> HourLengths:
    return HourLengths._make((*row[2:], row[1]))
