"""The pulls of one term: hand-overs to consumers that ask, and to those that wait.

A pull that waits makes its lease itself, in the step in which it wakes and with no await between, so that a consumer
whose connection closed has cost nobody a lease, and trust is asked for at the moment of the hand-over. The answer is
written in the same step. So the pull asks whether the connection is open (`gone`) before it takes anything: the end of
a connection that was read in the step before has not yet ended the wait.

In a strict topic it waits once more, for its Lease to be committed; only then is the hand-over made, if this node still
acts as leader. If the consumer has gone by then, or trust has, the lease is released: nobody got anything.

A pull with a tag filter is woken only by what it has not looked at. So messages that no consumer wants wake nobody, and
each of several filters gets its own. Filters that look much and find little rest: for each moment of looks that a
topic's filters cost they owe four, and what comes meanwhile shares the next look; a pull that comes meanwhile waits for
its first. Pulls of other topics, and those without a filter, do not wait for that.
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
from node.runtime.clock import NodeClock
from node.settle.attempt_policy import settings_of
from storage.format.tag_filter import TagFilter
from storage.store import Store
from storage.tables.topic import Subscription, Topic, number_of, subscription_of, topic_of

assert TOPIC_DEFAULTS.lease_ms is not None
K = TypeVar("K")
LEASE_MS: Final = TOPIC_DEFAULTS.lease_ms
#: How long a strict pull waits for its Lease to be written.
PLEDGE_S: Final = 5.0
#: Different filters that may wait for one topic: a message that none of them wants costs a look by each.
FILTERS_MAX: Final = 1_000
#: A step looks at topics for so long, and leaves the others to the next.
WAKE_S: Final = 0.002
#: Filters of a topic rest so many times as long as their looks took, once they owe more than the credit; not for longer
#: than the bound.
REST: Final = 4.0
CREDIT_S: Final = 0.02
REST_MOST_S: Final = 1.0


@dataclass(slots=True, eq=False)
class _Waiter:
    """A pull that waits: its number, what it wants (None: anything), and what wakes it."""

    number: int
    wanted: TagFilter | None
    woken: asyncio.Future[None]


@dataclass(slots=True)
class _Look:
    """At the pulls that wait for a topic; it may take several steps."""

    subscription: Subscription
    sleeping: Iterator[_Waiter]
    found: dict[TagFilter | None, bool]  # whether the topic has something for who wants this
    changed: bool = False  # since it began, so that what was found is not the last word


class Pulling:
    """Waiting pulls by subscription, first come first served."""

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
        self._look: dict[Subscription, None] = {}  # those that may have something for a pull, in line
        self._left: _Look | None = None  # at the first of those, which a step had no time to end
        self._paid_s: dict[Subscription, float] = {}  # loop time at which its filters' looks are paid for
        self._resting: set[Subscription] = set()  # those whose filters rest until then
        self._stopped: dict[Subscription, int] = {}  # number of the waiter at whose filter they stopped
        self._numbers = count(1)
        self._filters = 0  # of all waiters, those that want something special
        self._alike: Counter[tuple[Subscription, TagFilter]] = Counter()  # how many of those want the same of a topic
        self._different: Counter[Subscription] = Counter()  # how many different filters wait; no zeros in either

    async def pull(self, topic: Topic, asked: PullAsked, gone: Gone) -> Deliveries:
        """Hand over up to `asked.most` units, waiting for the first. Raises `no-leader` when the term ends."""
        loop, subscription = self._loop, subscription_of(topic.number)
        deadline = loop.time() + asked.wait_ms / 1000
        wanted = TagFilter.of(asked.tags)
        again = False
        while True:
            if gone():
                self._term.poke()  # what woke this pull wakes another one
                return Deliveries()
            if self._store.catalog.topic_by_number(topic.number) is None:
                raise Problem("unknown-topic", f"topic {topic.name} was deleted during the wait; pull again")
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
        """Hand over what is ready, perhaps nothing; and step on, if others may find more. `again`: not its first."""
        lease_ms = asked.lease_ms or settings_of(self._store, subscription).get("lease_ms", LEASE_MS)
        now_ms, trusted = self._clock.now_ms(), self._term.trusted()
        began_s = self._loop.time()
        hand_over = self._handing_over.hand_over(
            subscription, asked.most, lease_ms, now_ms, trusted=trusted, max_bytes=PULL_BYTES_MAX, tags=wanted
        )
        if wanted is not None and not len(hand_over):
            self._owe(subscription, self._loop.time() - began_s)
        if len(hand_over) and not self._handing_over.has_more(subscription):
            if (due_ms := self._handing_over.leases_due_ms) is not None:  # its Leases wait for the beat
                self._term.poke_by(due_ms)
            return hand_over
        # Units that are given up wait for their end; others may find more; an empty one may have drained a window of
        # cancelled units, or looked through a part of it only. One that was refused is tried again by the loop's next
        # steps; by itself it would only be refused again at once.
        refused = again and (not trusted or self._handing_over.blocked(now_ms))
        if len(hand_over) or self._handing_over.has_exhausted or not refused:
            self._term.poke()
        return hand_over

    def wake(self) -> bool:
        """Wake one waiting pull per topic that has something for it (it has the next one woken); whether any was, and
        must be again if it is refused. Looks at topics that have something new, not at all that are waited for."""
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
        """It may have something new; a look that is under way may have passed it."""
        self._look[subscription] = None
        if self._left is not None and self._left.subscription == subscription:
            self._left.changed = True

    def _wake_one(self, subscription: Subscription, waiters: Iterable[_Waiter], until_s: float) -> bool:
        """Wake the first that sleeps on something it wants; whether any pull of these wants something, or may. What
        there is no time for is left over."""
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
        """First come first served; but filters go on where they stopped, or those at the end never have their look.
        Who wants anything stands before them then."""
        stopped = self._stopped.pop(subscription, None)
        if stopped is None:
            return list(waiters)
        return sorted(waiters, key=lambda each: 0 if each.wanted is None else 1 if each.number >= stopped else 2)

    def _owe(self, subscription: Subscription, seconds: float) -> None:
        """The subscription's filters have looked for so long."""
        now_s = self._loop.time()
        until_s = max(now_s, self._paid_s.get(subscription, 0.0)) + REST * seconds
        self._paid_s[subscription] = min(until_s, now_s + REST_MOST_S)
        if len(self._paid_s) > FILTERS_MAX:
            self._paid_s = {number: paid_s for number, paid_s in self._paid_s.items() if paid_s > now_s}
        if until_s > now_s + CREDIT_S and subscription not in self._resting:
            self._resting.add(subscription)
            self._loop.call_at(self._paid_s[subscription], self._rested, subscription)

    def _rested(self, subscription: Subscription) -> None:
        """Its filters may look again."""
        self._resting.discard(subscription)
        if subscription in self._waiters:
            self._look_at(subscription)
            self._term.poke()

    def drop(self, subscription: Subscription) -> None:
        """It is deleted: pulls that wait are told so. One of the same name is another topic."""
        for waiter in self._waiters.get(subscription, ()):
            self._crowd.add(partial(_wake, waiter.woken))

    def end(self) -> None:
        """The term is over: pulls that wait are told so."""
        for waiters in self._waiters.values():
            for waiter in waiters:
                self._crowd.add(partial(_wake, waiter.woken))

    async def _wait(self, subscription: Subscription, wanted: TagFilter | None, left_s: float) -> None:
        """Until the subscription has something, `left_s` are over, or the term is."""
        self._term.raise_if_over()
        waiter = _Waiter(next(self._numbers), wanted, self._loop.create_future())
        self._count(subscription, wanted, 1)
        waiters = self._waiters.setdefault(subscription, {})
        waiters[waiter] = None
        self._handing_over.waited.wait(subscription)  # told of what comes from now on
        if self._handing_over.ready_of(subscription):
            self._look_at(subscription)
        timer = self._loop.call_later(left_s, _wake, waiter.woken)
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
        """Whether a pull that comes has its first look when those of its subscription are paid for. One that could not
        wait has it at once: it is refused only if there is nothing for it."""
        return wanted is not None and subscription in self._resting and self._has_room(subscription, wanted)

    def _has_room(self, subscription: Subscription, wanted: TagFilter) -> bool:
        """Whether one more may wait with this filter."""
        return (subscription, wanted) in self._alike or self._different[subscription] < FILTERS_MAX

    def _count(self, subscription: Subscription, wanted: TagFilter | None, change: int) -> None:
        """One more that waits with this filter, or one less. Raises `over-limit` where another filter would wait."""
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
        """What of a strict hand-over may be made, its Lease committed; perhaps nothing. Raises `no-leader` when the
        term ends, or the Lease is not written in time: then nothing was handed over, nor will it be."""
        strict = self._handing_over.strict
        try:
            async with asyncio.timeout(PLEDGE_S):
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
        """What the consumer gets; the delivery log has it before the first byte leaves."""
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
        # A repeat is late by the whole lease of the hand-over before: that is no lateness of ours.
        late_ms = at_ms - records.asked_due_ms[hand_over.attempt == 1]
        sum_ms = self._counters.hand_overs(len(hand_over), late_ms)
        self._topic_metrics.of(topic).add_hand_overs(len(hand_over), len(late_ms), sum_ms)
        return deliveries_of(hand_over, records, term.term)


def _add(counts: Counter[K], key: K, change: int) -> int:
    """Change a count; returns what it is then. No zero stays."""
    counts[key] += change
    count = counts[key]
    if not count:
        del counts[key]
    return count


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
