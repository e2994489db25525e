"""Stages ready units: reads their records and puts the units into the lanes of their receivers.

Each turn of the pump stages a few units of each of the next TOPICS_A_TURN topics that have ready units and room. A
topic at its bound of staged units is left out until units leave the lanes and it is below its bound again.
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

#: Bounds of one turn of the pump: topics looked at, units of one topic, units of all topics, and bytes of all their
#: records. A unit to a new receiver takes 0.06 ms.
TOPICS_A_TURN: Final = 64
BITE_UNITS: Final = 128
TURN_UNITS: Final = 1_024
TURN_BYTES: Final = 4 * 1024 * 1024
#: If at least one in so many staged units of a topic has ended, all of its staged units are looked at again. That costs
#: as much as to stage them again.
ENDED_MOST: Final = 4

Bite = tuple[Topic, Subscription, U64]


class Staging:
    """Stages the units of one node, through all its terms as leader. `more` is True if the last turn left units that
    may be staged at once."""

    def __init__(self, store: Store, lanes: Lanes, targets: Targets) -> None:
        self._store = store
        self._lanes = lanes
        self._targets = targets
        self._changed: set[Subscription] = set()  # topics whose settings changed
        self._short: dict[Subscription, None] = {}  # topics that may stage no more, and are not in line
        self._to_look = 0  # how many of `_short`, from the first, may have room again
        self._next: Subscription | None = None  # comes first in the next turn: the bytes of a turn ended there
        self.more = False

    def on_topic(self, number: int) -> None:
        """Note that the topic's settings changed, or that it was deleted."""
        self._changed.add(subscription_of(number))

    def turn(self, term: Term, now_ms: int) -> bool:
        """Unstage units that ended or whose topic changed, and stage some units of each of the next topics. Return True
        if any unit was unstaged or staged."""
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
        """Unstage all units of each topic in which many staged units have ended. The ended ones are forgotten.
        Otherwise they would count against the bounds until there is room for an attempt to their receiver. Return True
        if there were such topics."""
        went_back = False
        for subscription, count in handing_over.staged.take_ended().items():
            if count * ENDED_MOST >= self._lanes.units(subscription):
                handing_over.look_again(subscription, self._drop(subscription), now_ms)
                went_back = True
        return went_back

    def _give_room(self, handing_over: HandingOver) -> bool:
        """When units have left the lanes, put topics back in line that may stage units again. A few topics are looked
        at in each call. Return True if there are more to look at."""
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
        """Unstage units of topics whose settings changed, because their target may be another one now, or none. Also do
        so for topics of which units were put back into the lanes. These units may have been out of the lanes when the
        settings changed. Return True if any were unstaged."""
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
        """Take the subscription's units out of the lanes, and return their positions."""
        return np.array([unit.position for unit in self._lanes.drop(subscription)], np.uint64)

    def _read(self, term: Term, bites: list[Bite], now_ms: int) -> None:
        """Read the records of staged units and put these into lanes, up to TURN_BYTES of records. Those beyond are
        unstaged. One read serves all topics."""
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
            if not its.all():  # some have ended: they are not read, and this look forgets them
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
