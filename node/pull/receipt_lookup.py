"""Looks at many units of which many may have ended: of those each may stand on a page of its own, which is to be read
from the hour's states files (storage/state/unit_states.py), 0.03 ms each. So they go by pieces."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from node.port.failure_code import MAX_AGE, NACKED
from node.port.receipt import ReceiptColumns
from replication.apply.message.attempt_order import fence
from storage.format.array import U8, U64
from storage.format.batches import StateColumns
from storage.format.pieces import Pieces
from storage.format.position import hours_of
from storage.format.states import TELLS_FAILURE, UNKNOWN
from storage.store import Store

#: Units looked at in one piece, and hours: one that has cooled is opened again, 0.3 to 0.8 ms each.
LOOK_UNITS: Final = 128
LOOK_HOURS: Final = 4

Done = Callable[[Store, U64, StateColumns, npt.NDArray[np.bool_]], npt.NDArray[np.bool_]]
"""(store, positions, their states, whether their newest record is of this very hand-over) -> whether it did it."""


def states_of(store: Store, positions: U64) -> Pieces[U8]:
    """The state of each of these, of which there is one at least, as of when its piece was looked at. One piece where
    nothing is to be read: that takes as long for a thousand as for ten."""
    if np.ptp(hours_of(positions)) < LOOK_HOURS and store.are_known(positions):
        return store.state_only(positions)
    state = np.empty(len(positions), np.uint8)
    for rows in pieces_of(positions):
        state[rows] = store.state_only(positions[rows])
        yield
    return state


def done_by(store: Store, named: ReceiptColumns, done: Done) -> Pieces[npt.NDArray[np.bool_]]:
    """Which of these hand-overs, of which there is one at least, did what `done` tells of the units' newest records."""
    found = np.zeros(len(named), np.bool_)
    for rows in pieces_of(named.position):
        positions = named.position[rows]
        states = store.states(positions)
        same = (states.term == named.term[rows]) & (states.attempt == named.attempt[rows])
        found[rows] = done(store, positions, states, same)
        yield
    return found


def given_back_before(store: Store, named: ReceiptColumns) -> Pieces[npt.NDArray[np.bool_]]:
    """Which of these hand-overs, of which there is one at least, the records say were given back by their consumers.

    A unit's newest record does not tell where the message has gone on since: a client whose answer was lost learns all
    the same that its nack counted. (term, attempt) names one hand-over of a message for ever."""
    found = np.zeros(len(named), np.bool_)
    homes = yield from _homes_of(store, named.position)
    order = np.argsort(homes, kind="stable")
    begins = [0, *(np.flatnonzero(np.diff(homes[order])) + 1).tolist(), len(order)]
    for begin, end in pairwise(begins):
        rows = order[begin:end]
        home = homes[rows[:1]]
        if store.state_only(home)[0] != UNKNOWN:
            history = yield from store.history(int(home[0]))
            told = TELLS_FAILURE[history["what"]] & np.isin(history["code"], (NACKED, MAX_AGE))
            known = fence(history["term"][told], history["attempt"][told])
            found[rows] = np.isin(fence(named.term[rows], named.attempt[rows]), known)
        yield
    return found


def _homes_of(store: Store, positions: U64) -> Pieces[U64]:
    """Where these messages were born: of a moved one whose hour has cooled that stands in its record."""
    homes = np.empty(len(positions), np.uint64)
    for rows in pieces_of(positions):
        homes[rows] = store.homes(positions[rows])
        yield
    return homes


def pieces_of(positions: U64) -> list[npt.NDArray[np.intp]]:
    """The rows in the order of their places, cut where a piece has as many units or hours as it may."""
    order = np.argsort(positions, kind="stable")
    hours = hours_of(positions[order])
    begins = np.diff(hours, prepend=hours[:1]) != 0
    full = begins & (np.cumsum(begins) % LOOK_HOURS == 0)
    full[LOOK_UNITS::LOOK_UNITS] = True
    return np.split(order, np.flatnonzero(full))
