"""The other way: no stubs. Each subscription has a table of states of its own, over the units of the messages.

The settle records stand in the hour's file as today, at the message's own unit, with the number of the subscription.
`previous` leads to the record before of the same unit and subscription.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.spike.command import Acks, FanOut, Leases
from bench.spike.stubs import FANNED, REVISION, ends_by_home
from replication.apply.applying import Applying
from replication.apply.message.attempt_order import fence, first_of_each
from replication.apply.message.settle import ACKED, STALE
from storage.format.array import U8, U16, U64
from storage.format.batches import SettleBatch, StateColumns
from storage.format.chain import run_edges
from storage.format.position import hours_of, indexes_of
from storage.format.rows import SETTLE, Settles, Units, seal
from storage.format.states import DELIVERED, IS_OPEN, IS_PENDING, LEASED
from storage.state.unit_states import States
from storage.store import Store


class SubscriptionView:
    """A store as one subscription sees it, for the hand-over. `states` are those of the units for this subscription."""

    def __init__(self, store: Store, states: States) -> None:
        self._store, self._states = store, states

    def states(self, positions: U64) -> StateColumns:
        """States of the units, in order."""
        return self._states.at(indexes_of(positions))

    def units(self, positions: U64) -> Units:
        """Units of the index, in order."""
        return self._store.units(positions)


class Progress:
    """The states of the units of one hour, by subscription."""

    def __init__(self, count: int) -> None:
        self.states = [States() for _ in range(count)]
        self.left: U64 = np.zeros(1024, np.uint64)
        """The mask of each unit: subscriptions that have not ended with it. It follows from the settle records."""

    def fan_out(self, applying: Applying, command: FanOut) -> U64 | None:
        """Write one record for each message: the mask of its subscriptions. Return the messages, None if the command
        is void."""
        rows = IS_PENDING[applying.store.states(command.home).state].nonzero()[0]
        if command.revision != REVISION or not len(rows):
            return None
        envelope, mask = applying.envelope, command.mask[rows].view(np.int64)
        batch = SettleBatch.of(command.home[rows], what=FANNED, at_ms=envelope.now_ms, when=mask, node=envelope.node)
        applying.store.settle(batch)
        index = indexes_of(command.home[rows])
        if (units := int(index.max()) + 1) > len(self.left):
            self.left = np.concatenate([self.left, np.zeros(max(units, len(self.left)), np.uint64)])
        self.left[index] = command.mask[rows]
        return command.home[rows]

    def leases(self, applying: Applying, command: Leases) -> U8:
        """Record hand-overs, by the same conditions as for units of today."""
        effective = np.zeros(len(command.position), np.bool_)
        term = np.full(len(command.position), applying.envelope.term, np.uint32)
        for number, part in _by_subscription(command.subscription):
            states = self.states[number].at(indexes_of(command.position[part]))
            newer = fence(term[part], command.attempt[part]) > fence(states.term, states.attempt)
            effective[part] = IS_OPEN[states.state] & newer & first_of_each(command.position[part])
        rows = effective.nonzero()[0]
        made = _rows(applying, command.position[rows], command.subscription[rows], command.attempt[rows], term[rows])
        made["what"], made["when"] = LEASED, command.lease_end_ms[rows]
        made["at_ms"] = command.handed_over_ms[rows]
        self._enter(applying.store, command.position[rows], made)
        applying.told.leased(command.position[rows], command.attempt[rows], command.lease_end_ms[rows])
        return effective.astype(np.uint8)

    def acks(self, applying: Applying, command: Acks) -> U8:
        """End these hand-overs. Each end clears its bit of the message's mask, and the last one settles the message."""
        taken = np.zeros(len(command.position), np.bool_)
        claim = fence(command.term, command.attempt)
        for number, part in _by_subscription(command.subscription):
            states = self.states[number].at(indexes_of(command.position[part]))
            newest = claim[part] >= fence(states.term, states.attempt)
            taken[part] = IS_OPEN[states.state] & newest & first_of_each(command.position[part])
        rows = taken.nonzero()[0]
        position, subscription = command.position[rows], command.subscription[rows]
        made = _rows(applying, position, subscription, command.attempt[rows], command.term[rows])
        made["what"], made["at_ms"] = DELIVERED, applying.envelope.now_ms
        self._enter(applying.store, position, made)
        self._settle(applying, position, subscription)
        return np.where(taken, np.uint8(ACKED), np.uint8(STALE))

    def _settle(self, applying: Applying, position: U64, subscription: U16) -> None:
        """Settle messages that all their subscriptions have ended with. An end before the last one writes no mask: it
        is the mask of the fan-out, without the bits that have ended since."""
        home, _, ended = ends_by_home(position, subscription)
        index = indexes_of(home)
        self.left[index] &= ~ended
        done = home[self.left[index] == 0]
        if len(done):
            applying.store.settle(SettleBatch.of(done, what=DELIVERED, at_ms=applying.envelope.now_ms))
            applying.told.settled(done)

    def _enter(self, store: Store, position: U64, rows: Settles) -> None:
        """Put rows, which are grouped by subscription, behind the hour's settle records."""
        if not len(rows):
            return
        hour = store.hour(int(hours_of(position[:1])[0]))
        assert hour is not None
        store.catalog.written.rows(position, rows)
        for number, part in _by_subscription(rows["subscription"]):
            self.states[number].enter(rows[part], hour.settles + part.start)
        seal(rows)
        hour.files.settle.write_rows(rows, hour.settles)
        hour.settles = hour.saved_settles = hour.settles + len(rows)


def _by_subscription(numbers: npt.NDArray[Any]) -> list[tuple[int, slice]]:
    """The runs of equal numbers, as they come."""
    edges = run_edges(numbers.astype(np.int64)).tolist() if len(numbers) else [0]
    pairs = itertools.pairwise(edges)
    return [(int(numbers[first]), slice(first, end)) for first, end in pairs]


def _rows(applying: Applying, position: U64, subscription: U16, attempt: U16, term: npt.NDArray[np.uint32]) -> Settles:
    rows = np.zeros(len(position), SETTLE)
    rows["global_index"] = indexes_of(position)
    rows["subscription"], rows["attempt"], rows["term"] = subscription, attempt, term
    rows["node"] = applying.envelope.node
    return rows
