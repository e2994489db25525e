"""From the windows into the lanes: what is ready, read from the records and put where its receiver's units wait.

Work a turn follows what is ready to be pushed and has room: a bite of each of the next TOPICS_A_TURN topics. One whose
share of the lanes is used up is left out until a unit of it has gone.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

import numpy as np

from node.handover.hand_over_builder import rows_within
from node.handover.handing_over import HandingOver
from node.handover.term import Term
from node.push.lanes import Lanes
from node.push.target import Targets
from node.push.unit import StagedUnit
from storage.format.array import U64
from storage.format.states import IS_OPEN
from storage.store import Store
from storage.tables.topic import Subscription, Topic, subscription_of, topic_of

#: Topics looked at in one turn, units of one and of all looked at together (0.06 ms each to a new receiver), and bytes
#: of all their records.
TOPICS_A_TURN: Final = 64
BITE_UNITS: Final = 128
TURN_UNITS: Final = 1_024
TURN_BYTES: Final = 4 * 1024 * 1024
#: One of so many staged units may have ended: to look at all costs as much as to stage them again.
ENDED_MOST: Final = 4

Bite = tuple[Topic, Subscription, U64]


class Staging:
    """Of one node, through all its terms as leader. `more`: whether a turn left topics that have room."""

    def __init__(self, store: Store, lanes: Lanes, targets: Targets) -> None:
        self._store = store
        self._lanes = lanes
        self._targets = targets
        self._changed: set[Subscription] = set()  # those whose settings changed
        self._short: dict[Subscription, None] = {}  # those without room, which are not in line
        self._to_look = 0  # how many of these, from the first, may have some again
        self._next: Subscription | None = None  # the one that comes first, since the bytes of a turn ended there
        self.more = False

    def on_topic(self, number: int) -> None:
        """The topic's settings changed, or it was deleted."""
        self._changed.add(subscription_of(number))

    def turn(self, term: Term, now_ms: int) -> bool:
        """Take back what has changed or ended, and stage a bite of each of the next topics; whether there was
        anything."""
        went_back = self._look_for_changes(term)
        handing_over, lease_ahead = term.handing_over, term.handing_over.lease_ahead
        went_back |= self._take_back_ended(handing_over, now_ms)
        self.more = self._give_room(handing_over)
        left = min(TURN_UNITS, self._lanes.left)
        if not left:
            return went_back
        pushing, soon = handing_over.next_pushing(TOPICS_A_TURN), lease_ahead.subscriptions()
        if self._next in pushing:
            at = pushing.index(self._next)
            pushing = pushing[at:] + pushing[:at]
        bites: list[Bite] = []
        ready = [(each, handing_over.stage) for each in pushing]
        for subscription, stage in [*ready, *((each, lease_ahead.stage) for each in soon)]:
            topic = self._store.catalog.topic_by_number(topic_of(subscription))
            if topic is None or topic.settings.get("mode") != "push":
                continue
            room = min(self._lanes.room(subscription), BITE_UNITS)
            if not room:
                self._short[subscription] = None
                handing_over.set_room(subscription, False)
            if not room or not left:
                continue
            positions = stage(subscription, min(room, left), now_ms)
            left -= len(positions)
            if len(positions):
                bites.append((topic, subscription, positions))
        self.more |= len(pushing) == TOPICS_A_TURN or not left
        if bites:
            self._read(term, bites, now_ms)
        return went_back or bool(bites)

    def _take_back_ended(self, handing_over: HandingOver, now_ms: int) -> bool:
        """Units that ended wait for their receiver as others do, and take up room. Where many of a topic have, all of
        it are looked at once more; whether there were any."""
        went_back = False
        for subscription, count in handing_over.staged.take_ended().items():
            if count * ENDED_MOST >= self._lanes.units(subscription):
                handing_over.look_again(subscription, self._drop(subscription), now_ms)
                went_back = True
        return went_back

    def _give_room(self, handing_over: HandingOver) -> bool:
        """Units have gone: there may be room again for their topics, and for others that had none beside so many. A
        few of these are looked at; whether there are more."""
        if self._lanes.take_freed():
            self._to_look = len(self._short)
        if not self._lanes.left:
            return False
        for subscription in list(islice(self._short, min(TOPICS_A_TURN, self._to_look))):
            del self._short[subscription]
            self._to_look -= 1
            if self._lanes.room(subscription):
                handing_over.set_room(subscription, True)
            else:
                self._short[subscription] = None
        return self._to_look > 0

    def _look_for_changes(self, term: Term) -> bool:
        """Units of topics whose settings changed go back to their window: they may have another target now, or none.
        So do those that were off the lanes at that time, and were put back since. Whether there were any."""
        went_back = False
        for subscription in self._changed | self._lanes.take_put_back():
            topic = self._store.catalog.topic_by_number(topic_of(subscription))
            staged = self._lanes.revision(subscription)
            if staged is not None and (topic is None or topic.revision != staged):
                term.handing_over.unstage(subscription, self._drop(subscription))
                went_back = True
        self._changed.clear()
        return went_back

    def _drop(self, subscription: Subscription) -> U64:
        """The subscription's units out of the lanes."""
        return np.array([unit.position for unit in self._lanes.drop(subscription)], np.uint64)

    def _read(self, term: Term, bites: list[Bite], now_ms: int) -> None:
        """Into the lanes, as far as their records say and have room in the bytes of a turn. One look for all topics."""
        store, handing_over = self._store, term.handing_over
        positions = np.concatenate([bite for _, _, bite in bites])
        reads = IS_OPEN[store.state_only(positions)]
        rows = handing_over.read_staged(positions[reads])
        fits = rows_within(rows, TURN_BYTES) if len(rows) else 0
        records = iter(store.records(positions[reads][:fits], rows[:fits]))
        start, self._next = 0, None
        for topic, subscription, bite in bites:
            its = reads[start : start + len(bite)]
            start += len(bite)
            if not its.all():  # these have ended: nothing is to be read of them, and this look forgets them
                handing_over.look_again(subscription, bite[~its], now_ms)
            bite = bite[its]
            for position in bite[:fits].tolist():
                record = next(records)
                target = self._targets.of(topic, record.target)
                self._lanes.add(StagedUnit(topic, subscription, position, record, target))
            if len(bite) > fits:
                handing_over.unstage(subscription, bite[fits:])
                self._next = self._next or subscription
                self.more = True
            fits = max(0, fits - len(bite))
