"""Looks at many units of which many may have ended. The state of an ended unit may stand on a page of its own. The page
must then be read from the hour's states files (storage/state/unit_states.py), in 0.03 ms. So units are looked at in
pieces, and the loop does other work between two pieces."""

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

#: Units and hours looked at in one piece. An hour that is not in memory is opened, in 0.3 to 0.8 ms.
LOOK_UNITS: Final = 128
LOOK_HOURS: Final = 4

Done = Callable[[Store, U64, StateColumns, npt.NDArray[np.bool_]], npt.NDArray[np.bool_]]
"""done(store, positions, states, same) returns a boolean array, shape [n]: True where the hand-over had the outcome
that the caller looks for, such as an ack. `states` are those of the units at `positions`. `same` is True where the
newest settle record is of the hand-over that the receipt names."""


def states_of(store: Store, positions: U64) -> Pieces[U8]:
    """Return the state of each of these units (at least one), each as it was when its piece was looked at. If no page
    must be read there is only one piece, because a thousand units then take as long as ten."""
    if np.ptp(hours_of(positions)) < LOOK_HOURS and store.are_known(positions):
        return store.state_only(positions)
    state = np.empty(len(positions), np.uint8)
    for rows in pieces_of(positions):
        state[rows] = store.state_only(positions[rows])
        yield
    return state


def done_by(store: Store, named: ReceiptColumns, done: Done) -> Pieces[npt.NDArray[np.bool_]]:
    """Return a boolean array, shape [n], n > 0: for each hand-over in `named`, the answer of `done` about the state of
    its unit."""
    found = np.zeros(len(named), np.bool_)
    for rows in pieces_of(named.position):
        positions = named.position[rows]
        states = store.states(positions)
        same = (states.term == named.term[rows]) & (states.attempt == named.attempt[rows])
        found[rows] = done(store, positions, states, same)
        yield
    return found


def acked_before(store: Store, named: ReceiptColumns) -> Pieces[npt.NDArray[np.bool_]]:
    """Return a boolean array, shape [n], n > 0: True where an ack of this hand-over ended its message. The message
    may have been delivered again since."""
    found = np.zeros(len(named), np.bool_)
    for rows in pieces_of(named.position):
        found[rows] = store.acked_before(named.position[rows], named.term[rows], named.attempt[rows])
        yield
    return found


def given_back_before(store: Store, named: ReceiptColumns) -> Pieces[npt.NDArray[np.bool_]]:
    """Return a boolean array, shape [n], n > 0: True where the settle records say that a nack of this hand-over
    counted.

    After that the message stands at another position, so the newest record of the unit does not show it. With this
    look-up a client whose answer was lost still learns that its nack counted. (term, attempt) names one hand-over of a
    message for ever.
    """
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
    """Return the homes of the messages that stand at these positions. If a message was moved and its hour is not in
    memory, its home is read from its record."""
    homes = np.empty(len(positions), np.uint64)
    for rows in pieces_of(positions):
        homes[rows] = store.homes(positions[rows])
        yield
    return homes


def pieces_of(positions: U64) -> list[npt.NDArray[np.intp]]:
    """The row numbers in the order of their positions, cut into pieces of at most LOOK_UNITS units and LOOK_HOURS
    hours."""
    order = np.argsort(positions, kind="stable")
    hours = hours_of(positions[order])
    begins = np.diff(hours, prepend=hours[:1]) != 0
    full = begins & (np.cumsum(begins) % LOOK_HOURS == 0)
    full[LOOK_UNITS::LOOK_UNITS] = True
    return np.split(order, np.flatnonzero(full))
