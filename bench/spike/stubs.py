"""Fan-out by stubs: a unit of its own for each subscription, and a mask at the message's home.

```
home    pending --> fanned: first stub; fanned: mask 11 --> fanned: mask 10 ------------> delivered
stub 0                pending --> leased --> delivered
stub 1                pending --> leased ------------------------------> delivered
```
The state `fanned` is not in the registry. `forwarded` stands for it, because the states keep its `when` in memory.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from bench.spike.command import Acks, FanOut
from replication.apply.apply_notifier import Fresh
from replication.apply.applying import Applying
from replication.apply.message.attempt_order import fence, rounds
from replication.apply.message.settle import ACKED, STALE
from replication.command.column import Rows
from storage.format.array import U8, U32, U64
from storage.format.batches import SettleBatch, UnitBatch
from storage.format.chain import run_edges
from storage.format.position import HOUR_MS, hours_of, indexes_of
from storage.format.rows import Units, take_rows
from storage.format.states import DELIVERED, FORWARDED, IS_OPEN, IS_PENDING, IS_SETTLED
from storage.record.record import HEADER, RECORD_HEADER_SIZE, RECORD_VERSION, patch
from storage.store import Store

FANNED: Final = FORWARDED
KIND_STUB: Final = 2
SUBSCRIPTION_BIT: Final = 6
"""The lowest of the unit's flag bits that hold the number of the subscription."""
REVISION: Final = 1


class Parents(NamedTuple):
    """The units and record headers of messages that are to be fanned out, [n] each."""

    units: Units
    headers: Units


