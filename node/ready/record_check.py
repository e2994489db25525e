"""Checks units of a window against the records and the rules: which may be handed over at this moment?

Units were due and open when they came into the window. Meanwhile they may have ended, been leased by an extension, or
the clock may have gone back. Of the units that may go by the records, a rule may hold some (node/ready/rule.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from node.ready.rule import Mask, Rule
from storage.format.array import I64, U16, U32, U64
from storage.format.rows import Units, take_rows
from storage.format.states import IS_PENDING, LEASED
from storage.query.lease_end import lease_ends_ms
from storage.store import Store
from storage.wheel.slot import DueUnits


class RecordCheck(NamedTuple):
    """The result for each unit, shape [n] each."""

    ready: Mask  # Due, not settled, not under a running lease, and held by no rule.
    stays: Mask  # Ready, or ready once the clock is where it was. Else ended, or waits for a lease's end or a Release.
    term: U32  # Of the newest hand-over here, 0 if there is none. So is its attempt.
    attempt: U16
    held: Mask | None = None  # Held by a rule, and else ready. A part of those that stay. None: no unit is held.


class Leases(Protocol):
    """Leases that the leader of term `term` takes back, which the records do not show yet."""

    term: int

    def taken_back(self, positions: U64) -> Mask:
        """True, shape [n], for units whose lease is being taken back."""


def check_records(
    store: Store, leases: Leases, positions: U64, due_ms: I64, now_ms: int, latest_ms: int
) -> RecordCheck:
    """Look at units, shape [n], all of which were ready at `latest_ms`, the latest time that the dispatcher has seen.
    The leader of the term of `leases` looks. A unit whose lease is being taken back waits until the log has the
    Release, though the lease has ended. Its attempt is given again, and the Release brings it back."""
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


def ask_rules(
    rules: Sequence[Rule], store: Store, seen: RecordCheck, positions: U64, known: Units | None, now_ms: int
) -> RecordCheck:
    """The same result, less the ready units that the rules hold. `known`: the rows of the index, if they were read
    before."""
    at = seen.ready.nonzero()[0]
    if not len(at):
        return seen
    rows = store.units(positions[at]) if known is None else take_rows(known, at)
    held = held_by(rules, positions[at], rows, now_ms)
    if not held.any():
        return seen
    ready, all_held = seen.ready.copy(), np.zeros(len(positions), np.bool_)
    ready[at[held]], all_held[at[held]] = False, True
    return seen._replace(ready=ready, held=all_held)


def held_by(rules: Sequence[Rule], positions: U64, rows: Units, now_ms: int) -> Mask:
    """True, shape [n], for units that a rule holds. `rows`: their rows of the index."""
    units = DueUnits(rows["due_ms"], positions, rows["topic"], rows["tags"], rows["priority"])
    held = np.zeros(len(positions), np.bool_)
    for rule in rules:
        held |= rule.held(units, now_ms)
    return held
