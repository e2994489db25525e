"""The states of an hour's units for a thread beside the loop's. States that are not in memory are read from files."""

import numpy as np
import numpy.typing as npt

from storage.format.array import I64, U8
from storage.format.states import IS_PENDING
from storage.state.block import BLOCK_UNITS
from storage.state.file import PAGE_UNITS, Rows
from storage.state.files import StateFiles


def lacking(at: I64, have: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    """The indexes in `at`, an array of numbers of units, of those whose page is not in memory. `have` is True for each
    page in memory. Pages behind the end of `have` are in memory too."""
    page = at // PAGE_UNITS
    rows = np.flatnonzero(page < len(have))
    return rows[~have[page[rows]]]


class StateView:
    """Tells another thread which units of an hour are pending. Made by States.seen, on the loop's thread.

    It may or may not show changes made after States.seen. Close it after use.
    """

    def __init__(
        self, first: int, states: list[U8], known: npt.NDArray[np.bool_], files: StateFiles, tail: Rows | None
    ) -> None:
        self._first = first
        self._states = states
        self._known = known
        self._files = files
        self._tail = tail

    def pending(self, indexes: I64) -> npt.NDArray[np.bool_]:
        """Return a boolean array, True for each unit with these global indexes that is pending."""
        at = indexes - self._first
        state = np.zeros(len(at), np.uint8)
        block = at // BLOCK_UNITS
        for number, column in enumerate(self._states):
            rows = np.flatnonzero((block == number) & (at - number * BLOCK_UNITS < len(column)))
            state[rows] = column[at[rows] - number * BLOCK_UNITS]
        if not self._known.all():
            self._fill(at, state)
        pending: npt.NDArray[np.bool_] = IS_PENDING.take(state)  # for up to a whole hour; costs half of an index
        return pending

    def _fill(self, at: I64, state: U8) -> None:
        """Fill in the states of units whose pages are not in memory."""
        rows = lacking(at, self._known)
        state[rows] = self._files.find(at[rows], self._tail)["state"]

    def close(self) -> None:
        """Close the states files."""
        self._files.close()


class Newest:
    """Finds the newest settle record of some units, as of the moment when States.newest_of made this object.

    Call `run` once, in any thread.
    """

    def __init__(
        self, newest: I64, lacking: I64, rows: npt.NDArray[np.intp], files: StateFiles, tail: Rows | None
    ) -> None:
        self._newest = newest
        self._lacking = lacking
        self._rows = rows
        self._files = files
        self._tail = tail

    @property
    def pages(self) -> int:
        """The number of pages that `run` has to read from files."""
        return len(np.unique(self._lacking // PAGE_UNITS))

    def run(self) -> I64:
        """Return 1 + the ordinal of each unit's newest settle record, 0 if it has none, [n]. Raises Corrupt."""
        if len(self._rows):
            self._newest[self._rows] = self._files.find(self._lacking, self._tail)["newest"]
            self._files.close()
        return self._newest
