"""Three real nodes, each with a wall clock that a test moves."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from chaos.cluster.ports import free_ports
from node.environment import Environment
from node.node import Node
from node.runtime.clock import NodeClock
from node.runtime.config import parse_config
from tests.node.three_nodes import leader_of


class Skewed(Environment):
    """The real world but for the wall clock, which is `ahead_s` ahead of the true one."""

    def __init__(self, ahead_s: float = 0.0) -> None:
        self.ahead_s = ahead_s

    def clock(self) -> NodeClock:
        """On the moved wall clock."""
        true = NodeClock()
        return NodeClock(lambda: true.wall_ms() / 1000 + self.ahead_s, true.monotonic)


class Trio:
    """The nodes n0, n1 and n2 and their worlds, in the same order."""

    def __init__(self, directory: Path, bound_ms: int) -> None:
        ports = [f"127.0.0.1:{port}" for port in free_ports(6)]
        peers = [{"id": f"n{i}", "http": ports[i], "raft": ports[i + 3]} for i in range(3)]
        self.worlds = [Skewed() for _ in peers]
        self.nodes = [
            Node(
                parse_config(
                    {
                        "node_id": peer["id"],
                        "data_dir": str(directory / peer["id"]),
                        "http": {"listen": peer["http"]},
                        "raft": {"listen": peer["raft"]},
                        "peers": peers,
                        "clock": {"skew_max_ms": bound_ms},
                    },
                    {},
                ),
                world,
            )
            for peer, world in zip(peers, self.worlds, strict=True)
        ]
        self.serving: list[asyncio.Future[None]] = []

    def world(self, node: Node) -> Skewed:
        """The node's."""
        return self.worlds[self.nodes.index(node)]

    async def stop(self, *nodes: Node) -> None:
        """Stop these in order and wait for their end."""
        for node in nodes:
            node.life.stop()
        await asyncio.gather(*(self.serving[self.nodes.index(node)] for node in nodes))


def run_skewed(directory: Path, scene: Callable[[Trio, Node], Awaitable[None]], *, bound_ms: int = 500) -> None:
    """Start the three, wait until one leads, play the scene with it, stop what still runs."""

    async def play() -> None:
        trio = Trio(directory, bound_ms)
        trio.serving = [asyncio.ensure_future(node.run()) for node in trio.nodes]
        try:
            async with asyncio.timeout(20):
                await scene(trio, await leader_of(trio.nodes))
        finally:
            await trio.stop(*(node for node, end in zip(trio.nodes, trio.serving, strict=True) if not end.done()))

    asyncio.run(play())
