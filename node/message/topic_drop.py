"""A topic is deleted when nothing in it has not ended: counted in a thread, and made sure of when the entry is written.

    count all hours (they may change meanwhile) --- some: not-empty
            |  none; remembers how many units each hour had when it was counted
            v
    when the entry is put together: are there units appended since, and of this topic?  --- yes: count again
            |  no                                                                            too many: count again
            v
    DropTopic, void unless it stands right behind what was looked at (replication/apply/topic.py) --- void: count again

A message of the topic can only become open by a unit that is appended, by a schedule, a move or a redrive; so what was
counted, and what was appended since, is all there is. Producers are not held up: their message comes first, or makes
the topic anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from api.port.problem import Problem
from node.message.count import Leads
from replication.apply.topic import DROPPED, MISMATCH, UNKNOWN
from replication.command.registry import DropTopic
from storage.catalog.topic import Topic
from storage.hour.hour_table import Extents

if TYPE_CHECKING:
    from node.server import Node

#: Counts until a delete gives up, each quicker than what comes in between.
TRIES_MAX: Final = 8
#: Units appended since the count that are looked at on the loop, and hours that they are in: some milliseconds.
FRESH_MAX: Final = 20_000
FRESH_HOURS_MAX: Final = 100


async def drop_topic(node: Node, topic: Topic, if_match: int | None, leads: Leads) -> int:
    """Remove the topic; DROPPED, or MISMATCH if it has another revision than `if_match`. `not-empty`, `over-limit`,
    `unknown-topic` if somebody else removed it, `change-in-progress` where too much comes."""
    for _ in range(TRIES_MAX):
        pending, before = await node.counting.open_messages(topic.number, leads)
        if pending:
            raise Problem(
                "not-empty",
                f"{pending} messages of {topic.name} have not ended; cancel them or wait for their end",
                pending=pending,
            )
        result = await node.proposer.drop_topic(_judge(node, topic, if_match, before))
        if result == DROPPED:
            node.topic_metrics.forget(topic.name)
        if result in (DROPPED, MISMATCH):
            return result
        if result == UNKNOWN:
            raise Problem("unknown-topic", f"no topic is named {topic.name}; it was deleted meanwhile")
        await node.driver.applied()  # an entry that others proposed is on its way to the disk, perhaps a slow one
    raise Problem("change-in-progress", f"too much comes in to make sure that {topic.name} is empty; try again later")


def _judge(node: Node, topic: Topic, if_match: int | None, before: Extents) -> Callable[[], DropTopic | None]:
    """What is proposed if nothing of the topic came since the count, None if it may have; asked when the entry that it
    goes in is put together, so that its index is known."""

    def judge() -> DropTopic | None:
        group, store = node.group, node.store
        index = group.last_index
        if group.applied_index != index or not _unchanged(node, topic.number, before):
            return None
        return DropTopic(topic.namespace, topic.name, index + 1, store.unit_count, if_match or 0)

    return judge


def _unchanged(node: Node, number: int, before: Extents) -> bool:
    """Whether no unit of the topic was appended since the hours were counted."""
    store = node.store
    fresh = [*store.extents().grown_since(before)]
    if sum(units for _, _, units in fresh) > FRESH_MAX or len(fresh) > FRESH_HOURS_MAX:
        return False
    return not any((store.topics_from(hour, first) == number).any() for hour, first, _ in fresh)
