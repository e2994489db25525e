"""The clock guard on whole nodes: who is off knows it and says by how much, and does not lead."""

import asyncio
from pathlib import Path

import pytest

from node.front.metrics_page import MetricsPage
from node.node import Node
from replication.raft.agreement import Split
from tests.node.skewed_nodes import Trio, run_skewed
from tests.node.three_nodes import leader_of
from tests.waiting import until

SIDE = {10.0: "ahead of", -10.0: "behind"}


def clock_of(node: Node) -> str:
    """What /readyz says of the clock."""
    return node.group.status.ready().checks["clock"]


def metric(node: Node, name: str) -> float:
    """The value of a metric, labels and all."""
    page = MetricsPage(node.front.budget).render(node.group.metrics.families().families).decode()
    (line,) = (line for line in page.splitlines() if line.startswith(f"{name} "))
    return float(line.split()[1])


@pytest.mark.parametrize("jump_s", SIDE)
def test_a_follower_whose_clock_jumps_knows_it(tmp_path: Path, jump_s: float) -> None:
    """Both ways: it is not ready and says by how much and how much it may be; the leader goes on, ready, and shows the
    follower's skew. When the clock is right again, so is everything."""

    async def scene(trio: Trio, leader: Node) -> None:
        off, other = (node for node in trio.nodes if node is not leader)
        await until(lambda: clock_of(off) == clock_of(other) == "ok" and off.group.skew.ahead_ms() is not None)
        term = leader.group.raft.term
        trio.world(off).ahead_s = jump_s
        await until(lambda: clock_of(off) != "ok")
        said = clock_of(off)
        assert said.startswith("this node's clock is ")
        assert f" ms {SIDE[jump_s]} the median of the nodes' clocks; at most 500 ms are allowed" in said
        assert abs(float(said.split()[4]) - 10_000) < 500
        assert not (await off.front.ready()).ready
        name = f'hourwheel_clock_skew_seconds{{node="{off.config.node_id}"}}'
        await until(lambda: abs(metric(leader, name) - jump_s) < 0.5)
        assert abs(metric(off, "hourwheel_clock_ahead_seconds") - jump_s) < 0.5
        assert abs(metric(leader, "hourwheel_clock_ahead_seconds")) < 0.5
        assert clock_of(leader) == clock_of(other) == "ok"
        assert (leader.group.raft.term, leader.group.leader_term is not None) == (term, True)
        trio.world(off).ahead_s = 0.0
        await until(lambda: clock_of(off) == "ok")

    run_skewed(tmp_path, scene)


@pytest.mark.parametrize("jump_s", SIDE)
def test_a_leader_whose_clock_jumps_yields(tmp_path: Path, jump_s: float) -> None:
    """Both ways: another leads, and the former leader, whose clock is the odd one, is not ready."""

    async def scene(trio: Trio, leader: Node) -> None:
        await until(lambda: leader.group.skew.ahead_ms() is not None)
        trio.world(leader).ahead_s = jump_s
        async with asyncio.timeout(8):
            successor = await leader_of([node for node in trio.nodes if node is not leader], term_above=0)
        assert successor is not leader
        await until(lambda: SIDE[jump_s] in clock_of(leader))
        assert leader.group.leader_term is None
        assert clock_of(successor) == "ok"

    run_skewed(tmp_path, scene)


def test_with_one_of_three_down_nobody_yields_and_the_follower_says_so(tmp_path: Path) -> None:
    """Of two clocks nobody can say which is wrong: the leader leads on; what is known is shown."""

    async def scene(trio: Trio, leader: Node) -> None:
        off, down = (node for node in trio.nodes if node is not leader)
        await trio.stop(down)
        trio.world(off).ahead_s = -10.0
        await until(lambda: "behind" in clock_of(off))
        assert clock_of(leader) == "ok"
        assert leader.group.leader_term is not None
        name = f'hourwheel_clock_skew_seconds{{node="{off.config.node_id}"}}'
        await until(lambda: abs(metric(leader, name) + 10) < 0.5)

    run_skewed(tmp_path, scene)


def test_the_bound_is_the_configured_one(tmp_path: Path) -> None:
    """A tenth of a second is far with a bound of 60 ms."""

    async def scene(trio: Trio, leader: Node) -> None:
        off = next(node for node in trio.nodes if node is not leader)
        await until(lambda: off.group.skew.ahead_ms() is not None)
        off.group.clock._offset_s += 0.1
        trio.world(off).ahead_s = 0.1
        await until(lambda: "at most 60 ms" in clock_of(off))

    run_skewed(tmp_path, scene, bound_ms=60)


def test_a_split_is_said_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the cluster page, in the metrics and in the log, as long as the leader finds one; what is agreed too."""

    async def scene(trio: Trio, leader: Node) -> None:
        await until(lambda: leader.group.raft.agreed_index > 0)
        page = dict(await leader.front.cluster())
        assert page["agreement"]["index"] > 0
        assert page["agreement"]["split"] is None
        assert metric(leader, "hourwheel_split") == 0
        leader.group.raft.agreement.split = Split(7, {"n0": b"a" * 16, "n1": b"b" * 16})
        assert dict(await leader.front.cluster())["agreement"]["split"] == leader.group.guard.split
        assert "n0 at 616161616161, n1 at 626262626262" in leader.group.guard.split
        assert metric(leader, "hourwheel_split") == 1
        leader.group.guard.watch()
        leader.group.guard.watch()

    run_skewed(tmp_path, scene)
    assert capsys.readouterr().out.count("after entry 7 nodes differ") == 1
