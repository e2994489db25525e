"""Messages that were given up, on a whole node: found page by page, by time and tag, and tried again in bulk."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from api.port.port import ANONYMOUS, MessageIn, PullIn, TopicChange
from api.port.problem import Problem
from api.port.queries import DeadMessage, DeadQuery
from node.node import Node
from node.write.command_queues import ENTRY_MOVES_MAX
from storage.format.array import U64
from storage.format.position import HOUR_MS
from tests.node.operation.redriving import redrive
from tests.node.single_node import run_node


async def kill(node: Node, messages: list[MessageIn]) -> None:
    """Schedule these to a topic that gives up at once, and have them given up."""
    await node.front.schedule(messages, ANONYMOUS)
    await give_up(node, len(messages))


async def give_up(node: Node, count: int) -> None:
    """Nack so many messages that are due, in a topic that gives up at once."""
    change = TopicChange(retry={"max_attempts": 1})
    await node.front.put_topic("t", change, create=True, if_match=None, principal=ANONYMOUS)
    receipts: list[str] = []
    while len(receipts) < count:
        receipts += [each.receipt for each in await node.front.pull(PullIn("t", 1_000, 5_000), ANONYMOUS)]
    results = await node.front.nack("t", receipts, delay_ms=0, principal=ANONYMOUS)
    assert set(results) == {"nacked"}


async def pages(node: Node, **query: Any) -> list[list[DeadMessage]]:
    """All pages of an answer."""
    found: list[list[DeadMessage]] = []
    cursor: str | None = None
    while True:
        page = await node.front.dead(DeadQuery(topic="t", cursor=cursor, **query), principal=ANONYMOUS)
        found.append(list(page.items))
        cursor = page.next_cursor
        if cursor is None:
            return found


def test_dead_messages_are_found_page_by_page_by_time_and_tag(tmp_path: Path) -> None:
    """In the order of arrival, none twice and none left out; other topics' and other states' messages are not among
    them; a cursor that is none is refused."""

    async def play(node: Node) -> None:
        now_ms = node.front.now_ms() - 1_000
        tags = [("eu",), ("us",), ("eu", "vip"), ()]
        await kill(node, [MessageIn("t", b"%d" % row, delay_ms=0, tags=tags[row % 4]) for row in range(700)])
        await node.front.schedule([MessageIn("t", b"0"), MessageIn("u", b"0")], ANONYMOUS)
        every = [dead for page in await pages(node, limit=1_000) for dead in page]
        assert len({dead.id for dead in every}) == len(every) == 700
        by_page = await pages(node, limit=300)
        assert [len(page) for page in by_page] == [300, 300, 100]
        assert [dead for page in by_page for dead in page] == every
        assert [len(page) for page in await pages(node, limit=350)] == [350, 350]
        vip = [dead for page in await pages(node, tag="vip", limit=100) for dead in page]
        assert vip == [dead for dead in every if "vip" in dead.tags]
        assert len(vip) == 175
        assert await pages(node, tag="asia") == await pages(node, to_ms=now_ms) == [[]]
        assert len((await pages(node, from_ms=now_ms, limit=1_000))[0]) == 700
        for cursor in ("x", "f" * 15 + "G", "f" * 17):
            with pytest.raises(Problem, match="invalid-field"):
                await node.front.dead(DeadQuery(topic="t", cursor=cursor), principal=ANONYMOUS)
        nowhere = DeadQuery(topic="nowhere")
        with pytest.raises(Problem, match="unknown-topic"):
            await node.front.dead(nowhere, principal=ANONYMOUS)
        with pytest.raises(Problem, match="unknown-topic"):
            await redrive(node, "nowhere", dry_run=True)

    run_node(tmp_path / "n1", play)


def test_large_dead_messages_are_redriven_a_few_at_a_time(tmp_path: Path) -> None:
    """Each is copied on every node: as many go in one entry as 4 MiB hold."""

    async def play(node: Node) -> None:
        for _ in range(2):
            await kill(node, [MessageIn("t", b'"' + b"x" * 250_000 + b'"', delay_ms=0)] * 20)
        before = node.group.proposer.entries
        done = await redrive(node)
        assert (done.matched, done.changed) == (40, 40)
        assert node.group.proposer.entries - before >= 3

    run_node(tmp_path / "n1", play)


def test_dead_messages_are_redriven_in_bulk(tmp_path: Path) -> None:
    """More than one entry takes, all of them once; a tag restricts it; they come again with their attempts going on."""
    count = ENTRY_MOVES_MAX + 200

    async def play(node: Node) -> None:
        await kill(node, [MessageIn("t", b"1", tags=("eu",) if row % 2 else ()) for row in range(count)])
        before = node.group.raft.applied_index
        done = await redrive(node, tag="eu")
        assert (done.matched, done.changed) == (count // 2, count // 2)
        done = await redrive(node)
        assert (done.matched, done.changed) == (count // 2, count // 2)
        assert before < done.index <= node.group.raft.applied_index
        attempts: list[int] = []
        while len(attempts) < count:
            attempts += [each.attempt for each in await node.front.pull(PullIn("t", 1_000, 5_000), ANONYMOUS)]
        assert set(attempts) == {2}
        assert await pages(node) == [[]]

    run_node(tmp_path / "n1", play)


def test_9042_who_is_gone_with_the_hour_where_it_died_is_not_listed(tmp_path: Path) -> None:
    """It is not redriven either: its record at home has the first revision and no doubt."""

    async def play(node: Node) -> None:
        far_ms = node.front.now_ms() + 50 * HOUR_MS
        result = await node.front.schedule([MessageIn("t", b"0", due_ms=far_ms)], ANONYMOUS)
        id = result.ids[0].decode()
        await node.front.reschedule(id, delay_ms=0, due_ms=None, if_match=None, principal=ANONYMOUS)
        await give_up(node, 1)
        assert [dead.id for dead in (await pages(node))[0]] == [id]
        (hour,) = [hour for hour in node.group.store.hours() if hour < far_ms // HOUR_MS]
        node.group.store.unlink(hour)
        assert await pages(node) == [[]]
        assert (await redrive(node)).matched == 0

    run_node(tmp_path / "n1", play)


@pytest.mark.held(2_000, reason="a node that ends makes its last checkpoint in one step: 1,000 new hours")
def test_hours_without_dead_messages_are_not_looked_at_and_each_other_takes_a_turn(tmp_path: Path) -> None:
    """FOUND B10: every hour was opened, all in one step of the loop: 0.9 s with 87,000 hours."""

    async def play(node: Node) -> None:
        now_ms = node.front.now_ms()
        await node.front.schedule(
            [MessageIn("t", b"0", due_ms=now_ms + row * HOUR_MS) for row in range(1, 1_000)], ANONYMOUS
        )
        far = [MessageIn("t", b"0", due_ms=now_ms + row * HOUR_MS) for row in range(1, 60)]
        result = await node.front.schedule(far, ANONYMOUS)
        for each in result.ids:
            await node.front.cancel(each.decode(), if_match=None, principal=ANONYMOUS)
        await kill(node, [MessageIn("t", b"0", delay_ms=0)])
        turn, looks = 0, Counter[int]()
        find = node.group.store.born_in_state

        def look(first: int, end: int, state: int) -> U64:
            looks[turn] += 1
            return find(first, end, state)

        async def count_turns() -> None:
            nonlocal turn
            while True:
                turn += 1
                await asyncio.sleep(0)

        counting = asyncio.ensure_future(count_turns())
        node.group.store.born_in_state = look  # type: ignore[method-assign]
        assert len((await pages(node))[0]) == 1
        counting.cancel()
        assert 60 <= looks.total() <= 61
        assert max(looks.values()) == 1

    run_node(tmp_path / "n1", play)
