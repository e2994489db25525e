"""Measure what other clients notice of very many topics with a message each, waiting consumers, or closed ports.

Lateness is measured as in `lateness-pull` and `lateness-push`, at a low rate, so any increase comes from the topics,
consumers or ports beside it. Shares of a core are of the leader's process, user and system, from /proc.
"""

import asyncio
import itertools
import json
import re
import time
from pathlib import Path
from typing import Final

import numpy as np

from bench.client.consumer import Waiting
from bench.client.load import fill, fill_due, lead_ms, leader_address, line, put_topic
from bench.client.pump import Caller, Pump, render
from bench.client.receivers import PUSH_SETTINGS, Receivers, firsts
from bench.measure.lateness import GRACE_S, spread_ms
from bench.measure.processor import share_of_leader
from bench.measure.push import wait_received
from bench.row import Row, at_most
from bench.scale import Scale
from chaos.cluster.cluster import Cluster, ClusterFailed
from chaos.history.verdict import percentiles
from hourwheel.core.addresses import Address

RATE: Final = 100
WAITING: Final = 400
WANTED_BY_NONE: Final = 150_000
CLOSED_PORTS: Final = 20
SCRAPES: Final = 20
LONG_MS: Final = 20
TOPICS_SETTINGS: Final = PUSH_SETTINGS | {"watchdog": {"held_ms": LONG_MS}}
#: Time in which ready messages settle, and their checkpoints end.
SETTLE_S: Final = 5.0
NDJSON: Final = "application/x-ndjson"


async def topics(cluster: Cluster, scale: Scale) -> list[Row]:
    """Measure lateness by pull and push, alone and beside topics with a ready message each. Count how often scrapes of
    /metrics hold the event loop while these topics exist."""
    address = await leader_address(cluster)
    alone = await _pulled_ms(address, "alone-pull", scale), await _pushed_ms(cluster, address, "alone-push", scale)
    now_ms = int(time.time() * 1000)  # due at once
    lines = [line(now_ms, f"crowd-{number}") for number in range(scale.topics)]
    await _fill(address, lines)
    await asyncio.sleep(SETTLE_S)
    beside = await _pulled_ms(address, "pull", scale), await _pushed_ms(cluster, address, "push", scale)
    rows = []
    for way, bound, before, late_ms in zip(("pull", "push"), (5, 10), alone, beside, strict=True):
        found, reference = percentiles(late_ms), percentiles(before)
        detail: dict[str, object] = {**found, "alone p50": reference["p50"], "alone p99": reference["p99"]}
        figure = f"lateness by {way} beside {scale.topics:,} topics with a ready message each: p99"
        rows.append(Row(figure, found["p99"], "ms", scale.seconds, at_most(bound), detail=detail))
    return [*rows, await _scraped(address)]


async def filters(cluster: Cluster, scale: Scale) -> list[Row]:
    """Measure the leader's share of a core while consumers wait for tags that no message has."""
    address = await leader_address(cluster)
    topic, now_ms = "filters", int(time.time() * 1000)
    message = json.dumps({"topic": topic, "body": 1, "deliver_at": now_ms, "tags": ["none"]}).encode()
    await _fill(address, [message] * min(WANTED_BY_NONE, scale.drain))
    await asyncio.sleep(SETTLE_S)
    before = await share_of_leader(cluster, scale.seconds)
    waiting = [asyncio.create_task(_wait(address, topic, f"x{number}")) for number in range(WAITING)]
    try:
        await asyncio.sleep(SETTLE_S)
        share = await share_of_leader(cluster, scale.seconds)
        due_ms = _due_ms(scale)
        await fill_due(address, due_ms, topic)
        await asyncio.sleep(max(0.0, due_ms[0] / 1000 - time.time()))
        beside = await share_of_leader(cluster, scale.seconds)
    finally:
        await _cancel(waiting)
    detail: dict[str, object] = {"without them": before, f"with {RATE} more a second that none wants": beside}
    figure = f"{WAITING} consumers that wait with a filter each: the leader's share of a core"
    return [Row(figure, share, "%", scale.seconds, at_most(10), detail=detail)]


