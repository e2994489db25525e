"""How fast messages are taken in: batches of 1,000, and single requests over 1 and 64 connections.

Bodies have 100 bytes. Due times lie ahead of the run, either in the hours that are near (mapped, written through) or
over the next 28 (staged, written at a checkpoint); nothing becomes due while it is measured. Requests go to the leader
and are rendered before the clock starts.
"""

import asyncio
import itertools
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.pump import Pump, render
from bench.row import Row
from chaos.cluster import Cluster, ClusterFailed
from chaos.verdict import percentiles

BODY = "x" * 98  # 100 bytes as JSON
BATCH = 1_000
RENDERED_BATCHES = 32
AHEAD_MS = 20 * 60_000
NEAR_MS = 80 * 60_000
FAR_MS = 28 * 3_600_000
BATCH_CONNECTIONS = 4


def line(due_ms: int, topic: str = "bench") -> bytes:
    """One message as JSON."""
    return json.dumps({"topic": topic, "body": BODY, "deliver_at": due_ms}).encode()


def batch(due_ms: Sequence[int], topic: str = "bench") -> bytes:
    """A batch request, one line per due time."""
    return render("POST", "/v1/messages/batch", b"\n".join(line(due, topic) for due in due_ms), "application/x-ndjson")


def due_times(count: int, spread_ms: int, seed: int = 1) -> list[int]:
    """`count` due times, uniform from AHEAD_MS on for `spread_ms`."""
    first = int(time.time() * 1000) + AHEAD_MS
    return [int(due) for due in first + np.random.default_rng(seed).integers(0, spread_ms, count)]


@dataclass
class Count:
    """What came back. `per_answer` is how many ids a good answer carries."""

    per_answer: int
    status: int
    acknowledged: int = 0
    seconds: list[float] = field(default_factory=list)

    def answered(self, status: int, body: bytes, seconds: float) -> None:
        """Counts one answer; any that is not wholly good ends the run."""
        if status != self.status or body.count(b'"id"') != self.per_answer:
            raise ClusterFailed(f"HTTP {status}: {body[:300]!r}")
        self.acknowledged += self.per_answer
        self.seconds.append(seconds)

    def row(self, name: str, took_s: float) -> Row:
        """Messages a second, with the latency of a request."""
        latency = percentiles([1000 * value for value in self.seconds])
        return Row(
            name, self.acknowledged / took_s, "msg/s", {f"request {key} ms": value for key, value in latency.items()}
        )


def until(requests: Sequence[bytes], end_s: float) -> Iterator[bytes]:
    """The requests again and again until the time is over."""
    return itertools.takewhile(lambda _: time.perf_counter() < end_s, itertools.cycle(requests))


async def pump(cluster: Cluster, requests: Sequence[bytes], connections: int, seconds: float, count: Count) -> float:
    """Sends `requests` to the leader over so many connections; returns how long it really took."""
    leader = cluster.nodes[(await cluster.wait_leader()).node_id]
    start = time.perf_counter()
    turns = (turn % len(requests) for turn in range(connections))
    shifted = [[*requests[turn:], *requests[:turn]] for turn in turns]
    host, port = leader.http.split(":")
    runs = (Pump.run(host, int(port), until(mine, start + seconds), count.answered) for mine in shifted)
    await asyncio.gather(*runs)
    return time.perf_counter() - start


async def batched(cluster: Cluster, seconds: float) -> list[Row]:
    """Batches of 1,000 into near hours and over 28 hours."""
    rows = []
    for name, spread_ms in (("near hours", NEAR_MS), ("spread over 28 h", FAR_MS)):
        due = due_times(BATCH * RENDERED_BATCHES, spread_ms)
        requests = [batch(due[first : first + BATCH]) for first in range(0, len(due), BATCH)]
        count = Count(BATCH, 200)
        took_s = await pump(cluster, requests, BATCH_CONNECTIONS, seconds, count)
        rows.append(count.row(f"schedule, batches of 1,000, {name}", took_s))
    return rows


async def single(cluster: Cluster, seconds: float) -> list[Row]:
    """One message a request."""
    requests = [render("POST", "/v1/messages", line(due)) for due in due_times(2_000, NEAR_MS)]
    rows = []
    for connections in (1, 64):
        count = Count(1, 201)
        took_s = await pump(cluster, requests, connections, seconds, count)
        rows.append(count.row(f"schedule, single, {connections} connection{'s'[: connections > 1]}", took_s))
    return rows
