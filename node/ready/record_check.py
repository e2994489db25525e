"""Checks units of a window against their settle records and the rules: which of them may be handed over at this moment?

Units were due and open when they came into the window. Meanwhile they may have ended, an extend may have made their
lease run again, or the clock may have gone back. A rule (node/ready/rule.py) may hold units that could otherwise go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from node.ready.rule import Rule
from storage.format.array import I64, U16, U32, U64, Mask
from storage.format.rows import Units, take_rows
from storage.format.states import IS_PENDING, LEASED
from storage.query.lease_end import lease_ends_ms
from storage.store import Store
from storage.wheel.slot import DueUnits


class RecordCheck(NamedTuple):
    """The result of a check of n units: each field has one row for each unit."""

    ready: Mask  # Due, not ended, not under a running lease, and held by no rule.
    stays: Mask  # Ready, held by a rule, or ready once a clock that went back catches up. Else it leaves its window.
    term: U32  # Term and attempt of the unit's newest hand-over at this position, 0 if there is none.
    attempt: U16
    held: Mask | None = None  # Would be ready if no rule held it. These units stay, too. None: no unit is held.


class Leases(Protocol):
    """Leases ahead that the leader of term `term` takes back and whose Release is not applied yet."""

    term: int

    def taken_back(self, positions: U64) -> Mask:
        """True, shape [n], for units whose lease is being taken back."""


def check_records(
    store: Store, leases: Leases, positions: U64, due_ms: I64, now_ms: int, latest_ms: int
) -> RecordCheck:
    """Check units, shape [n], by the states that their settle records give. All of them were ready at `latest_ms`, the
    latest time that the dispatcher has seen. `leases` are those of the term that this node leads.

    A unit whose lease ahead is being taken back is not ready until the Release is applied, even if the lease has ended.
    The Release frees the number of its attempt for the next hand-over, and the dispatcher finds the unit again then.
    """
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
    """Ask the rules about the ready units of `seen`. Return `seen` with those that a rule holds moved from ready to
    held. `known` are the units' rows of the index, if the caller has read them."""
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


def leaving(rules: Sequence[Rule], positions: U64) -> list[Rule]:
    """The rules that may hold some of these units and leave out what they hold."""
    return [rule for rule in rules if rule.leaves_out and rule.may_hold(positions)]


def held_by(rules: Sequence[Rule], positions: U64, rows: Units, now_ms: int) -> Mask:
    """True, shape [n], for units that a rule holds. `rows`: their rows of the index."""
    units = DueUnits(rows["due_ms"], positions, rows["topic"], rows["tags"], rows["priority"])
    held = np.zeros(len(positions), np.bool_)
    for rule in rules:
        held |= rule.held(units, now_ms)
    return held
