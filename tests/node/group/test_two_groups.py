"""Two groups in one process: each has its own log, files, ids and receipts, and knows nothing of the other's."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from api.port.ledger import LedgerQuery
from api.port.port import ANONYMOUS, Delivery, MessageIn, PullIn
from api.port.problem import Problem
from api.port.queries import DeadQuery
from node.node import Node
from storage.directory.verify import verify
from storage.export.manifest import read_export
from storage.file.disk import Disk
from storage.format.message_id import decode_id, encode_ids
from tests.node.pushing import LOOPBACK, in_state, put, schedule
from tests.node.receiver import Request, answer, answering, receiver
from tests.node.single_node import Play, run_group
from tests.waiting import until

GROUPS = (0, 3)


async def _hand_over(node: Node, body: bytes) -> tuple[str, Delivery]:
    """A message's id, and its hand-over."""
    scheduled = await node.front.schedule([MessageIn("t", body)], ANONYMOUS)
    (delivery,) = await node.front.pull(PullIn("t", 1, 5_000, 60_000), ANONYMOUS)
    return scheduled.ids[0].decode(), delivery


def _in_group(id: str, group: int) -> str:
    """The same message's id, if it were of this group."""
    named = decode_id(id)
    (other,) = encode_ids(group, np.array([named.position], np.uint64), np.array([named.random], np.uint64)).tolist()
    return str(other.decode())


def test_each_group_elects_delivers_and_knows_its_own_alone(tmp_path: Path) -> None:
    """An id of the other group is unknown, a receipt of it invalid; the files name their group, and verify as its."""
    met, done = asyncio.Barrier(len(GROUPS)), asyncio.Barrier(len(GROUPS))
    seen: dict[int, tuple[str, Delivery]] = {}

    def play(group: int) -> Play:
        async def scene(node: Node) -> None:
            seen[group] = await _hand_over(node, b"%d" % group)
            await met.wait()
            id, delivery = seen[group]
            other_id, others = seen[next(each for each in GROUPS if each != group)]
            assert (decode_id(id).group, delivery.id, delivery.body) == (group, id, b"%d" % group)
            for unknown in (other_id, _in_group(id, group + 1)):
                with pytest.raises(Problem, match="unknown-message"):
                    await node.front.message(unknown, local=False, principal=ANONYMOUS)
            results = await node.front.ack("t", [others.receipt, delivery.receipt], ANONYMOUS)
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


def test_every_answer_names_the_group(tmp_path: Path) -> None:
    """Webhooks, lists of the dead, ledgers and exports: an id is the same everywhere."""
    seen: list[Request] = []

    async def scene(node: Node) -> None:
        async with receiver(answering(answer(500), seen=seen)) as url:
            await put(node, "orders", url, retry={"max_attempts": 1})
            (id,) = await schedule(node, MessageIn("orders", b"{}"))
            await until(in_state(node, id, "dead"))
        dead = await node.front.dead(DeadQuery(topic="orders"), principal=ANONYMOUS)
        ledger = await node.front.ledger(LedgerQuery(from_ms=0, to_ms=1 << 42))
        told = [seen[0].headers["webhook-id"], dead.items[0].id, ledger.items[0].id]
        assert (decode_id(id).group, told) == (3, [id] * 3)
        await node.group.checkpointer.checkpoint()
        assert await node.group.exports.export()
        assert [each.group for each in read_export(tmp_path / "export", Disk())[0].values()] == [3]

    export = {"to": str(tmp_path / "export"), "every_s": 86_400}
    asyncio.run(run_group(3, tmp_path / "n1", scene, push=LOOPBACK, export=export))
