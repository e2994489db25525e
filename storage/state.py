"""What has become of each unit of an hour: a cache over the settle file, rebuilt from it alone, last record wins.

Dense columns, 19 bytes a unit, because acks come in batches for arbitrary units and a vectorised look-up must not
search. They are held for hours in use only, and only as far as units have been settled: an hour that nobody touched yet
costs nothing.
"""

from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from storage.array import I64, U8, U64
from storage.chain import run_edges
from storage.columns import StateColumns
from storage.format import FORWARDED, LEASED, PENDING, RELEASED, Settles

_COLUMNS: Final = ("attempt", "newest", "state", "term", "when")

Scalar = TypeVar("Scalar", bound=np.generic)


class States:
    """State by global_index. Units past the arrays' end have no settle record and are pending."""

    __slots__ = ("attempt", "forwards", "newest", "state", "term", "when")

    def __init__(self) -> None:
        self.state = np.zeros(0, np.uint8)
        self.attempt = np.zeros(0, np.uint16)
        self.term = np.zeros(0, np.uint32)
        self.when = np.zeros(0, np.int64)  # lease end of a leased unit, place of a forwarded one, else 0
        self.newest = np.zeros(0, np.uint32)  # 1 + ordinal of the unit's newest settle record; 0: none
        self.forwards = False  # whether any unit was ever forwarded: most hours have none, and are spared the question

    def absorb(self, rows: Settles, first: int) -> None:
        """Take in settle records, in file order, the first of which has ordinal `first`."""
        if not len(rows):
            return
        at = rows["global_index"].astype(np.int64)
        self._reach(int(at[at.argmax()]) + 1)
        state = what = rows["what"]
        told = what == LEASED
        if what[what.argmax()] >= RELEASED:
            forwarded = what == FORWARDED
            told |= forwarded
            self.forwards |= bool(forwarded.any())
            state = what * (what != RELEASED)
        # numpy assigns in order, so the last of several records of one unit stays
        self.state[at] = state
        self.attempt[at] = rows["attempt"]
        self.term[at] = rows["term"]
        self.when[at] = rows["when"] * told
        self.newest[at] = np.arange(first + 1, first + 1 + len(rows))

    def link(self, rows: Settles, first: int) -> I64:
        """Fill in `previous` of new records before they are absorbed; `first` is the ordinal of rows[0].

        Returns the units they name, each once.
        """
        at = rows["global_index"].astype(np.int64)
        if not len((at[1:] <= at[:-1]).nonzero()[0]):  # most batches name each unit once, in order
            rows["previous"] = _read(self.newest, at)
            return at
        order = at.argsort(kind="stable")
        ranked = at[order]
        starts = run_edges(ranked)[:-1]
        units = ranked[starts]
        previous = np.empty(len(at), np.int64)
        np.add(order[:-1], first + 1, out=previous[1:])
        previous[starts] = _read(self.newest, units)
        rows["previous"][order] = previous
        return units

    def enter(self, rows: Settles, first: int) -> tuple[int, int]:
        """Link new records and absorb them; returns how many more units than before are settled for good, and how many
        more are forwarded."""
        units = self.link(rows, first)
        closed, forwarded = self._count(units)
        self.absorb(rows, first)
        closed_now, forwarded_now = self._count(units)
        more = forwarded_now - forwarded
        return closed_now - closed - more, more

    def at(self, indexes: I64) -> StateColumns:
        """States of the units with these global indexes, all of which exist."""
        within = _within(self.state, indexes)
        state, when = _read(self.state, indexes, within), _read(self.when, indexes, within)
        if self.forwards:
            when *= state != FORWARDED
        return StateColumns(state, _read(self.attempt, indexes, within), _read(self.term, indexes, within), when)

    def places(self, indexes: I64, homes: U64) -> U64:
        """Where the units at these positions, which have these global indexes, were forwarded to, or as they are."""
        if not self.forwards:
            return homes
        when = _read(self.when, indexes).view(np.uint64)
        return np.where(_read(self.state, indexes) == FORWARDED, when, homes)

    def newest_at(self, indexes: I64) -> npt.NDArray[np.uint32]:
        """1 + ordinal of the newest settle record of each unit, 0 where there is none."""
        return _read(self.newest, indexes)

    def leased(self, first: int = 0, end: int | None = None) -> I64:
        """Global indexes of the leased units from `first` up to `end` (exclusive; None: all that follow), ascending."""
        return np.flatnonzero(self.state[first:end] == LEASED) + first

    def in_state(self, state: int, units: int) -> I64:
        """Global indexes of those of the first `units` units that are in this state, ascending."""
        found = np.flatnonzero(self.state[:units] == state)
        if state != PENDING:
            return found
        return np.concatenate([found, np.arange(len(self.state), units)])

    def _count(self, indexes: I64) -> tuple[int, int]:
        """How many of these units are neither pending nor leased, and how many of those forwarded."""
        state = _read(self.state, indexes)
        forwarded = np.count_nonzero(state == FORWARDED) if self.forwards else 0
        return int(np.count_nonzero(state > LEASED)), int(forwarded)

    def _reach(self, length: int) -> None:
        """Make room for `length` units, doubling so that growing stays O(1) a unit."""
        have = len(self.state)
        if length <= have:
            return
        length = max(length, 2 * have, 1024)
        for name in _COLUMNS:
            old = getattr(self, name)
            new = np.zeros(length, old.dtype)
            new[:have] = old
            setattr(self, name, new)


def pending_in(state: U8, indexes: I64) -> npt.NDArray[np.bool_]:
    """Which of these units are pending, given a `States.state` column as it was at some moment."""
    pending: npt.NDArray[np.bool_] = _read(state, indexes) == PENDING
    return pending


def _within(column: npt.NDArray[Scalar], indexes: I64) -> bool:
    return not len((indexes >= len(column)).nonzero()[0])


def _read(column: npt.NDArray[Scalar], indexes: I64, within: bool | None = None) -> npt.NDArray[Scalar]:
    if _within(column, indexes) if within is None else within:
        return column[indexes]
    values = np.zeros(len(indexes), column.dtype)
    known = indexes < len(column)
    values[known] = column[indexes[known]]
    return values
