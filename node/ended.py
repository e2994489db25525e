"""Looks at many units of which many may have ended: of those each may stand on a page of its own, which is to be read
from the hour's states files (storage/state.py), 0.03 ms each. So they go by pieces."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from node.receipt import ReceiptColumns
from storage.array import U8, U64
from storage.pieces import Pieces
from storage.position import hours_of
from storage.store import Store

#: Units looked at in one piece, and hours: one that has cooled is opened again, 0.3 to 0.8 ms each.
LOOK_UNITS: Final = 128
LOOK_HOURS: Final = 4


def states_of(store: Store, positions: U64) -> Pieces[U8]:
    """The state of each of these, of which there is one at least, as of when its piece was looked at. One piece where
    nothing is to be read: that takes as long for a thousand as for ten."""
    if np.ptp(hours_of(positions)) < LOOK_HOURS and store.are_known(positions):
        return store.state_only(positions)
    state = np.empty(len(positions), np.uint8)
    for rows in _pieces(positions):
        state[rows] = store.state_only(positions[rows])
        yield
    return state


def delivered_by(store: Store, named: ReceiptColumns) -> Pieces[npt.NDArray[np.bool_]]:
    """Which of these hand-overs, of units that were delivered, are those by which they were."""
    same = np.zeros(len(named), np.bool_)
    for rows in _pieces(named.position):
        found = store.states(named.position[rows])
        same[rows] = (found.term == named.term[rows]) & (found.attempt == named.attempt[rows])
        yield
    return same


def _pieces(positions: U64) -> list[npt.NDArray[np.intp]]:
    """The rows in the order of their places, cut where a piece has as many units or hours as it may."""
    order = np.argsort(positions, kind="stable")
    hours = hours_of(positions[order])
    begins = np.diff(hours, prepend=hours[:1]) != 0
    full = begins & (np.cumsum(begins) % LOOK_HOURS == 0)
    full[LOOK_UNITS::LOOK_UNITS] = True
    return np.split(order, np.flatnonzero(full))
