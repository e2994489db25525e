"""Ready windows: per topic the next units to hand over, 24 bytes each, bounded per topic and in all.

Ready is not a list. What is ready is written in the records (due and neither leased nor settled, or leased with an
ended lease); a window holds only the next of it, and past its bound a topic remembers one position: where its backlog
begins. `node.leader.backlog` reads the records from there when the window has room again. So a slow topic with fifty
million ready units costs what a fast one costs, and delays nobody.

There are two lanes. CURRENT holds what became ready under this leader, OVERDUE what was ready when it began; a topic's
overdue units are handed over beside what is due now and never before it.

    push ->  [ window, at most `share` positions ] -> take
                 | more                      ^
                 v                           | room again: hungry
             begins[topic] = position  -- sweep of the records --
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import numpy.typing as npt

from node.ready.claimed_units import ClaimedUnits
from node.ready.topic_window import MARKS_MAX, NOTHING, NOTHING_FOUND, Found, LaneKind, Queued, Window
from node.ready.waited import Waited
from storage.format.array import I64, U32, U64
from storage.format.rows_by import rows_by
from storage.format.tag_mask import TagFilter


@dataclass(slots=True)
class Lane:
    """One lane of all topics. A topic without ready units has no entry anywhere."""

    windows: dict[int, Window] = field(default_factory=dict)  # topic -> its window, never empty
    begins: dict[int, int] = field(default_factory=dict)  # topic -> no ready unit before this position is unclaimed
    hungry: set[int] = field(default_factory=set)  # topics with a backlog and room for it
    half: int = 1  # of a share: nobody outside `hungry` has a backlog and less than this


class Ready:
    """All windows of a leader. Every position in a window is claimed here; who takes it frees the claim."""

    def __init__(self, claims: ClaimedUnits, *, per_topic: int, total: int) -> None:
        assert 0 < per_topic <= total, f"window of {per_topic} per topic, {total} in all"
        self._claims = claims
        self._per_topic = per_topic
        self._total = total
        self.count = 0  # positions in all windows
        self.lanes = (Lane(), Lane())
        self.marks_max = MARKS_MAX  # filters of a window whose marks are kept
        self.waited = Waited()
        self._pushed: set[int] = set()  # topics whose units are pushed
        self._full: set[int] = set()  # topics of which nothing more may be staged
        #: Topics with a window, of the first set and not of the second, in line.
        self._pushing: dict[int, None] = {}

    def set_pushed(self, topic: int, pushed: bool) -> None:
        """Whether the topic's units are pushed: it is in push mode, and not paused."""
        (self._pushed.add if pushed else self._pushed.discard)(topic)
        self._look(topic)

    def set_room(self, topic: int, room: bool) -> None:
        """Whether more of the topic may be staged."""
        (self._full.discard if room else self._full.add)(topic)
        self._look(topic)

    def next_pushing(self, most: int) -> list[int]:
        """The next topics whose units are to be staged, at most so many; they go to the end of the line."""
        topics = list(islice(self._pushing, most))
        if len(topics) < len(self._pushing):
            for topic in topics:
                del self._pushing[topic]
                self._pushing[topic] = None
        return topics

    def _look(self, topic: int) -> None:
        """Whether it is in the line."""
        ready = any(topic in lane.windows for lane in self.lanes)
        if ready and topic in self._pushed and topic not in self._full:
            self._pushing.setdefault(topic)
        else:
            self._pushing.pop(topic, None)

    @property
    def share(self) -> int:
        """How many positions one window may hold: an equal part of the total, so that slow topics crowd out nobody."""
        windows = len(self.lanes[0].windows) + len(self.lanes[1].windows)
        return max(1, min(self._per_topic, self._total // max(1, windows)))

    def waiting(self, kind: LaneKind, topic: int) -> int:
        """How many positions of the topic are in its window."""
        window = self.lanes[kind].windows.get(topic)
        return window.count if window is not None else 0

    def push(self, kind: LaneKind, topics: U32, units: Queued, *, swept: bool = False) -> None:
        """Units that are ready, in the order in which to hand them over; those already claimed are left out.

        What has no room is remembered as the topic's backlog. Units that do not come from a sweep of the backlog
        (`swept`) queue up behind it, as long as the window is not running empty.
        """
        free = ~self._claims.mask(units.position)
        if not free.all():
            topics, units = topics[free], units.select(free)
        pushed = [self._push(kind, topic, units.select(rows), swept) for topic, rows in rows_by(topics)]
        if pushed:
            self._claims.take(np.concatenate(pushed))  # once for all topics: it takes as long as the rest of one
        if self.count > self._total:
            self._shed()

    def push_both(self, overdue: npt.NDArray[np.bool_], topics: U32, units: Queued, *, swept: bool) -> None:
        """Units of both lanes, shape [n] each. A unit's lane follows from when it became ready, whoever finds it."""
        for kind, rows in ((LaneKind.CURRENT, ~overdue), (LaneKind.OVERDUE, overdue)):
            if rows.all():
                self.push(kind, topics, units, swept=swept)
            elif rows.any():
                self.push(kind, topics[rows], units.select(rows), swept=swept)

    def take(self, kind: LaneKind, topic: int, most: int) -> Queued:
        """The topic's next units, at most `most`. They stay claimed."""
        lane = self.lanes[kind]
        window = lane.windows.get(topic)
        if window is None or most <= 0:
            return NOTHING
        units = window.take(most)
        self.count -= len(units)
        self._settle(lane, topic, window)
        return units

    def put_back(self, kind: LaneKind, topic: int, units: Queued) -> None:
        """Units that were taken and not handed over, first in line again. They are still claimed."""
        if len(units):
            self._window(self.lanes[kind], topic).put_back(units)
            self.count += len(units)
            self.waited.note(topic)

    def fresh(self, kind: LaneKind, topic: int, tags: TagFilter) -> bool:
        """Whether the topic's window has units that the filter has not looked at and may want."""
        window = self.lanes[kind].windows.get(topic)
        return window is not None and window.fresh(tags, self.marks_max)

    def find(self, kind: LaneKind, topic: int, tags: TagFilter, most: int) -> Found:
        """The topic's next units that the filter may want, at most `most`. They stay in place; `leave` follows."""
        window = self.lanes[kind].windows.get(topic)
        return window.find(tags, most) if window is not None else NOTHING_FOUND

    def leave(self, kind: LaneKind, topic: int, tags: TagFilter, upto: int, gone: I64) -> None:
        """Of what the filter found, the units with the numbers `gone` leave the window, still claimed; it wants no
        other below number `upto`."""
        lane = self.lanes[kind]
        window = lane.windows.get(topic)
        if window is not None:
            window.looked(tags, upto, self.marks_max)
            window.remove(gone)
            self.count -= len(gone)
            self._settle(lane, topic, window)

    def hungry(self, kind: LaneKind) -> list[int]:
        """Topics that have a backlog and whose window is at most half full."""
        lane = self.lanes[kind]
        half = self.share // 2
        if half >= 2 * lane.half:  # others have gone; looked for now and then, since a share grows by a little often
            lane.hungry.update(topic for topic in lane.begins if self.waiting(kind, topic) <= half)
            lane.half = half
        lane.half = min(half, lane.half)
        lane.hungry -= {topic for topic in lane.hungry if self.waiting(kind, topic) > half}
        return sorted(lane.hungry)

    def swept(self, kind: LaneKind, topics: list[int], upto: int | None) -> None:
        """The backlog of these topics before position `upto` is read; None: all of it."""
        lane = self.lanes[kind]
        for topic in topics:
            if upto is None:
                del lane.begins[topic]
                lane.hungry.discard(topic)
            else:
                lane.begins[topic] = max(lane.begins[topic], upto)

    def _push(self, kind: LaneKind, topic: int, units: Queued, swept: bool) -> U64:
        """Those for which there is room, which are to be claimed."""
        lane = self.lanes[kind]
        window = self._window(lane, topic)
        share = self.share
        behind = not swept and topic in lane.begins and window.count > share // 4
        room = 0 if behind else max(0, share - window.count)
        if len(units) > room:
            self._begins_at(lane, topic, units.select(slice(room, None)))
            units = units.select(slice(room)).copy()  # a view would keep all of `units` in memory
        window.push(units)
        self.count += len(units)
        self.waited.note(topic)
        self._settle(lane, topic, window)
        return units.position

    def _window(self, lane: Lane, topic: int) -> Window:
        """The topic's window, made if there is none."""
        window = lane.windows.get(topic)
        if window is None:
            window = lane.windows[topic] = Window()
            if topic in self._pushed:
                self._look(topic)
        return window

    def _begins_at(self, lane: Lane, topic: int, rest: Queued) -> None:
        """These are backlog."""
        begin = int(rest.position.min())
        lane.begins[topic] = min(begin, lane.begins.get(topic, begin))

    def _settle(self, lane: Lane, topic: int, window: Window) -> None:
        """After a change of the window: hungry or not, and no empty window is kept."""
        if topic in lane.begins and window.count <= self.share // 2:
            lane.hungry.add(topic)
        if not window.count:
            del lane.windows[topic]
            if topic in self._pushed:
                self._look(topic)

    def _shed(self) -> None:
        """Cut the largest windows to their share until an eighth of the total is free; the rest is backlog again."""
        share = self.share
        largest = sorted(
            ((window.count, kind, topic) for kind in LaneKind for topic, window in self.lanes[kind].windows.items()),
            reverse=True,
        )
        for count, kind, topic in largest:
            if count <= share or self.count <= self._total - self._total // 8:
                break
            lane = self.lanes[kind]
            shed = lane.windows[topic].shed(share)
            self.count -= len(shed)
            self._claims.free(shed.position)
            self._begins_at(lane, topic, shed)
