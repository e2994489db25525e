"""Nodes that come and go: real ones in one event loop, started, added and ended one by one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from api.port.port import ANONYMOUS, MessageIn
from api.port.problem import Problem
from chaos.cluster.ports import free_ports
from node.cluster.members import NodeRemoved
from node.node import Node
from node.runtime.config import parse_config
from replication.wire.listener import AsyncTransport
from tests.node.three_nodes import leader_of
from tests.waiting import WITHIN_S, until


class Place:
    """Nodes by id, each with its ports, directory, and the task it runs in."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.nodes: dict[str, Node] = {}
        self.serving: dict[str, asyncio.Task[None]] = {}
        self._peers: dict[str, dict[str, str]] = {}

    def peer(self, node_id: str) -> dict[str, str]:
        """Its entry in a configuration."""
        if node_id not in self._peers:
            http, raft = free_ports(2)
            self._peers[node_id] = {"id": node_id, "http": f"127.0.0.1:{http}", "raft": f"127.0.0.1:{raft}"}
        return self._peers[node_id]

    def start(self, node_id: str, *others: str, **settings: Any) -> Node:
        """Start a node that is configured with these others."""
        peer = self.peer(node_id)
        raw = {
            "node_id": node_id,
            "data_dir": str(self.directory / node_id),
            "http": {"listen": peer["http"]},
            "raft": {"listen": peer["raft"]},
            "peers": [self.peer(each) for each in sorted({node_id, *others})],
            **settings,
        }
        node = self.nodes[node_id] = Node(parse_config(raw, {}))
        self.serving[node_id] = asyncio.ensure_future(node.run())
        return node

    async def stop(self, node_id: str) -> None:
        """SIGTERM, and wait."""
        self.nodes.pop(node_id).life.stop()
        await self.serving.pop(node_id)

    async def ended(self, node_id: str) -> BaseException | None:
        """Wait for a node to end by itself; what it raised."""
        async with asyncio.timeout(WITHIN_S):
            await asyncio.wait([self.serving[node_id]])
        del self.nodes[node_id]
        return self.serving.pop(node_id).exception()

    async def listens(self, node_id: str) -> None:
        """Until the node can be reached by peers and by clients."""
        transport = self.nodes[node_id].group.transport
        assert isinstance(transport, AsyncTransport)
        await until(lambda: transport.listens)
        host, port = self.peer(node_id)["http"].split(":")

        async def answers() -> bool:
            try:
                (await asyncio.open_connection(host, int(port)))[1].close()
            except OSError:
                return False
            return True

        await until(answers)

    async def is_out(self, node_id: str) -> None:
        """Started again on its old directory, a removed node ends: at once if it has applied its removal, else told."""
        try:
            self.start(node_id, *self.nodes, join=True)
        except NodeRemoved:
            return
        assert isinstance(await self.ended(node_id), NodeRemoved)

    async def leader(self) -> Node:
        """Who reigns."""
        return await leader_of(list(self.nodes.values()))

    async def add(self, node_id: str) -> Any:
        """Through the leader's port, once the node listens."""
        peer = self.peer(node_id)
        await self.listens(node_id)
        return await self.led(lambda leader: leader.front.add_member(node_id, peer["raft"], peer["http"]))

    async def led(self, call: Callable[[Node], Awaitable[Any]]) -> Any:
        """What the leader answers; a busy machine may unseat it at any moment, and nothing has happened then."""
        answers: list[Any] = []

        async def answered() -> bool:
            try:
                answers.append(await call(await self.leader()))
            except Problem as problem:
                if problem.code != "no-leader":
                    raise
            return bool(answers)

        await until(answered)
        return answers[0]

    async def refusal(self, call: Callable[[Node], Awaitable[Any]]) -> Problem:
        """The Problem that the leader raises."""
        with pytest.raises(Problem) as caught:
            await self.led(call)
        return caught.value

    async def schedule(self, count: int = 1) -> None:
        """Messages for tomorrow, acknowledged."""
        messages = [MessageIn(topic="t", body=b"{}", delay_ms=86_400_000)] * count
        await self.led(lambda leader: leader.front.schedule(messages, ANONYMOUS))

    async def grow(self, node_id: str) -> Node:
        """Start a new node, add it, and wait until it has its vote."""
        node = self.start(node_id, *self.nodes, join=True)
        await self.add(node_id)
        await until(lambda: node.group.members.role(node_id) == "voter" and node.group.members.number > 0)
        return node


@contextlib.asynccontextmanager
async def cluster(directory: Path, *ids: str) -> AsyncIterator[Place]:
    """A cluster founded by these nodes; at the end all that run are stopped, in order."""
    directory.mkdir(exist_ok=True)
    place = Place(directory)
    for node_id in ids:
        place.start(node_id, *ids)
    try:
        await place.leader()
        yield place
    finally:
        for node in place.nodes.values():
            node.life.stop()
        await asyncio.gather(*place.serving.values())
