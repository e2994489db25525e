"""What the records say of units that stand in a window: which may be handed over at this moment.

Units were due and open when they came into the window. Meanwhile they may have ended, been leased by an extension, or
the clock may have gone back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from storage.array import U16, U32, U64
from storage.format import LEASED, PENDING
from storage.lease_end import lease_ends_ms
from storage.store import Store

Mask = npt.NDArray[np.bool_]


class Look(NamedTuple):
    """Shape [n] each."""

    ready: Mask  # due, neither settled nor leased
    stays: Mask  # ready, or ready once the clock is where it was; the others ended or wait for a new lease's end
    term: U32  # of the newest hand-over here, 0 if there is none; likewise its attempt
    attempt: U16


def look(store: Store, positions: U64, now_ms: int, latest_ms: int, term: int) -> Look:
    """Look, as the leader of `term`, at units all of which were ready at `latest_ms`, the latest time that its
    dispatcher has seen."""
    states = store.states(positions)
    pending, leased = states.state == PENDING, states.state == LEASED
    ready = stays = pending.copy()
    if leased.any():
        ready = stays = pending | (leased & (lease_ends_ms(states.lease_end_ms, states.term, term) <= now_ms))
    if now_ms < latest_ms:
        stays = pending | leased
        ready[pending] = store.units(positions[pending])["due_ms"] <= now_ms
    return Look(ready, stays, states.term, states.attempt)
