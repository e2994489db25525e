"""Chooses which staged unit goes next: one lane per receiver, fair between receivers and between the topics of each.

    topic's units ---> lane of receiver A:  topic 1 [u u u]   topic 4 [u]      <- taken in turn
                  '--> lane of receiver B:  topic 1 [u u]                      <- lanes taken in turn

There is no queue before the lanes, so a receiver that hangs holds up only its own messages. A lane may have
`per_target` attempts on the wire, and never more than there is room for in all. Switches share a buffer by the second
rule. If n receivers hang, each has total / (n + 1) attempts on the wire, and as many more may begin. So a receiver that
answers always finds room for some, however many hang.

A client that names receivers may name many. A receiver without a success in the last minute is on trial (trial.py). So
a topic with 2,000 receivers that hang does not hold the loop. It takes no room for attempts from other topics or from
receivers that answer.

A receiver two thirds of whose attempts fail is *ill*. Failures are costly: each moves its message on every node, and a
receiver that refuses connections can fail thousands of times a second. So every ILL_MS a few attempts to ill receivers
begin together, and their failures share an entry. Their other messages wait in the windows, cost nothing and use up no
attempts. An ill receiver has at most a tenth of `per_target` attempts on the wire. A single success makes it well.

Staged units are bounded by the same rule: a topic has at most as many as may still be staged in all. If a receiver
hangs, units for it may fill its topic's share. Only then do the topic's units for other receivers wait, too.

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
"""Time between two groups of attempts to ill receivers."""

ILL_TOGETHER: Final = 16
"""At most so many attempts to ill receivers begin at the same time. Their failures are one entry, which costs a node
little more than one failure does."""

IDLE_MAX: Final = 1_000  # so many receivers without units or attempts are remembered because they failed

PROVEN_MS: Final = 60_000  # after a success a receiver is not on trial for this time

PROVEN_MAX: Final = 20_000
"""Receivers whose last success is kept, 250 bytes each. At 1,000, 1,200 that all answered were on trial for ever."""

PROVEN_EVERY_MS: Final = 1_000  # a later success of a receiver is noted only after this time

UNITS_MAX: Final = 1 << 40  # no bound

_ILL: Final = 2 / 3
_WEIGHT: Final = 1 / 8
"""Weight of the newest outcome in a lane's share of failures: nine failures in a row make a receiver ill."""


