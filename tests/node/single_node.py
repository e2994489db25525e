"""A real node that is a cluster of its own: real directory, journal and sockets, asked through its service port."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from chaos.cluster.ports import free_ports
from node.environment import Environment
from node.node import Node
from node.port.group_port import GroupStatus
from node.runtime.config import parse_config

Play = Callable[[Node], Awaitable[None]]


def run_node(directory: Path, play: Play, **tables: Any) -> None:
    """Start the node in `directory`, with these tables in its configuration too, wait until it leads, play, stop it in
    order."""
    asyncio.run(_run(directory, play, tables))


def run_node_in(outside: Environment, directory: Path, play: Play) -> None:
    """The same, with another clock, disk or boot."""
    asyncio.run(_run(directory, play, {}, outside))


async def run_group(number: int, directory: Path, play: Play, **tables: Any) -> None:
    """One whose group has this number, in a loop that runs already."""
    await _run(directory, play, tables, group=number)


async def _run(
    directory: Path, play: Play, tables: dict[str, Any], outside: Environment | None = None, group: int = 0
) -> None:
    http, raft = (f"127.0.0.1:{port}" for port in free_ports(2))
    config = parse_config(
        {
            "node_id": "n1",
            "data_dir": str(directory),
            "http": {"listen": http},
            "raft": {"listen": raft},
            "peers": [{"id": "n1", "http": http, "raft": raft}],
            **tables,
        },
        {},
    )
    node = Node(config, outside, {group: config})
    leading = asyncio.Event()

    def told(status: GroupStatus) -> None:
        if status.leads:
            leading.set()

    node.group.status_feed.attach(told)
    serving = asyncio.ensure_future(node.run())
    waiting = asyncio.ensure_future(leading.wait())
    await asyncio.wait((serving, waiting), timeout=20, return_when=asyncio.FIRST_COMPLETED)
    try:
        assert leading.is_set(), "the node did not lead"
        await play(node)
    finally:
        waiting.cancel()
        node.life.stop()
        await serving
