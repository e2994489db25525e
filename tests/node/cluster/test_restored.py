"""A restored node and the rest of its cluster: those that start empty join it, one of the old cluster does not."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from api.port.port import ANONYMOUS, MessageIn, PullIn
from chaos.cluster.ports import free_ports
from cli.main import main
from node.group.group import Group
from node.node import Node
from node.runtime.config import parse_config
from storage.directory.verify import digest
from tests.node.three_nodes import leader_of
from tests.waiting import until


class Machine:
    """One node. `restarts`: how often its group was opened again, with a snapshot in place."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw
        self.restarts = -1
        self.node = Node(parse_config(raw, {}), opened=self._opened)
        self._serving = asyncio.ensure_future(self.node.run())

    def _opened(self, group: Group) -> None:
        self.restarts += 1

    async def stop(self) -> None:
        """SIGTERM, and wait."""
        self.node.life.stop()
        await self._serving


def raws(directory: Path) -> dict[str, dict[str, Any]]:
    """The configurations of three nodes."""
    ports = [f"127.0.0.1:{port}" for port in free_ports(6)]
    peers = [{"id": f"n{i + 1}", "http": ports[i], "raft": ports[i + 3]} for i in range(3)]
    return {
        peer["id"]: {
            "node_id": peer["id"],
            "data_dir": str(directory / peer["id"]),
            "http": {"listen": peer["http"]},
            "raft": {"listen": peer["raft"]},
            "peers": peers,
        }
        for peer in peers
    }


async def voters(leader: Node, ids: set[str]) -> None:
    """Until these have their votes."""
    await until(lambda: {each for each in ids if leader.group.members.role(each) == "voter"} == ids)


async def reigning(machines: list[Machine]) -> Node:
    """The leader."""
    async with asyncio.timeout(20):
        return await leader_of([machine.node for machine in machines])


async def _backed_up(configs: dict[str, dict[str, Any]]) -> tuple[Path, set[str]]:
    """A cluster of three with 300 due messages, backed up by a follower, and stopped."""
    machines = [Machine(raw) for raw in configs.values()]
    leader = await reigning(machines)
    sent = [MessageIn(topic="orders", body=b"%d" % number, delay_ms=300) for number in range(300)]
    ids = {id.decode() for id in (await leader.front.schedule(sent, ANONYMOUS)).ids.tolist()}
    follower = next(machine.node for machine in machines if machine.node is not leader)
    await until(lambda: follower.group.store.unit_count == 300)
    written = await follower.front.snapshot(None)
    for machine in machines:
        await machine.stop()
    return Path(written.directory), ids


async def _pulled(node: Node) -> set[str]:
    pulled = await node.front.pull(PullIn(topic="orders", max=1_000, wait_ms=5_000), ANONYMOUS)
    return {one.id for one in pulled}


def test_the_others_join_empty_and_an_old_one_is_refused(tmp_path: Path) -> None:
    """The restored node leads alone; the second, emptied, gets a snapshot and its vote; the third, on its old
    directory, is refused for its cluster until it is emptied. In the end all three have the same content."""

    async def scene() -> None:
        configs = raws(tmp_path)
        backup, ids = await _backed_up(configs)
        for node_id in ("n1", "n2"):
            shutil.rmtree(tmp_path / node_id)
        call = ["restore", str(backup), "--data-dir", str(tmp_path / "n1"), "--node-id", "n1"]
        result = CliRunner().invoke(main, call)
        assert result.exit_code == 0, result.output
        first, old = Machine(configs["n1"]), Machine(configs["n3"])
        leader = await reigning([first])
        assert await _pulled(leader) == ids
        second = Machine(configs["n2"])
        await voters(leader, {"n1", "n2"})
        assert second.restarts == 1
        assert leader.group.members.role("n3") == "learner"
        assert old.node.group.store.cluster_id != leader.group.store.cluster_id
        reasons = {refusal.reason for refusal in old.node.group.transport.refusals.values()}
        assert reasons == {"other-cluster"}, old.node.group.transport.refusals
        await old.stop()
        shutil.rmtree(tmp_path / "n3")
        third = Machine(configs["n3"])
        await voters(leader, {"n1", "n2", "n3"})
        machines = (first, second, third)
        await until(
            lambda: {each.node.group.machine.applied_index for each in machines} == {leader.group.raft.last_index}
        )
        assert len({each.node.group.machine.rolling_hash for each in machines}) == 1
        for machine in machines[::-1]:
            await machine.stop()
        # A leader writes something more when the others go: one of them may have ended before.
        contents = {digest(tmp_path / node_id) for node_id in configs}
        assert len({index for _, index in contents}) == len(contents), "two differ at the same entry"

    asyncio.run(scene())
