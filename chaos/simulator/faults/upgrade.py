"""Two builds side by side: nodes change from one to the other, and a client asks for the next level.

A node is started as the build before or as this one (build/older_build.py). The level of the cluster rises when all
members read it. After that a node that is started as the build before is refused, and its operator puts the newer build
back.
"""

from __future__ import annotations

from typing import Final

from chaos.client.outcome import Outcome
from chaos.history.event import LevelAsked, Raised
from chaos.history.history import History
from chaos.simulator.build.older_build import is_refusal
from chaos.simulator.faults.raft_times import USUAL, may_be_older, set_times
from chaos.simulator.load.client import caller_of
from chaos.simulator.network.transport import SimTransport
from chaos.simulator.world.process import End, Process
from chaos.simulator.world.world import World
from node.group.group import Group
from replication.wire.handshake import Hello, entries_of
from storage.format.level import LEVELS

ASK_S: Final = 1.5
LATELY_S: Final = 20.0
"""For this long a node that was cut off, or paused, may still name a member as older that is upgraded by now."""


def risen(world: World) -> bool:
    """True if all nodes run, and each has applied the newest level of this build."""
    nodes = world.nodes()
    return len(nodes) == len(world.ids) and all(node.group.machine.level == LEVELS[1] for node in nodes.values())


class Upgrade:
    """The upgrade of one world. The first `older` nodes begin as the build before. A client asks for the next level
    from `begin` on, until every node has it."""

    def __init__(self, world: World, history: History, older: int) -> None:
        self.raised = False
        """True once a leader has proposed the next level. From then on some node refuses the build before."""
        self._world, self._history, self._older = world, history, older
        self._caller = caller_of(world, "upgrade")
        self._was_older_s: dict[str, float] = {}
        self._over = False
        for node_id in world.ids[:older]:
            world.processes[node_id].older = True

    def begin(self) -> None:
        """Let a client ask for the next level again and again, if any node begins as the build before."""
        if self._older:
            self._caller.runner.after(ASK_S, self._ask)

    def end(self) -> None:
        """Change all nodes to this build. Kill those of the build before: the caller starts them again."""
        self._over = True
        for process in self._world.processes.values():
            if process.older:
                process.kill()
                self.change(process, older=False)

    def change(self, process: Process, *, older: bool) -> None:
        """Set the build for the next start of this process, which is down. If the process has times of `[raft]` that
        the build before may not have, it gets the usual ones."""
        if process.older:
            self._was_older_s[process.id] = self._world.now_s
        if older and not may_be_older(process.config.raft.election_min_ms):
            set_times(process, USUAL)
        process.older = older

    def refused(self, end: End) -> bool:
        """True if a node of the build before ended because its disk or log has something that only this build reads. If
        so, its next start is as this build."""
        process = self._world.processes[end.node]
        refused = process.older and self.raised and is_refusal(end.error)
        if refused:
            self.change(process, older=False)
        return refused

    # -- observation

    def watch(self, node_id: str, group: Group) -> None:
        """Observe the hellos that the group of one incarnation hears, and the levels that it proposes."""
        heard: dict[str, int] = {}
        transport, propose = group.transport, group.levels._raise
        assert isinstance(transport, SimTransport)

        def greeted(peer: str, hello: Hello) -> None:
            heard[peer] = entries_of(hello.formats)[1]

        def reads(peer: str) -> int:
            return heard.get(peer, 0) if transport.connected(peer) else 0

        async def proposed(level: int) -> str | None:
            self.raised = True
            others = tuple((peer, reads(peer)) for peer in sorted(group.members.ids()) if peer != node_id)
            self._history.record(Raised(**self._history.stamp(), node=node_id, level=level, heard=others))
            return await propose(level)

        transport.on_up = greeted
        group.levels._raise = proposed  # type: ignore[method-assign]

    # -- requests for a level

    async def _ask(self) -> None:
        runner, chance = self._caller.runner, self._caller.chance
        while not (self._over and risen(self._world)):
            leader = self._world.leader() if self._over else None  # healed: for a while others only pass on or refuse
            client = self._caller.clients[leader] if leader else self._caller.any()
            self._answered(await client.call(lambda port: port.upgrade(LEVELS[1]), "upgrade", leader=False))
            await runner.sleep(ASK_S * (0.5 + chance.random()))

    def _answered(self, outcome: Outcome[int]) -> None:
        now_s = self._world.now_s
        lately = {name for name, at_s in self._was_older_s.items() if now_s - at_s < LATELY_S}
        older = lately | {process.id for process in self._world.processes.values() if process.older}
        extra = outcome.extra if outcome.code == "not-supported-yet" else {}
        reads = extra.get("reads")
        self._history.record(
            LevelAsked(
                **self._history.stamp(),
                level=outcome.value or 0,
                lags=extra.get("node") or "",
                reads=reads[1] if reads else 0,
                older=tuple(sorted(older)),
            )
        )
