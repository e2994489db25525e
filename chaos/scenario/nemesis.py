"""Puts faults on a cluster by role and writes each into the history.

A fault's moment is taken just after its signal went out: what a node stamped before is then before it, which is what
the checkers ask. The events of leadership come from the same place, because who leads is known here anyway.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Literal

from chaos.cluster.cluster import Cluster, Leadership
from chaos.history.event import Fault, Led, Transferred
from chaos.history.history import History

Kind = Literal["kill", "pause", "stop", "wipe", "slow", "clock"]
Role = Literal["leader", "follower"]


def record_transfer(history: History, answer: Mapping[str, Any], asked: str) -> Transferred:
    """Writes the answer to a transfer into the history."""
    mono_ms, wall_ms = history.now()
    transferred = Transferred(
        mono_ms=mono_ms,
        wall_ms=wall_ms,
        source=answer["from"],
        target=answer["to"],
        asked=asked,
        term_before=answer["term_before"],
        term_after=answer["term_after"],
        took_ms=answer["took_ms"],
        gap_ms=answer["gap_ms"],
        in_flight_carried=answer["in_flight_carried"],
        repeated=answer["repeated"],
    )
    history.record(transferred)
    return transferred


class Nemesis:
    """Faults on `cluster`, recorded in `history`."""

    def __init__(self, cluster: Cluster, history: History) -> None:
        self._cluster, self._history = cluster, history
        self._turn = 0

    async def leader(self, after_term: int = 0) -> Leadership:
        """Waits for a leader of a term above `after_term` and records it."""
        leadership = await self._cluster.wait_leader(after_term)
        mono_ms, wall_ms = self._history.now()
        self._history.record(Led(mono_ms=mono_ms, wall_ms=wall_ms, term=leadership.term, leader=leadership.node_id))
        return leadership

    async def choose(self, role: Role) -> tuple[str, Leadership]:
        """A node of this role (followers in turn), and who leads."""
        leadership = await self.leader()
        if role == "leader":
            return leadership.node_id, leadership
        followers = [node_id for node_id in self._cluster.running() if node_id != leadership.node_id]
        self._turn += 1
        return followers[self._turn % len(followers)], leadership

    async def kill(self, role: Role) -> tuple[str, Leadership]:
        """kill -9 a node of this role; for a leader, returns when another leads. Returns the node killed and the
        leadership after.
        """
        node_id, leadership = await self.choose(role)
        self._cluster.signal_kill(node_id)
        self.mark("kill", node_id, role, "begin")
        await self._cluster.ended(node_id)
        return node_id, await self.leader(leadership.term) if role == "leader" else leadership

    async def kill_all(self) -> None:
        """kill -9 every node at the same time, start them again; returns when all are ready."""
        leadership = await self.leader()
        nodes = self._cluster.running()
        roles: dict[str, Role] = {name: "leader" if name == leadership.node_id else "follower" for name in nodes}
        for node_id in nodes:
            self._cluster.signal_kill(node_id)
        for node_id, role in roles.items():
            self.mark("kill", node_id, role, "begin")
        for node_id in nodes:
            await self._cluster.ended(node_id)
        self._cluster.start(*nodes)
        await self._cluster.wait_ready(*nodes)
        for node_id, role in roles.items():
            self.mark("kill", node_id, role, "end")
        await self.leader(leadership.term)

    async def stop_leader(self) -> tuple[str, Leadership]:
        """SIGTERM the leader; returns when it has ended in order and another leads: the node and the new leadership."""
        node_id, leadership = await self.choose("leader")
        self.mark("stop", node_id, "leader", "begin")
        await self._cluster.stop(node_id)
        return node_id, await self.leader(leadership.term)

    async def stop(self, node_id: str) -> None:
        """SIGTERM this node, whatever it is; returns when it has ended in order."""
        leadership = await self.leader()
        self.mark("stop", node_id, "leader" if node_id == leadership.node_id else "follower", "begin")
        await self._cluster.stop(node_id)

    async def stop_all(self) -> None:
        """SIGTERM every node at the same time, start them again; returns when all are ready."""
        leadership = await self.leader()
        nodes = self._cluster.running()
        roles: dict[str, Role] = {name: "leader" if name == leadership.node_id else "follower" for name in nodes}
        for node_id, role in roles.items():
            self.mark("stop", node_id, role, "begin")
        await asyncio.gather(*map(self._cluster.stop, nodes))
        self._cluster.start(*nodes)
        await self._cluster.wait_ready(*nodes)
        for node_id, role in roles.items():
            self.mark("stop", node_id, role, "end")
        await self.leader(leadership.term)

    async def restart(self, node_id: str, role: Role, kind: Kind = "kill") -> None:
        """Starts a node that was killed or stopped; returns when it is ready."""
        self._cluster.start(node_id)
        await self._cluster.wait_ready(node_id)
        self.mark(kind, node_id, role, "end")

    async def set_clock(self, role: Role, offset_ms: float, drift_ppm: float = 0.0) -> tuple[str, Leadership]:
        """Moves the wall clock of a node of this role. Returns the node and who led then."""
        clocks = self._cluster.clocks
        assert clocks is not None, "the cluster's clocks cannot be moved"
        node_id, leadership = await self.choose(role)
        clocks.set(node_id, offset_ms, drift_ppm)
        self.mark("clock", node_id, role, "begin")
        return node_id, leadership

    def true_clock(self, node_id: str, role: Role) -> None:
        """The node's wall clock is the machine's again."""
        assert self._cluster.clocks is not None, "the cluster's clocks cannot be moved"
        self._cluster.clocks.set(node_id, 0)
        self.mark("clock", node_id, role, "end")

    async def pause_leader(self, seconds: float) -> tuple[str, Leadership]:
        """SIGSTOP the leader for at least so long and until another leads. Returns the node and the new leadership."""
        node_id, leadership = await self.choose("leader")
        self._cluster.pause(node_id)
        self.mark("pause", node_id, "leader", "begin")
        after, _ = await asyncio.gather(self.leader(leadership.term), asyncio.sleep(seconds))
        self._cluster.resume(node_id)
        self.mark("pause", node_id, "leader", "end")
        return node_id, after

    async def transfer(self, via: str, to: str) -> None:
        """Moves leadership to `to` ("": the best), asked of node `via`, and records the answer and the new leader."""
        answer = await self._cluster.transfer(via, to)
        transferred = record_transfer(self._history, answer, to)
        await self.leader(transferred.term_before)

    def mark(self, kind: Kind, node_id: str, role: Role, phase: Literal["begin", "end"]) -> None:
        """Records a fault's begin or end, now."""
        mono_ms, wall_ms = self._history.now()
        self._history.record(Fault(mono_ms=mono_ms, wall_ms=wall_ms, kind=kind, node=node_id, role=role, phase=phase))
