"""Lists and counts follow the chunks of a running cancel, and say how many of their messages it has yet to reach."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from api.port.message import MessagePage
from api.port.port import ANONYMOUS
from api.port.queries import CountQuery, Histogram, ListQuery, MessageCount, OperationView
from node.node import Node
from node.operation import work
from node.operation.work import OperationWork
from storage.format.position import HOUR_MS
from storage.tables.operation_row import Progress
from storage.tables.registry import OPERATIONS
from storage.tables.running_set import RunningSet
from tests.node.message.everything import everything, views_of
from tests.node.operation.test_cancel_many import begin, ready, wish
from tests.node.single_node import run_node
from tests.waiting import until

EVERY_STATE = ("scheduled", "ready", "leased", "delivered", "cancelled", "dead")


async def asked(node: Node, **query: Any) -> tuple[MessageCount, Histogram, MessagePage]:
    """A count, a histogram by the minute and a list of the same messages."""
    count = await node.front.count(CountQuery(**query), principal=ANONYMOUS)
    histogram = await node.front.histogram(CountQuery(**query), step_ms=60_000, principal=ANONYMOUS)
    return count, histogram, await node.front.messages(ListQuery(**query, limit=1_000), principal=ANONYMOUS)


async def told(node: Node, **query: Any) -> int:
    """How many of the listed messages GET says are cancelled. The count, the histogram and the list say so too."""
    count, histogram, page = await asked(node, **query)
    assert page.next_cursor is None
    assert count.count == sum(each.count for each in histogram.buckets) == len(page.items)
    listed = [view for view in page.items if view.state in ("scheduled", "ready")]
    views = await views_of(node, [view.id for view in listed])
    settling = sum(view.state == "cancelled" for view in views)
    assert (count.settling, histogram.settling, page.settling) == (settling,) * 3
    return settling


@contextmanager
def chunk_by_chunk() -> Iterator[asyncio.Semaphore]:
    """Each release of the semaphore lets one chunk be made."""
    chunks, change = asyncio.Semaphore(0), OperationWork._change

    async def waits(self: OperationWork, each: RunningSet) -> None:
        await chunks.acquire()
        await change(self, each)

    with patch.object(OperationWork, "_change", waits):
        yield chunks


def moved_on(each: RunningSet, since: Progress) -> Progress | None:
    """The progress of an operation, once it is another one."""
    now = each.operation.progress
    return None if now == since else now


async def ended(node: Node, id: str) -> OperationView | None:
    """The operation, once it has ended."""
    view = await node.front.operation(id, principal=ANONYMOUS)
    return view if view.state == "done" else None


@pytest.mark.parametrize("which", ["topic", "window", "tag"])
def test_settling(tmp_path: Path, which: str) -> None:
    """Before the first chunk, between two, and at the end. Leased messages are not of it, and neither is what another
    query has not asked for."""

    async def play(node: Node) -> None:
        await ready(node)
        await everything(node)
        now_ms = node.front.now_ms()
        from_ms, to_ms = now_ms + HOUR_MS // 2, now_ms + 2 * HOUR_MS
        what = {
            "topic": wish("a", wait_s=0),
            "window": wish("b", from_ms=from_ms, to_ms=to_ms, wait_s=0),
            "tag": wish("a", tag="eu", wait_s=0),
        }
        before = await asked(node)
        assert await told(node) == 0
        operations = node.group.store.catalog.of(OPERATIONS)
        with chunk_by_chunk() as chunks, patch.object(work, "CHUNK_ROWS", 2):
            begun = await begin(node, what[which])
            topic, other = ("b", "a") if which == "window" else ("a", "b")
            settling = await told(node)
            assert settling > 2
            assert await told(node, states=EVERY_STATE) == settling
            assert await told(node, topic=topic) == await told(node, topic=topic, states=EVERY_STATE) == settling
            assert await told(node, topic=other) == await told(node, states=("delivered", "cancelled")) == 0
            assert 0 < await told(node, from_ms=from_ms, to_ms=to_ms) <= settling
            assert 0 < await told(node, tag="us" if which == "window" else "eu") <= settling
            assert (await asked(node))[0].count == before[0].count
            progress = operations.of_open[0].operation.progress
            while not progress.changed:  # the first messages may be leased ones
                before_it = progress
                chunks.release()
                progress = await until(partial(moved_on, operations.of_open[0], before_it))
            assert await told(node) == settling - progress.changed > 0
            for _ in range(settling):
                chunks.release()
            done = await until(lambda: ended(node, begun.id))
            assert (await told(node), (await asked(node))[0].count) == (0, before[0].count - done.changed)

    run_node(tmp_path / "n1", play)