@dataclass(slots=True, eq=False)
class Lane:
    """The units that wait for one receiver, and the number of attempts on the wire to it."""

    origin: Origin
    on_wire: int = 0
    failing: float = 0.0  # share of failures among the last outcomes, 0 to 1; newer ones weigh more
    proven_ms: int = -PROVEN_MS  # when the receiver last had a success, give or take a second
    queues: dict[Subscription, deque[StagedUnit]] = field(default_factory=dict)  # never empty; the first is next
    queued: bool = False  # it is in the round, waits for a trial, or is among the ill
    waits: bool = False  # it waits for a trial

    @property
    def ill(self) -> bool:
        """True if more than two thirds of the last attempts failed."""
        return self.failing > _ILL

    def on_trial(self, now_ms: int) -> bool:
        """True if the receiver had no success in the last minute."""
        return now_ms - self.proven_ms >= PROVEN_MS

    def note(self, *, failed: bool) -> None:
        """Count the outcome of an attempt."""
        if failed:
            self.failing += _WEIGHT * (1 - self.failing)
        else:
            self.failing = min(self.failing, _ILL) * (1 - _WEIGHT)

    def add(self, unit: StagedUnit, *, first: bool) -> None:
        """Put the unit at the end of its subscription's units, or at the front if `first`."""
        queue = self.queues.setdefault(unit.subscription, deque())
        if first:
            queue.appendleft(unit)
        else:
            queue.append(unit)

    def next(self, subscription: Subscription) -> StagedUnit:
        """Remove and return the subscription's next unit. Its turn comes again after the lane's other subscriptions."""
        queue = self.queues.pop(subscription)
        unit = queue.popleft()
        if queue:
            self.queues[subscription] = queue
        return unit


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many attempts may be on the wire, per receiver and in all, and how many units may be staged."""

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
        self._idle: dict[Origin, None] = {}  # lanes without units or attempts, the oldest first
        self._round: deque[Lane] = deque()  # lanes with units and below their limit; some may have become ill
        self._ill: deque[Lane] = deque()  # ill lanes with units; none is also in `_round`
        self._ill_ms = 0  # when the next ill lane may go
        self._trials: Trials[Lane] = Trials(bounds.total)
        self._proven_ms: dict[Origin, int] = {}  # last successes, also of forgotten lanes; the oldest first
        self.on_wire = 0  # sum of the lanes'; on_wire <= total
        self.staged = 0  # units in lanes
        self.bytes = 0  # memory of those units
        self._units: dict[Subscription, int] = {}  # units in lanes; no zeros
        self._bytes: dict[Subscription, int] = {}  # memory of those units
        self._freed = False
        self._put_back: set[Subscription] = set()
        self._revisions: dict[Subscription, int] = {}  # the topic's revision when the oldest of those was staged

    def take_freed(self) -> bool:
        """True if units have left the lanes since the last call, so that more may be staged."""
        freed, self._freed = self._freed, False
        return freed

    def take_put_back(self) -> set[Subscription]:
        """The subscriptions of which units were put back since the last call."""
        put_back, self._put_back = self._put_back, set()
        return put_back

    def revision(self, subscription: Subscription) -> int | None:
        """The topic's revision when the subscription's oldest staged unit was staged. None if no unit is staged."""
        return self._revisions.get(subscription)

    @property
    def left(self) -> int:
        """How many more units may be staged in all."""
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
        """Add a staged unit behind the other units of its subscription."""
        self._add(unit, first=False)

    def put_back(self, units: list[StagedUnit]) -> None:
        """Put units back that `take` returned and that may not be sent now. They are off the wire, and come first of
        their subscription, in the same order."""
        for unit in reversed(units):
            self.done(unit, 0)
            self._add(unit, first=True)
            self._put_back.add(unit.subscription)

    def take(self, now_ms: int, most: int = UNITS_MAX) -> list[StagedUnit]:
        """Take about `most` units for whose attempts there is room, from one lane after the other. Each counts as on
        the wire until `done` or `put_back`."""
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
        """Take units for receivers on trial, from one topic after the other. Add lanes without room to `blocked`."""
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
        """Take the next units of up to ILL_TOGETHER ill lanes, in turn. Few begin together, so none counts among the
        trials of a moment."""
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
        """How many ms until attempts to ill receivers or those on trial may begin. None if time makes no difference."""
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
        """True until ILL_MS after attempts to ill receivers began. Between terms the clock may go back by hours."""
        return 0 < self._ill_ms - now_ms <= ILL_MS

    def done(self, unit: StagedUnit, now_ms: int, *, failed: bool | None = None) -> None:
        """Note that an attempt has ended. `failed` is None if that says nothing of the receiver (it was never sent)."""
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
        """Note that the receiver had a success. It is not on trial now."""
        lane.proven_ms = now_ms
        if lane.waits:
            self._leave(lane)
            self._round.append(lane)
        self._proven_ms.pop(lane.origin, None)
        self._proven_ms[lane.origin] = now_ms
        if len(self._proven_ms) > PROVEN_MAX:
            del self._proven_ms[next(iter(self._proven_ms))]

    def drop(self, subscription: Subscription) -> list[StagedUnit]:
        """Take the subscription's staged units out of all lanes, and return them."""
        dropped: list[StagedUnit] = []
        for lane in list(self._lanes.values()):
            dropped += lane.queues.pop(subscription, ())
        self._trials.drop(subscription)
        for unit in dropped:
            self._count(unit, -1)
        self._sweep()
        return dropped

    def clear(self) -> None:
        """Drop all staged units. Attempts on the wire stay."""
        for lane in self._lanes.values():
            lane.queues.clear()
        self._trials.clear()
        self._units.clear()
        self._bytes.clear()
        self._revisions.clear()
        self.staged = self.bytes = 0
        self._sweep()

    def _take(self, lane: Lane, subscription: Subscription, *, trial_ms: int | None = None) -> StagedUnit:
        """Take the lane's next unit of the subscription. The caller has checked that it may go, and puts the lane into
        a line again. `trial_ms` is now if the lane is on trial."""
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
        """Put the lane, whose receiver is on trial, among those that wait for an attempt."""
        lane.queued = lane.waits = True
        self._trials.wait(lane, lane.queues)

    def _leave(self, lane: Lane) -> None:
        """Take the lane out of those that wait for a trial. The caller puts it into another line."""
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
        """Put the lane into the line of its kind if it has units and is below its limit. Forget it if it is idle."""
        if lane.queues:
            if not lane.queued and lane.on_wire < self._limit(lane):
                lane.queued = True
                (self._ill if lane.ill else self._round).append(lane)
        elif not lane.on_wire:
            self._forget(lane)

    def _forget(self, lane: Lane) -> None:
        """Forget an idle lane. If its receiver failed lately, first keep it for a while: its messages come again."""
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
        """Put the lines in order after units were removed: lanes without units leave, and idle lanes are forgotten."""
        for lane in self._lanes.values():
            lane.queued &= bool(lane.queues)
            lane.waits &= lane.queued
        self._round = deque(lane for lane in self._round if lane.queued)
        self._ill = deque(lane for lane in self._ill if lane.queued)
        for lane in list(self._lanes.values()):
            self._enter(lane)
