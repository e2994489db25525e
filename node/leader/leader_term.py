"""One term of this node as leader: its dispatcher, the loop that drives it, and all that waits for it.

A Reign begins when the no-op of the term is applied and ends, at once, when leadership is lost; nothing of it survives
into another term. The loop does all that is due and sleeps until the dispatcher's next time, or until it is poked: by
new units, committed Leases, released holds, changed topics.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from api.port.problem import Problem
from node.handover.command_holds import Holding
from node.handover.lease_book import HandOver
from node.leader.dispatcher import Dispatcher, DispatchOptions
from node.leader.promotion import Promoted
from node.leader.restored_overdue import CatchingUp
from node.leader.takeover import Takeover
from node.leader.term_record import TermRecord
from node.pull.pulling import Pulling
from node.receipt import Receipts
from node.runtime.steps import Steps
from node.settle.attempt_policy import Attempts
from node.settle.move_size import move_weights
from node.write.leader_commands import Riding
from replication.apply.settle import ACKED
from replication.command.handover import DEAD
from replication.command.registry import Fail, Realign
from storage.catalog.level import has
from storage.format.array import I64, U8, U16, U32, U64
from storage.format.position import HOUR_MS
from storage.format.record import Record
from storage.wheel.slot import SlotColumns
from storage.wheel.slot_read import SlotRead

if TYPE_CHECKING:
    from node.server import Node

log = structlog.get_logger()

#: How soon to look again when a hand-over was refused for lack of trust: less than a heartbeat.
TRUST_RETRY_MS = 20
#: A request waits so long for a leader that is not sure to lead. One that goes on so steps down sooner.
SURE_S = 1.0
#: A slot of so few units is read on the loop when it is due already: 0.25 us each, less than the way to a thread costs
#: where ten slots are read at once.
INLINE_ROWS = 10_000


class Reign:
    """Made on the loop when this node is established as leader; `begin` starts it, `end` ends it."""

    def __init__(self, node: Node, record: TermRecord) -> None:
        genesis = node.store.catalog.genesis
        assert genesis is not None, "a reign begins after genesis"
        options = node.config.dispatch
        self._node = node
        self.term = node.group.term
        self.promoted_ms = node.clock.now_ms()
        self.promotion = Promoted(node, self.term, founds=record.founds)
        self._record = record
        self.receipts = Receipts(genesis.secret, lambda: has(node.machine.level, "receipt-namespace"))
        self._loop = asyncio.get_running_loop()
        self._steps = Steps(node.clock, self._step, node.life.fatal)
        self._readers: list[asyncio.Future[None]] = []
        self._pledges: dict[int, asyncio.Future[None]] = {}  # by the number of a strict hand-over that is pulled
        self._over = False
        self._unsure: list[asyncio.Future[None]] = []
        self._moved = False
        self._attempts = Attempts(node.store, node.clock, node.entropy)
        self.takeover = Takeover(self.term, node.clock.monotonic())
        self.ready = asyncio.Event()  # something could be handed over, and what was carried over is counted
        self.dispatcher = Dispatcher(
            node.store,
            term=self.term,
            options=DispatchOptions(
                stop_ms=options.stop_ms,
                beat_ms=options.beat_ms,
                state_ms=options.state_ms,
                window_per_topic=options.window_per_topic,
                window_total=options.window_total,
                inline_reads=False,
            ),
            attempts=self._attempts,
        )
        self.handing_over = self.dispatcher.handing_over
        self.pulling = Pulling(self, node.store, node.clock, node.delivery_log, node.counters, node.topic_metrics)
        self.holding = Holding(node.proposer, node.life, self.handing_over, poke=self.poke, over=lambda: self._over)
        self._catching_up = CatchingUp(node, self, self.dispatcher)
        self._realign = self.dispatcher.promote(self.promoted_ms, node.machine.tick)
        node.machine.listener = self
        node.proposer.riders = self

    def trusted(self) -> bool:
        """Whether this node may act as leader at this moment, and is not about to give that away."""
        node = self._node
        return not self._over and not node.leadership.frozen and node.group.trusted(node.clock.monotonic())

    async def sure(self) -> None:
        """Wait while this node leads and is not sure to: the next echoes decide, or the end. SURE_S at most."""
        if self._over or self._node.leadership.frozen or self.trusted():
            return
        sure = self._loop.create_future()
        self._unsure.append(sure)
        with suppress(TimeoutError):
            await asyncio.wait_for(sure, SURE_S)

    def trust_returned(self) -> None:
        """This node is sure to lead again, or is not to wait for that any more."""
        waiting, self._unsure = self._unsure, []
        for sure in waiting:
            if not sure.done():
                sure.set_result(None)

    @property
    def over(self) -> bool:
        """Whether leadership is lost."""
        return self._over

    @property
    def ready_count(self) -> int:
        """Units in the ready windows."""
        return self.handing_over.ready_count

    # -- the loop

    def begin(self) -> None:
        """Start: all that is due, then sleep, again and again until `end`. Raises DiskFailed."""
        self._record.begin(self.promoted_ms)
        if self._realign is None:
            self.poke()
        else:
            self._node.life.spawn(self._set_back(self._realign))
        self.level_rose()
        self._node.pusher.begin(self)
        self._catching_up.begin()
        last_hour = max(self.promoted_ms // HOUR_MS, self._node.machine.tick // 3600) + 1
        self.takeover.begin(self._node.store.open_hours(last=last_hour))
        self._loop.call_soon(self._carry)  # behind the first step: it takes milliseconds, and nothing waits for it

    def level_rose(self) -> None:
        """Say what a leader of this level says. Raises DiskFailed."""
        self._record.level_rose()
        self._node.life.spawn(self.promotion.say(self))

    def _carry(self) -> None:
        """Note the leases that former leaders left, a piece at a time."""
        if self._over:
            return
        try:
            if self.takeover.carrying:
                self.takeover.carry(self._node.store, self.promoted_ms)
        except Exception as error:
            self._node.life.fatal(error)
            return
        if self.takeover.carrying:
            self._loop.call_soon(self._carry)
        self._look_ready()

    def _look_ready(self) -> None:
        """Note when a due unit can be handed over first."""
        takeover = self.takeover
        if takeover.ready_s is None and self.trusted() and self.dispatcher.level(self._node.clock.now_ms()):
            takeover.ready_s = self._node.clock.monotonic()
            log.info("hands over", term=self.term, after_ms=round((takeover.ready_s - takeover.begun_s) * 1000, 1))
        if takeover.ready_s is not None and not takeover.carrying:
            self.ready.set()

    async def _set_back(self, realign: Realign) -> None:
        done = False
        while not done and not self._over:
            with suppress(Problem):  # not known to have happened: in the same reign a second Realign does no harm
                await self._node.proposer.propose_single(realign)
                done = True
        if done:
            self.dispatcher.realigned(self._node.clock.now_ms())
        self.poke()

    def poke(self) -> None:
        """Something changed: step at the end of this loop iteration."""
        self._steps.poke()

    def poke_by(self, at_ms: int) -> None:
        """Something will be due then: step no later."""
        self._steps.by(at_ms)

    def _step(self) -> int | None:
        """One step of the dispatcher; wakes pulls and the proposer; returns when the next is due; None: when told."""
        now_ms = self._node.clock.now_ms()
        wait_ms = self.dispatcher.step(now_ms)
        if not self.ready.is_set():
            self._look_ready()
        self._node.pusher.turn(now_ms)
        self._read_slots(now_ms)
        waits = [] if wait_ms is None else [wait_ms]
        due_ms = self.dispatcher.entry_due_ms()
        if due_ms is not None:
            if due_ms <= now_ms:
                self._node.proposer.kick()
            else:
                waits.append(due_ms - now_ms)
        if self.pulling.wake():
            waits.append(TRUST_RETRY_MS)
        self._fail_exhausted()
        return now_ms + min(waits) if waits else None

    def _read_slots(self, now_ms: int) -> None:
        """Begin to read the slots that come up next; a slot of a million units must not stop the loop."""
        for tick in self.dispatcher.loads(now_ms):
            read = self._node.store.slot_read(tick)
            if read is None:
                self.dispatcher.loaded(tick, SlotColumns.empty())
            elif tick <= now_ms // 1000 and read.quick(INLINE_ROWS):  # it is due: a new leader's first second
                self.dispatcher.loaded(tick, read.run())
                self.poke()
            else:
                self._node.life.spawn(self._read_slot(tick, read))

    async def _read_slot(self, tick: int, read: SlotRead) -> None:
        slot = await asyncio.to_thread(read.run)
        if not self._over:
            self.dispatcher.loaded(tick, slot)
            self.poke()

    def raise_if_over(self) -> None:
        """Raises `no-leader`. Who waited asks this before it goes on: the next leader, which may be this node again,
        knows nothing of what is held in this reign."""
        if self._over:
            raise Problem("no-leader", "the leader changed during the wait; ask again")

    def doubts(self, home: int, place: int, record: Record) -> bool:
        """See Term."""
        return self.promotion.doubts(home, place, record)

    # -- failed hand-overs

    def fail(self, fail: Fail) -> asyncio.Future[U8]:
        """Propose what becomes of failed hand-overs (node.write.proposer); their units are held till the result is
        known."""
        result = self._node.proposer.fail(fail, int(move_weights(self._node.store, fail.position).sum()))
        self.holding.until(fail.position.tolist(), result)
        result.add_done_callback(partial(self._count_failed, fail, ("failed", "dead")))
        return result

    def _count_failed(self, fail: Fail, columns: tuple[str, ...], result: asyncio.Future[U8]) -> None:
        """Those that took effect, by topic: as hand-overs that failed, as messages that are dead."""
        if result.cancelled() or result.exception() is not None:
            return
        rows = result.result() == ACKED
        topic = self._node.store.units(fail.position[rows])["topic"]
        for column in columns:
            self._node.topic_metrics.add(column, topic if column == "failed" else topic[fail.fate[rows] == DEAD])

    def _fail_exhausted(self) -> None:
        """Units that may not be handed over again are given up. The dispatcher holds them already."""
        for exhausted in self.handing_over.take_exhausted():
            fail = self._attempts.give_up(exhausted)
            weight = int(move_weights(self._node.store, exhausted.position).sum())
            result = self._node.proposer.fail(fail, weight)
            self.holding.released_by(exhausted.position.tolist(), result)
            result.add_done_callback(partial(self._count_failed, fail, ("dead",)))

    def give_up(self, fail: Fail) -> asyncio.Future[U8]:
        """Propose the end of messages that the dispatcher leaves alone."""
        result = self._node.proposer.fail(fail, int(move_weights(self._node.store, fail.position).sum()))
        result.add_done_callback(partial(self._count_failed, fail, ("dead",)))
        return result

    # -- readers

    async def recorded(self, position: int) -> None:
        """Until the records hold every hand-over of this unit that was made, and none that was taken back: who asks
        after a consumer got it must not read less, and who asks beside a cancel not more. Raises `no-leader` when the
        reign ends meanwhile."""
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
        """Until the Lease of a strict hand-over is applied. Raises `no-leader` when the reign ends meanwhile."""
        pledge = self._pledges[hand_over.strict] = self._loop.create_future()
        try:
            await pledge
        finally:
            self._pledges.pop(hand_over.strict, None)
        self.raise_if_over()

    def _resolve(self, waiter: asyncio.Future[None] | None) -> None:
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # -- what rides in entries (node.write.proposer.Riders)

    def collect(self, now_ms: int, *, going: bool) -> Riding:
        """What the dispatcher adds. While leadership is about to move, nothing that was leased ahead is handed over
        here any more: it is released in the last entries."""
        if self._node.leadership.frozen:
            self.handing_over.strict.withdraw_all()
            self._node.pusher.unplan()
        riding = self.dispatcher.collect(now_ms, going=going)
        for lease in (riding.lease, riding.planned):
            if lease is not None:
                self.takeover.leases(self._node.store, lease.position, self.promoted_ms)
                self.takeover.handed_over(lease, self._node.clock.monotonic())
        return riding

    def committed(self) -> None:
        """The oldest of these Leases are applied. Perhaps long after `on_leased` told so, when their entry had been
        given up as unknown: then nobody else wakes the loop, nor those who wait for these records."""
        for hand_over in self.dispatcher.committed():
            if hand_over.planned:
                self._node.pusher.leased(hand_over)
            else:
                self._resolve(self._pledges.pop(hand_over.strict, None))
        self._wake_readers()
        self.poke()

    def returned(self) -> None:
        """The newest of them were not proposed."""
        self.dispatcher.returned()

    # -- what the machine applied (replication.apply.machine.Listener)

    def on_units(self, due_ms: I64, position: U64, topic: U32, tags: U64, priority: U8, applied_index: int) -> None:
        """New units. Those that were only moved `on_moved` told of before."""
        if not self._moved:
            self._node.topic_metrics.add("scheduled", topic)
        self._moved = False
        self.dispatcher.on_units(due_ms, position, topic, tags, priority, applied_index)
        self.poke()

    def on_leased(self, position: U64, attempt: U16, lease_end_ms: I64) -> None:
        """Hand-overs whose Lease took effect."""
        self.dispatcher.on_leased(position, attempt, lease_end_ms)
        self.poke()

    def on_released(self, position: U64) -> None:
        """Units whose lease was taken back."""
        self._node.counters.released += len(position)
        self.takeover.released(position)
        self.dispatcher.on_released(position)
        self.poke()

    def on_moved(self, home: U64, old: U64, position: U64) -> None:
        """Messages that stand elsewhere from now on."""
        self._moved = len(position) > 0
        self.dispatcher.on_moved(home, old, position)

    def on_settled(self, position: U64) -> None:
        """Units that ended."""
        self.dispatcher.on_settled(position)
        if self.handing_over.has_ended:  # what waits for their room may go
            self.poke()

    def on_topic(self, number: int, settings: dict[str, Any]) -> None:
        """A topic was created or deleted, or its settings changed."""
        self.dispatcher.on_topic(number, settings)
        self._node.pusher.on_topic(number)
        if self._node.store.catalog.topic_by_number(number) is None:
            self.pulling.drop(number)
        self.poke()

    def end(self) -> None:
        """Leadership is lost: stop at once; pulls that wait are told so. A node that failed writes nothing more: its
        term ends like that of one that was killed."""
        self._over = True
        self.trust_returned()
        self._node.pusher.end()
        self._steps.end()
        self.dispatcher.stop()
        self._node.machine.listener = None
        self._wake_readers()
        self.ready.set()
        self.pulling.end()
        if not self._node.life.failed:
            self._record.end()
