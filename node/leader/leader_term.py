"""A term of this node as leader: its dispatcher, the loop that drives it, and all that waits for it.

It begins when the no-op of the term is applied, and ends at once when leadership is lost. Nothing of it survives into
another term. The loop does all that is due and sleeps until the time that the dispatcher named. New units, committed
Leases, released holds and changed topics wake it earlier: they poke it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import structlog

from api.port.leadership import OpenHandOvers, TakeoverView
from api.port.problem import Problem
from node.handover.command_holds import CommandHolds
from node.handover.lease_book import HandOver
from node.leader.leader_parts import LeaderParts
from node.leader.promotion import Promoted
from node.leader.service import NEVER_MS, RuleFactory, ServiceFactory, Services
from node.leader.takeover import Takeover
from node.leader.term_record import TermRecord
from node.port.pull_port import Deliveries, Gone, PullAsked
from node.port.receipt import Receipts
from node.pull.pulling import Pulling
from node.runtime.step_alarm import StepAlarm
from node.settle.attempt_policy import Attempts
from node.settle.move_size import move_weights
from node.write.leader_commands import LeaderCommands
from replication.apply.message.settle import ACKED
from replication.command.dispatch import Realign
from replication.command.handover import DEAD, Fail
from storage.format.array import I64, U8, U16, U32, U64, Mask
from storage.format.level import has
from storage.format.position import HOUR_MS
from storage.record.record import Record
from storage.tables.topic import subscription_of
from storage.wheel.slot import DueUnits
from storage.wheel.slot_read import SlotRead

log = structlog.get_logger()

#: How soon to look again when a hand-over was refused for lack of trust: sooner than a heartbeat.
TRUST_RETRY_MS = 20
#: A request waits at most so long for a leader that lacks trust. The leader steps down before that if trust stays away.
SURE_S = 1.0
#: A due slot of at most so many units is read on the loop, which takes 0.25 us each. To send ten such slots to a thread
#: at once would cost more.
INLINE_ROWS = 10_000


class LeaderTerm:
    """One term of this node as leader (see Term). Make it on the loop when this node is established as leader."""

    def __init__(
        self,
        parts: LeaderParts,
        term: int,
        record: TermRecord,
        promotion: Promoted,
        rules: Sequence[RuleFactory],
        services: Sequence[ServiceFactory],
    ) -> None:
        genesis = parts.store.catalog.genesis
        assert genesis is not None, "a term as leader begins after genesis"
        self._parts = parts
        store, clock, life, proposer = parts.store, parts.clock, parts.life, parts.proposer
        self._store, self._clock, self._life, self._proposer = store, clock, life, proposer
        self._push_feed, self._leadership = parts.push_feed, parts.leadership
        self.term = term
        self.promoted_ms = clock.now_ms()
        self._record, self._promotion = record, promotion
        self.receipts = Receipts(genesis.secret, lambda: has(parts.machine.level, "receipt-namespace"), store.group)
        self._loop = asyncio.get_running_loop()
        self._steps = StepAlarm(clock, self._step, life.fatal)
        self._readers: list[asyncio.Future[None]] = []
        self._leased_waits: dict[int, asyncio.Future[None]] = {}  # pulls, by the number of their strict hand-over
        self._over = False
        self._unsure: list[asyncio.Future[None]] = []
        self._moved = False
        self._attempts = Attempts(store, clock, parts.entropy)
        self.takeover = Takeover(term, clock.monotonic())
        self.dispatcher = parts.dispatcher(term, self._attempts, [make(parts) for make in rules])
        self.handing_over = self.dispatcher.handing_over
        self.pulling = Pulling(self, store, clock, parts.delivery_log, parts.counters, parts.topic_metrics)
        self.holding = CommandHolds(proposer, life, self.handing_over, poke=self.poke, over=lambda: self._over)
        self._services = Services([make(parts, self.dispatcher) for make in services])
        self._realign = self.dispatcher.promote(self.promoted_ms, parts.machine.tick)
        parts.machine.told.listener, parts.machine.told.on_applied = self, self._services.applied
        proposer.riders = self

    def trusted(self) -> bool:
        """See Term."""
        trusted = self._parts.group.trusted(self._clock.monotonic())
        return not self._over and not self._leadership.frozen and trusted

    async def sure(self) -> None:
        """Wait for trust while this node leads and lacks it, at most SURE_S. The wait also ends when the followers'
        echoes bring trust, or when the term ends."""
        if self._over or self._leadership.frozen or self.trusted():
            return
        sure = self._loop.create_future()
        self._unsure.append(sure)
        with suppress(TimeoutError):
            await asyncio.wait_for(sure, SURE_S)

    def trust_returned(self) -> None:
        """Wake the requests that wait in `sure`, because this node has trust again or the term is over."""
        waiting, self._unsure = self._unsure, []
        for sure in waiting:
            if not sure.done():
                sure.set_result(None)

    @property
    def over(self) -> bool:
        """True if leadership is lost."""
        return self._over

    async def pull(self, asked: PullAsked, gone: Gone) -> Deliveries:
        """See Pulling.pull."""
        return await self.pulling.pull(asked, gone)

    async def account(self, told: OpenHandOvers) -> TakeoverView:
        """See Takeover.account."""
        return await self.takeover.account(told, self._parts.node_id, self._clock, lambda: self._over)

    def newest_hand_overs(self) -> tuple[U64, I64]:
        """See Takeover.newest."""
        return self.takeover.newest()

    # -- the loop

    def begin(self) -> None:
        """Start the loop: do all that is due, then sleep, again and again until `end`. Raises DiskFailed."""
        self._record.begin(self.promoted_ms)
        if self._realign is None:
            self.poke()
        else:
            self._life.spawn(self._set_back(self._realign))
        self.level_rose()
        self._push_feed.begin(self)
        self._services.begin(self)
        last_hour = max(self.promoted_ms // HOUR_MS, self._parts.machine.tick // 3600) + 1
        self.takeover.begin(self._store.open_hours(last=last_hour))
        self._loop.call_soon(self._carry)  # behind the first step: it takes milliseconds, and nothing waits for it

    def level_rose(self) -> None:
        """See Term."""
        self._record.level_rose()
        self._life.spawn(self._promotion.say(lambda: self._over))

    def _carry(self) -> None:
        """Note a piece of the running leases that former leaders left, and call this again until all are noted."""
        if self._over:
            return
        try:
            if self.takeover.carrying:
                self.takeover.carry(self._store, self.promoted_ms)
        except Exception as error:
            self._life.fatal(error)
            return
        if self.takeover.carrying:
            self._loop.call_soon(self._carry)
        self._look_ready()

    def _look_ready(self) -> None:
        """Note the time from which due units can be handed over in this term, once that time has come."""
        takeover = self.takeover
        if takeover.ready_s is None and self.trusted() and self.dispatcher.level(self._clock.now_ms()):
            takeover.ready_s = self._clock.monotonic()
            log.info("hands over", term=self.term, after_ms=round((takeover.ready_s - takeover.begun_s) * 1000, 1))
        if takeover.ready_s is not None and not takeover.carrying:
            self.takeover.ready.set()

    async def _set_back(self, realign: Realign) -> None:
        done = False
        while not done and not self._over:
            with suppress(Problem):  # the outcome is unknown, and a second Realign in the same term does no harm
                await self._proposer.propose_single(realign)
                done = True
        if done:
            self.dispatcher.realigned(self._clock.now_ms())
        self.poke()

    def poke(self) -> None:
        """See Term."""
        self._steps.poke()

    def poke_by(self, at_ms: int) -> None:
        """See Term."""
        self._steps.by(at_ms)

    def _step(self) -> int | None:
        """Take one step of the dispatcher and of the services, and wake pulls and the proposer. Return when the next
        step is due (ms), or None if it is not due before a poke."""
        now_ms = self._clock.now_ms()
        wait_ms = self.dispatcher.step(now_ms)
        if not self.takeover.ready.is_set():
            self._look_ready()
        self._push_feed.turn(now_ms)
        wake_ms = self._services.step(now_ms)
        self._read_slots(now_ms)
        waits = [] if wait_ms is None else [wait_ms]
        if wake_ms < NEVER_MS:
            waits.append(max(0, wake_ms - now_ms))
        due_ms = self.dispatcher.entry_due_ms()
        if due_ms is not None:
            if due_ms <= now_ms:
                self._proposer.kick()
            else:
                waits.append(due_ms - now_ms)
        if self.pulling.wake():
            waits.append(TRUST_RETRY_MS)
        self._fail_exhausted()
        return now_ms + min(waits) if waits else None

    def _read_slots(self, now_ms: int) -> None:
        """Begin to read the slots that are due next, in threads: a slot of a million units must not stop the loop."""
        for tick in self.dispatcher.loads(now_ms):
            read = self._store.slot_read(tick)
            if read is None:
                self.dispatcher.loaded(tick, DueUnits.empty())
            elif tick <= now_ms // 1000 and read.quick(INLINE_ROWS):  # it is due: a new leader's first second
                self.dispatcher.loaded(tick, read.run())
                self.poke()
            else:
                self._life.spawn(self._read_slot(tick, read))

    async def _read_slot(self, tick: int, read: SlotRead) -> None:
        slot = await asyncio.to_thread(read.run)
        if not self._over:
            self.dispatcher.loaded(tick, slot)
            self.poke()

    def raise_if_over(self) -> None:
        """Raise `no-leader` if the term is over. A caller that waited asks this before it goes on. The next leader,
        which may be this node again, knows nothing of the units held in this term."""
        if self._over:
            raise Problem("no-leader", "the leader changed during the wait; ask again")

    def doubts(self, homes: U64, places: U64, records: Sequence[Record]) -> Mask:
        """See Term."""
        return self._promotion.doubts(homes, places, records)

    # -- failed hand-overs

    def fail(self, fail: Fail) -> asyncio.Future[U8]:
        """Propose the fates of failed hand-overs (Proposer.fail). Their units are held until the result is known."""
        result = self._propose(fail, ("failed", "dead"))
        self.holding.until(fail.position.tolist(), result)
        return result

    def give_up(self, fail: Fail) -> asyncio.Future[U8]:
        """See Term."""
        return self._propose(fail, ("dead",))

    def _fail_exhausted(self) -> None:
        """Give up the units that are over their limit of attempts. They are held already, until the result."""
        for exhausted in self.handing_over.take_exhausted():
            result = self._propose(self._attempts.give_up(exhausted), ("dead",))
            self.holding.released_by(exhausted.position.tolist(), result)

    def _propose(self, fail: Fail, columns: tuple[str, ...]) -> asyncio.Future[U8]:
        result = self._proposer.fail(fail, int(move_weights(self._store, fail.position).sum()))
        result.add_done_callback(partial(self._count_failed, fail, columns))
        return result

    def _count_failed(self, fail: Fail, columns: tuple[str, ...], result: asyncio.Future[U8]) -> None:
        """Count the rows of a Fail that took effect, by topic: all in column `failed`, those whose message died in
        `dead`."""
        if result.cancelled() or result.exception() is not None:
            return
        rows = result.result() == ACKED
        topic = self._store.units(fail.position[rows])["topic"]
        for column in columns:
            self._parts.topic_metrics.add(column, topic if column == "failed" else topic[fail.fate[rows] == DEAD])

    # -- readers

    async def recorded(self, position: int) -> None:
        """Wait until the settle records show every hand-over of this unit that was made, and none that was taken back.
        So a reader sees the hand-over that a consumer has, and a cancel does not see one that will not be made. Raises
        `no-leader` when the term ends meanwhile."""
        while self.handing_over.unrecorded(position):
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._readers.append(waiter)
            await waiter
            self.raise_if_over()

    def _wake_readers(self) -> None:
        readers, self._readers = self._readers, []
        for reader in readers:
            self._resolve(reader)

    async def leased(self, hand_over: HandOver) -> None:
        """Wait until the Lease of a strict hand-over is applied. Raises `no-leader` when the term ends meanwhile."""
        waiter = self._leased_waits[hand_over.strict] = self._loop.create_future()
        try:
            await waiter
        finally:
            self._leased_waits.pop(hand_over.strict, None)
        self.raise_if_over()

    def _resolve(self, waiter: asyncio.Future[None] | None) -> None:
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # -- calls of the proposer (node.write.proposer.LeaderCommandSource)

    def collect(self, now_ms: int, *, going: bool) -> LeaderCommands:
        """Return the dispatcher's commands for an entry. While leadership is about to be given away no hand-over begins
        here, and leases ahead are taken back: the last entries have their Releases."""
        if self._leadership.frozen:
            self.handing_over.strict.withdraw_all()
            self._push_feed.unplan()
        riding = self.dispatcher.collect(now_ms, going=going)
        for lease in (riding.lease, riding.planned):
            if lease is not None:
                self.takeover.leases(self._store, lease.position, self.promoted_ms)
                self.takeover.handed_over(lease, self._clock.monotonic())
        return riding

    def committed(self) -> None:
        """Note that the entry with the oldest collected Leases is applied. If its outcome was unknown for a time, this
        call may come long after `on_leased`. So it also wakes the loop and the readers that wait in `recorded`."""
        for hand_over in self.dispatcher.committed():
            if hand_over.planned:
                self._push_feed.leased(hand_over)
            else:
                self._resolve(self._leased_waits.pop(hand_over.strict, None))
        self._wake_readers()
        self.poke()

    def returned(self) -> None:
        """Note that the entry with the Leases collected last was not proposed."""
        self.dispatcher.returned()

    # -- calls of the state machine for what it applied (replication/apply/machine.py: Listener)

    def on_units(self, due_ms: I64, position: U64, topic: U32, tags: U64, priority: U8, applied_index: int) -> None:
        """Take new units. If they are moved messages and not new ones, `on_moved` was called just before."""
        if not self._moved:
            self._parts.topic_metrics.add("scheduled", topic)
        self._moved = False
        self.dispatcher.on_units(due_ms, position, topic, tags, priority, applied_index)
        self.poke()

    def on_leased(self, position: U64, attempt: U16, lease_end_ms: I64) -> None:
        """Note hand-overs whose Lease took effect."""
        self.dispatcher.on_leased(position, attempt, lease_end_ms)
        self.poke()

    def on_released(self, position: U64) -> None:
        """Note units whose lease was taken back."""
        self._parts.counters.released += len(position)
        self.takeover.released(position)
        self.dispatcher.on_released(position)
        self.poke()

    def on_moved(self, home: U64, old: U64, position: U64) -> None:
        """Note messages that stand at `position` from now on and stood at `old` before."""
        self._moved = len(position) > 0
        self.dispatcher.on_moved(home, old, position)

    def on_settled(self, position: U64) -> None:
        """Note units that ended."""
        self.dispatcher.on_settled(position)
        if self.handing_over.staged.has_ended:  # other units may be staged in their place
            self.poke()

    def on_topic(self, number: int, settings: dict[str, Any]) -> None:
        """Note that a topic was created or deleted, or its settings changed."""
        self.dispatcher.on_topic(number, settings)
        self._push_feed.on_topic(number)
        topic = self._store.catalog.topic_by_number(number)
        if topic is None:
            self.pulling.drop(subscription_of(number))
        else:
            self.pulling.created(topic.name)
        self.poke()

    def end(self) -> None:
        """Stop at once, because leadership is lost. Waiting pulls get `no-leader`. A node that has failed writes no end
        of the term, as if it had been killed."""
        self._over = True
        self.trust_returned()
        self._services.end()
        self._push_feed.end()
        self._steps.end()
        self.dispatcher.stop()
        self._parts.machine.told.listener = self._parts.machine.told.on_applied = None
        self._wake_readers()
        self.takeover.ready.set()
        self.pulling.end()
        if not self._life.failed:
            self._record.end()
