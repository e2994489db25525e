"""Two groups in one process: each has its own log, files, ids and receipts, and knows nothing of the other's."""

import asyncio
from pathlib import Path

import pytest

from api.port.port import ANONYMOUS, Delivery, MessageIn, PullIn
from api.port.problem import Problem
from node.server import Node
from storage.directory.verify import verify
from storage.format.message_id import decode_id
from tests.node.single_node import Play, run_group

GROUPS = (0, 3)


async def _hand_over(node: Node, body: bytes) -> tuple[str, Delivery]:
    """A message's id, and its hand-over."""
    scheduled = await node.service.schedule([MessageIn("t", body)], ANONYMOUS)
    (delivery,) = await node.service.pull(PullIn("t", 1, 5_000, 60_000), ANONYMOUS)
    return scheduled.ids[0].decode(), delivery


def test_each_group_elects_delivers_and_knows_its_own_alone(tmp_path: Path) -> None:
    """An id of the other group is unknown, a receipt of it invalid; the files name their group, and verify as its."""
    met, done = asyncio.Barrier(len(GROUPS)), asyncio.Barrier(len(GROUPS))
    nodes: dict[int, Node] = {}
    seen: dict[int, tuple[str, Delivery]] = {}

    def play(group: int) -> Play:
        async def scene(node: Node) -> None:
            nodes[group] = node
            seen[group] = await _hand_over(node, b"%d" % group)
            await met.wait()
            id, delivery = seen[group]
            other_id, others = seen[next(each for each in GROUPS if each != group)]
            assert (decode_id(id).group, delivery.id, delivery.body) == (group, id, b"%d" % group)
            with pytest.raises(Problem, match="unknown-message"):
                await node.service.message(other_id, local=False, principal=ANONYMOUS)
            results = await node.service.ack("t", [others.receipt, delivery.receipt], ANONYMOUS)
            assert list(results) == ["invalid", "acked"]
            await done.wait()

        return scene

    async def both() -> None:
        await asyncio.gather(*(run_group(group, tmp_path / str(group), play(group)) for group in GROUPS))

    asyncio.run(both())
    for group in GROUPS:
        assert verify(tmp_path / str(group), group=group).faults == []
        other = next(each for each in GROUPS if each != group)
        assert "group" in str(verify(tmp_path / str(group), group=other).faults)
