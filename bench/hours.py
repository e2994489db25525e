"""What hours cost that hold a message each: memory, leadership, the wait of everybody else, a restart, also in little
memory. And how long a store holds the loop for many hours or a long one (hour_steps.py).
"""

import asyncio
import resource
import time

import numpy as np

from bench.hour_steps import long_hour, many_hours
from bench.load import batch, fill, leader_address, line
from bench.pending import resident_mb
from bench.pump import Caller, render
from bench.row import Row, at_most
from bench.scale import Scale
from chaos.cluster import Cluster

BATCH = 5_000
HOUR_MS = 3_600_000
POST_S = 0.1
CHECKPOINTS_S = 75.0
"""Two checkpoints come in that time."""
DATA_BYTES = 1_500_000_000


async def hours(cluster: Cluster, scale: Scale) -> list[Row]:
    """One message in each hour, by batches; then single messages while checkpoints come; then restarts."""
    directory = next(iter(cluster.nodes.values())).data_path.parent.parent
    rows = await _spread(cluster, scale)
    rows.append(await _restart(cluster, "restart then after kill -9, all nodes at once"))
    rows.append(await _restart(cluster, "the same within prlimit --data=1500000000", DATA_BYTES))
    for node_id in cluster.running():
        await cluster.kill(node_id)
    rows += many_hours(directory / "many", scale.hours * 876 // 800)
    return rows + long_hour(directory / "long", scale.long_hour)


async def _spread(cluster: Cluster, scale: Scale) -> list[Row]:
    term = (await cluster.wait_leader()).term
    address = await leader_address(cluster)
    first_ms = (int(time.time() * 1000) // HOUR_MS + 10) * HOUR_MS
    due_ms = first_ms + np.arange(scale.hours) * HOUR_MS
    requests = [batch(due_ms[first : first + BATCH].tolist()) for first in range(0, scale.hours, BATCH)]
    filled, fill_s = await fill(address, requests, 1)
    caller = await Caller.connect(address.host, address.port)
    failed, worst_s, posts = 0, 0.0, 0
    end_s = time.perf_counter() + (CHECKPOINTS_S if scale.hours > BATCH else scale.seconds)
    while (begin_s := time.perf_counter()) < end_s:
        status, _ = await caller.call(render("POST", "/v1/messages", line(first_ms)))
        failed, posts = failed + (status != 201), posts + 1
        worst_s = max(worst_s, time.perf_counter() - begin_s)
        await asyncio.sleep(POST_S)
    caller.close()
    memory = {node_id: resident_mb(cluster.pid(node_id)) for node_id in cluster.nodes}
    terms = (await cluster.wait_leader()).term - term
    detail: dict[str, object] = {node_id: f"{a:.0f} MB ({b:.0f} private)" for node_id, (a, b) in memory.items()}
    name = f"{filled:,} messages, one an hour"
    return [
        Row(
            f"{name}: memory of a node",
            max(whole for whole, _ in memory.values()),
            "MB",
            fill_s,
            at_most(250),
            detail=detail,
        ),
        Row(f"{name}: elections", terms, "", CHECKPOINTS_S, at_most(0)),
        Row(
            f"{name}: worst POST beside",
            worst_s * 1000,
            "ms",
            CHECKPOINTS_S,
            at_most(250),
            detail={"posts": posts, "failed": failed},
        ),
    ]


async def _restart(cluster: Cluster, figure: str, data_bytes: int | None = None) -> Row:
    """Until all are ready and level; in little memory also until they have made a checkpoint and live on."""
    commit_index = (await cluster.wait_leader()).commit_index
    for node_id in cluster.nodes:
        cluster.signal_kill(node_id)
    for node_id in cluster.nodes:
        await cluster.ended(node_id)
    start = time.perf_counter()
    cluster.start()
    if data_bytes is not None:
        for node_id in cluster.nodes:
            resource.prlimit(cluster.pid(node_id), resource.RLIMIT_DATA, (data_bytes, data_bytes))
    await cluster.wait_ready(timeout_s=600)
    await cluster.wait_applied(commit_index, timeout_s=600)
    took_s = time.perf_counter() - start
    detail: dict[str, object] = {"commit index": commit_index}
    if data_bytes is not None:
        await asyncio.sleep(CHECKPOINTS_S / 2)
        detail["alive after a checkpoint"] = len(cluster.running())
    return Row(figure, took_s, "s", took_s, at_most(5), detail=detail)