class Stubs:
    """Applies fan-outs and acks of stubs. `topics` are the numbers of topics that stand for the subscriptions: the
    windows of today tell units apart by topic alone."""

    def __init__(self, topics: U32) -> None:
        self._topics = topics

    def parents(self, store: Store, home: U64) -> Parents:
        """Read the messages that are about to be fanned out."""
        units = store.units(home)
        hour = store.hour(int(units["due_ms"][0]) // HOUR_MS)
        assert hour is not None
        return Parents(units, hour.header_rows(indexes_of(home)))

    def records(self, headers: Units) -> Units:
        """The smallest record that the store takes, for each stub: the parent's random bits and due time, no body."""
        count = len(self._topics)
        made = np.zeros(len(headers) * count, HEADER)
        made["size"], made["version"], made["kind"] = RECORD_HEADER_SIZE, RECORD_VERSION, KIND_STUB
        for name in ("random", "asked_due_ms", "expiry_ms", "priority"):
            made[name] = headers[name].repeat(count)
        return made

    def patched(self, headers: Units, position: U64) -> None:
        """Do the part of an append that stubs without records would not need, for a measurement. Nothing is kept."""
        count = len(self._topics)
        patch(
            self.records(headers).view(np.uint64),
            np.full(len(position), RECORD_HEADER_SIZE, np.uint32),
            group=0,
            hour=hours_of(position),
            global_index=indexes_of(position),
            topic=self._topics[np.tile(np.arange(count), len(headers))],
            created_ms=0,
            homes=position,
        )

    def fan_out(self, applying: Applying, command: FanOut) -> Fresh | None:
        """Append the stubs of each message behind each other, and write two records at its home: the first stub, then
        the mask. Return the stubs, None if the command is void."""
        store, envelope = applying.store, applying.envelope
        rows = IS_PENDING[store.states(command.home).state].nonzero()[0]
        if command.revision != REVISION or not len(rows):
            return None
        home, count = command.home[rows], len(self._topics)
        units, headers = self.parents(store, home)
        again = take_rows(units, np.arange(len(home)).repeat(count))
        number = np.tile(np.arange(count, dtype=np.uint32), len(home))
        batch = UnitBatch(
            due_ms=np.maximum(again["due_ms"], applying.dispatched.floor_ms),
            size=np.full(len(again), RECORD_HEADER_SIZE, np.uint32),
            topic=self._topics[number],
            tags=again["tags"],
            kind=np.full(len(again), KIND_STUB, np.uint8),
            priority=again["priority"],
            attempt=np.zeros(len(again), np.uint16),
            flags=again["flags"] | number << np.uint32(SUBSCRIPTION_BIT),
            records=self.records(headers).view(np.uint8),
            created_ms=headers["created_ms"].repeat(count),
            homes=home.repeat(count),
        )
        position = store.append(batch)
        store.settle(
            SettleBatch.of(
                np.concatenate([home, home]),
                what=FANNED,
                at_ms=envelope.now_ms,
                when=np.concatenate([position[::count], command.mask[rows]]).view(np.int64),
                node=envelope.node,
            )
        )
        return Fresh(position, batch.due_ms, batch.topic, batch.tags, batch.priority)

    def acks(self, applying: Applying, command: Acks) -> U8:
        """End the stubs of these hand-overs. Each end clears its bit at home, and the last one settles the message."""
        store = applying.store
        claim = fence(command.term, command.attempt)
        result = np.full(len(claim), STALE, np.uint8)
        for turn in rounds(command.position, claim):
            position = command.position[turn.rows]
            states = store.states(position)
            newest = fence(states.term, states.attempt)
            taken = turn.rows[IS_OPEN[states.state] & (claim[turn.rows] >= newest)]
            result[taken] = ACKED
            result[turn.repeats] = result[turn.repeated]
            if len(taken):
                self._end(applying, command, taken)
                applying.told.settled(command.position[taken])
        return result

    def _end(self, applying: Applying, command: Acks, rows: Rows) -> None:
        """Write the ends of stubs, and for each of their messages one record with the mask that is left."""
        store, position = applying.store, command.position[rows]
        home, of_each, ended = ends_by_home(store.homes(position), command.subscription[rows])
        left: U64 = store.locate(home) & ~ended  # of a fanned unit `when` is the mask
        what = np.full(len(rows) + len(home), DELIVERED, np.uint8)
        what[len(rows) :][left > 0] = FANNED
        column = np.concatenate([np.arange(len(rows)), of_each])
        store.settle(
            SettleBatch.of(
                np.concatenate([position, home]),
                what=what,
                at_ms=applying.envelope.now_ms,
                when=np.concatenate([np.zeros(len(rows), np.int64), left.view(np.int64)]),
                term=command.term[rows][column],
                attempt=command.attempt[rows][column],
                node=applying.envelope.node,
                subscription=command.subscription[rows][column],
            )
        )


class StubsLookedUp(Stubs):
    """As Stubs, but an end before the last one writes nothing at home. The states of all stubs of a message say if it
    has ended. The first stub of a message stands before this one by the number of lower bits in the mask."""

    def _end(self, applying: Applying, command: Acks, rows: Rows) -> None:
        """Write the ends of stubs, and the ends of messages whose stubs have all ended."""
        store, position, count = applying.store, command.position[rows], len(self._topics)
        common = {"what": DELIVERED, "at_ms": applying.envelope.now_ms, "node": applying.envelope.node}
        term, attempt, number = command.term[rows], command.attempt[rows], command.subscription[rows]
        store.settle(SettleBatch.of(position, term=term, attempt=attempt, subscription=number, **common))
        home, of_each, _ = ends_by_home(store.homes(position), number)
        assert (store.locate(home) == np.uint64((1 << count) - 1)).all(), "a mask without a bit"
        first: U64 = position[of_each] - number[of_each].astype(np.uint64)
        siblings: U64 = np.add(first[:, None], np.arange(count, dtype=np.uint64)).ravel()
        ended = IS_SETTLED[store.state_only(siblings)].reshape(-1, count).all(1)
        if ended.any():
            of = of_each[ended]
            ends = SettleBatch.of(home[ended], term=term[of], attempt=attempt[of], subscription=number[of], **common)
            store.settle(ends)


def ends_by_home(homes: U64, subscription: np.ndarray[tuple[int], np.dtype[np.uint16]]) -> tuple[U64, Rows, U64]:
    """Return each of the homes once, a row that names it, and the bits of its subscriptions that ended."""
    order = homes.argsort(kind="stable")
    ranked = homes[order]
    starts = run_edges(ranked.view(np.int64))[:-1]
    bits = np.uint64(1) << subscription[order].astype(np.uint64)
    return ranked[starts], order[starts], np.bitwise_or.reduceat(bits, starts)
