"""Whole nodes are added and removed in a simulated world, while others are killed, lose power and are cut off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from chaos.client.outcome import Outcome
from chaos.simulator.world.process import Process
from chaos.simulator.world.world import HTTP_PORT, RAFT_PORT, World
from node.cluster.members import NodeRemoved
from tests.chaos.simulator.small_load import Load

#: Journals are short, so that some who join need a snapshot.
CONFIG = {"storage": {"checkpoint_s": 1, "journal_keep_mb": 1}}


class Operator:
    """Asks through any member over HTTP, again and again, as a person would until it is done."""

    def __init__(self, world: World, load: Load) -> None:
        self.world = world
        self.load = load
        self.members = list(world.ids)

    def add(self, node_id: str, meanwhile: Callable[[], None]) -> None:
        """Start a new node, add it, let something happen, and wait until it has its vote."""
        self.world.join(node_id).start()
        body = {"id": node_id, "raft": f"{node_id}:{RAFT_PORT}", "http": f"{node_id}:{HTTP_PORT}"}
        self._ask("POST", "/v1/cluster/members", msgspec.json.encode(body), lambda text: "is a member already" in text)
        self.members.append(node_id)
        meanwhile()
        assert self.world.run_until(lambda: self._votes(node_id), 40), f"{node_id} has no vote"

    def remove(self, node_id: str, meanwhile: Callable[[], None]) -> None:
        """Remove a node, let something happen, and see it end: at once, or told so when it is up again."""
        self.members.remove(node_id)
        self._ask("DELETE", f"/v1/cluster/members/{node_id}", b"", lambda text: "unknown-node" in text)
        meanwhile()
        process = self.world.processes[node_id]
        if not process.alive and process.failure is None:
            process.start()
        assert self.world.run_until(lambda: isinstance(process.failure, NodeRemoved), 40), f"{node_id} does not end"
        del self.world.processes[node_id]

    def _votes(self, node_id: str) -> bool:
        node = self.world.processes[node_id].node
        return node is not None and node.group.members.number > 0 and node.group.members.role(node_id) == "voter"

    def _ask(self, method: str, target: str, body: bytes, done_before: Callable[[str], bool]) -> None:
        for turn in range(80):
            outcomes: list[Outcome[Any]] = []
            client = self.world.client(self.members[turn % len(self.members)])
            client.http(method, target, outcomes.append, body=body, timeout_s=6)
            assert self.world.run_until(lambda: bool(outcomes), 10)  # noqa: B023
            if outcomes[0].kind == "ok":
                answer = outcomes[0].result
                if answer.status < 300 or done_before(answer.body.decode()):
                    return
            self.world.run(0.1)
        raise AssertionError(f"{method} {target}: {outcomes[0]}")


def trouble(world: World, seed_name: str) -> Callable[[], None]:
    """Something that happens to one node, over within three seconds."""
    draw = world.random(seed_name)

    def happens() -> None:
        victim = draw.choice(sorted(world.nodes()))
        process = world.processes[victim]
        kind = draw.choice(["kill", "power", "pause", "cut", "none"])
        if kind in ("kill", "power"):
            world.after(draw.random(), down, process, kind)
            world.after(1.5, up, process)
        elif kind == "pause":
            world.after(draw.random(), process.pause)
            world.after(2.0, process.resume)
        elif kind == "cut":
            for other in sorted(set(world.processes) - {victim}):
                world.network.cut(victim, other)
                world.network.cut(other, victim)
            world.after(2.0, world.network.heal_all)

    return happens


def down(process: Process, kind: str) -> None:
    """End it, if it has not ended by itself."""
    if process.alive and kind == "kill":
        process.kill()
    elif process.alive:
        process.power_cut()


def up(process: Process) -> None:
    """Start it again, unless it has ended for good."""
    if not process.alive and not isinstance(process.failure, NodeRemoved):
        process.start()


@pytest.mark.parametrize("seed", range(3))
def test_every_node_is_replaced_while_others_fail(seed: int) -> None:
    """Nothing acknowledged is lost, the nodes that are members in the end hold the same, those that were removed say
    so, and nobody complained."""
    with World(seed, config=CONFIG) as world:
        load = Load(world)
        load.found()
        load.consume()
        load.schedule(300)
        operator = Operator(world, load)
        for old, new in (("n1", "n4"), ("n2", "n5"), ("n3", "n6")):
            operator.add(new, trouble(world, f"add {new}"))
            world.run(2.5)
            operator.remove(old, trouble(world, f"remove {old}"))
            world.run(2.5)
        load.clients = [world.client(node_id) for node_id in operator.members]
        load.consume()
        world.run(10)
        assert load.acknowledged
        assert load.acknowledged <= load.handed_over
        digests = world.digests()
        assert sorted(digests) == ["n4", "n5", "n6"]
        assert len(set(digests.values())) == 1, digests
        assert [node.group.members.number for _, node in sorted(world.nodes().items())] == [4, 5, 6]
        assert [process.errors for process in world.processes.values()] == [[], [], []]
