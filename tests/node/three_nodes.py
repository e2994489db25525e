"""Three real nodes in one event loop: real directories, journals and sockets, asked through their service ports."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from chaos.cluster.ports import free_ports
from node.node import Node
from node.peer_wire.to_leader import ToLeader
from node.port.group_frames import FramedGroup
from node.runtime.config import parse_config
from node.settle.wait_for_all import all_of
from tests.waiting import until

Scene = Callable[[list[Node]], Awaitable[None]]

UNHURRIED = {"heartbeat_ms": 50, "trust_ms": 900, "election_min_ms": 1_000, "election_max_ms": 1_500}
"""Three nodes on one loop on a busy machine: leadership that a scene does not take away stays where it is."""


def run_nodes(directory: Path, scene: Scene, **tables: Any) -> None:
    """Start three nodes below `directory`, with these tables in their configuration too, wait until one leads, play the
    scene, stop all in order."""
    asyncio.run(_run(directory, scene, tables))


async def _run(directory: Path, scene: Scene, tables: dict[str, Any]) -> None:
    ports = [f"127.0.0.1:{port}" for port in free_ports(6)]
    peers = [{"id": f"n{i}", "http": ports[i], "raft": ports[i + 3]} for i in range(3)]
    nodes = [
        Node(
            parse_config(
                {
                    "node_id": peer["id"],
                    "data_dir": str(directory / peer["id"]),
                    "http": {"listen": peer["http"]},
                    "raft": {"listen": peer["raft"], **UNHURRIED},
                    "peers": peers,
                    **tables,
                },
                {},
            )
        )
        for peer in peers
    ]
    serving = [asyncio.ensure_future(node.run()) for node in nodes]
    try:
        await leader_of(nodes)
        await scene(nodes)
    finally:
        for node in nodes:
            node.life.stop()
        await all_of(serving)  # not gather: nodes that still end would be cancelled when one has failed


def to_leader_of(node: Node) -> ToLeader:
    """Its way to the leader by calls."""
    remote = node.group_directory.home._remote
    assert isinstance(remote, FramedGroup)
    assert isinstance(remote._frames, ToLeader)
    return remote._frames


async def leader_of(nodes: list[Node], *, term_above: int = 0) -> Node:
    """The node that reigns and is sure to, in a term above this one."""

    def reigns(node: Node) -> bool:
        return (
            node.group.leader_term is not None
            and node.group.raft.trusted(node.group.clock.monotonic())
            and node.group.raft.term > term_above
        )

    leader: Node = await until(lambda: next(filter(reigns, nodes), None))
    return leader
