"""Real nodes in one event loop that can die, be wiped and start again; their groups are opened again in place."""

import asyncio
import contextlib
import itertools
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from api.port.port import ANONYMOUS, MessageIn
from api.port.problem import Problem
from chaos.cluster.ports import free_ports
from node.group.group import Group
from node.node import Node
from node.runtime.config import Config, parse_config
from storage.directory.verify import digest
from tests.waiting import until

STORAGE = {
    "checkpoint_s": 1,
    "checkpoint_journal_mb": 1,
    "journal_keep_mb": 1,
    "snapshot_journal_mb": 512,
    "snapshot_mb_per_s": 1000,
}
"""So little journal is kept that a few thousand messages strand who misses them."""
FAR_MS = 100 * 3_600_000


class Crashed(Exception):
    """The node ended as by kill -9: nothing is written any more, no last checkpoint."""


class Nodes:
    """Nodes n0.. below `directory`. `reinstalled` counts, by node id, how often each has started again in place."""

    def __init__(self, directory: Path, count: int = 3, **tables: Any) -> None:
        ports = [f"127.0.0.1:{port}" for port in free_ports(2 * count)]
        peers = [{"id": f"n{i}", "http": ports[i], "raft": ports[i + count]} for i in range(count)]
        self.configs = {
            str(peer["id"]): parse_config(
                {
                    "node_id": peer["id"],
                    "data_dir": str(directory / peer["id"]),
                    "http": {"listen": peer["http"]},
                    "raft": {"listen": peer["raft"]},
                    "peers": peers,
                    "storage": STORAGE,
                    **tables,
                },
                {},
            )
            for peer in peers
        }
        self.alive: dict[str, Node] = {}
        self.reinstalled = dict.fromkeys(self.configs, 0)
        self.made: Callable[[Group], None] = lambda group: None
        """Told of every group before it takes part."""
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, *node_ids: str) -> None:
        """Start these; all if none is named."""
        for node_id in node_ids or tuple(self.configs):
            self._tasks[node_id] = asyncio.ensure_future(self._live(self.configs[node_id]))

    async def _live(self, config: Config) -> None:
        name = config.node_id
        opens = itertools.count()

        def opened(group: Group) -> None:
            self.reinstalled[name] += next(opens) > 0
            self.made(group)

        node = self.alive[name] = Node(config, opened=opened)
        try:
            await node.run()
        except Crashed:
            return
        finally:
            del self.alive[name]

    async def crash(self, node_id: str) -> None:
        """End it without order."""
        if node_id in self.alive:
            self.alive[node_id].group.life.fatal(Crashed())
        await self._tasks[node_id]

    async def stop(self, *node_ids: str) -> None:
        """End these in order, all if none is named; raises what ended one otherwise."""
        for node_id in node_ids or tuple(self._tasks):
            if node_id in self.alive:
                self.alive[node_id].life.stop()
        await asyncio.gather(*(self._tasks[node_id] for node_id in node_ids or tuple(self._tasks)))

    def wipe(self, node_id: str) -> None:
        """Remove the directory of one that is down."""
        shutil.rmtree(self.configs[node_id].directory)

    async def leader(self, *, term_above: int = 0) -> Node:
        """The one that reigns."""

        def reigns() -> Node | None:
            alive = self.alive.values()
            return next(
                (node for node in alive if node.group.leader_term is not None and node.group.raft.term > term_above),
                None,
            )

        leader: Node = await until(reigns, 60)
        return leader

    def follower(self, leader: Node) -> str:
        """A node that does not lead."""
        return next(node_id for node_id in sorted(self.configs, reverse=True) if node_id != leader.config.node_id)

    async def level(self, *node_ids: str) -> None:
        """Until these (default: all alive) have applied what the leader has."""
        leader = await self.leader()
        index = leader.group.raft.commit_index
        await until(
            lambda: all(
                node_id in self.alive and self.alive[node_id].group.machine.applied_index >= index
                for node_id in node_ids or tuple(self._tasks)
            )
        )

    def digest(self, node_id: str) -> tuple[str, int]:
        """Of the directory of one that is down, and the index it stands at."""
        return digest(self.configs[node_id].directory)


async def fill(node: Node, count: int, *, size: int = 1000) -> list[str]:
    """Messages due in days, in batches; their ids."""
    ids: list[str] = []
    while len(ids) < count:
        batch = [MessageIn("t", b"x" * size, "text/plain", delay_ms=FAR_MS) for _ in range(min(1000, count - len(ids)))]
        ids += [bytes(id).decode() for id in (await node.front.schedule(batch, ANONYMOUS)).ids]
    return ids


async def strand(nodes: Nodes, leader: Node, index: int) -> None:
    """Fill until no running node's journal reaches back to entry `index`, so that who ends there needs a snapshot."""

    async def gone() -> bool:
        with contextlib.suppress(Problem):
            await fill(leader, 1000)
        return all(node.group.journal.first_index > index + 1 for node in nodes.alive.values())

    await until(gone, 60)


def play(nodes: Nodes, scene: Callable[[Nodes], Awaitable[None]], *, seconds: float = 60.0) -> None:
    """Start all, play, stop in order."""

    async def whole() -> None:
        nodes.start()
        try:
            async with asyncio.timeout(seconds):
                await nodes.leader()
                await scene(nodes)
        finally:
            leading = [node_id for node_id, node in nodes.alive.items() if node.group.raft.is_leader]
            await nodes.stop(*(node_id for node_id in nodes.alive if node_id not in leading))
            await nodes.stop()  # last, so that it does not wait for another to lead

    asyncio.run(whole())
