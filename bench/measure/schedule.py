"""Measure how fast messages are scheduled: batches of 1,000, and single requests over 1 and 64 connections.

Due times lie ahead of the run, so no message becomes due during it. They are in near hours (mapped, written through) or
over the next 30 days (staged, written at a checkpoint). Requests go to the leader and are rendered before the clock
starts.
"""

from bench.client.load import (
    BATCH,
    BATCH_CONNECTIONS,
    FAR_MS,
    NEAR_MS,
    RENDERED_BATCHES,
    Count,
    batches,
    due_times,
    leader_address,
    line,
    pump,
)
from bench.client.pump import render
from bench.row import Row, Target, at_least, at_most
from bench.scale import Scale
from chaos.cluster.cluster import Cluster

#: Figures that are measured for peers too.
BATCHED = f"schedule, batches of {BATCH:,}, {BATCH_CONNECTIONS} connections"
SINGLE_1 = "schedule, one a request, 1 connection"
SINGLE_64 = "schedule, one a request, 64 connections"


async def _batched(cluster: Cluster, scale: Scale, figure: str, spread_ms: int, target: Target) -> list[Row]:
    address = await leader_address(cluster)
    requests = batches(due_times(BATCH * RENDERED_BATCHES, spread_ms))
    count = Count(200, per_answer=BATCH)
    took_s = await pump(address, requests, BATCH_CONNECTIONS, scale.seconds, count)
    return [Row(figure, count.acknowledged / took_s, "msg/s", took_s, target, detail=count.latency())]


async def near(cluster: Cluster, scale: Scale) -> list[Row]:
    """Measure batches into near hours."""
    return await _batched(cluster, scale, BATCHED, NEAR_MS, at_least(200_000))


async def spread(cluster: Cluster, scale: Scale) -> list[Row]:
    """Measure batches over 30 days."""
    return await _batched(cluster, scale, f"{BATCHED}, over 30 days", FAR_MS, at_least(130_000))


async def single(cluster: Cluster, scale: Scale) -> list[Row]:
    """Measure one message a request: the rate at 64 connections, the median at one."""
    address = await leader_address(cluster)
    requests = [render("POST", "/v1/messages", line(due)) for due in due_times(2_000, NEAR_MS)]
    rows = []
    for figure, connections, target in ((SINGLE_1, 1, None), (SINGLE_64, 64, at_least(14_000))):
        count = Count(201, per_answer=1)
        took_s = await pump(address, requests, connections, scale.seconds, count)
        latency = count.latency()
        rows.append(Row(figure, count.acknowledged / took_s, "msg/s", took_s, target, detail=latency))
        if connections == 1:
            p50 = latency["request p50 ms"]
            assert isinstance(p50, float)
            rows.append(Row(f"{figure}: p50", p50, "ms", took_s, at_most(1.2)))
    return rows
