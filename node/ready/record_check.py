"""What the records say of units that stand in a window: which may be handed over at this moment.

Units were due and open when they came into the window. Meanwhile they may have ended, been leased by an extension, or
the clock may have gone back.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from storage.format.array import I64, U16, U32, U64
from storage.format.states import IS_PENDING, LEASED
from storage.query.lease_end import lease_ends_ms
from storage.store import Store

Mask = npt.NDArray[np.bool_]


class RecordCheck(NamedTuple):
    """Shape [n] each."""

    ready: Mask  # due, neither settled nor leased
    stays: Mask  # ready, or ready once the clock is where it was; others ended, or wait for a lease's end or a Release
    term: U32  # of the newest hand-over here, 0 if there is none; likewise its attempt
    attempt: U16


class Leases(Protocol):
    """Leases that the leader of term `term` takes back, which the records do not show yet."""

    term: int

    def taken_back(self, positions: U64) -> Mask:
        """True, shape [n], for units whose lease is being taken back."""


def check_records(
    store: Store, leases: Leases, positions: U64, due_ms: I64, now_ms: int, latest_ms: int
) -> RecordCheck:
    """Look, as the leader of the term of `leases`, at units (shape [n]) all of which were ready at `latest_ms`, the
    latest time that its dispatcher has seen. What is being taken back waits until the log has it, though its lease has
    ended: its attempt is given again, and the Release brings it back."""
    states = store.states(positions)
    pending, leased = IS_PENDING[states.state], states.state == LEASED
    ready = stays = pending.copy()
    if leased.any():
        over = leased & (lease_ends_ms(states.lease_end_ms, states.term, leases.term) <= now_ms)
        ready = stays = pending | (over & ~leases.taken_back(positions))
    if now_ms < latest_ms:
        stays = pending | leased
        ready[pending] = due_ms[pending] <= now_ms
    return RecordCheck(ready, stays, states.term, states.attempt)
