"""Measure the return of a node that is millions of messages behind: how long it takes, and the lateness meanwhile.

Little journal is kept (SETTINGS), so the node needs a snapshot. The same load runs twice. The first time no node is
behind. The second time it begins at the restart of the node, and goes on until the node has caught up. All the while
messages become due, and waiting consumers pull them. Others are scheduled at a steady rate, so the node has to catch up
with a moving log.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress

from bench.client.consumer import Waiting
from bench.client.load import (
    BATCH,
    FAR_MS,
    RENDERED_BATCHES,
    batch,
    batches,
    due_times,
    fill,
    fill_due,
    lead_ms,
    leader_address,
)
from bench.client.pump import Caller
from bench.client.receivers import PUSH_SETTINGS
from bench.measure.lateness import GRACE_S, spread_ms
from bench.row import Row, at_most
from bench.scale import Scale
from chaos.cluster.cluster import Cluster, ClusterFailed
from chaos.history.verdict import percentiles
from hourwheel.core.addresses import Address

SETTINGS: dict[str, Mapping[str, object]] = {**PUSH_SETTINGS, "storage": {"journal_keep_mb": 32}}
DUE_RATE = 1_000
#: Messages scheduled beside the load: batches of BESIDE, every BESIDE_S.
BESIDE, BESIDE_S = 100, 0.05
#: The load of the second run lasts this much longer per missed message. Its part after the catch-up is ignored.
WINDOW_S_PER_MESSAGE = 90 / 2_000_000
POLL_S = 0.05


async def catch_up(cluster: Cluster, scale: Scale) -> list[Row]:
    """Return the time from the node's start until it has caught up. Return also p99 and worst of the lateness, before
    and meanwhile."""
    address = await leader_address(cluster)
    leader = (await cluster.wait_leader()).node_id
    away = next(node_id for node_id in cluster.nodes if node_id != leader)
    async with scheduling(address):
        before, _ = await _load(address, "before", scale.seconds)
        await before.run()
        await cluster.kill(away)
        rendered = batches(due_times(BATCH * RENDERED_BATCHES, FAR_MS))
        missed, _ = await fill(address, itertools.islice(itertools.cycle(rendered), scale.behind // BATCH))
        window_s = scale.seconds + missed * WINDOW_S_PER_MESSAGE
        meanwhile, base_ms = await _load(address, "meanwhile", window_s)
        async with asyncio.timeout(base_ms / 1000 - time.time() + window_s + GRACE_S), asyncio.TaskGroup() as both:
            both.create_task(meanwhile.run())
            coming = both.create_task(_come_back(cluster, leader, away, base_ms))
        began, ended, bytes_sent = coming.result()
    reference = percentiles(before.late_ms)
    during = [place for place, due in enumerate(meanwhile.due_ms) if began <= due <= ended]
    if not during:
        raise ClusterFailed("it had caught up before anything was due: raise --behind")
    found = percentiles([meanwhile.late_ms[place] for place in during])
    leaders = percentiles([meanwhile.leader_late_ms[place] for place in during])
    took_s = (ended - began) / 1000
    detail: dict[str, object] = {"missed": missed, "snapshot bytes": bytes_sent, "messages due": len(during), **found}
    detail |= {f"leader's {key}": value for key, value in leaders.items()}  # without the way to the client
    name = f"lateness by pull, {DUE_RATE:,} due/s, {BESIDE / BESIDE_S:,.0f} scheduled/s"
    return [
        Row(f"a node {missed:,} messages behind is level again", took_s, "s", took_s),
        Row(f"{name}, all nodes level: p99", reference["p99"], "ms", scale.seconds),
        Row(f"{name}, while it catches up: p99", found["p99"], "ms", took_s, detail=detail),
        Row("p99 while it catches up, to p99 before", found["p99"] / reference["p99"], "x", took_s, at_most(2)),
        Row(f"{name}, all nodes level: worst", reference["max"], "ms", scale.seconds),
        Row(f"{name}, while it catches up: worst", found["max"], "ms", took_s, at_most(50)),
    ]


async def _load(address: Address, topic: str, seconds: float) -> tuple[Waiting, int]:
    """Schedule DUE_RATE messages a second for `seconds`. Return their waiting consumers, and the first due time in
    ms."""
    offsets = spread_ms(DUE_RATE, seconds)
    base_ms = lead_ms(len(offsets))
    await fill_due(address, [base_ms + offset for offset in offsets], topic)
    return Waiting(address, topic, len(offsets)), base_ms


async def _come_back(cluster: Cluster, leader: str, away: str, base_ms: int) -> tuple[float, float, int]:
    """Start the node when the load has run for a second. Return when it started and when it had caught up (ms since the
    epoch), and the snapshot's size in bytes."""
    await asyncio.sleep(base_ms / 1000 + 1 - time.time())
    cluster.start(away)
    began, size = time.time() * 1000, 0
    while True:
        page = await cluster.status(leader) or {"nodes": []}
        for member in page["nodes"]:
            if member["id"] == away:
                size = max(size, (member["snapshot"] or {}).get("bytes", 0))
                if member["state"] == "up":
                    return began, time.time() * 1000, size
        await asyncio.sleep(POLL_S)


@asynccontextmanager
async def scheduling(address: Address) -> AsyncIterator[None]:
    """Schedule a steady stream of messages that are due in days, for the time of the block."""

    async def stream(requests: Iterator[bytes]) -> None:
        caller = await Caller.connect(address.host, address.port)
        try:
            for request in requests:
                status, body = await caller.call(request)
                if status != 200:
                    raise ClusterFailed(f"status {status}: {body[:300]!r}")
                await asyncio.sleep(BESIDE_S)
        finally:
            caller.close()

    due_ms = due_times(BATCH, FAR_MS, seed=2)
    requests = [batch(due_ms[first : first + BESIDE], "beside") for first in range(0, BATCH, BESIDE)]
    task = asyncio.ensure_future(stream(itertools.cycle(requests)))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
