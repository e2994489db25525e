"""Measure operations: a cancel of a million messages by window, alone and beside consumers of another topic.

The messages are due within six hours, from an hour ahead. The cancel is one request to the leader, which answers at its
end. Beside it, messages of another topic fall due all the while, and waiting consumers pull them. Their lateness is
measured once with the cancel and once without, in the same cluster.
"""

import asyncio
import itertools
import json
import time

from bench.client.consumer import CONSUMERS, Waiting
from bench.client.load import BATCH, RENDERED_BATCHES, batches, due_times, fill, fill_due, lead_ms, leader_address
from bench.client.pump import Caller, render
from bench.measure.lateness import spread_ms
from bench.row import Row, at_most
from bench.scale import Scale
from chaos.cluster.cluster import Cluster, ClusterFailed
from chaos.history.verdict import percentiles
from hourwheel.core.addresses import Address

HOUR_MS = 3_600_000
DUE_RATE = 1_000
GRACE_S = 60.0


async def operations(cluster: Cluster, scale: Scale) -> list[Row]:
    """Cancel alone, then beside a topic in use, and show the lateness of that topic without and with it."""
    address = await leader_address(cluster)
    count = await _fill(address, "alone", scale.cancelled)
    alone_s = await _cancel(address, "alone", count)
    quiet = await _late(address, "quiet", scale.seconds)
    await _fill(address, "beside", scale.cancelled)
    late, beside_s = await _both(address, scale)
    detail: dict[str, object] = {"cancelled": count}
    figure = f"lateness by pull, {DUE_RATE:,} due/s, {CONSUMERS} waiting consumers"
    return [
        Row(f"cancel of {count:,}, alone", alone_s, "s", alone_s, at_most(2), detail=detail),
        Row(f"cancel of {count:,}, beside {DUE_RATE:,} due/s", beside_s, "s", beside_s, at_most(4), detail=detail),
        Row(f"{figure}: p99", quiet["p99"], "ms", scale.seconds, detail=dict(quiet)),
        Row(f"{figure}, beside the cancel: p99", late["p99"], "ms", beside_s, at_most(10), detail=dict(late)),
    ]


async def _fill(address: Address, topic: str, count: int) -> int:
    spread = batches(due_times(BATCH * RENDERED_BATCHES, 6 * HOUR_MS), topic)
    filled, _ = await fill(address, itertools.islice(itertools.cycle(spread), count // BATCH))
    return filled


async def _cancel(address: Address, topic: str, count: int) -> float:
    """Cancel all messages of a topic; the seconds until it is done. Raises ClusterFailed if it took others, or less."""
    caller = await Caller.connect(address.host, address.port)
    try:
        begun_s = time.perf_counter()
        body = json.dumps({"topic": topic}).encode()
        status, answer = await caller.call(render("POST", "/v1/messages/cancel", body))
        took_s = time.perf_counter() - begun_s
    finally:
        caller.close()
    if status != 200 or json.loads(answer)["changed"] != count:
        raise ClusterFailed(f"status {status}: {answer[:500]!r}; {count} were to be cancelled")
    return took_s


async def _late(address: Address, topic: str, seconds: float) -> dict[str, float]:
    """Percentiles of the lateness of a topic in use for so many seconds, in ms."""
    offsets = spread_ms(DUE_RATE, seconds)
    base_ms = lead_ms(len(offsets))
    await fill_due(address, [base_ms + offset for offset in offsets], topic)
    run = Waiting(address, topic, len(offsets))
    async with asyncio.timeout(base_ms / 1000 - time.time() + seconds + GRACE_S):
        await run.run()
    return percentiles(run.late_ms)


async def _both(address: Address, scale: Scale) -> tuple[dict[str, float], float]:
    """The lateness of messages that fell due during the cancel, and the seconds that the cancel took."""
    offsets = spread_ms(DUE_RATE, scale.seconds)
    base_ms = lead_ms(len(offsets))
    await fill_due(address, [base_ms + offset for offset in offsets], "beside-it")
    run = Waiting(address, "beside-it", len(offsets))
    waiting = asyncio.ensure_future(run.run())
    await asyncio.sleep(base_ms / 1000 - time.time() + 1)  # some are due before it begins
    begun_ms = time.time() * 1000
    took_s = await _cancel(address, "beside", scale.cancelled // BATCH * BATCH)
    async with asyncio.timeout(scale.seconds + GRACE_S):
        await waiting
    during = [
        late_ms
        for due_ms, late_ms in zip(run.due_ms, run.late_ms, strict=True)
        if begun_ms <= due_ms < begun_ms + 1000 * took_s
    ]
    return percentiles(during) | {"messages": float(len(during))}, took_s
