"""Batches on a whole node: lines that change the holders of their keys, and atomic ones."""

import asyncio
from pathlib import Path

import pytest

from api.port.port import ANONYMOUS, Extend, MessageIn, TopicChange
from api.port.problem import Problem
from node.node import Node
from storage.format.schedule_status import CONFLICT, EXTENDED, FAILED, NEW, REPLACED, REPLAYED
from tests.node.message.everything import put_topic, schedule, views_of
from tests.node.message.test_message_writer import keyed, pull, send
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


def test_an_atomic_batch_whose_lines_change_holders(tmp_path: Path) -> None:
    """All of them change their holders, or none does. A line of a leased holder is at fault, and says so."""

    async def play(node: Node) -> None:
        await ready(node)
        names = [f"k{row}" for row in range(1_000)]
        first = await node.front.schedule_all([keyed("reject", b"1", key=name) for name in names], ANONYMOUS)
        rules = ["replace", "extend"] * 500
        wishes = [keyed(rule, b"2", key=name) for rule, name in zip(rules, names, strict=True)]
        before = node.group.machine.applied_index
        done = await node.front.schedule_all([*wishes, keyed("reject", b"2", key="other")], ANONYMOUS)
        assert node.group.machine.applied_index == before + 1
        assert [*map(int, done.status)] == [REPLACED, EXTENDED] * 500 + [NEW]
        old, new = ([id.decode() for id in each.ids.tolist()] for each in (first, done))
        assert (new[1::2], len({*old[::2], *new})) == (old[1::2] + new[1001:], 1_501)
        assert {row: each.id for row, each in done.superseded.items()} == dict(enumerate(old))
        views = await views_of(node, [old[0], new[0], new[1]])
        assert [(view.state, view.body) for view in views] == [("cancelled", b"1"), *[("scheduled", b"2")] * 2]
        held = await send(node, keyed("reject", b"due", key="due", delay_ms=0))
        (delivery,) = await pull(node)
        assert delivery.id == held.id
        refused = await node.front.schedule_all([*wishes, keyed("replace", b"3", key="due")], ANONYMOUS)
        assert {*map(int, refused.status)} == {FAILED}
        assert {row: problem.code for row, problem in refused.problems.items()} == {1_000: "leased"}
        assert held.id in refused.problems[1_000].detail
        assert [view.state for view in await views_of(node, new[:2])] == ["scheduled"] * 2

    run_node(tmp_path / "n1", play)


def test_atomic_batches_for_the_same_keys(tmp_path: Path) -> None:
    """Of batches that are sent at once each is written whole, one after the other. So both keys are held by lines of
    the same batch."""

    async def play(node: Node) -> None:
        await ready(node)
        batches = [[keyed("replace", b"%d" % number, key=name) for name in ("a", "b")] for number in range(40)]
        alone = [node.front.schedule([keyed("replace", b"alone", key="a")], ANONYMOUS) for _ in range(20)]
        whole = [node.front.schedule_all(batch, ANONYMOUS) for batch in batches]
        done = await asyncio.gather(
            *[each for pair in zip(whole[:20], alone, strict=True) for each in pair], *whole[20:]
        )
        assert all(FAILED not in map(int, each.status) for each in done)
        views = await views_of(node, [id.decode() for each in done for id in each.ids.tolist()])
        held = [view for view in views if view.state == "scheduled"]
        assert (len(held), len({view.body for view in held})) == (2, 1)
        assert len(views) - len(held) == sum(len(each.superseded) for each in done)

    run_node(tmp_path / "n1", play)


def test_an_atomic_batch_that_would_copy_too_much(tmp_path: Path) -> None:
    """Refused before it is written: apply would copy the bodies of all holders in one step."""

    async def play(node: Node) -> None:
        await ready(node)
        names = [f"k{row}" for row in range(20)]
        for name in names:
            await node.front.schedule([keyed("reject", b"x" * 250_000, key=name)], ANONYMOUS)
        with pytest.raises(Problem, match="messages that have its keys take 500"):
            await node.front.schedule_all([keyed("extend", b"2", key=name) for name in names], ANONYMOUS)
        few = await node.front.schedule_all([keyed("extend", b"2", key=name) for name in names[:4]], ANONYMOUS)
        assert [*map(int, few.status)] == [EXTENDED] * 4

    run_node(tmp_path / "n1", play)
