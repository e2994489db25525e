"""The pump of webhooks: it pushes units from the ready windows to receivers, as fast as each receiver takes them.

    dispatcher's window -- stage --> lanes -- take, hand_over_staged --> PushWork to the wire -- PushDone --> outcome
                            (lanes.py)       a lease of timeout + 5 s    (node/push_wire)                 (outcomes.py)

A unit is staged before it is handed over, because only its record names its receiver. There may be no room for another
attempt to this receiver. Staged units are bounded per topic and in all (`[push] staged_*`), so a million due units of a
topic cost no more than a thousand. Units beyond the bound wait in the windows. The lease begins when there is room for
the attempt, right before it. When the connection is open, the wire asks once more if this node may act (TrustWindow).

All work is in `turn`, which the leader calls after each of its steps. The pump also calls it itself, a moment after
attempts have ended. When much is ready it waits a few milliseconds first, so that one look at the settle records serves
many attempts. An attempt has no task of asyncio.

When the term ends, staged units are forgotten: they are still open in the settle records. Attempts on the wire go on,
and their outcomes are sent to the next leader.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import groupby
from typing import Final

import numpy as np

from node.handover.counters import Counters
from node.handover.delivery_log import PUSH, DeliveryLog
from node.handover.lease_book import HandOver
from node.handover.term import Term
from node.handover.topic_metrics import TopicMetrics
from node.port.failure_code import STOPPED
from node.port.push_port import PushDone, PushWork, Receivers
from node.port.trust_window import TrustWindow
from node.push.lanes import Bounds, Lanes
from node.push.metrics import PushMetrics
from node.push.outcomes import Attempt, Outcomes
from node.push.planned_sends import PlannedSends
from node.push.stage import Staging
from node.push.target import BadTarget, Targets
from node.push.unit import StagedUnit
from node.runtime.clock import NodeClock
from node.runtime.config import PushOptions
from node.runtime.lifecycle import Lifecycle
from node.runtime.open_files import pushes_max
from storage.format.message_id import encode_ids
from storage.store import Store
from storage.tables.topic import Subscription

#: A push lease lasts the attempt's timeout and this margin: time to write the outcome down.
LEASE_MARGIN_MS: Final = 5_000
#: A look at the settle records costs as much as several attempts. So after a look the pump owes a rest of REST times as
#: long, and units that come meanwhile share the next look. It rests only when it owes more than CREDIT_S, and at most
#: for REST_MOST_S. So single messages go at once, and the busier the node is the more of them go together.
REST: Final = 4.0
CREDIT_S: Final = 0.005
REST_MOST_S: Final = 0.010
#: While the clock has gone back, the pump looks at least this often.
BEHIND_S: Final = 0.1
#: About so many units are handed over in one turn of the pump, at 30 us each.
SENT_A_TURN: Final = 256
#: After an attempt ended, the pump waits this long before it begins another one, because others may end meanwhile.
GATHER_S: Final = 0.002
#: When to try again units that may not be handed over for the moment (no trust, or the stop rule).
AGAIN_S: Final = 0.02
#: A node that stops waits for DRAIN_S until attempts on the wire have ended, and for PASS_ON_S until a leader has their
#: outcomes. Together that is less than 30 s.
DRAIN_S: Final = 20.0
PASS_ON_S: Final = 5.0


class PushFeed:
    """Pushes the messages of one group on this node, through all its terms as leader. `window` says until when the push
    wire may begin attempts. `attempts` has the attempts that are on the wire."""

    def __init__(
        self,
        group: int,
        store: Store,
        clock: NodeClock,
        life: Lifecycle,
        delivery_log: DeliveryLog,
        counters: Counters,
        topic_metrics: TopicMetrics,
        outcomes: Outcomes,
        receivers: Receivers,
        window: TrustWindow,
        options: PushOptions,
    ) -> None:
        self._group = group
        self._clock, self._life = clock, life
        self._delivery_log, self._counters, self._topic_metrics = delivery_log, counters, topic_metrics
        self._outcomes, self._receivers, self._window = outcomes, receivers, window
        self.total = pushes_max(options.total)
        self._lanes = Lanes(
            Bounds(
                per_target=min(options.per_target, self.total),
                total=self.total,
                staged_per_topic=options.staged_per_topic,
                staged_total=options.staged_total,
            )
        )
        self._staging = Staging(store, self._lanes, Targets(options.timeout_ms))
        self._plans = PlannedSends(store, clock, life, self._lanes, self._begin, self._freed)
        self.metrics = PushMetrics(lambda: self.on_wire, lambda: self.staged)
        self._term: Term | None = None
        self._draining = False
        self._pumping: asyncio.TimerHandle | None = None
        self._pump_at_s = 0.0
        self._rests_until_s = 0.0
        self._last_number = 0  # of work for the wire
        self.attempts: dict[int, Attempt] = {}  # attempts on the wire by number, in the order in which they began
        self._quiet = asyncio.Event()  # nothing is on the wire
        self._quiet.set()

    @property
    def on_wire(self) -> int:
        """The number of attempts on the wire."""
        return self._lanes.on_wire - self._plans.waiting

    @property
    def staged(self) -> int:
        """The number of staged units that wait in the lanes."""
        return self._lanes.staged

    # -- life

    def start(self) -> None:
        """Register with the receivers. Call it before anything is pushed."""
        self._loop = asyncio.get_running_loop()
        self._receivers.attach(self._group, self._window, self._done)

    def begin(self, term: Term) -> None:
        """Begin to push ready units, because this node leads."""
        self._term = term

    def end(self) -> None:
        """Drop all staged and planned units, because the term is over. Attempts on the wire go on."""
        self._term = None
        self._plans.clear()
        self._lanes.clear()

    @property
    def busy(self) -> bool:
        """True while an attempt is on the wire, or its outcome is not written yet."""
        return self.on_wire > 0 or not self._outcomes.quiet

    async def quiet(self) -> None:
        """Wait until `busy` is False. The caller must first make sure that no new attempt begins."""
        while self.busy:
            await self._quiet.wait()
            await self._outcomes.settled()

    async def drain(self) -> None:
        """Begin no attempt any more. Wait at most DRAIN_S until the attempts on the wire have ended. Then wait at most
        PASS_ON_S until their outcomes are written."""
        self._draining = True
        with suppress(TimeoutError):  # leases of the rest end, and their messages come again
            async with asyncio.timeout(DRAIN_S):
                await self._quiet.wait()
            async with asyncio.timeout(PASS_ON_S):
                await self._outcomes.settled()

    async def close(self) -> None:
        """Stop everything. Attempts on the wire end without outcome."""
        self._draining = True
        if self._pumping is not None:
            self._pumping.cancel()
        self._receivers.detach(self._group)
        await self._outcomes.close()

    def on_topic(self, number: int) -> None:
        """Note that a topic was created or deleted, or that its settings changed."""
        self._staging.on_topic(number)

    # -- the pump

    def turn(self, now_ms: int) -> None:
        """Stage as many ready units as the bounds allow, and hand over the staged units that may be sent now. Cheap
        when nothing is ready. While the pump rests, this only asks for a turn after the rest. So the units that come
        meanwhile share one look at the settle records."""
        if self._loop.time() >= self._rests_until_s:
            self._turn(now_ms)
        else:
            self._pump_in(0)

    def _turn(self, now_ms: int) -> None:
        term = self._term
        if term is None or self._draining:
            return
        began_s = self._loop.time()
        staged = self._staging.turn(term, now_ms)
        if staged:  # there may be more, or its pace is used up, or a pull waits for what went back
            term.poke()
        if self._staging.more:
            self._pump_in(0)
        units, sending_s = self._hand_over(term, now_ms)
        if behind_ms := term.handing_over.behind_ms(now_ms):
            self._rests_until_s = self._loop.time() + min(behind_ms / 1000, BEHIND_S)
        elif units >= SENT_A_TURN:
            self._pump_in(0)
        elif units or staged:
            ended_s = self._loop.time()
            looked_s = ended_s - began_s - sending_s
            owes_until_s = max(self._rests_until_s + CREDIT_S, began_s) + REST * looked_s
            self._rests_until_s = min(owes_until_s - CREDIT_S, ended_s + REST_MOST_S)

    def _hand_over(self, term: Term, now_ms: int) -> tuple[int, float]:
        """Hand over staged units for whose attempts there is room, with one look at the settle records for each
        timeout. Units of strict topics are planned: they are sent when their Leases are applied and their time has
        come. Return how many units are no longer staged, and how many seconds it took to send them."""
        if not self._lanes.staged:
            return 0, 0.0
        if not term.handing_over.strict.subscriptions and not (term.trusted() and term.handing_over.allows(now_ms)):
            self._pump_in(AGAIN_S)
            return 0, 0.0
        taken = self._lanes.take(now_ms, SENT_A_TURN)
        left: list[StagedUnit] = []
        went: list[tuple[HandOver, list[StagedUnit]]] = []
        taken.sort(key=_timeout_ms)  # stable: the order within a topic stays
        for timeout_ms, group in groupby(taken, key=_timeout_ms):
            units = list(group)
            lease_ms = timeout_ms + LEASE_MARGIN_MS
            if term.handing_over.strict.subscriptions:
                units, more = self._plans.plan(term, units, lease_ms, now_ms)
                left += more
                if not units:
                    continue
            positions = np.array([unit.position for unit in units], np.uint64)
            first = term.handing_over.hand_over_first(positions, lease_ms, now_ms, trusted=term.trusted())
            if first is not None:
                went.append((first, units))
            else:
                left += self._by_topic(term, units, lease_ms, now_ms, went)
        looked_s = self._loop.time()
        if went:
            self._begin(term, went, now_ms)
        sending_s = self._loop.time() - looked_s
        if left:
            self._lanes.put_back(left)
            self._pump_in(AGAIN_S)
        elif (wait_ms := self._lanes.wait_ms(now_ms)) is not None:
            self._pump_in(wait_ms / 1000)
        if len(taken) > len(left):  # not for units that lack trust: the step would come right back here
            term.poke()  # the step sees to the Leases of these units, and to units over their limit
        return len(taken) - len(left), sending_s

    def leased(self, hand_over: HandOver) -> None:
        """Tell the planned push that its Lease is applied (see PlannedSends)."""
        if self._term is not None:
            self._plans.leased(self._term, hand_over)

    def unplan(self) -> None:
        """Give up all planned pushes, which count as attempts no longer, because leadership is about to be given
        away."""
        self._plans.clear()

    def _freed(self) -> None:
        """Take a turn soon, because planned pushes were given up and there is room for other attempts."""
        if not self.on_wire:
            self._quiet.set()
        self._pump_in(GATHER_S)

    def _by_topic(
        self,
        term: Term,
        units: list[StagedUnit],
        lease_ms: int,
        now_ms: int,
        went: list[tuple[HandOver, list[StagedUnit]]],
    ) -> list[StagedUnit]:
        """Hand over these units topic by topic, and add each hand-over with its units to `went`. Return the units that
        stay staged."""
        left: list[StagedUnit] = []
        units.sort(key=_subscription)
        for subscription, group in groupby(units, key=_subscription):
            known = {unit.position: unit for unit in group}
            positions = np.fromiter(known, np.uint64, len(known))
            made = term.handing_over.hand_over_staged(subscription, positions, lease_ms, now_ms, trusted=term.trusted())
            if len(made.hand_over):
                went.append((made.hand_over, [known.pop(position) for position in made.hand_over.position.tolist()]))
            left += [known.pop(position) for position in made.left.tolist()]
            for unit in known.values():  # ended, held, or back in the window
                self._lanes.done(unit, now_ms)
        return left

    def _begin(self, term: Term, went: list[tuple[HandOver, list[StagedUnit]]], now_ms: int) -> None:
        """Write the start of each of these hand-overs to the delivery log, then give their attempts to the push
        wire."""
        records = [unit.record for _, units in went for unit in units]
        homes = np.array([record.position for record in records], np.uint64)
        random = np.array([record.random for record in records], np.uint64)
        asked_due_ms = np.array([record.asked_due_ms for record in records], np.int64)
        attempt = np.concatenate([made.attempt for made, _ in went])
        topics = np.array([record.topic for record in records], np.uint32)
        self._delivery_log.start(
            home=homes,
            random=random,
            attempt=attempt,
            asked_due_ms=asked_due_ms,
            topic=topics,
            term=term.term,
            at_ms=now_ms,
            mode=PUSH,
        )
        # Only first attempts count for lateness: a repeat comes late because of the lease or backoff before it.
        first, late_ms = attempt == 1, now_ms - asked_due_ms
        self._counters.hand_overs(len(records), late_ms[first])
        self._topic_metrics.add_hand_overs(topics, first, late_ms)
        ids = iter(encode_ids(self._group, homes, random).astype("U26").tolist())
        for made, units in went:
            for unit, number in zip(units, made.attempt.tolist(), strict=True):
                self._send(Attempt(unit, number, term.term, now_ms, made.lease_end_ms, term.receipts), next(ids))

    # -- attempts

    def _send(self, attempt: Attempt, id: str) -> None:
        self._quiet.clear()
        self._last_number = number = self._last_number + 1
        self.attempts[number] = attempt
        target, record = attempt.unit.target, attempt.unit.record
        if isinstance(target, BadTarget):
            self._done(PushDone(number, target.code, str(target)))
            return
        self._receivers.send(
            PushWork(
                number=number,
                group=self._group,
                term=attempt.term,
                target=target,
                id=id,
                topic=attempt.unit.topic.name,
                attempt=attempt.number,
                handed_over_ms=attempt.handed_over_ms,
                lease_end_ms=attempt.lease_end_ms,
                asked_due_ms=record.asked_due_ms,
                content_type=record.content_type,
                tags=record.tags,
                headers=record.headers,
                body=record.body,
            )
        )

    def _done(self, done: PushDone) -> None:
        """Take the outcome of an attempt, which leaves room for another one. A failure of the receiver is a code in
        `done`. So an exception here is a fault of the node, and ends the node."""
        attempt = self.attempts.pop(done.number, None)
        if attempt is None:  # reported twice, or never begun here
            return
        try:
            self.metrics.count(done.code, done.took_us / 1e6)
            now_ms = self._clock.now_ms()
            self._outcomes.add(attempt, done, now_ms)
            failed = None if done.code == STOPPED else not done.delivered
            self._lanes.done(attempt.unit, now_ms, failed=failed)
            if not self.on_wire:
                self._quiet.set()
            self._pump_in(GATHER_S)
        except Exception as error:
            self._life.fatal(error)

    def _pump_in(self, seconds: float) -> None:
        """Take a turn after `seconds`, or when the pump has rested if that is later. If a turn is asked for several
        times, the earliest time counts."""
        if self._term is None or self._draining:
            return
        at_s = max(self._loop.time() + seconds, self._rests_until_s)
        if self._pumping is not None:
            if self._pump_at_s <= at_s:  # uvloop's handle of a call that is due at once does not say when
                return
            self._pumping.cancel()
        self._pumping, self._pump_at_s = self._loop.call_at(at_s, self._pump), at_s

    def _pump(self) -> None:
        self._pumping = None
        try:
            self._turn(self._clock.now_ms())
        except Exception as error:  # a callback's exception would only be logged: what fails here ends the node
            self._life.fatal(error)


def _subscription(unit: StagedUnit) -> Subscription:
    return unit.subscription


def _timeout_ms(unit: StagedUnit) -> int:
    return 0 if isinstance(unit.target, BadTarget) else unit.target.timeout_ms
