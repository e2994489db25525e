"""Deletes a topic when all its messages have ended. A thread counts them, and the command is proposed only if no new
unit came.

    count all hours (they may change meanwhile) --- some are open: not-empty
            |  none; remembers how many units each hour had when it was counted
            v
    when the entry is put together: is any unit appended since of this topic?     --- yes: count again
            |  no                                                     too many to look at: count again
            v
    DropTopic, void unless it stands right behind what was looked at (replication/apply/topic.py) --- void: count again

A topic gets an open message only by a unit that is appended: by a schedule, a move or a redrive. So it is enough to
look at the units that were counted and at those appended since. Producers are not held up. If their message comes
first, the topic is not empty. If it comes later, it creates the topic anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from api.port.problem import Problem
from node.handover.term import Leads
from node.handover.topic_metrics import TopicMetrics
from node.message.count import Counting
from node.write.once_queue import Requests
from node.write.proposer import Proposer
from replication.apply.topic import DROPPED, MISMATCH, UNKNOWN
from replication.command.topic import DropTopic
from replication.driver import GroupDriver
from replication.group import RaftGroup
from storage.hour.hour_table import Extents
from storage.store import Store
from storage.tables.topic import Topic

#: A delete gives up after so many counts, if messages came in during each of them.
TRIES_MAX: Final = 8
#: At most so many units appended since the count, in so many hours, are looked at on the loop. It takes a few ms.
FRESH_MAX: Final = 20_000
FRESH_HOURS_MAX: Final = 100


class TopicDrop:
    """Deletes topics all of whose messages have ended. The caller has checked that this node leads. `leads` returns the
    term, and raises a Problem unless the node may answer as leader at this moment."""

    def __init__(
        self,
        store: Store,
        proposer: Proposer,
        counting: Counting,
        group: RaftGroup,
        driver: GroupDriver,
        topic_metrics: TopicMetrics,
    ) -> None:
        self._store, self._proposer, self._counting = store, proposer, counting
        self._group, self._driver, self._topic_metrics = group, driver, topic_metrics

    async def drop(self, topic: Topic, if_match: int | None, leads: Leads, through: Requests | None = None) -> int:
        """Remove the topic. Return DROPPED, or MISMATCH if it has another revision than `if_match`. Raises `not-empty`,
        `over-limit`, `unknown-topic` if another client removed it, and `change-in-progress` if messages come too
        fast. `through` proposes it, None: the proposer."""
        for _ in range(TRIES_MAX):
            pending, before = await self._counting.living(topic.number, leads)
            if pending:
                raise Problem(
                    "not-empty",
                    f"{pending} messages of {topic.name} have not ended; cancel them or wait for their end",
                    pending=pending,
                )
            result = await (through or self._proposer).drop_topic(self._judge(topic, if_match, before))
            if result == DROPPED:
                self._topic_metrics.forget(topic.name)
            if result in (DROPPED, MISMATCH):
                return result
            if result == UNKNOWN:
                raise Problem("unknown-topic", f"no topic is named {topic.name}; it was deleted meanwhile")
            await self._driver.applied()  # an entry of another request is on its way to the disk, perhaps a slow one
        raise Problem(
            "change-in-progress", f"too much comes in to make sure that {topic.name} is empty; try again later"
        )

    def _judge(self, topic: Topic, if_match: int | None, before: Extents) -> Callable[[], DropTopic | None]:
        """Make a function that returns the command, or None if a unit of the topic may have come since the count
        `before`. The proposer calls it when the entry is put together, so that the entry's index is known."""

        def judge() -> DropTopic | None:
            index = self._group.last_index
            if self._group.applied_index != index or not self._unchanged(topic.number, before):
                return None
            return DropTopic(topic.namespace, topic.name, index + 1, self._store.unit_count, if_match or 0)

        return judge

    def _unchanged(self, number: int, before: Extents) -> bool:
        """True if surely no unit of the topic was appended since the hours were counted. False also if too many units
        are new to look at."""
        fresh = [*self._store.extents().grown_since(before)]
        if sum(units for _, _, units in fresh) > FRESH_MAX or len(fresh) > FRESH_HOURS_MAX:
            return False
        return not any((self._store.topics_from(hour, first) == number).any() for hour, first, _ in fresh)
