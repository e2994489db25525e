"""Leaders that hand messages out in three ways: as today, by stubs, and by a table of states for each subscription.

Each measures its own stages. Times are the processor time of this process, as in bench/stages.py.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from api.routes.pull import render_pull
from bench.client.load import BODY
from bench.spike.command import ACKS, FAN_OUT, Acks, FanOut
from bench.spike.stubs import Stubs, StubsLookedUp
from bench.stages import LEASE_MS, NOW_MS, SECRET, TERM, Leader, Times
from node.front.delivered import make_deliveries
from node.handover.lease_book import HandOver
from node.port.receipt import ReceiptColumns, Receipts
from node.pull.delivery import deliveries_of
from node.ready.topic_window import LaneKind, Queued
from replication.apply.machine import Applied
from replication.apply.registry import COMMANDS, CommandRow
from replication.command.entry import Command, encode_entry
from replication.command.handover import Settle
from replication.command.level import RaiseLevel
from replication.command.schedule import Schedule
from storage.format.array import I64, U32, U64
from storage.format.level import LEVELS
from storage.format.position import HOUR_MS
from storage.format.rows import Units
from storage.record.record import Drafts, encode_records
from storage.tables.topic import subscription_of

DUE_A_MS: Final = 10
"""Messages that become due in a millisecond: 10,000 a second."""
BASE_MS: Final = NOW_MS + 2_000
BATCH: Final = 1_000
PARENTS: Final = "fan"
STATE_BYTES: Final = 19
HOME_BYTES: Final = 16

TO_WINDOW = "find the parents: wheel, window"
FAN_ENTRY, FAN_APPLY = "fan-out: entry", "fan-out: apply"
TO_WHEEL, TO_WINDOWS = "stubs into the wheel", "into the windows of the subscriptions"
TAKEN = "hand over"
READ, MADE, SHOWN = "read records", "ids and receipts", "render the pulls"
LEASE_ENTRY, LEASE_APPLY, COMMITTED = "leases: entry", "leases: apply", "leases committed"
RECEIPTS, ACK_ENTRY, ACK_APPLY = "read receipts", "acks: entry", "acks: apply"
OF_RECORDS, OF_MASK = "(a part: the records of stubs)", "(instead: masks from the settle file)"


class Handed(NamedTuple):
    """A hand-over to one subscription, as its consumers get it."""

    number: int
    receipts: list[str]


class Way:
    """As today: a message has one subscription and no fan-out."""

    def __init__(self, directory: Path, times: Times, subscriptions: int, lag: int) -> None:
        self.times, self.subscriptions, self.lag = times, subscriptions, lag
        self.leader = leader = Leader(directory)
        self.store = leader.store
        self.entry_bytes = 0
        for level in range(2, LEVELS[1] + 1):
            raised = RaiseLevel(level, self.store.catalog.members.index).pack()
            leader.apply(encode_entry(group=0, term=TERM, node=1, now_ms=NOW_MS, sections=[raised], version=level))
        names = [PARENTS, *(f"fan-{number}" for number in range(subscriptions))]
        for name in names:
            self._schedule(name, np.full(1, NOW_MS + HOUR_MS), 0)
        numbers = [topic.number for topic in map(self.store.catalog.topic, names) if topic is not None]
        self.parents = subscription_of(numbers[0])
        self.topics: U32 = np.array(numbers[1:], np.uint32)
        self._receipts = Receipts(SECRET, lambda: True)
        self._turns: deque[list[Handed]] = deque()

    def _schedule(self, topic: str, due_ms: I64, seed: int) -> U64:
        rows = len(due_ms)
        random = np.random.default_rng(seed).integers(0, 1 << 50, rows, dtype=np.uint64)
        records = encode_records(Drafts([b'"%s"' % BODY.encode()] * rows, due_ms, random))
        none, no_tags = np.zeros(rows, np.uint16), np.empty(0, np.uint64)
        command = Schedule((topic,), due_ms, records.size, records.blob, none, no_tags, ())
        positions: U64 = self.leader.propose(NOW_MS, command).results[0].position
        return positions

    def schedule(self, count: int) -> U64:
        """Schedule the messages. Return their positions."""
        due_ms: I64 = BASE_MS + np.arange(count) // DUE_A_MS
        parts = [self._schedule(PARENTS, due_ms[first : first + BATCH], first) for first in range(0, count, BATCH)]
        return np.concatenate(parts)

    def propose(self, now_ms: int, entry_stage: str, apply_stage: str, *commands: Command) -> Applied:
        """Make an entry of these commands and apply it. Measure each of the two."""
        with self.times.stage(entry_stage):
            entry = self.leader.entry(now_ms, *commands)
        self.entry_bytes += len(entry)
        with self.times.stage(apply_stage):
            applied = self.leader.apply(entry)
        assert applied.refused is None, applied.refused
        return applied

    def turn(self, now_ms: int) -> None:
        """Hand over the messages that have become due, and ack hand-overs."""
        rows = self.times.rows
        self.bring(now_ms)
        with self.times.stage(TAKEN):
            taken = self.take(now_ms)
        assert all(len(each) == rows for each in taken), [len(each) for each in taken]
        self._turns.append(self._answered(taken))
        self.lease(now_ms, taken)
        self.ack(now_ms)

    def finish(self, now_ms: int) -> None:
        """Ack the hand-overs that are left."""
        self.times = Times(self.times.rows)  # the last entries are smaller, so they are not measured
        for _ in range((self.subscriptions - 1) * self.lag):
            self._turns.append([])
            self.ack(now_ms)

    def bring(self, now_ms: int) -> None:
        """Bring what is due into the windows."""
        with self.times.stage(TO_WINDOWS):
            self.leader.step(now_ms)

    def take(self, now_ms: int) -> list[HandOver]:
        """Hand over what is due, to each subscription."""
        hand_over = self.leader.dispatcher.handing_over.hand_over
        return [hand_over(self.parents, self.times.rows, LEASE_MS, now_ms, trusted=True)]

    def bodies_of(self, made: HandOver) -> tuple[U64, Units | None]:
        """The positions of the records that have the bodies, and their units if these were read."""
        return made.position, made.units

    def _answered(self, taken: list[HandOver]) -> list[Handed]:
        """Make the answers to one pull of each subscription."""
        with self.times.stage(READ):
            records = [self.store.record_rows(*self.bodies_of(made)) for made in taken]
        with self.times.stage(MADE):
            parts = [deliveries_of(made, its, TERM) for made, its in zip(taken, records, strict=True)]
            deliveries = [make_deliveries(part, self.store.group, PARENTS, self._receipts) for part in parts]
        with self.times.stage(SHOWN):
            for each in deliveries:
                render_pull(each)
        return [Handed(number, [each.receipt for each in one]) for number, one in enumerate(deliveries)]

    def lease(self, now_ms: int, taken: list[HandOver]) -> None:
        """Write the Leases, and the dispatch state with them."""
        commands = self.leader.dispatcher.collect(now_ms).commands()
        self.propose(now_ms, LEASE_ENTRY, LEASE_APPLY, *commands)
        with self.times.stage(COMMITTED):
            self.leader.dispatcher.committed()

    def ack(self, now_ms: int) -> None:
        """Ack one hand-over of each subscription: of this turn, or `lag` turns earlier for each next subscription."""
        turns = enumerate(reversed(self._turns))
        acked = [each for ago, turn in turns for each in turn if each.number * self.lag == ago]
        if len(self._turns) > (self.subscriptions - 1) * self.lag:
            self._turns.popleft()
        if not acked:
            return
        acked.sort(key=lambda each: each.number)
        with self.times.stage(RECEIPTS):
            named = [ReceiptColumns.of(self._receipts.read(each.receipts)[1]) for each in acked]
        numbers = np.array([each.number for each in acked], np.uint16).repeat([len(each.receipts) for each in acked])
        position, term, attempt = (
            np.concatenate([getattr(each, name) for each in named]) for name in ("position", "term", "attempt")
        )
        command = self.acks(Acks(position, numbers, term, attempt))
        result = self.propose(now_ms, ACK_ENTRY, ACK_APPLY, command).results[0]
        assert not result.any(), "an ack had no effect"

    def acks(self, acks: Acks) -> Command:
        """The command of these acks."""
        return Settle(acks.position, acks.term, acks.attempt, np.zeros(len(acks.position), np.uint16))

    def state_bytes(self) -> int:
        """Memory of the states of the hour's units, and of the homes of units that stand for a message born at another
        position."""
        found = self.store.hour(NOW_MS // HOUR_MS)
        return 0 if found is None else found.states_units * STATE_BYTES + found.moved * HOME_BYTES


class FannedOut(Way):
    """The part that both ways of a fan-out share: due messages are found, and a command fans them out."""

    def fan_out(self, now_ms: int) -> tuple[Queued, Applied]:
        """Take due messages out of their window and propose their fan-out. Return them, still claimed."""
        with self.times.stage(TO_WINDOW):
            self.leader.step(now_ms)
            units = self.leader.dispatcher._ready.take(LaneKind.CURRENT, self.parents, self.times.rows)
        mask = np.full(len(units), (1 << self.subscriptions) - 1, np.uint64)
        return units, self.propose(now_ms, FAN_ENTRY, FAN_APPLY, FanOut(units.position, mask))

    def acks(self, acks: Acks) -> Command:
        """The command of these acks."""
        return acks


class ByStubs(FannedOut):
    """Fan-out by stubs. The dispatcher of today finds and hands over the stubs, which are units like others."""

    applies: type[Stubs] = Stubs

    def __init__(self, directory: Path, times: Times, subscriptions: int, lag: int) -> None:
        super().__init__(directory, times, subscriptions, lag)
        self._stubs = stubs = self.applies(self.topics)
        COMMANDS[FAN_OUT] = CommandRow(FAN_OUT, FanOut.unpack, stubs.fan_out)
        COMMANDS[ACKS] = CommandRow(ACKS, Acks.unpack, stubs.acks)

    def bring(self, now_ms: int) -> None:
        """Fan out what is due, and bring the stubs into the windows of their subscriptions."""
        units, applied = self.fan_out(now_ms)
        fresh, dispatcher = applied.results[0], self.leader.dispatcher
        with self.times.stage(TO_WHEEL):
            dispatcher._claims.free(units.position)
            dispatcher.on_units(
                fresh.due_ms, fresh.position, fresh.topic, fresh.tags, fresh.priority, applied_index=applied.index
            )
        with self.times.stage(TO_WINDOWS):
            self.leader.step(now_ms)
        headers = self._stubs.parents(self.store, units.position).headers
        with self.times.stage(OF_RECORDS):
            self._stubs.patched(headers, fresh.position)

    def take(self, now_ms: int) -> list[HandOver]:
        """Hand over the stubs that are due, to each subscription."""
        hand_over, rows = self.leader.dispatcher.handing_over.hand_over, self.times.rows
        topics = self.topics.tolist()
        return [hand_over(subscription_of(topic), rows, LEASE_MS, now_ms, trusted=True) for topic in topics]

    def bodies_of(self, made: HandOver) -> tuple[U64, Units | None]:
        """The records of the parents, which have the bodies."""
        return self.store.homes(made.position), None

    def acks(self, acks: Acks) -> Command:
        """The command of these acks. Beside it measure a look-up of their masks in the settle file: apply takes them
        from the states in memory."""
        home = np.unique(self.store.homes(acks.position))
        with self.times.stage(OF_MASK):
            self.store.newest(home)
        return acks


class ByStubsLookedUp(ByStubs):
    """Fan-out by stubs, without a record at home for each end."""

    applies = StubsLookedUp
