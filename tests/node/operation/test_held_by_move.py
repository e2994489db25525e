"""Messages that an operation holds for long: others go on, the disk is spared, and what was left out comes back."""

from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest

from api.port.port import ANONYMOUS, MessageIn, PullIn, TopicChange
from api.port.problem import Problem
from api.port.queries import OperationVerb
from node.cluster.levels import Levels
from node.node import Node
from node.operation import work
from storage.format.position import HOUR_MS
from tests.node.message.everything import put_topic, schedule
from tests.node.operation.test_cancel_many import begin, done, ready
from tests.node.operation.test_move_many import further, moves, pull
from tests.node.single_node import run_node
from tests.waiting import until


async def change(node: Node, id: str, verb: OperationVerb) -> str:
    """Pause, resume or abort it; its state then."""
    return (await node.front.change_operation(id, verb, principal=ANONYMOUS)).state


@pytest.mark.parametrize("end", ["abort", "resume"])
def test_what_a_paused_one_holds_starves_nobody(tmp_path: Path, end: OperationVerb) -> None:
    """Thousands of due messages of its set, in a topic with a small window: others of the topic go out. When it ends
    what it left goes out too, and each comes once."""

    async def play(node: Node) -> None:
        await ready(node)
        ours: list[str] = []
        for _ in range(5):
            ours += await schedule(node, [MessageIn("orders", b"1", tags=("eu",))] * 500)
        runs = await begin(node, moves("shift", "orders", tag="eu", to_due_ms=node.front.now_ms(), rate=1, wait_s=0))
        assert await change(node, runs.id, "pause") == "paused"
        others = await schedule(node, [MessageIn("orders", b"2", tags=("us",)) for _ in range(5)])
        assert {each.id for each in await pull(node, 5)} == set(others)
        assert [*await node.front.pull(PullIn("orders", 9, 300, 60_000), ANONYMOUS)] == []
        term = node.group.leadership.term
        assert term is not None
        assert term.handing_over._ready.parked.count == 0, "they take memory"
        await change(node, runs.id, end)
        if end == "resume":
            await until(partial(further, node, runs.id, 1), what="it goes on")
            await change(node, runs.id, "abort")
        assert {each.id for each in await pull(node, len(ours))} == set(ours)

    run_node(tmp_path / "n1", play, dispatch={"window_per_topic": 1_000})


def test_one_that_does_not_begin_holds_nothing(tmp_path: Path) -> None:
    """What its proposal left out is found again."""

    async def play(node: Node) -> None:
        await ready(node)
        await schedule(node, [MessageIn("bills", b"1", delay_ms=HOUR_MS)])
        for _ in range(16):
            await begin(node, moves("shift", "bills", tag=f"t{_}", from_ms=_, to_ms=_ + 1, by_ms=HOUR_MS, rate=1))
        ids = await schedule(node, [MessageIn("orders", b"1") for _ in range(30)])
        proposer = node.group.proposer
        proposed = proposer.propose_single

        async def refused(command: object) -> object:
            assert [*await node.front.pull(PullIn("orders", 30, 0, 60_000), ANONYMOUS)] == []
            raise Problem("no-leader", "a test says so")

        with patch.object(proposer, "propose_single", refused), pytest.raises(Problem, match="a test says so"):
            await begin(node, moves("shift", "orders", by_ms=HOUR_MS))
        assert proposer.propose_single == proposed
        assert {each.id for each in await pull(node, 30)} == set(ids)

    run_node(tmp_path / "n1", play)


