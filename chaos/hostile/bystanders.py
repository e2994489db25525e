"""Bystanders: a writer, a consumer, a receiver of webhooks, and checks of /livez and memory of every node.

Their observations are judged in three windows: before an attack, during it, and up to a minute after it.
"""

import asyncio
import itertools
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import aiohttp

from chaos.cluster.cluster import Cluster
from chaos.hostile.tally import DeliveryTally
from cli.local.local_nodes import LOOPBACK
from hourwheel.webhook_receiver import Receiver, Reply, Request

PULLED: Final = "calm-pull"
PUSHED: Final = "calm-push"
#: The time between two messages, and their delay.
WRITE_S: Final = 0.025
DELAY_MS: Final = 300
LOOK_S: Final = 0.05
MEMORY_S: Final = 0.5
ANSWER_S: Final = 5.0
#: How long the last message may take: a push that broke off comes again after its timeout of 10 s.
ARRIVE_S: Final = 30.0
#: The cluster is asked about this many of the messages that did not arrive.
TOLD: Final = 3


class Look(NamedTuple):
    """One measurement at a monotonic moment, in ms or bytes. `node` is a node's id; for lateness and acks it is the
    topic."""

    at_s: float
    node: str
    value: float


class Bystanders:
    """The clients of one cluster whose nodes may push to loopback. Each URL of their webhook receiver has the next of
    the names `hosts`, which all mean this machine. Use as `async with`. Call `stop` before reading `tally`."""

    def __init__(self, cluster: Cluster, hosts: Sequence[str] = (LOOPBACK,)) -> None:
        self._cluster, self._hosts = cluster, itertools.cycle(hosts)
        self.lateness: dict[str, list[Look]] = {PULLED: [], PUSHED: []}
        self.livez: list[Look] = []
        self.acks: list[Look] = []
        self.memory: list[Look] = []
        self.failures: list[str] = []
        self.tally = DeliveryTally()
        self.missing: dict[str, str] = {}  # id -> the cluster's answer about a missing message; a few
        self._tasks: list[asyncio.Task[None]] = []
        self._receiver = Receiver(self._receive)
        self._writing = True

    async def __aenter__(self) -> Self:
        self._port = await self._receiver.listen(LOOPBACK, 0)
        timeout = aiohttp.ClientTimeout(total=ANSWER_S)
        self._http = aiohttp.ClientSession(timeout=timeout)
        leader = await self._cluster.wait_leader()
        self._leader = self._cluster.nodes[leader.node_id].url
        settings: dict[str, dict[str, Any]] = {
            PULLED: {},
            PUSHED: {"mode": "push"},
        }
        for topic, wanted in settings.items():
            async with self._http.put(f"{self._leader}/v1/topics/{topic}", json=wanted) as answer:
                assert answer.status == 200, await answer.text()
        works = [self._write(), self._pull(), *map(self._look, self._cluster.nodes), self._weigh()]
        self._tasks = [asyncio.create_task(work) for work in works]
        return self

    async def __aexit__(self, *error: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._http.close()
        await self._receiver.close()

    async def stop(self) -> None:
        """Stop writing, and wait for messages on their way."""
        self._writing = False
        await self._tasks[0]
        for id_text in (await self.tally.wait(ARRIVE_S))[:TOLD]:
            async with self._http.get(f"{self._leader}/v1/messages/{id_text}") as answer:
                self.missing[id_text] = await answer.text()

    async def _write(self) -> None:
        number = 0
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while self._writing:
            number += 1
            message: dict[str, Any] = {"topic": PULLED, "body": number, "delay": f"{DELAY_MS}ms"}
            if number % 2:
                message |= {"topic": PUSHED, "target": {"url": f"http://{next(self._hosts)}:{self._port}/"}}
            try:
                async with self._http.post(f"{self._leader}/v1/messages", json=message) as answer:
                    document = await answer.json(content_type=None)
                    if answer.status == 201:
                        self.tally.written.add(document["id"])
                    else:
                        self.failures.append(f"the writer: {answer.status} {document.get('code')}")
            except (aiohttp.ClientError, TimeoutError) as broken:
                self.failures.append(f"the writer: {type(broken).__name__}")
            due_s = max(due_s + WRITE_S, loop.time())
            await asyncio.sleep(due_s - loop.time())

    async def _pull(self) -> None:
        """Pull again and again. Each ack runs beside the next pull, so that no message waits for the consumer."""
        pull = f"{self._leader}/v1/topics/{PULLED}/pull"
        wait = aiohttp.ClientTimeout(total=30)
        async with asyncio.TaskGroup() as acks:
            while True:
                try:
                    async with self._http.post(pull, json={"max": 100, "wait": "5s"}, timeout=wait) as answer:
                        document = await answer.json(content_type=None)
                    if answer.status != 200:
                        self.failures.append(f"the consumer: {answer.status} {document.get('code')}")
                        await asyncio.sleep(LOOK_S)
                        continue
                    for each in document["messages"]:
                        self._note(PULLED, each["id"], each["asked_due"])
                    if document["messages"]:
                        acks.create_task(self._ack([each["receipt"] for each in document["messages"]]))
                except (aiohttp.ClientError, TimeoutError) as broken:
                    self.failures.append(f"the consumer: {type(broken).__name__}")
                    await asyncio.sleep(LOOK_S)

    async def _ack(self, receipts: list[str]) -> None:
        url, begun_s = f"{self._leader}/v1/topics/{PULLED}/ack", time.monotonic()
        try:
            async with self._http.post(url, json={"receipts": receipts}) as answer:
                await answer.read()
                if answer.status != 200:
                    self.failures.append(f"the consumer's ack: {answer.status}")
        except (aiohttp.ClientError, TimeoutError) as broken:
            self.failures.append(f"the consumer's ack: {type(broken).__name__}")
        now_s = time.monotonic()
        self.acks.append(Look(now_s, PULLED, (now_s - begun_s) * 1000))

    def _receive(self, port: int, request: Request) -> Reply:
        self._note(PUSHED, request.headers["webhook-id"], request.headers["hourwheel-due"])
        return Reply()

    def _note(self, topic: str, id_text: str, due: str) -> None:
        self.tally.arrive(id_text)
        late_ms = (time.time() - datetime.fromisoformat(due).timestamp()) * 1000
        self.lateness[topic].append(Look(time.monotonic(), topic, late_ms))

    async def _look(self, node_id: str) -> None:
        """Ask this node for /livez every LOOK_S, each time on a new connection, as a load balancer does."""
        url = f"{self._cluster.nodes[node_id].url}/livez"
        while True:
            begun_s = time.monotonic()
            try:
                async with self._http.get(url, headers={"Connection": "close"}) as answer:
                    await answer.read()
                    if answer.status != 200:
                        self.failures.append(f"/livez of {node_id}: {answer.status}")
            except (aiohttp.ClientError, TimeoutError) as broken:
                self.failures.append(f"/livez of {node_id}: {type(broken).__name__}")
            now_s = time.monotonic()
            self.livez.append(Look(now_s, node_id, (now_s - begun_s) * 1000))
            await asyncio.sleep(LOOK_S)

    async def _weigh(self) -> None:
        while True:
            for node_id in self._cluster.running():
                self.memory.append(Look(time.monotonic(), node_id, resident_bytes(self._cluster.pid(node_id))))
            await asyncio.sleep(MEMORY_S)


def resident_bytes(pid: int) -> float:
    """Return the resident memory of the process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return float(pages * 4096)
