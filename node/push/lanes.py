"""Which staged unit goes next: one lane per receiver, fair between receivers and between the topics of each.

    topic's units ---> lane of receiver A:  topic 1 [u u u]   topic 4 [u]      <- taken in turn
                  '--> lane of receiver B:  topic 1 [u u]                      <- lanes taken in turn

There is no queue before the lanes, so a receiver that hangs holds up nobody who waits for another one. Two bounds hold
per lane: `per_target` attempts on the wire, and no more than there are free slots in all. The second is how switches
share a buffer: n receivers that hang have total / (n + 1) slots each and leave as many free, so a receiver that answers
always finds some, however many do not.

Who names receivers may name many. A receiver without a success in the last minute is on trial (node.push.trial): one
topic that names 2,000 receivers that hang takes neither the slots of other topics nor of receivers that answer, nor the
loop.

A receiver two thirds of whose attempts fail is *ill*. Failures are dear (each moves its message on every node), and one
that refuses connections fails thousands a second. So ill receivers get a few attempts in turn, together, every now and
then: their failures share an entry. The rest of their messages wait in the windows, where they cost nothing and use up
no attempts. An ill receiver has a tenth of the slots, and a single success makes it well.

The same rule shares out what may be staged, among topics. A topic's units for a saturated receiver fill its share of
staged units at worst; only then do its units for other receivers wait behind them.

Pure: no clock, no socket. Every staged unit is in exactly one lane or on the wire.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from node.port.push_port import Origin
from node.push.trial import Trials
from node.push.unit import StagedUnit
from storage.tables.topic import Subscription

ILL_MS: Final = 250
"""Between some attempts to ill receivers and the next."""

ILL_TOGETHER: Final = 16
"""Attempts to ill receivers that begin at the same time, at most. Their failures are one entry, which costs a node
little more than one failure does."""

IDLE_MAX: Final = 1_000  # receivers with nothing to do whose failures are remembered

PROVEN_MS: Final = 60_000  # so long after a success a receiver is not on trial

PROVEN_MAX: Final = 20_000
"""Receivers whose last success is remembered, 250 bytes each. With 1,000 of them, 1,200 that all answered were on trial
for ever."""

PROVEN_EVERY_MS: Final = 1_000  # a success is written down again after so long

UNITS_MAX: Final = 1 << 40  # as many as there are

_ILL: Final = 2 / 3
_WEIGHT: Final = 1 / 8
"""Of the newest outcome in a lane's share of failures: nine in a row make a receiver ill."""


