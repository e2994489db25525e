"""The pulls of one term: hand-overs to consumers that ask, and to those that wait.

A waiting pull takes its lease itself, in the step of the loop in which it is woken, without an await in between. So a
consumer whose connection has closed takes no lease, and trust is asked for at the moment of the hand-over. The answer
is made in the same step. Before that the pull asks if its connection is still open (`gone`): it may have closed just
now, before this wait was ended.

In a strict topic a pull then waits for its Lease to be committed. After that the hand-over is made, if this node still
acts as leader. If the consumer or trust has gone by then, the lease is taken back, and no consumer got anything.

A pull with a tag filter is woken only by units that its filter has not looked at. So messages that no consumer wants
wake no pull, and each filter gets the messages that it wants. Filters that look at much and find little must rest. The
filters of a topic rest four times as long as their fruitless looks took. Messages that come meanwhile share the next
look, and a new pull waits for its first look until then. Pulls of other topics, and pulls without a filter, do not wait
for that.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, count
from typing import Final, TypeVar

from api.port.loop_turn import Crowd
from api.port.port import PULL_BYTES_MAX, TOPIC_DEFAULTS
from api.port.problem import Problem
from node.handover.counters import Counters
from node.handover.delivery_log import PULL, DeliveryLog
from node.handover.lease_book import HandOver
from node.handover.term import Term
from node.handover.topic_metrics import TopicMetrics
from node.port.pull_port import Deliveries, Gone, PullAsked
from node.pull.delivery import deliveries_of
from node.pull.topic_waits import TopicWaits, wake
from node.runtime.clock import NodeClock
from node.settle.attempt_policy import settings_of
from storage.format.predicate import TagFilter
from storage.store import Store
from storage.tables.topic import Subscription, number_of, subscription_of, topic_of

assert TOPIC_DEFAULTS.lease_ms is not None
K = TypeVar("K")
LEASE_MS: Final = TOPIC_DEFAULTS.lease_ms
#: How long a strict pull waits for its Lease to be written.
LEASE_WAIT_S: Final = 5.0
#: At most so many different filters may wait for one topic, because each of them looks at a message that none wants.
FILTERS_MAX: Final = 1_000
#: One step looks for waiting pulls for so long, and leaves the other topics to the next step.
WAKE_S: Final = 0.002
#: The filters of a topic owe a rest of REST times as long as their fruitless looks took. They rest once they owe more
#: than CREDIT_S, and at most for REST_MOST_S.
REST: Final = 4.0
CREDIT_S: Final = 0.02
REST_MOST_S: Final = 1.0


@dataclass(slots=True, eq=False)
class _Waiter:
    """A pull that waits: its number, the tags that it wants (None: any message), and the future that wakes it."""

    number: int
    wanted: TagFilter | None
    woken: asyncio.Future[None]


@dataclass(slots=True)
class _Look:
    """A search among the waiting pulls of a subscription for one that wants a unit of the subscription. It may take
    several steps of the loop."""

    subscription: Subscription
    sleeping: Iterator[_Waiter]
    found: dict[TagFilter | None, bool]  # filter -> the topic has something for it
    changed: bool = False  # the topic changed since the look began, so `found` may be old


class Pulling:
    """Serves the pulls of one term, and holds those that wait, by subscription. The pull that came first is served
    first."""

    def __init__(
        self,
        term: Term,
        store: Store,
        clock: NodeClock,
        delivery_log: DeliveryLog,
        counters: Counters,
        topic_metrics: TopicMetrics,
    ) -> None:
        self._term, self._handing_over = term, term.handing_over
        self._store, self._clock, self._delivery_log = store, clock, delivery_log
        self._counters, self._topic_metrics = counters, topic_metrics
        self._loop = asyncio.get_running_loop()
        self._waiters: dict[Subscription, dict[_Waiter, None]] = {}
        self._crowd = Crowd(self._loop)
        self._topic_waits = TopicWaits(self._crowd)
        self._look: dict[Subscription, None] = {}  # subscriptions that may have units for a waiting pull, in order
        self._left: _Look | None = None  # a look at the first of them, begun in a step that had no time to end it
        self._paid_s: dict[Subscription, float] = {}  # loop time until which the filters owe rest for their looks
        self._resting: set[Subscription] = set()  # subscriptions whose filters rest until then
        self._stopped: dict[Subscription, int] = {}  # number of the pull whose filter is to look first after the rest
        self._numbers = count(1)
        self._filters = 0  # waiters with a filter
        self._alike: Counter[tuple[Subscription, TagFilter]] = Counter()  # how many of those have the same filter
        self._different: Counter[Subscription] = Counter()  # how many different filters wait; no zeros in either

    async def pull(self, asked: PullAsked, gone: Gone) -> Deliveries:
        """Hand over up to `asked.most` units. If none is ready, wait up to `asked.wait_ms` for the first, and return no
        delivery after that. While the topic does not exist, the pull waits for the topic, too. A topic that is deleted
        meanwhile may come again under another number. Raises `no-leader` when the term ends."""
        loop = self._loop
        deadline = loop.time() + asked.wait_ms / 1000
        wanted = TagFilter.of(asked.tags)
        again = False
        while True:
            if gone():
                self._term.poke()  # the unit that woke this pull wakes another one
                return Deliveries()
            topic = self._store.catalog.topic(asked.topic)
            if topic is None:
                left_s = deadline - loop.time()
                if left_s <= 0:
                    return Deliveries()
                await self._topic_waits.wait(asked.topic, left_s)
                self._term.raise_if_over()
                continue
            subscription = subscription_of(topic.number)
            if not again and self._looks_later(subscription, wanted) and loop.time() < deadline:
                again = True
                await self._wait(subscription, wanted, deadline - loop.time())
                continue
            if self._handing_over.ready_of(subscription):  # a pull that finds no unit there costs no look, and no step
                hand_over = self._take(subscription, asked, wanted, again=again)
                if hand_over.strict:
                    hand_over = await self._leased(hand_over, gone)
                if len(hand_over):
                    return self._deliver(hand_over, topic.name)
            again = True
            left_s = deadline - loop.time()
            if left_s <= 0:
                return Deliveries()
            await self._wait(subscription, wanted, left_s)

    def _take(self, subscription: Subscription, asked: PullAsked, wanted: TagFilter | None, *, again: bool) -> HandOver:
        """Hand over ready units, perhaps none. Poke the term if other pulls may find more units. `again` is False if
        the pull looks for units for the first time."""
        lease_ms = asked.lease_ms or settings_of(self._store, subscription).get("lease_ms", LEASE_MS)
        now_ms, trusted = self._clock.now_ms(), self._term.trusted()
        began_s = self._loop.time()
        hand_over = self._handing_over.hand_over(
            subscription, asked.most, lease_ms, now_ms, trusted=trusted, max_bytes=PULL_BYTES_MAX, tags=wanted
        )
        if wanted is not None and not len(hand_over):
            self._owe(subscription, self._loop.time() - began_s)
        if len(hand_over) and not self._handing_over.has_more(subscription):
            if (due_ms := self._handing_over.leases_due_ms) is not None:  # its Lease must go into an entry by then
                self._term.poke_by(due_ms)
            return hand_over
        # The term must step to end units that are over their limit, and because other pulls may find more. An empty
        # pull may have drained a window of cancelled units, or looked through a part of it only. But a pull that was
        # refused (no trust, or blocked) is tried again by later steps: a step now would only refuse it again.
        refused = again and (not trusted or self._handing_over.blocked(now_ms))
        if len(hand_over) or self._handing_over.has_exhausted or not refused:
            self._term.poke()
        return hand_over

    def wake(self) -> bool:
        """For each topic, wake one waiting pull that wants one of the topic's ready units. That pull pokes the term,
        whose next step wakes the next pull. Only topics with new units are looked at. Return True if a pull was woken:
        it may be refused, so the caller must call this again."""
        for subscription in self._handing_over.waited.take():
            self._look_at(subscription)
        again: list[Subscription] = []
        until_s = self._loop.time() + WAKE_S
        while self._look:
            subscription = next(iter(self._look))
            waiters = self._waiters.get(subscription)
            wants = False
            if waiters is None or not self._handing_over.waiting(subscription):
                self._left = None
            else:
                wants = self._wake_one(subscription, waiters, until_s)
            if self._left is not None:
                break
            del self._look[subscription]
            if wants:
                again.append(subscription)
            if self._loop.time() >= until_s:
                break
        if self._look:
            self._term.poke()
        self._look |= dict.fromkeys(again)
        return bool(again)

    def _look_at(self, subscription: Subscription) -> None:
        """Note that the subscription may have new units. If a look at it is under way, it may have passed these and is
        repeated."""
        self._look[subscription] = None
        if self._left is not None and self._left.subscription == subscription:
            self._left.changed = True

    def _wake_one(self, subscription: Subscription, waiters: Iterable[_Waiter], until_s: float) -> bool:
        """Wake the first of these pulls that sleeps and wants one of the subscription's units. If the look is not done
        at `until_s` (loop time), go on with it in the next step. Return True if a pull was found that wants a unit, or
        if the look must be repeated."""
        look, self._left = self._left, None
        if look is None or look.subscription != subscription:
            look = _Look(subscription, iter(self._in_line(subscription, waiters)), {})
        resting, looked, began_s = subscription in self._resting, False, self._loop.time()
        for waiter in look.sleeping:
            if waiter.wanted is not None and resting:
                self._stopped.setdefault(subscription, waiter.number)
                continue
            if waiter.wanted not in look.found:
                if looked and self._loop.time() >= until_s:
                    look.sleeping = chain((waiter,), look.sleeping)
                    self._left = look
                    break
                looked = True
                look.found[waiter.wanted] = self._handing_over.waiting(subscription, waiter.wanted)
            if look.found[waiter.wanted] and not waiter.woken.done():
                waiter.woken.set_result(None)
                break
        if looked and look.found.keys() != {None}:
            self._owe(subscription, self._loop.time() - began_s)
        return look.changed or any(look.found.values())

    def _in_line(self, subscription: Subscription, waiters: Iterable[_Waiter]) -> list[_Waiter]:
        """The waiting pulls in the order in which units are looked for on their behalf: as they came. After a rest,
        pulls without a filter come first, and then filters from the one at which the looks stopped. Otherwise the last
        filters would never get a look."""
        stopped = self._stopped.pop(subscription, None)
        if stopped is None:
            return list(waiters)
        return sorted(waiters, key=lambda each: 0 if each.wanted is None else 1 if each.number >= stopped else 2)

    def _owe(self, subscription: Subscription, seconds: float) -> None:
        """Make the subscription's filters rest for REST times `seconds` more, because their looks took so long."""
        now_s = self._loop.time()
        until_s = max(now_s, self._paid_s.get(subscription, 0.0)) + REST * seconds
        self._paid_s[subscription] = min(until_s, now_s + REST_MOST_S)
        if len(self._paid_s) > FILTERS_MAX:
            self._paid_s = {number: paid_s for number, paid_s in self._paid_s.items() if paid_s > now_s}
        if until_s > now_s + CREDIT_S and subscription not in self._resting:
            self._resting.add(subscription)
            self._loop.call_at(self._paid_s[subscription], self._rested, subscription)

    def _rested(self, subscription: Subscription) -> None:
        """End the rest of the subscription's filters: they may look again."""
        self._resting.discard(subscription)
        if subscription in self._waiters:
            self._look_at(subscription)
            self._term.poke()

    def drop(self, subscription: Subscription) -> None:
        """Wake the pulls that wait for this topic, because it is deleted. A new topic of the same name has another
        number."""
        for waiter in self._waiters.get(subscription, ()):
            self._crowd.add(partial(wake, waiter.woken))

    def created(self, name: str) -> None:
        """Wake the pulls that wait for a topic of this name."""
        self._topic_waits.created(name)

    def end(self) -> None:
        """Wake all waiting pulls, because the term is over. Each then raises `no-leader`."""
        for waiters in self._waiters.values():
            for waiter in waiters:
                self._crowd.add(partial(wake, waiter.woken))
        self._topic_waits.end()

    async def _wait(self, subscription: Subscription, wanted: TagFilter | None, left_s: float) -> None:
        """Wait until the subscription may have units for this pull, `left_s` have passed, or the topic is deleted.
        Raises `no-leader` when the term ends, and `over-limit` if pulls with too many different filters wait for the
        topic."""
        self._term.raise_if_over()
        waiter = _Waiter(next(self._numbers), wanted, self._loop.create_future())
        self._count(subscription, wanted, 1)
        waiters = self._waiters.setdefault(subscription, {})
        waiters[waiter] = None
        self._handing_over.waited.wait(subscription)  # hears of units that come from now on
        if self._handing_over.ready_of(subscription):
            self._look_at(subscription)
        timer = self._loop.call_later(left_s, wake, waiter.woken)
        try:
            await waiter.woken
        finally:
            timer.cancel()
            del waiters[waiter]
            self._count(subscription, wanted, -1)
            if not waiters and self._waiters.get(subscription) is waiters:
                del self._waiters[subscription]
                self._stopped.pop(subscription, None)
                self._handing_over.waited.leave(subscription)
        self._term.raise_if_over()

    def _looks_later(self, subscription: Subscription, wanted: TagFilter | None) -> bool:
        """True if a new pull with this filter must wait for its first look, because the subscription's filters rest. A
        pull that may not wait, because too many different filters wait, looks at once. So it is refused only if it
        finds no unit."""
        return wanted is not None and subscription in self._resting and self._has_room(subscription, wanted)

    def _has_room(self, subscription: Subscription, wanted: TagFilter) -> bool:
        """True if a pull with this filter may wait: a pull with the same filter waits already, or fewer than
        FILTERS_MAX different filters do."""
        return (subscription, wanted) in self._alike or self._different[subscription] < FILTERS_MAX

    def _count(self, subscription: Subscription, wanted: TagFilter | None, change: int) -> None:
        """Count one waiting pull with this filter more (`change` 1) or less (-1). Raises `over-limit` if more than
        FILTERS_MAX different filters would wait for the topic."""
        if wanted is None:
            return
        if not self._has_room(subscription, wanted):
            raise Problem(
                "over-limit",
                f"pulls with {FILTERS_MAX} different filters wait for this topic, as many as may; ask later",
            )
        alike = _add(self._alike, (subscription, wanted), change)
        if alike == (change > 0):  # the first of its kind, or the last
            _add(self._different, subscription, change)
        self._filters += change
        self._handing_over.set_waiting(self._filters)

    async def _leased(self, hand_over: HandOver, gone: Gone) -> HandOver:
        """Wait for the Lease of a strict hand-over. Return the hand-over with those units that may still be handed
        over, perhaps none. Raises `no-leader` when the term ends, or if the Lease is not applied within LEASE_WAIT_S.
        In both cases nothing was handed over, and the units' leases are taken back."""
        strict = self._handing_over.strict
        try:
            async with asyncio.timeout(LEASE_WAIT_S):
                await self._term.leased(hand_over)
            now_ms = self._clock.now_ms()
            goes = self._term.trusted() and now_ms < hand_over.lease_end_ms and not gone()
            return strict.begin(hand_over.select(slice(None if goes else 0)), now_ms)
        except TimeoutError:
            raise Problem("no-leader", "the lease was not written in time; nothing was handed over") from None
        finally:
            strict.withdraw(hand_over)
            self._term.poke()

    def _deliver(self, hand_over: HandOver, topic: str) -> Deliveries:
        """Make the answer to the consumer. Before that, write the start of each hand-over to the delivery log, so that
        it is there before the first byte leaves."""
        term, at_ms = self._term, hand_over.handed_over_ms
        records = self._store.record_rows(hand_over.position, hand_over.units)
        self._delivery_log.start(
            home=records.position,
            random=records.random,
            attempt=hand_over.attempt,
            asked_due_ms=records.asked_due_ms,
            topic=topic_of(hand_over.subscription),
            subscription=number_of(hand_over.subscription),
            term=term.term,
            at_ms=at_ms,
            mode=PULL,
        )
        # Only first hand-overs count for lateness: a repeat comes late because of the lease before it.
        late_ms = at_ms - records.asked_due_ms[hand_over.attempt == 1]
        sum_ms = self._counters.hand_overs(len(hand_over), late_ms)
        self._topic_metrics.of(topic).add_hand_overs(len(hand_over), len(late_ms), sum_ms)
        return deliveries_of(hand_over, records, term.term)


def _add(counts: Counter[K], key: K, change: int) -> int:
    """Add `change` to a count and return the result. A count of 0 is removed."""
    counts[key] += change
    count = counts[key]
    if not count:
        del counts[key]
    return count
