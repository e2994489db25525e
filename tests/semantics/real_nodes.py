"""Three real nodes that all cells of a file share, and a client that asks them over HTTP."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from click.testing import CliRunner

from chaos.cluster.cluster import Cluster
from cli.local.local_nodes import LocalNode
from cli.main import main
from tests.waiting import until

T = TypeVar("T")
WITHIN_S = 20.0
ONE_ATTEMPT = {"retry": {"max_attempts": 1}}


@dataclass(frozen=True)
class Said:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)

    @property
    def lines(self) -> list[Any]:
        """The lines of the body, decoded."""
        return [json.loads(line) for line in self.body.splitlines()]


@dataclass
class RealNodes:
    """A cluster that runs, and the client. Requests go to its nodes in turn. `received` is the log of what consumers
    got, `receiver_url` the address of a receiver of webhooks."""

    cluster: Cluster
    http: aiohttp.ClientSession
    turns: Iterator[int] = field(default_factory=itertools.count)
    received: list[dict[str, Any]] = field(default_factory=list)
    receiver_url: str = ""

    async def ask(self, line: str, body: Any = None, *, at: str = "", **headers: str) -> Said:
        """Send a request until it is answered by a node that can, or by the node `at`: `line` is method and path. A
        dict is sent as JSON, a list as lines."""

        async def answered() -> Said | None:
            running = [at] if at else self.cluster.running()
            said = await self.once(line, body, at=running[next(self.turns) % len(running)], **headers)
            return None if said is None or said.status == 503 else said

        said: Said = await until(answered, WITHIN_S, line)
        return said

    async def once(self, line: str, body: Any = None, *, at: str, **headers: str) -> Said | None:
        """Send a request once, to the node `at`. None if no answer comes."""
        method, path = line.split(" ")
        data: str | None = None
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        if isinstance(body, list):
            named["Content-Type"] = "application/x-ndjson"
            data = "\n".join(map(json.dumps, body))
        elif body is not None:
            named["Content-Type"] = "application/json"
            data = json.dumps(body)
        try:
            url = self.cluster.nodes[at].url + path
            async with self.http.request(method, url, data=data, headers=named) as answer:
                return Said(answer.status, dict(answer.headers), await answer.read())
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None

    async def done(self, line: str, body: Any = None, *, at: str = "") -> Any:
        """The document of an answer that must be a success."""
        said = await self.ask(line, body, at=at)
        assert 200 <= said.status < 300, (line, said)
        return said.document

    async def pull(self, topic: str, count: int, wait_s: float = 5.0, status: int = 200) -> list[Any]:
        """Pull until so many messages came, or none comes for `wait_s`. The log says that they got this status."""
        found: list[Any] = []
        end_s = time.monotonic() + wait_s
        while len(found) < count and time.monotonic() < end_s:
            wish = {"max": 10, "wait": "500ms", "lease": "1m"}
            found += self.got((await self.done(f"POST /v1/topics/{topic}/pull", wish))["messages"], status)
        return found

    def got(self, messages: list[Any], status: int = 200) -> list[Any]:
        """Write messages to the log of what consumers got, and return them."""
        row = {"received_ms": time.time() * 1000, "status": status}
        self.received += [{name: each[name] for name in ("id", "term", "attempt")} | row for each in messages]
        return messages

    async def take(self, topic: str, ids: list[str], wait_s: float = 10.0) -> list[Any]:
        """Pull exactly these messages, acknowledge them, and see that no other comes."""
        pulled = await self.ack(topic, ids, wait_s)
        assert await self.pull(topic, 1, 0.6) == []
        return pulled

    async def ack(self, topic: str, ids: list[str], wait_s: float = 10.0) -> list[Any]:
        """Pull exactly these messages, and acknowledge them."""
        pulled = await self.pull(topic, len(ids), wait_s)
        assert sorted(each["id"] for each in pulled) == sorted(ids), (topic, ids, pulled)
        receipts = [each["receipt"] for each in pulled]
        results = (await self.done(f"POST /v1/topics/{topic}/ack", {"receipts": receipts}))["results"]
        assert {each["result"] for each in results} == {"acked"}, results
        return pulled

    async def states(self, ids: list[str]) -> set[str]:
        """The states of these messages."""
        return {(await self.done(f"GET /v1/messages/{id}?ledger=false"))["state"] for id in ids}

    async def leader(self) -> str:
        """The node that leads."""
        return (await self.cluster.wait_leader()).node_id

    async def kill_leader(self) -> None:
        """Kill the leader when all nodes have a vote, and start it again once another one leads."""

        async def vote() -> bool:
            found = (await self.done("GET /v1/cluster"))["nodes"]
            return {each["role"] for each in found} == {"leader", "follower"}

        await until(vote, WITHIN_S)
        leader = await self.cluster.wait_leader()
        await self.cluster.kill(leader.node_id)
        await self.cluster.wait_leader(after_term=leader.term)
        self.cluster.start(leader.node_id)

    async def ended(self, name: str) -> Any:
        """An operation at its end."""

        async def look() -> Any:
            found = await self.done(f"GET /v1/operations/{name}")
            return found if found["state"] == "done" else None

        return await until(look, WITHIN_S)


class Runner:
    """Runs stories on a cluster that stays up between them."""

    def __init__(self, nodes: RealNodes, runner: asyncio.Runner) -> None:
        self.nodes, self._runner = nodes, runner

    def run(self, story: Any) -> Any:
        """Run a coroutine to its end."""
        return self._runner.run(story)


@contextmanager
def real_nodes(
    directory: Path, backup: Path | None = None, settings: Mapping[str, Mapping[str, object]] | None = None
) -> Iterator[Runner]:
    """Three nodes at the newest level, new ones or of a restored backup. `settings` are of their configuration
    files."""
    with asyncio.Runner() as runner:
        cluster = Cluster(directory, settings=settings)
        if backup is not None:
            _restore(backup, cluster.nodes["n1"])

        async def begin() -> RealNodes:
            await cluster.__aenter__()
            cluster.start()
            await cluster.wait_ready()
            await cluster.wait_raised()
            return RealNodes(cluster, aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)))

        async def end(nodes: RealNodes) -> None:
            await nodes.http.close()
            await cluster.__aexit__(None, None, None)

        nodes = runner.run(begin())
        try:
            yield Runner(nodes, runner)
        finally:
            runner.run(end(nodes))


def _restore(backup: Path, node: LocalNode) -> None:
    arguments = ["restore", str(backup), "--data-dir", str(node.data_path), "--node-id", node.node_id]
    restored = CliRunner().invoke(main, arguments)
    assert restored.exit_code == 0, restored.output