@dataclass(slots=True, eq=False)
class Lane:
    """What waits for one receiver, and how much is on the wire to it."""

    origin: Origin
    on_wire: int = 0
    failing: float = 0.0  # share of failures among the newest outcomes
    proven_ms: int = -PROVEN_MS  # when its receiver last answered, to a second
    queues: dict[Subscription, deque[StagedUnit]] = field(default_factory=dict)  # never empty; the first is next
    queued: bool = False  # whether it stands in the round, waits for a trial, or among the ill
    waits: bool = False  # whether it waits for a trial

    @property
    def ill(self) -> bool:
        """Whether two of three attempts fail."""
        return self.failing > _ILL

    def on_trial(self, now_ms: int) -> bool:
        """Whether its receiver has not answered in the last minute."""
        return now_ms - self.proven_ms >= PROVEN_MS

    def note(self, *, failed: bool) -> None:
        """An attempt has ended like this."""
        if failed:
            self.failing += _WEIGHT * (1 - self.failing)
        else:
            self.failing = min(self.failing, _ILL) * (1 - _WEIGHT)

    def add(self, unit: StagedUnit, *, first: bool) -> None:
        """At the end of its subscription's units, or before them."""
        queue = self.queues.setdefault(unit.subscription, deque())
        if first:
            queue.appendleft(unit)
        else:
            queue.append(unit)

    def next(self, subscription: Subscription) -> StagedUnit:
        """Take the next unit of this subscription, which goes to the end of the lane's turn."""
        queue = self.queues.pop(subscription)
        unit = queue.popleft()
        if queue:
            self.queues[subscription] = queue
        return unit


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much may be on the wire and staged; counts of units."""

    per_target: int = 100
    total: int = 2_000
    staged_per_topic: int = 1_000
    staged_total: int = 20_000
    staged_bytes: int = 64 * 1024 * 1024  # of all staged units


class Lanes:
    """All lanes of one node."""

    def __init__(self, bounds: Bounds) -> None:
        assert 0 < bounds.per_target <= bounds.total, f"{bounds.per_target} per target of {bounds.total} in all"
        self._bounds = bounds
        self._lanes: dict[Origin, Lane] = {}
        self._idle: dict[Origin, None] = {}  # of those, the ones without units or attempts; the oldest first
        self._round: deque[Lane] = deque()  # those that have something and are below their limit, some of them ill
        self._ill: deque[Lane] = deque()  # the ill ones; a lane is in one of these
        self._ill_ms = 0  # when the next of them may go
        self._trials: Trials[Lane] = Trials(bounds.total)
        self._proven_ms: dict[Origin, int] = {}  # of lanes, those forgotten too: the longest ago first
        self.on_wire = 0  # sum of the lanes'; on_wire <= total
        self.staged = 0  # units in lanes
        self.bytes = 0  # what those hold
        self._units: dict[Subscription, int] = {}  # units in lanes; no zeros
        self._bytes: dict[Subscription, int] = {}  # what those hold
        self._freed = False
        self._put_back: set[Subscription] = set()
        self._revisions: dict[Subscription, int] = {}  # its topic's revision as of those

    def take_freed(self) -> bool:
        """Whether units have gone since this was asked last: there may be room again."""
        freed, self._freed = self._freed, False
        return freed

    def take_put_back(self) -> set[Subscription]:
        """Subscriptions of which units were put back since this was asked last."""
        put_back, self._put_back = self._put_back, set()
        return put_back

    def revision(self, subscription: Subscription) -> int | None:
        """The subscription's revision when its oldest staged unit was staged; None without one."""
        return self._revisions.get(subscription)

    @property
    def left(self) -> int:
        """How many more units may be staged."""
        bounds = self._bounds
        return max(0, bounds.staged_total - self.staged) if self.bytes < bounds.staged_bytes else 0

    def room(self, subscription: Subscription) -> int:
        """How many more units of the subscription may be staged."""
        bounds, units = self._bounds, self._units.get(subscription, 0)
        if self._bytes.get(subscription, 0) >= bounds.staged_bytes - self.bytes:
            return 0
        left = bounds.staged_total - self.staged
        return max(0, min(bounds.staged_per_topic, left) - units)

    def units(self, subscription: Subscription) -> int:
        """How many units of the subscription are staged."""
        return self._units.get(subscription, 0)

    def add(self, unit: StagedUnit) -> None:
        """A unit was staged, after those before it."""
        self._add(unit, first=False)

    def put_back(self, units: list[StagedUnit]) -> None:
        """Units that were taken and may not go now: off the wire, first in line again, in the same order."""
        for unit in reversed(units):
            self.done(unit, 0)
            self._add(unit, first=True)
            self._put_back.add(unit.subscription)

    def take(self, now_ms: int, most: int = UNITS_MAX) -> list[StagedUnit]:
        """What may go now, lane by lane in turn, until there are `most` of it or a few more; each is on the wire until
        `done`, or put back."""
        taken: list[StagedUnit] = []
        blocked: list[Lane] = []
        while self._round and self._free and len(taken) < most:
            lane = self._round.popleft()
            if lane.ill:
                lane.queued = lane.on_wire < self._limit(lane)
                if lane.queued:
                    self._ill.append(lane)
            elif lane.on_wire >= self._free:
                blocked.append(lane)
            elif lane.on_trial(now_ms):
                self._wait(lane)
            else:
                taken.append(self._take(lane, next(iter(lane.queues))))
                self._enter(lane)
        taken += self._take_trials(now_ms, blocked)
        self._round.extend(blocked)
        if self._ill and not self._pausing(now_ms):
            taken += self._take_ill(now_ms)
        return taken

    def _take_trials(self, now_ms: int, blocked: list[Lane]) -> list[StagedUnit]:
        """Units for receivers on trial, a topic's after another's."""
        trials, taken = self._trials, list[StagedUnit]()
        trials.begin_moment(now_ms)
        subscriptions = trials.subscriptions()
        while subscriptions:
            asked, subscriptions = subscriptions, []
            for subscription in asked:
                lane = trials.first(subscription) if trials.may_begin(subscription, self._free) else None
                if lane is None:
                    continue
                subscriptions.append(subscription)
                self._leave(lane)
                if lane.ill or not lane.on_trial(now_ms):
                    lane.queued = False
                    self._enter(lane)
                elif lane.on_wire >= self._free:
                    blocked.append(lane)
                else:
                    taken.append(self._take(lane, subscription, trial_ms=now_ms))
                    if lane.queues and lane.on_wire < self._limit(lane):
                        self._wait(lane)
                    else:
                        self._enter(lane)
        return taken

    def _take_ill(self, now_ms: int) -> list[StagedUnit]:
        """The next units of the ill lanes, in turn. Few begin together, so they do not count among those on trial that
        do."""
        taken: list[StagedUnit] = []
        while len(taken) < ILL_TOGETHER and self._ill and self._free:
            lane = self._ill.popleft()
            if lane.on_trial(now_ms):
                found = next((each for each in lane.queues if self._trials.has_slot(each, self._free)), None)
                if found is None:
                    self._wait(lane)
                    continue
                taken.append(self._take(lane, found, trial_ms=now_ms))
            else:
                taken.append(self._take(lane, next(iter(lane.queues))))
            self._enter(lane)
            self._ill_ms = now_ms + ILL_MS
        return taken

    def wait_ms(self, now_ms: int) -> int | None:
        """When to take again for the sake of ill receivers or of those on trial, from now; None: not for them."""
        if not self._free:
            return None
        trial_ms = self._trials.wait_ms(now_ms, self._free)
        ill_ms = None
        if self._ill:
            ill_ms = self._ill_ms - now_ms if self._pausing(now_ms) else 1
        return min((each for each in (trial_ms, ill_ms) if each is not None), default=None)

    @property
    def _free(self) -> int:
        return self._bounds.total - self.on_wire

    def _pausing(self, now_ms: int) -> bool:
        """Whether attempts to ill receivers were a moment ago. Between two terms the clock may go back by hours."""
        return 0 < self._ill_ms - now_ms <= ILL_MS

    def done(self, unit: StagedUnit, now_ms: int, *, failed: bool | None = None) -> None:
        """An attempt has ended; `failed` None: it says nothing of the receiver."""
        lane = self._lanes.get(unit.origin)
        assert lane is not None, f"an attempt to {unit.origin} ends that never began"
        assert lane.on_wire > 0, f"an attempt to {unit.origin} ends that never began"
        if failed is not None:
            was_ill = lane.ill
            lane.note(failed=failed)
            if was_ill and not lane.ill and lane in self._ill:
                self._ill.remove(lane)
                self._round.append(lane)
            if not failed and not 0 <= now_ms - lane.proven_ms < PROVEN_EVERY_MS:
                self._prove(lane, now_ms)
        if unit.trial:
            unit.trial = False
            self._trials.end(unit.subscription)
        lane.on_wire -= 1
        self.on_wire -= 1
        self._enter(lane)

    def _prove(self, lane: Lane, now_ms: int) -> None:
        """Its receiver has answered."""
        lane.proven_ms = now_ms
        if lane.waits:
            self._leave(lane)
            self._round.append(lane)
        self._proven_ms.pop(lane.origin, None)
        self._proven_ms[lane.origin] = now_ms
        if len(self._proven_ms) > PROVEN_MAX:
            del self._proven_ms[next(iter(self._proven_ms))]

    def drop(self, subscription: Subscription) -> list[StagedUnit]:
        """The subscription's staged units, taken out of all lanes."""
        dropped: list[StagedUnit] = []
        for lane in list(self._lanes.values()):
            dropped += lane.queues.pop(subscription, ())
        self._trials.drop(subscription)
        for unit in dropped:
            self._count(unit, -1)
        self._sweep()
        return dropped

    def clear(self) -> None:
        """Nothing is staged any more; what is on the wire stays so."""
        for lane in self._lanes.values():
            lane.queues.clear()
        self._trials.clear()
        self._units.clear()
        self._bytes.clear()
        self._revisions.clear()
        self.staged = self.bytes = 0
        self._sweep()

    def _take(self, lane: Lane, subscription: Subscription, *, trial_ms: int | None = None) -> StagedUnit:
        """The lane's next unit of the subscription, for which there is room; at `trial_ms` if it is on trial. Who calls
        this says where the lane stands next."""
        unit = lane.next(subscription)
        unit.trial = trial_ms is not None
        if trial_ms is not None:
            self._trials.begin(subscription, trial_ms, counts=not lane.ill)
        lane.on_wire += 1
        self.on_wire += 1
        self._count(unit, -1)
        lane.queued = False
        return unit

    def _wait(self, lane: Lane) -> None:
        """It waits for a trial."""
        lane.queued = lane.waits = True
        self._trials.wait(lane, lane.queues)

    def _leave(self, lane: Lane) -> None:
        """It waits for none any more, and stands nowhere else yet."""
        lane.waits = False
        self._trials.leave(lane, lane.queues)

    def _limit(self, lane: Lane) -> int:
        return max(1, self._bounds.per_target // 10) if lane.ill else self._bounds.per_target

    def _add(self, unit: StagedUnit, *, first: bool) -> None:
        origin = unit.origin
        self._idle.pop(origin, None)
        lane = self._lanes.get(origin)
        if lane is None:
            lane = self._lanes[origin] = Lane(origin, proven_ms=self._proven_ms.get(origin, -PROVEN_MS))
        lane.add(unit, first=first)
        if lane.waits:
            self._trials.wait(lane, (unit.subscription,))
        self._count(unit, 1)
        self._enter(lane)

    def _enter(self, lane: Lane) -> None:
        """Into the round, if the lane has something and room; out of memory, if it is idle."""
        if lane.queues:
            if not lane.queued and lane.on_wire < self._limit(lane):
                lane.queued = True
                (self._ill if lane.ill else self._round).append(lane)
        elif not lane.on_wire:
            self._forget(lane)

    def _forget(self, lane: Lane) -> None:
        """A lane without units or attempts. How ill its receiver is stays known for a while: its messages come back."""
        if not lane.failing:
            self._lanes.pop(lane.origin, None)
            return
        self._idle[lane.origin] = None
        if len(self._idle) > IDLE_MAX:
            oldest = next(iter(self._idle))
            del self._idle[oldest]
            self._lanes.pop(oldest, None)

    def _count(self, unit: StagedUnit, change: int) -> None:
        subscription, size = unit.subscription, change * unit.size
        self.staged += change
        self.bytes += size
        count = self._units.get(subscription, 0) + change
        self._freed |= change < 0
        if count:
            self._units[subscription] = count
            self._bytes[subscription] = self._bytes.get(subscription, 0) + size
            self._revisions.setdefault(subscription, unit.topic.revision)
        else:
            del self._units[subscription], self._bytes[subscription], self._revisions[subscription]

    def _sweep(self) -> None:
        """After units left from the midst: lanes that have none leave the round, idle ones memory."""
        for lane in self._lanes.values():
            lane.queued &= bool(lane.queues)
            lane.waits &= lane.queued
        self._round = deque(lane for lane in self._round if lane.queued)
        self._ill = deque(lane for lane in self._ill if lane.queued)
        for lane in list(self._lanes.values()):
            self._enter(lane)
