"""Bounds how many messages one entry moves, by their number and by the size of their records.

A move copies a message's whole record. It does so in apply, on the event loop of every node. A thousand small ones take
10 ms. A thousand records of 256 KB would take seconds, and meanwhile the leader would lose its leadership. So a move
has the weight 1, and 1 more for each BYTES_A_MOVE of its record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from storage.format.array import I64, U64
from storage.format.position import GONE
from storage.format.states import LIVES_HERE, UNKNOWN
from storage.state.file import PAGE_UNITS
from storage.store import Store

BYTES_A_MOVE: Final = 4096
"""Copying so many bytes takes about as long as all other work of a move."""
MOVES_A_PAGE: Final = 3
"""Reading a page of units that have ended (storage/state/unit_states.py) takes as long as so many moves."""


def move_weight(record_bytes: int) -> int:
    """The weight of a move of a record of this size."""
    return 1 + record_bytes // BYTES_A_MOVE


def move_weights(store: Store, positions: U64) -> I64:
    """The weights of moves of these units, shape [n]. A unit that does not exist weighs 1, because it needs no work.

    A unit that has ended adds the weight of its page, which any node may have to read. The page counts once for
    consecutive rows, and again whenever the rows come back to it.
    """
    weights = np.ones(len(positions), np.int64)
    state = store.state_only(positions)
    there = np.flatnonzero(state != UNKNOWN)
    weights[there] += store.units(positions[there])["size"] // BYTES_A_MOVE
    ended = there[~LIVES_HERE[state[there]]]
    weights[ended] += MOVES_A_PAGE * (np.diff(positions[ended] // np.uint64(PAGE_UNITS), prepend=np.uint64(GONE)) != 0)
    return weights


def move_pieces(weights: I64, most: int) -> Iterator[slice]:
    """Cut the rows into pieces of consecutive rows whose weights are at most `most` together. A row that alone weighs
    more is a piece of its own."""
    ends = np.cumsum(weights)
    start = 0
    while start < len(weights):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield slice(start, stop)
        start = stop
