"""Batches on a whole node: lines that change the holders of their keys, and atomic ones."""

import asyncio
from pathlib import Path

import pytest

from api.port.port import ANONYMOUS, Extend, MessageIn, TopicChange
from api.port.problem import Problem
from node.node import Node
from storage.format.schedule_status import CONFLICT, EXTENDED, FAILED, NEW, REPLACED, REPLAYED
from tests.node.message.everything import put_topic, schedule, views_of
from tests.node.message.test_message_writer import keyed, send
from tests.node.operation.test_cancel_many import ready
from tests.node.single_node import run_node


def test_the_last_line_wins_beside_another_client(tmp_path: Path) -> None:
    """Lines of one key in several entries take effect in their order, though another client replaces it meanwhile."""

    async def play(node: Node) -> None:
        await ready(node)
        lines = [keyed("replace", b"%d" % row) for row in range(60)]
        batch = asyncio.ensure_future(node.front.schedule(lines, ANONYMOUS))
        others = [await send(node, keyed("replace", b"x")) for _ in range(6)]
        result = await batch
        ids = [id.decode() for id in result.ids.tolist()]
        place = {id: row for row, id in enumerate(ids)}
        assert all(place.get(each.id, -1) < row for row, each in result.superseded.items())
        gone = {each.id for each in result.superseded.values()} | {
            each.superseded.id for each in others if each.superseded is not None
        }
        assert len({*ids, *(each.id for each in others)} - gone) == 1

    run_node(tmp_path / "n1", play)


def test_a_batch_makes_no_more_topics_than_may_be(tmp_path: Path) -> None:
    """Each line counts, also those that change holders."""

    async def play(node: Node) -> None:
        await ready(node)
        lines = [keyed("replace", topic=f"t{row}") for row in range(9)]
        result = await node.front.schedule(lines, ANONYMOUS)
        assert [*map(int, result.status)] == [NEW] * 3 + [FAILED] * 6
        assert {problem.code for problem in result.problems.values()} == {"over-limit"}

    run_node(tmp_path / "n1", play, limits={"max_topics": 3})


def test_large_holders_go_in_several_entries(tmp_path: Path) -> None:
    """An extend copies its holder, so the holder's size counts, too."""

    async def play(node: Node) -> None:
        await ready(node)
        body = b"x" * 200_000
        await schedule(node, [keyed("reject", body, key=f"k{row}") for row in range(40)])
        before = node.group.machine.applied_index
        small = [keyed("extend", b"1", key=f"k{row}", extend=Extend(due_only=True)) for row in range(40)]
        assert {*map(int, (await node.front.schedule(small, ANONYMOUS)).status)} == {EXTENDED}
        assert node.group.machine.applied_index - before >= 2

    run_node(tmp_path / "n1", play)


def test_lines_of_a_batch_take_effect_in_their_order(tmp_path: Path) -> None:
    """Also where lines that change the holder stand between others."""

    async def play(node: Node) -> None:
        await ready(node)
        rules = ["keep", "replace", "replace", "keep", "extend", "reject"]
        lines = [keyed(rule, b"%d" % row) for row, rule in enumerate(rules)] + [MessageIn("orders", b"z")]
        result = await node.front.schedule(lines, ANONYMOUS)
        ids = [id.decode() for id in result.ids.tolist()]
        assert [*map(int, result.status)] == [NEW, REPLACED, REPLACED, 3, EXTENDED, CONFLICT, NEW]
        assert [ids[2]] * 4 == ids[2:6]
        assert {row: each.id for row, each in result.superseded.items()} == {1: ids[0], 2: ids[1], 4: ids[2]}
        (view,) = await views_of(node, [ids[2]])
        assert (view.state, view.body) == ("scheduled", b"4")

    run_node(tmp_path / "n1", play)


def test_an_atomic_batch(tmp_path: Path) -> None:
    """All lines, or none: a key that is taken, or a topic that pushes nowhere. Sent again it has the same ids."""

    async def play(node: Node) -> None:
        await ready(node)
        await put_topic(node, "nowhere", TopicChange(mode="push"))
        batch = [keyed("reject", b"%d" % row, key=f"k{row}") for row in range(3_000)]
        first = await node.front.schedule_all(batch, ANONYMOUS)
        again = await node.front.schedule_all(batch, ANONYMOUS)
        assert ({*map(int, first.status)}, {*map(int, again.status)}) == ({NEW}, {REPLAYED})
        assert first.ids.tolist() == again.ids.tolist()
        count = node.group.store.unit_count
        for wrong in (keyed("reject", b"x", key="k7"), keyed("reject", b"x", key="new", topic="nowhere")):
            refused = await node.front.schedule_all([keyed("reject", b"y", key="fresh"), wrong], ANONYMOUS)
            assert int(refused.status[0]) == FAILED
            assert int(refused.status[1]) == CONFLICT or "target" in refused.problems[1].detail
        assert node.group.store.unit_count == count
        large = [keyed("reject", b"x" * 250_000, key=f"l{row}") for row in range(20)]
        with pytest.raises(Problem, match="too-large"):
            await node.front.schedule_all(large, ANONYMOUS)

    run_node(tmp_path / "n1", play)
