"""How late messages come: 5,000 a second spread over the milliseconds, and 5,000 on each full second.

Everything is scheduled before the first is due, so the due times are fixed whatever the cluster does meanwhile and a
stall shows in every message behind it (no coordinated omission). Lateness is the consumer's receive time minus due;
beside it stands the leader's own (hand-over minus due), so that the difference shows what the way to the consumer
takes.
"""

import asyncio
import json
import time
from collections.abc import Iterator
from datetime import datetime

import msgspec
import numpy as np

from bench.pump import Pump, render
from bench.row import Row
from bench.schedule import BATCH, Count, batch
from chaos.cluster import Cluster, ClusterFailed
from chaos.verdict import percentiles
from cli.local_cluster import LocalNode

CONSUMERS = 8
LEAD_S = 4.0
GRACE_S = 30.0
BEAT_S = 0.005


class Message(msgspec.Struct, gc=False):
    """What a consumer needs of a pulled message."""

    receipt: str
    asked_due: datetime
    handed_over: datetime


class Messages(msgspec.Struct):
    """The answer to a pull."""

    messages: list[Message]


_DECODER = msgspec.json.Decoder(Messages)


class Drain:
    """Consumers of one topic at one node until `count` messages have come."""

    def __init__(self, node: LocalNode, topic: str, count: int) -> None:
        self._node, self._topic, self._count = node, topic, count
        self._receipts: list[str] = []
        self.received_ms: list[float] = []
        self.handed_over_ms: list[float] = []

    async def run(self) -> None:
        """Returns when all have come and are acked. Raises TimeoutError if they do not."""
        host, port = self._node.http.split(":")
        tasks = [Pump.run(host, int(port), self._pulls(), self._received) for _ in range(CONSUMERS)]
        await asyncio.gather(*tasks, self._acking(host, int(port)))

    def _pulls(self) -> Iterator[bytes]:
        pull = render("POST", f"/v1/topics/{self._topic}/pull", b'{"max":1000,"wait":500}')
        while len(self.received_ms) < self._count:
            yield pull

    def _received(self, status: int, body: bytes, seconds: float) -> None:
        if status != 200:
            raise ClusterFailed(f"HTTP {status}: {body[:300]!r}")
        now_ms = time.time() * 1000
        for message in _DECODER.decode(body).messages:
            due_ms = message.asked_due.timestamp() * 1000
            self.received_ms.append(now_ms - due_ms)
            self.handed_over_ms.append(message.handed_over.timestamp() * 1000 - due_ms)
            self._receipts.append(message.receipt)

    async def _acking(self, host: str, port: int) -> None:
        """Acks what came in, a beat apart."""
        while len(self.received_ms) < self._count or self._receipts:
            receipts, self._receipts = self._receipts, []
            if receipts:
                request = render("POST", f"/v1/topics/{self._topic}/ack", json.dumps({"receipts": receipts}).encode())
                await Pump.run(host, port, iter([request]), self._acked)
            await asyncio.sleep(BEAT_S)

    def _acked(self, status: int, body: bytes, seconds: float) -> None:
        if status != 200:
            raise ClusterFailed(f"ack: HTTP {status}: {body[:300]!r}")


async def measure(cluster: Cluster, topic: str, offsets_ms: list[int]) -> tuple[dict[str, object], float]:
    """Schedules a message at each offset from a full second soon to come, consumes them; figures and the p99."""
    leader = cluster.nodes[(await cluster.wait_leader()).node_id]
    host, port = leader.http.split(":")
    base_ms = (int(time.time() + LEAD_S) + 1) * 1000
    due = [base_ms + offset for offset in offsets_ms]
    requests = [batch(due[first : first + BATCH], topic) for first in range(0, len(due), BATCH)]
    await Pump.run(host, int(port), iter(requests), Count(BATCH, 200).answered)
    if time.time() * 1000 > base_ms:
        raise ClusterFailed("scheduling took longer than the lead time")
    drain = Drain(leader, topic, len(due))
    async with asyncio.timeout(LEAD_S + max(offsets_ms) / 1000 + GRACE_S):
        await drain.run()
    received, handed_over = percentiles(drain.received_ms), percentiles(drain.handed_over_ms)
    figures: dict[str, object] = {"messages": len(drain.received_ms), "early": sum(ms < 0 for ms in drain.received_ms)}
    figures |= received | {f"leader's {name}": value for name, value in handed_over.items()}
    return figures, received["p99"]


async def lateness(cluster: Cluster, seconds: float, rate: int = 5_000) -> list[Row]:
    """Both shapes, `rate` due a second for `seconds`."""
    count = int(rate * seconds)
    spread = sorted(int(value) for value in np.random.default_rng(1).integers(0, int(seconds * 1000), count))
    bursts = [second * 1000 for second in range(int(seconds)) for _ in range(rate)]
    rows = []
    for name, topic, offsets in (
        ("spread over milliseconds", "spread", spread),
        ("on each full second", "burst", bursts),
    ):
        figures, p99 = await measure(cluster, topic, offsets)
        rows.append(Row(f"lateness p99, {rate:,} due/s {name}", p99, "ms", figures))
    return rows
