"""One term of this node as leader: its dispatcher, the loop that drives it, and the pulls that wait for it.

A Reign begins when the no-op of the term is applied and ends, at once, when leadership is lost; nothing of it survives
into another term. The loop does all that is due and sleeps until the dispatcher's next time, or until it is poked: by
new units, committed Leases, released holds, changed topics.

A pull that waits makes its lease itself, in the step in which it wakes and with no await between, so that a consumer
whose connection closed has cost nobody a lease, and trust is asked for at the moment of the hand-over.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from api.port import PULL_BYTES_MAX, TOPIC_DEFAULTS, Delivery, PullIn
from api.problem import Problem
from node.delivery import make_deliveries
from node.dispatcher import Dispatcher, DispatchOptions
from node.lease_book import HandOver
from node.receipt import Receipts
from replication.command import Realign, Unlink
from storage.array import I64, U8, U16, U32, U64
from storage.slot import SlotColumns
from storage.slot_read import SlotRead
from storage.topic import Topic

if TYPE_CHECKING:
    from node.server import Node


#: How soon to look again when a hand-over was refused for lack of trust: less than a heartbeat.
TRUST_RETRY_MS = 20


class Reign:
    """Made on the loop when this node is established as leader; `begin` starts it, `end` ends it."""

    def __init__(self, node: Node) -> None:
        genesis = node.store.catalog.genesis
        assert genesis is not None, "a reign begins after genesis"
        options = node.config.dispatch
        self._node = node
        self.term = node.group.term
        self.promoted_ms = node.clock.now_ms()
        self.may_have_predecessor = node.machine.tick > 0
        self.receipts = Receipts(genesis.secret)
        self._loop = asyncio.get_running_loop()
        self._poked = False
        self._alarm: asyncio.TimerHandle | None = None
        self._waiters: dict[int, deque[asyncio.Future[None]]] = {}
        self._readers: list[asyncio.Future[None]] = []
        self._over = False
        self._dispatcher = Dispatcher(
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
        )
        self._realign = self._dispatcher.promote(self.promoted_ms, node.machine.tick)
        node.machine.listener = self
        node.proposer.riders = self._dispatcher

    def trusted(self) -> bool:
        """Whether this node may act as leader at this moment."""
        return not self._over and self._node.group.trusted(self._node.clock.monotonic())

    @property
    def ready_count(self) -> int:
        """Units in the ready windows."""
        return self._dispatcher.ready_count

    # -- the loop

    def begin(self) -> None:
        """Start: all that is due, then sleep, again and again until `end`."""
        if self._realign is None:
            self.poke()
        else:
            self._node.spawn(self._set_back(self._realign))

    async def _set_back(self, realign: Realign) -> None:
        done = False
        while not done and not self._over:
            with suppress(Problem):  # not known to have happened: in the same reign a second Realign does no harm
                await self._node.proposer.propose_single(realign)
                done = True
        if done:
            self._dispatcher.realigned(self._node.clock.now_ms())
        self.poke()

    def poke(self) -> None:
        """Something changed: step at the end of this loop iteration; many pokes before it are one step."""
        if not self._poked and not self._over:
            self._poked = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._poked = False
        if self._over:
            return
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        try:
            wait_ms = self._step()
        except Exception as error:  # a callback's exception would only be logged: what fails here ends the node
            self._node.fatal(error)
            return
        if wait_ms == 0:
            self.poke()
        elif wait_ms is not None:
            self._alarm = self._loop.call_later(wait_ms / 1000, self._turn)

    def _step(self) -> int | None:
        """One step of the dispatcher; wakes pulls and the proposer; returns how many milliseconds to sleep."""
        now_ms = self._node.clock.now_ms()
        wait_ms = self._dispatcher.step(now_ms)
        self._read_slots(now_ms)
        waits = [] if wait_ms is None else [wait_ms]
        due_ms = self._dispatcher.entry_due_ms()
        if due_ms is not None:
            if due_ms <= now_ms:
                self._node.proposer.kick()
            else:
                waits.append(due_ms - now_ms)
        if self._wake_pulls():
            waits.append(TRUST_RETRY_MS)
        return min(waits, default=None)

    def _read_slots(self, now_ms: int) -> None:
        """Begin to read the slots that come up next; a slot of a million units must not stop the loop."""
        for tick in self._dispatcher.loads(now_ms):
            read = self._node.store.slot_read(tick)
            if read is None:
                self._dispatcher.loaded(tick, SlotColumns.empty())
            else:
                self._node.spawn(self._read_slot(tick, read))

    async def _read_slot(self, tick: int, read: SlotRead) -> None:
        slot = await asyncio.to_thread(read.run)
        if not self._over:
            self._dispatcher.loaded(tick, slot)
            self.poke()

    def _wake_pulls(self) -> bool:
        """Wake one waiting pull per topic that has something (it wakes the next); whether any must be woken again."""
        again = False
        for topic, waiters in self._waiters.items():
            if waiters and self._dispatcher.waiting(topic):
                again = True
                self._wake_one(waiters)
        return again

    @staticmethod
    def _wake_one(waiters: deque[asyncio.Future[None]]) -> None:
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
                return

    # -- pull

    async def pull(self, topic: Topic, request: PullIn) -> list[Delivery]:
        """Hand over up to `request.max` units, waiting for the first. Raises `no-leader` when the reign ends."""
        loop = self._loop
        deadline = loop.time() + request.wait_ms / 1000
        while True:
            settings = self._settings(topic)
            lease_ms = request.lease_ms or settings.get("lease_ms") or TOPIC_DEFAULTS.lease_ms
            assert isinstance(lease_ms, int)
            now_ms = self._node.clock.now_ms()
            hand_over = self._dispatcher.hand_over(
                topic.number, request.max, lease_ms, now_ms, trusted=self.trusted(), max_bytes=PULL_BYTES_MAX
            )
            self.poke()  # Leases wait for the beat; an empty one may have drained a window of cancelled units
            if len(hand_over):
                self._wake_next(topic.number)
                return self._deliver(hand_over, topic.name)
            left_s = deadline - loop.time()
            if left_s <= 0:
                return []
            await self._wait(topic.number, left_s)

    def _settings(self, topic: Topic) -> dict[str, Any]:
        newest = self._node.store.catalog.topic_by_number(topic.number)
        return newest.settings if newest else topic.settings

    def _wake_next(self, topic: int) -> None:
        """A hand-over was made, and another pull may find more."""
        waiters = self._waiters.get(topic)
        if waiters and self._dispatcher.waiting(topic):
            self._wake_one(waiters)

    async def _wait(self, topic: int, left_s: float) -> None:
        """Until the topic has something, `left_s` are over, or the reign is."""
        if self._over:
            raise _ended()
        waiter: asyncio.Future[None] = self._loop.create_future()
        waiters = self._waiters.setdefault(topic, deque())
        waiters.append(waiter)
        timer = self._loop.call_later(left_s, _wake, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            waiters.remove(waiter)
        if self._over:
            raise _ended()

    def _deliver(self, hand_over: HandOver, topic: str) -> list[Delivery]:
        deliveries = make_deliveries(hand_over, topic, self.term, self._node.store, self.receipts)
        # A repeat is late by the whole lease of the hand-over before: that is no lateness of ours.
        lateness = [d.handed_over_ms - d.asked_due_ms for d in deliveries if d.attempt == 1]
        self._node.count_handed_over(len(deliveries), np.array(lateness, np.int64))
        return deliveries

    def hold_until(self, position: int, result: asyncio.Future[Any]) -> None:
        """The dispatcher does not hand this unit over until the command that ends it has its result, whether or not
        the client still waits for that."""
        self._dispatcher.hold([position])

        def done(ended: asyncio.Future[Any]) -> None:
            error = None if ended.cancelled() else ended.exception()
            if isinstance(error, Problem) and error.code == "outcome-unknown" and not self._over:
                self._node.spawn(self._release_late(position))
            else:
                self._release(position)

        result.add_done_callback(done)

    def _release(self, position: int) -> None:
        self._dispatcher.release([position])
        self.poke()

    async def _release_late(self, position: int) -> None:
        """The command was given up on and may still be applied: what is proposed after it is applied after it, so the
        unit is free once an empty command is."""
        applied = False
        while not applied and not self._over:
            with suppress(Problem):
                await self._node.proposer.propose_single(Unlink(np.empty(0, np.int64)))
                applied = True
        self._release(position)

    async def recorded(self, position: int) -> None:
        """Until the records hold every hand-over of this unit: who asks after a consumer got it must not read less.
        Raises `no-leader` when the reign ends meanwhile."""
        while self._dispatcher.unrecorded(position):
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._readers.append(waiter)
            await waiter
            if self._over:
                raise _ended()

    def _wake_readers(self) -> None:
        readers, self._readers = self._readers, []
        for reader in readers:
            _wake(reader)

    # -- what the machine applied (replication.machine.Listener)

    def on_units(self, due_ms: I64, position: U64, topic: U32, tags: U64, priority: U8, applied_index: int) -> None:
        """New units."""
        self._dispatcher.on_units(due_ms, position, topic, tags, priority, applied_index)
        self.poke()

    def on_leased(self, position: U64, attempt: U16, lease_end_ms: I64) -> None:
        """Hand-overs whose Lease took effect."""
        self._dispatcher.on_leased(position, attempt, lease_end_ms)
        self._loop.call_soon(self._wake_readers)  # after the proposer has told the dispatcher that they are committed
        self.poke()

    def on_settled(self, position: U64) -> None:
        """Units that ended."""
        self._dispatcher.on_settled(position)

    def on_topic(self, number: int, settings: dict[str, Any]) -> None:
        """A topic was created or its settings changed."""
        self._dispatcher.on_topic(number, settings)
        self.poke()

    def end(self) -> None:
        """Leadership is lost: stop at once; pulls that wait are told so."""
        self._over = True
        if self._alarm is not None:
            self._alarm.cancel()
        self._dispatcher.stop()
        self._node.machine.listener = None
        self._wake_readers()
        for waiters in self._waiters.values():
            for waiter in waiters:
                _wake(waiter)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _ended() -> Problem:
    return Problem("no-leader", "the leader changed during the wait; pull again")
