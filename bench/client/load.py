"""The input of every measurement: bodies of 100 bytes, batches of 1,000, requests rendered before the clock starts."""

import asyncio
import itertools
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.client.pump import Caller, Framing, Pump, http_frame, render
from chaos.cluster.cluster import Cluster, ClusterFailed
from chaos.history.verdict import percentiles
from hourwheel.core.addresses import Address, parse_address
from hourwheel.core.errors import error_of
from hourwheel.core.problem import read_problem

BODY = "x" * 98  # 100 bytes as JSON
BATCH = 1_000
BATCH_CONNECTIONS = 4
RENDERED_BATCHES = 64
DAY_MS = 86_400_000
#: Due times begin this far ahead, so no message is due while schedule rates are measured.
AHEAD_MS = 20 * 60_000
NEAR_MS = 80 * 60_000
FAR_MS = 30 * DAY_MS


async def leader_address(cluster: Cluster) -> Address:
    """Return the address of the present leader."""
    return parse_address(cluster.nodes[(await cluster.wait_leader()).node_id].url)


def line(due_ms: int, topic: str = "bench") -> bytes:
    """Return a message of `topic` that is due at `due_ms`, as a line of JSON for a batch."""
    return json.dumps({"topic": topic, "body": BODY, "deliver_at": due_ms}).encode()


def batch(due_ms: Sequence[int], topic: str = "bench") -> bytes:
    """Return a batch request, one line per due time."""
    return render("POST", "/v1/messages/batch", b"\n".join(line(due, topic) for due in due_ms), "application/x-ndjson")


def batches(due_ms: Sequence[int], topic: str = "bench") -> list[bytes]:
    """Return batch requests of BATCH lines each. The last has the lines that remain."""
    return [batch(due_ms[first : first + BATCH], topic) for first in range(0, len(due_ms), BATCH)]


def due_times(count: int, spread_ms: int, seed: int = 1) -> list[int]:
    """Return `count` due times, in ms, drawn uniformly from a span of `spread_ms` that begins AHEAD_MS from now."""
    first = int(time.time() * 1000) + AHEAD_MS
    return [int(due) for due in first + np.random.default_rng(seed).integers(0, spread_ms, count)]


@dataclass
class Count:
    """Counts the messages in answers. A good answer has this `status`. Each message in it is found by the bytes
    `wanted`. If `per_answer` is set, a good answer has exactly that many messages. `seconds` are the times that
    requests took."""

    status: int
    wanted: bytes = b'"id"'
    per_answer: int | None = None
    acknowledged: int = 0
    seconds: list[float] = field(default_factory=list)

    def answered(self, status: int, body: bytes, seconds: float) -> None:
        """Count an answer. Raises ClusterFailed for an answer that is not good, which ends the run."""
        found = body.count(self.wanted)
        if status != self.status or (self.per_answer is not None and found != self.per_answer):
            raise ClusterFailed(f"status {status}, {found} messages: {body[:300]!r}")
        self.acknowledged += found
        self.seconds.append(seconds)

    def latency(self) -> dict[str, object]:
        """Return percentiles of the times of all requests, in ms, by name."""
        found = percentiles([1000 * value for value in self.seconds])
        return {f"request {key} ms": value for key, value in found.items()}


def until(requests: Sequence[bytes], end_s: float) -> Iterator[bytes]:
    """Yield the requests again and again, until `end_s` (time.perf_counter)."""
    return itertools.takewhile(lambda _: time.perf_counter() < end_s, itertools.cycle(requests))


async def pump(
    address: Address,
    requests: Sequence[bytes],
    connections: int,
    seconds: float,
    count: Count,
    frame: Framing = http_frame,
) -> float:
    """Send `requests` over `connections` connections for `seconds`. Each connection sends all of them again and again;
    no two begin with the same request, if there are enough. `count` counts the answers. Return the seconds of real time
    that it took."""
    start = time.perf_counter()
    turns = (turn % len(requests) for turn in range(connections))
    shifted = [[*requests[turn:], *requests[:turn]] for turn in turns]
    await asyncio.gather(
        *(Pump.run(address.host, address.port, until(mine, start + seconds), count.answered, frame) for mine in shifted)
    )
    return time.perf_counter() - start


async def fill(address: Address, requests: Iterable[bytes], connections: int = BATCH_CONNECTIONS) -> tuple[int, float]:
    """Send each of these batch requests once. Return (messages scheduled, seconds it took)."""
    count = Count(200)
    source = iter(requests)
    start = time.perf_counter()
    runs = (Pump.run(address.host, address.port, source, count.answered) for _ in range(connections))
    await asyncio.gather(*runs)
    return count.acknowledged, time.perf_counter() - start


async def fill_due(address: Address, due_ms: Sequence[int], topic: str) -> None:
    """Schedule a message of `topic` for each of these times. Raises ClusterFailed unless all are scheduled before the
    first is due."""
    acknowledged, _ = await fill(address, batches(due_ms, topic))
    if acknowledged != len(due_ms):
        raise ClusterFailed(f"{acknowledged} of {len(due_ms)} scheduled")
    if time.time() * 1000 > min(due_ms):
        raise ClusterFailed("scheduling took longer than the lead time")


async def put_topic(address: Address, topic: str, settings: dict[str, object]) -> None:
    """Configure a topic. Raises ClusterFailed if it is refused."""
    caller = await Caller.connect(address.host, address.port)
    try:
        status, body = await caller.call(render("PUT", f"/v1/topics/{topic}", json.dumps(settings).encode()))
    finally:
        caller.close()
    if status >= 300:
        raise ClusterFailed(f"topic {topic}: {error_of(read_problem(status, {}, body))}")


def lead_ms(count: int, rate: float = 25_000) -> int:
    """Return a due time on a full second, in ms. It is far enough ahead to schedule `count` messages before it at
    `rate` a second. The default of `rate` is lower than what nodes reach."""
    return (int(time.time() + 3 + count / rate) + 1) * 1000
