"""The states of an hour's units, to be looked at in another thread."""

import numpy as np
import numpy.typing as npt

from storage.array import I64, U8
from storage.format import PENDING
from storage.state_block import BLOCK_UNITS
from storage.state_file import PAGE_UNITS, Rows
from storage.state_files import StateFiles


class Seen:
    """The states of an hour at one moment (States.seen). Of what happens to the units meanwhile it may see some and
    miss some. Close it after use."""

    def __init__(
        self, first: int, states: list[U8], known: npt.NDArray[np.bool_], files: StateFiles, tail: Rows | None
    ) -> None:
        self._first = first
        self._states = states
        self._known = known
        self._files = files
        self._tail = tail

    def pending(self, indexes: I64) -> npt.NDArray[np.bool_]:
        """Which of the units with these global indexes are pending."""
        at = indexes - self._first
        state = np.zeros(len(at), np.uint8)
        block = at // BLOCK_UNITS
        for number, column in enumerate(self._states):
            rows = np.flatnonzero((block == number) & (at - number * BLOCK_UNITS < len(column)))
            state[rows] = column[at[rows] - number * BLOCK_UNITS]
        if not self._known.all():
            self._fill(at, state)
        pending: npt.NDArray[np.bool_] = state == PENDING
        return pending

    def _fill(self, at: I64, state: U8) -> None:
        """The states of units whose pages are not in memory."""
        page = at // PAGE_UNITS
        lacking = np.flatnonzero(page < len(self._known))
        lacking = lacking[~self._known[page[lacking]]]
        for each in np.unique(page[lacking]).tolist():
            mine = lacking[page[lacking] == each]
            rows = self._files.told(each, each + 1, self._tail)
            place = np.minimum(rows["unit"].searchsorted(at[mine]), max(len(rows) - 1, 0))
            known = rows["unit"][place] == at[mine] if len(rows) else np.zeros(len(mine), np.bool_)
            state[mine[known]] = rows["state"][place[known]]

    def close(self) -> None:
        """Let go of the files."""
        self._files.close()