def test_a_move_waits_while_the_disk_is_full(tmp_path: Path) -> None:
    """It copies messages. When there is room again, it goes on."""

    async def play(node: Node) -> None:
        await ready(node)
        await schedule(node, [MessageIn("orders", b"1", delay_ms=HOUR_MS) for _ in range(300)])
        reserve = node.group.reserve

        def full() -> None:
            raise Problem("disk-full", "a test says so")

        with patch.object(work, "CHUNK_MOVES", 1), patch.object(work, "FULL_S", 0.05):
            runs = await begin(node, moves("shift", "orders", by_ms=HOUR_MS, wait_s=0))
            with patch.object(reserve, "check", full):
                changed = []
                for lease_ms in range(2_000, 2_009):  # an entry each: what was on its way is through after a few
                    await put_topic(node, "bills", TopicChange(lease_ms=lease_ms))
                    changed.append((await node.front.operation(runs.id, principal=ANONYMOUS)).changed)
                assert changed[-4] == changed[-1] < 300
            await until(lambda: done(node, runs.id), what="the end")
        assert (await node.front.operation(runs.id, principal=ANONYMOUS)).changed == 300

    run_node(tmp_path / "n1", play)


def test_a_pause_ends_beside_one_that_works(tmp_path: Path) -> None:
    """After PAUSE_MAX_MS, though another operation has work all the while."""

    async def play(node: Node) -> None:
        await ready(node)
        await schedule(node, [MessageIn("orders", b"1", delay_ms=HOUR_MS) for _ in range(9)])
        for _ in range(5):
            await schedule(node, [MessageIn("bills", b"1", delay_ms=HOUR_MS) for _ in range(1_000)])
        with patch.object(work, "PAUSE_MAX_MS", 200), patch.object(work, "CHUNK_MOVES", 5):
            runs = await begin(node, moves("shift", "orders", by_ms=HOUR_MS, rate=1, wait_s=0))
            await change(node, runs.id, "pause")
            other = await begin(node, moves("shift", "bills", by_ms=HOUR_MS, wait_s=0))
            port = node.group.port
            await until(lambda: port._operations.one(runs.id).state == "running", what="the pause ends")
            assert not done(node, other.id)
            for each in (runs, other):
                await change(node, each.id, "abort")

    run_node(tmp_path / "n1", play)


def test_below_the_level_nothing_is_proposed(tmp_path: Path) -> None:
    """A pause of what never was failed all writes that shared its entry."""

    async def play(node: Node) -> None:
        for verb in ("pause", "resume", "abort"):
            with pytest.raises(Problem, match="not-supported-yet"):
                await change(node, "op-1", verb)
        await schedule(node, [MessageIn("orders", b"1")])

    with patch.object(Levels, "look", lambda self: None):
        run_node(tmp_path / "n1", play)


def test_what_a_paused_one_holds_is_counted(tmp_path: Path) -> None:
    """By topic in the list of topics, and as a metric without anybody's question. What is leased is not held, and what
    a running one has yet to move neither."""

    async def play(node: Node) -> None:
        await ready(node)
        await schedule(node, [MessageIn("orders", b"1", delay_ms=HOUR_MS * row) for row in range(5)])
        await schedule(node, [MessageIn("bills", b"1", delay_ms=HOUR_MS) for _ in range(3)])
        assert len(await pull(node, 1)) == 1

        async def held() -> dict[str, int]:
            node.group.counting._topics_until_s = 0.0  # counted anew
            return {each.name: each.held for each in await node.front.topics("", 9, counts=True, principal=ANONYMOUS)}

        def metric() -> float:
            return node.group.counting.values()["hourwheel_operations_held"]

        runs = await begin(node, moves("shift", "orders", by_ms=HOUR_MS, rate=1, from_ms=HOUR_MS, wait_s=0))
        assert (await held(), metric()) == ({"bills": 0, "orders": 0}, 0)
        assert await change(node, runs.id, "pause") == "paused"
        moved = (await node.front.operation(runs.id, principal=ANONYMOUS)).changed
        await until(lambda: metric() == 4 - moved)
        assert await held() == {"bills": 0, "orders": 4 - moved}
        await change(node, runs.id, "abort")
        assert (await held(), metric()) == ({"bills": 0, "orders": 0}, 0)

    run_node(tmp_path / "n1", play)
