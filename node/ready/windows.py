"""Ready windows: the next units to hand over, per subscription, 24 bytes each, bounded for each and in all.

There is no list of all ready units. The settle records say which units are ready: due, open, and under no running
lease. A window holds only the next of them. A subscription with more remembers one position: where its backlog begins.
`node.leader.backlog` reads from there when the window has room again. So a slow topic with fifty million ready units
needs no more memory than a fast one, and delays no other.

There are two lanes. CURRENT holds units that became ready under this leader, OVERDUE those that were ready when it
began. A topic's overdue units are handed over beside the units due now and never before them.

    push ->  [ window, at most `share` positions ] -> take
                 | more                      ^
                 v                           | room again: hungry
             begins[subscription] = position  -- read by node.leader.backlog --

Units that a rule holds are taken out of their window and parked (held_units.py). They count for the share of their
subscription.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import numpy.typing as npt

from node.ready.claimed_units import ClaimedUnits
from node.ready.held_units import HeldUnits
from node.ready.topic_window import MARKS_MAX, NOTHING, NOTHING_FOUND, Found, LaneKind, Queued, Window
from node.ready.waited_subscriptions import WaitedSubscriptions
from storage.format.array import I64, U32, U64
from storage.format.predicate import TagFilter
from storage.format.rows_by import rows_by
from storage.tables.topic import Subscription, topic_of


@dataclass(slots=True)
class Lane:
    """The windows and backlogs of all subscriptions in one lane. A subscription without ready units has no entry."""

    kind: LaneKind
    windows: dict[Subscription, Window] = field(default_factory=dict)  # by subscription, its window, never empty
    begins: dict[Subscription, int] = field(default_factory=dict)  # no ready unit before this position is unclaimed
    hungry: set[Subscription] = field(default_factory=set)  # subscriptions with a backlog and room for it
    left_out: dict[Subscription, int] = field(default_factory=dict)  # the first position of units left out by a rule
    half: int = 1  # a subscription outside `hungry` that has a backlog holds more than so many units (half a share)


class Ready:
    """All windows of a leader, with parked units and waiting pulls. Every position in a window is claimed. `take` and
    `leave` do not free the claim: their caller does, when it is done with the unit. `exists` says if the subscription's
    topic is there: a deleted topic has only ended units, and gets no window."""

    def __init__(
        self,
        claims: ClaimedUnits,
        *,
        per_topic: int,
        total: int,
        exists: Callable[[Subscription], bool] = lambda subscription: True,
    ) -> None:
        assert 0 < per_topic <= total, f"window of {per_topic} per topic, {total} in all"
        self._claims, self._exists = claims, exists
        self._per_topic = per_topic
        self._total = total
        self.count = 0  # positions in all windows
        self.lanes = (Lane(LaneKind.CURRENT), Lane(LaneKind.OVERDUE))
        self.parked = HeldUnits()
        self.marks_max = MARKS_MAX  # filters of a window whose marks are kept
        self.waited = WaitedSubscriptions()
        self._pushed: set[Subscription] = set()  # subscriptions whose units are pushed
        self._full: set[Subscription] = set()  # subscriptions of which no more may be staged
        #: Subscriptions with a window, in _pushed and not in _full, in line.
        self._pushing: dict[Subscription, None] = {}

    def set_pushed(self, subscription: Subscription, pushed: bool) -> None:
        """Say if the subscription's units are pushed, that is, if it is in push mode and not paused."""
        (self._pushed.add if pushed else self._pushed.discard)(subscription)
        self._look(subscription)

    def set_room(self, subscription: Subscription, room: bool) -> None:
        """Say if more units of the subscription may be staged."""
        (self._full.discard if room else self._full.add)(subscription)
        self._look(subscription)

    def next_pushing(self, most: int) -> list[Subscription]:
        """The next subscriptions whose units are to be staged, at most `most`. These go to the end of the line."""
        subscriptions = list(islice(self._pushing, most))
        if len(subscriptions) < len(self._pushing):
            for subscription in subscriptions:
                del self._pushing[subscription]
                self._pushing[subscription] = None
        return subscriptions

    def _look(self, subscription: Subscription) -> None:
        """Put the subscription into the line of those to be pushed, or take it out."""
        ready = any(subscription in lane.windows for lane in self.lanes)
        if ready and subscription in self._pushed and subscription not in self._full:
            self._pushing.setdefault(subscription)
        else:
            self._pushing.pop(subscription, None)

    @property
    def share(self) -> int:
        """How many positions one window may hold: an equal part of the total, so that slow topics crowd out no
        other."""
        windows = len(self.lanes[0].windows) + len(self.lanes[1].windows) + len(self.parked.lines)
        return max(1, min(self._per_topic, self._total // max(1, windows)))

    def waiting(self, kind: LaneKind, subscription: Subscription) -> int:
        """How many positions of the subscription are in its window."""
        window = self.lanes[kind].windows.get(subscription)
        return window.count if window is not None else 0

    def push(self, kind: LaneKind, subscriptions: U32, units: Queued, *, swept: bool = False) -> None:
        """Add ready units to the windows of their subscriptions, in the order in which to hand them over, and claim
        them. Units that are claimed already are left out.

        Units beyond the window's share become backlog. If the subscription has a backlog, new units become backlog too,
        so that they come behind it. There are two exceptions: `swept` units, which were read from the backlog, and a
        window that holds at most a quarter of its share.
        """
        free = ~self._claims.mask(units.position)
        if not free.all():
            subscriptions, units = subscriptions[free], units.select(free)
        pushed = [
            self._push(kind, Subscription(key), units.select(rows), swept) for key, rows in rows_by(subscriptions)
        ]
        if pushed:
            self._claims.take(np.concatenate(pushed))  # one call: it costs as much as all other work for a subscription
        if self.count + self.parked.count > self._total:
            self._shed()

    def push_both(self, overdue: npt.NDArray[np.bool_], subscriptions: U32, units: Queued, *, swept: bool) -> None:
        """Add units of both lanes, shape [n] each. `overdue` is True for units of the overdue lane: those that became
        ready before this leader began."""
        for kind, rows in ((LaneKind.CURRENT, ~overdue), (LaneKind.OVERDUE, overdue)):
            if rows.all():
                self.push(kind, subscriptions, units, swept=swept)
            elif rows.any():
                self.push(kind, subscriptions[rows], units.select(rows), swept=swept)

    def take(self, kind: LaneKind, subscription: Subscription, most: int) -> Queued:
        """Remove and return the first units of the subscription's window, at most `most`. They stay claimed."""
        lane = self.lanes[kind]
        window = lane.windows.get(subscription)
        if window is None or most <= 0:
            return NOTHING
        units = window.take(most)
        self.count -= len(units)
        self._settle(lane, subscription, window)
        return units

    def put_back(self, kind: LaneKind, subscription: Subscription, units: Queued) -> None:
        """Put units that were taken and not handed over at the front of their window. They are still claimed. If the
        topic was deleted, free them instead."""
        lane = self.lanes[kind]
        if self._is_gone(lane, subscription):
            self._claims.free(units.position)
        elif len(units):
            self._window(lane, subscription).put_back(units)
            self.count += len(units)
            self.waited.note(subscription)

    def fresh(self, kind: LaneKind, subscription: Subscription, tags: TagFilter) -> bool:
        """True if the subscription's window has units that the filter has not looked at and may want."""
        window = self.lanes[kind].windows.get(subscription)
        return window is not None and window.fresh(tags, self.marks_max)

    def find(self, kind: LaneKind, subscription: Subscription, tags: TagFilter, most: int) -> Found:
        """Find the first units in the window that the filter may want and has not looked at, at most `most`. They stay
        in place. The caller calls `leave` next."""
        window = self.lanes[kind].windows.get(subscription)
        return window.find(tags, most) if window is not None else NOTHING_FOUND

    def leave(self, kind: LaneKind, subscription: Subscription, tags: TagFilter, upto: int, gone: I64) -> None:
        """Remove the units with the numbers `gone` from the window. They stay claimed. The filter wants no other unit
        with a number below `upto`."""
        lane = self.lanes[kind]
        window = lane.windows.get(subscription)
        if window is not None:
            window.looked(tags, upto, self.marks_max)
            window.remove(gone)
            self.count -= len(gone)
            self._settle(lane, subscription, window)

    def ended(self, kind: LaneKind, subscription: Subscription, units: Queued) -> None:
        """Free the claims of units that were taken, or parked, and are not to come back. Note it if their subscription
        has room for units of its backlog then."""
        self._claims.free(units.position)
        self._look_hungry(self.lanes[kind], subscription)

    def leave_out(self, kind: LaneKind, subscription: Subscription, units: Queued) -> None:
        """Forget units that were taken and that a rule leaves out. They are no backlog either, until `ask_left_out`."""
        self._leaves_out(self.lanes[kind], subscription, units.position)
        self.ended(kind, subscription, units)

    def pass_over(self, kind: LaneKind, subscriptions: U32, positions: U64) -> None:
        """Note units of the backlog, shape [n], that a rule leaves out and that get into no window."""
        for key, rows in rows_by(subscriptions):
            self._leaves_out(self.lanes[kind], Subscription(key), positions[rows])

    def ask_left_out(self, topics: Collection[int] | None) -> None:
        """Make the units of these topics that were left out backlog again, because a rule may have changed. None: those
        of all topics."""
        for lane in self.lanes:
            asked = [each for each in lane.left_out if topics is None or topic_of(each) in topics]
            for subscription in asked:
                self._begins_at(lane, subscription, lane.left_out.pop(subscription))
                self._look_hungry(lane, subscription)

    def drop(self, subscription: Subscription) -> None:
        """Drop the windows, parked units and backlogs of a topic that was deleted. All its units have ended."""
        for lane in self.lanes:
            lane.begins.pop(subscription, None)
            lane.hungry.discard(subscription)
            lane.left_out.pop(subscription, None)
            window = lane.windows.pop(subscription, None)
            if window is not None:
                self.count -= window.count
                self._claims.free(window.take(window.count).position)
            if self.parked.of(lane.kind, subscription):
                self._claims.free(self.parked.shed(lane.kind, subscription, 0).position)
        self._look(subscription)

    def hungry(self, kind: LaneKind) -> list[Subscription]:
        """The subscriptions that have a backlog and at most half of their share of units in memory."""
        lane = self.lanes[kind]
        half = self.share // 2
        if half >= 2 * lane.half:  # shares have doubled, because other windows went: look at all subscriptions again
            lane.hungry.update(each for each in lane.begins if self._has_room(lane, each, half))
            lane.half = half
        lane.half = min(half, lane.half)
        lane.hungry -= {each for each in lane.hungry if not self._has_room(lane, each, half)}
        return sorted(lane.hungry)

    def swept(self, kind: LaneKind, subscriptions: list[Subscription], upto: int | None) -> None:
        """Note that the backlog of these subscriptions was read up to position `upto`, or to its end if `upto` is
        None."""
        lane = self.lanes[kind]
        for subscription in subscriptions:
            if upto is None:
                del lane.begins[subscription]
                lane.hungry.discard(subscription)
            else:
                lane.begins[subscription] = max(lane.begins[subscription], upto)

    def _push(self, kind: LaneKind, subscription: Subscription, units: Queued, swept: bool) -> U64:
        """Add the first of these units to the window, as many as its share allows. Return their positions, which the
        caller must claim. The others become backlog."""
        lane = self.lanes[kind]
        if self._is_gone(lane, subscription):
            return NOTHING.position
        window = self._window(lane, subscription)
        share = self.share
        behind = not swept and subscription in lane.begins and window.count > share // 4
        room = 0 if behind else max(0, share - window.count - self.parked.of(kind, subscription))
        if len(units) > room:
            self._begins_at(lane, subscription, int(units.position[room:].min()))
            units = units.select(slice(room)).copy()  # a view would keep all of `units` in memory
        window.push(units)
        self.count += len(units)
        self.waited.note(subscription)
        self._settle(lane, subscription, window)
        return units.position

    def _is_gone(self, lane: Lane, subscription: Subscription) -> bool:
        """True if the subscription has no window in this lane and its topic was deleted."""
        return subscription not in lane.windows and not self._exists(subscription)

    def _window(self, lane: Lane, subscription: Subscription) -> Window:
        """The subscription's window, made if there is none."""
        window = lane.windows.get(subscription)
        if window is None:
            window = lane.windows[subscription] = Window()
            if subscription in self._pushed:
                self._look(subscription)
        return window

    def _look_hungry(self, lane: Lane, subscription: Subscription) -> None:
        """Note it if the subscription has a backlog, and room for units of it."""
        if subscription in lane.begins and self._has_room(lane, subscription, self.share // 2):
            lane.hungry.add(subscription)

    def _has_room(self, lane: Lane, subscription: Subscription, half: int) -> bool:
        """True if at most `half` units of the subscription are in memory, in the window or parked. If all of them are
        parked there is no window yet. Its window will make every share smaller, so half of that smaller share is the
        bound then."""
        waiting, parked = self.waiting(lane.kind, subscription), self.parked.of(lane.kind, subscription)
        if parked and not waiting:
            windows = len(self.lanes[0].windows) + len(self.lanes[1].windows) + len(self.parked.lines) + 1
            half = min(half, self._total // windows // 2)
        return waiting + parked <= half

    def _begins_at(self, lane: Lane, subscription: Subscription, first: int) -> None:
        """Note that the backlog of the subscription begins no later than at this position."""
        lane.begins[subscription] = min(first, lane.begins.get(subscription, first))

    def _leaves_out(self, lane: Lane, subscription: Subscription, positions: U64) -> None:
        first = int(positions.min())
        lane.left_out[subscription] = min(first, lane.left_out.get(subscription, first))

    def _settle(self, lane: Lane, subscription: Subscription, window: Window) -> None:
        """Update `hungry` after a change of the window, and remove the window if it is empty."""
        self._look_hungry(lane, subscription)
        if not window.count:
            del lane.windows[subscription]
            if subscription in self._pushed:
                self._look(subscription)

    def _shed(self) -> None:
        """Cut the largest windows and parked lines to one share each until an eighth of the total is free. The units
        cut off become backlog."""
        share = self.share
        windows = [
            (window.count, kind, subscription, False)
            for kind in LaneKind
            for subscription, window in self.lanes[kind].windows.items()
        ]
        largest = sorted([*windows, *((*size, True) for size in self.parked.sizes())], reverse=True)
        for count, kind, subscription, parked in largest:
            if count <= share or self.count + self.parked.count <= self._total - self._total // 8:
                break
            lane = self.lanes[kind]
            if parked:
                shed = self.parked.shed(kind, subscription, share)
            else:
                shed = lane.windows[subscription].shed(share)
                self.count -= len(shed)
            self._claims.free(shed.position)
            self._begins_at(lane, subscription, int(shed.position.min()))
