"""Finds where messages live: from the home that an id names to the place of the newest unit, and back.

A message that was moved (by a retry, or to another due time) lives at a place that is not its home. Its changes are
written at that place. The home's settle record names that place, and later says how the message ended. So a look at the
home answers for the message. The home's hour is unlinked only when no client can ask for the message any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from replication.command.entry import Envelope
from storage.format.array import U8, U32, U64, Mask
from storage.format.batches import SettleBatch, StateColumns
from storage.format.level import has
from storage.format.rows import Units
from storage.format.states import FORWARDED as FORWARDED_STATE
from storage.format.states import IS_OPEN, table
from storage.format.states import LEASED as LEASED_STATE
from storage.format.states import UNKNOWN as UNKNOWN_STATE
from storage.query.lease_end import lease_ends_ms
from storage.record.record import Record
from storage.store import Store

FREE, LEASED, SETTLED, UNKNOWN, MISMATCH, HELD, IN_PROGRESS = 0, 1, 2, 3, 4, 5, 6

_VERDICTS: U8 = table(
    lambda row: FREE if row.answers.is_open else HELD if row.answers.lives_here else SETTLED, np.uint8(UNKNOWN)
)
"""By the number of a state: the verdict of `verdicts` as far as the state alone decides it."""


@dataclass(frozen=True, slots=True)
class MessageLocation:
    """Where messages live, one row for each home. `states` are the states of the units at those places. Their `attempt`
    counts all hand-overs that the messages ever had. `units` are their rows of the index, if they were read.

    The state of a message that ended is the state of its home. A position that is no message's home is UNKNOWN: no id
    names it.
    """

    place: U64
    states: StateColumns
    units: Units | None = None


def find_standing(store: Store, home: U64) -> MessageLocation:
    """Find the places and states of the messages with these homes."""
    states = store.states(home)
    homes = store.homes(home)
    if homes is home:
        return MessageLocation(home, states)
    strangers = homes != home
    states.state[strangers], states.attempt[strangers] = UNKNOWN_STATE, 0
    away = (states.state == FORWARDED_STATE).nonzero()[0]
    if not len(away):
        return MessageLocation(home, states)
    place = store.locate(home)
    there = store.states(place[away])
    states.state[away] = there.state
    states.attempt[away] = np.maximum(there.attempt, store.units(place[away])["attempt"])
    states.term[away] = there.term
    states.lease_end_ms[away] = there.lease_end_ms
    return MessageLocation(place, states)


def standing_at(store: Store, place: U64) -> MessageLocation:
    """The states of messages that stand at these places. Each row is as `find_standing` has it for the message's
    home.
    """
    states, units = store.states(place), store.units(place)
    np.maximum(states.attempt, units["attempt"], out=states.attempt)
    return MessageLocation(place, states, units)


def settle_everywhere(store: Store, ends: SettleBatch) -> None:
    """Record how messages ended: at the places in `ends`, and also at the homes of messages that were moved."""
    homes = store.homes(ends.position)
    if homes is not ends.position:
        away = (homes != ends.position).nonzero()[0]
        if len(away):
            ends = _twice(ends, homes, away)
    store.settle(ends)


def _twice(ends: SettleBatch, homes: U64, away: npt.NDArray[np.intp]) -> SettleBatch:
    def joined(column: npt.NDArray[Any], more: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.concatenate([column, more[away]])

    return SettleBatch(
        position=joined(ends.position, homes),
        what=joined(ends.what, ends.what),
        at_ms=joined(ends.at_ms, ends.at_ms),
        when=joined(ends.when, ends.when),
        term=joined(ends.term, ends.term),
        attempt=joined(ends.attempt, ends.attempt),
        node=joined(ends.node, ends.node),
        code=joined(ends.code, ends.code),
        subscription=joined(ends.subscription, ends.subscription),
    )


def revisions(records: Sequence[Record]) -> U32:
    """The revision of each message, [n]: 1 plus the number of its reschedules."""
    return np.array([record.extension.get("revision", 1) for record in records], np.uint32)


def lease_runs(store: Store, states: StateColumns, envelope: Envelope) -> Mask:
    """True, [n], for units under a lease that has not ended by the entry's time."""
    ends_ms = states.lease_end_ms
    if has(store.level, "lease-grace"):
        ends_ms = lease_ends_ms(ends_ms, states.term, envelope.term)
    runs: Mask = (states.state == LEASED_STATE) & (ends_ms > envelope.now_ms)
    return runs


def verdicts(store: Store, standing: MessageLocation, wanted: U32, envelope: Envelope) -> U8:
    """FREE where a client may end or move the message, else the reason why not, [n].

    `wanted` are the revisions that clients expect, 0 for any. MISMATCH: the message has another revision. HELD: it has
    not ended, but its state (storage/format/states.py) allows neither. A unit whose lease has ended by the entry's time
    (storage/query/lease_end.py) is ready again, hence FREE.
    """
    states = standing.states
    found: U8 = _VERDICTS[states.state]
    found[lease_runs(store, states, envelope)] = LEASED
    rows = (IS_OPEN[states.state] & (wanted > 0)).nonzero()[0]
    if len(rows):
        other = revisions(store.records(standing.place[rows])) != wanted[rows]
        found[rows[other]] = MISMATCH
    return found