async def closed_ports(cluster: Cluster, scale: Scale) -> list[Row]:
    """Measure the leader's share of a core while there are messages of topics that push to ports on which no process
    listens."""
    address = await leader_address(cluster)
    before = await share_of_leader(cluster, scale.seconds)
    for number in range(CLOSED_PORTS):
        target = {"url": f"http://127.0.0.1:{1 + number}/"}
        await put_topic(address, f"closed-{number}", {"mode": "push", "target": target})
    now_ms = int(time.time() * 1000)
    await _fill(address, [line(now_ms, f"closed-{number % CLOSED_PORTS}") for number in range(scale.closed)])
    await asyncio.sleep(SETTLE_S)
    shares = [await share_of_leader(cluster, scale.seconds) for _ in range(3)]
    figure = f"{scale.closed:,} messages of {CLOSED_PORTS} topics to closed ports: the leader's share of a core"
    detail: dict[str, object] = {"without them": before, "one after another": shares}
    return [Row(figure, float(np.median(shares)), "%", 3 * scale.seconds, at_most(10), detail=detail)]


async def _pulled_ms(address: Address, topic: str, scale: Scale) -> list[float]:
    """Return receive time minus due time of RATE pulled messages a second."""
    due_ms = _due_ms(scale)
    await fill_due(address, due_ms, topic)
    run = Waiting(address, topic, len(due_ms))
    async with asyncio.timeout(due_ms[-1] / 1000 - time.time() + GRACE_S):
        await run.run(1)
    return run.late_ms


async def _pushed_ms(cluster: Cluster, address: Address, topic: str, scale: Scale) -> list[float]:
    """Return receive time minus due time of RATE pushed messages a second."""
    directory: Path = next(iter(cluster.nodes.values())).directory.parent
    with Receivers(directory / f"{topic}.ndjson") as listening:
        await put_topic(address, topic, {"mode": "push", "target": {"url": f"{listening.urls[0]}/"}})
        due_ms = _due_ms(scale)
        await fill_due(address, due_ms, topic)
        await wait_received(listening, len(due_ms), due_ms[-1] / 1000 + GRACE_S)
        return [one.late_ms for one in firsts(listening.received).values()]


def _due_ms(scale: Scale) -> list[int]:
    base_ms = lead_ms(0)
    return [base_ms + offset for offset in spread_ms(RATE, scale.seconds)]


async def _fill(address: Address, lines: list[bytes]) -> None:
    """Schedule these messages, a thousand a request. Raises ClusterFailed unless all are in."""
    pieces = (b"\n".join(lines[first : first + 1_000]) for first in range(0, len(lines), 1_000))
    acknowledged, _ = await fill(address, (render("POST", "/v1/messages/batch", piece, NDJSON) for piece in pieces), 1)
    if acknowledged != len(lines):
        raise ClusterFailed(f"{acknowledged} of {len(lines)} scheduled")


async def _wait(address: Address, topic: str, tag: str) -> None:
    """Run a consumer that waits for messages with this tag, until cancelled."""
    pull = render("POST", f"/v1/topics/{topic}/pull", json.dumps({"wait": "20s", "tags": tag}).encode())

    def answered(status: int, body: bytes, seconds: float) -> None:
        if status != 200:
            raise ClusterFailed(f"status {status}: {body[:300]!r}")

    await Pump.run(address.host, address.port, itertools.repeat(pull), answered)


async def _cancel(tasks: list["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    for error in await asyncio.gather(*tasks, return_exceptions=True):
        if not isinstance(error, asyncio.CancelledError):
            raise ClusterFailed(f"a consumer ended: {error!r}")


async def _scraped(address: Address) -> Row:
    """Count how often the leader's loop was held longer than LONG_MS during scrapes, by its own watchdog."""
    caller = await Caller.connect(address.host, address.port)
    took_ms, pages = [], []
    try:
        for _ in range(SCRAPES):
            begun_s = time.perf_counter()
            status, page = await caller.call(render("GET", "/metrics", b""))
            if status != 200:
                raise ClusterFailed(f"/metrics: {status}")
            took_ms.append((time.perf_counter() - begun_s) * 1000)
            pages.append(page)
            await asyncio.sleep(0.5)
    finally:
        caller.close()
    holds = _long_holds(pages[-1]) - _long_holds(pages[0])
    detail: dict[str, object] = {"a scrape ms": percentiles(took_ms), "bytes": len(pages[-1])}
    return Row(
        f"holds past {LONG_MS} ms by {SCRAPES} scrapes", float(holds), "", SCRAPES / 2, at_most(0), detail=detail
    )


def _long_holds(page: bytes) -> int:
    """Return how many holds of the event loop past LONG_MS a page of metrics counts, by the node's own work or by
    blocking calls."""
    counts: dict[tuple[str, str], int] = {}
    for kind, bound, count in re.findall(rb'loop_held_seconds_bucket\{by="(\w+)",le="([^"]+)"\} ([\d.]+)', page):
        counts[kind.decode(), bound.decode()] = int(float(count))
    return sum(counts[kind, "+Inf"] - counts[kind, f"{LONG_MS / 1000:g}"] for kind in ("work", "blocked"))
