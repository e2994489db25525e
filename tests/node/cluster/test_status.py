"""What a node says of itself: the cluster page, readiness and metrics, of a whole node that leads."""

from pathlib import Path

from api.port.port import ANONYMOUS, MessageIn, PullIn
from node.cluster.metrics import COUNTER, TABLE
from node.node import Node
from tests.node.single_node import run_node


def test_the_cluster_page_has_the_shape_of_the_contract(tmp_path: Path) -> None:
    """Every member of API.md's page is there, and the top level is group 0's."""

    async def play(node: Node) -> None:
        await node.front.schedule([MessageIn("t", b"1")], ANONYMOUS)
        await node.front.pull(PullIn("t", 1, 5_000, 1_000), ANONYMOUS)
        page = dict(await node.front.cluster())
        (member,) = page["nodes"]
        assert set(member) >= {"id", "http", "raft", "role", "state", "applied_index", "lag", "clock_offset_ms"}
        assert (member["role"], member["state"], member["lag"]) == ("leader", "up", 0)
        assert page["leader"] == "n1"
        assert page["commit_index"] >= 3
        assert page["lateness_ms"]["max"] >= 0
        (group,) = page["groups"]
        assert {name: group[name] for name in ("leader", "term", "commit_index", "dispatch")} == {
            name: page[name] for name in ("leader", "term", "commit_index", "dispatch")
        }
        assert set(page["dispatch"]) == {"tick", "local_index", "applied_index"}

    run_node(tmp_path / "n1", play)


def test_a_leading_node_is_ready_and_a_draining_one_is_not(tmp_path: Path) -> None:
    """Each check says ok or what is missing."""

    async def play(node: Node) -> None:
        ready = await node.front.ready()
        assert ready.ready
        assert set(ready.checks.values()) == {"ok"}
        node.group.life.draining = True
        drained = await node.front.ready()
        node.group.life.draining = False
        assert not drained.ready
        assert drained.checks["serving"] == "shutting down"

    run_node(tmp_path / "n1", play)


def test_every_metric_of_the_table_is_rendered(tmp_path: Path) -> None:
    """One line each, counters with their suffix, and the counts are those of what was done."""

    async def play(node: Node) -> None:
        await node.front.schedule([MessageIn("t", b"1"), MessageIn("t", b"2")], ANONYMOUS)
        deliveries = await node.front.pull(PullIn("t", 10, 5_000, 1_000), ANONYMOUS)
        await node.front.ack("t", [delivery.receipt for delivery in deliveries], ANONYMOUS)
        lines = (await node.front.metrics()).decode().splitlines()
        values = dict(line.split(" ") for line in lines if not line.startswith("#") and "{" not in line)
        for name, kind, sentence in TABLE:
            assert name + ("_total" if kind == COUNTER else "") in values, name
            assert any(sentence in line for line in lines)
        assert float(values["hourwheel_scheduled_total"]) == 2
        assert float(values["hourwheel_handed_over_total"]) == float(values["hourwheel_acked_total"]) == len(deliveries)
        assert float(values["hourwheel_leads"]) == 1

    run_node(tmp_path / "n1", play)
