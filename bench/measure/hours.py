"""Measure many hours with one message each: memory, elections, the longest wait of another client, and restarts. A
restart is also measured with little memory.

It also measures how long the steps of a store hold the loop. One store has many hours, the other has one hour with very
many messages (hour_steps.py).
"""

import asyncio
import os
import resource
import time
from pathlib import Path

import numpy as np

from bench.client.load import batch, fill, leader_address, line
from bench.client.pump import Caller, render
from bench.client.receivers import PUSH_SETTINGS
from bench.measure.hour_steps import long_hour, many_hours
from bench.measure.pending import resident_mb
from bench.row import Row, at_most, told
from bench.scale import Scale
from chaos.cluster.cluster import Cluster
from hourwheel.core.addresses import parse_address
from storage.catalog.catalog import Catalog
from storage.file.disk import Disk

BATCH = 5_000
HOUR_MS = 3_600_000
POST_S = 0.1
WATCHED_S = 75.0
"""Long enough for a second checkpoint to begin, if the first one is short."""
CHECKPOINT_S = 240.0
"""Time for a checkpoint to begin and end, with everything on one disk."""
DATA_BYTES = 1_500_000_000
LITTLE = f"the same within prlimit --data={DATA_BYTES}"
CHECKPOINT_INDEX = "hourwheel_checkpoint_index"


async def hours(cluster: Cluster, scale: Scale) -> list[Row]:
    """Schedule one message in each hour, by batches, then single messages while checkpoints come.

    Then measure restarts after kill -9: of this cluster after a checkpoint, and of another one that was killed within
    its first checkpoint. The files of the killed nodes are removed with the measurement's directory.
    """
    directory = next(iter(cluster.nodes.values())).data_path.parent.parent
    rows = told(await _spread(cluster, scale))
    for figure, data_bytes in (("restart then after kill -9, all nodes at once", None), (LITTLE, DATA_BYTES)):
        commit_index = (await cluster.wait_leader()).commit_index
        await _checkpointed(cluster, commit_index)
        for node_id in cluster.nodes:
            cluster.signal_kill(node_id)
        rows += told([await _restart(cluster, figure, commit_index, data_bytes)])
    for node_id in cluster.running():
        await cluster.kill(node_id)
    rows += await _from_within(directory / "within", scale)
    rows += told(many_hours(directory / "many", scale.hours * 876 // 800))
    return rows + told(long_hour(directory / "long", scale.long_hour))


async def _from_within(directory: Path, scale: Scale) -> list[Row]:
    """Kill all nodes while they write their first checkpoint, and restart them. Do so once more in the first checkpoint
    after that. Return a row for each restart."""
    rows: list[Row] = []
    figure = f"restart after kill -9 inside the first checkpoint of {scale.hours:,} hours"
    async with Cluster(directory, settings=PUSH_SETTINGS) as cluster:
        cluster.start()
        await cluster.wait_ready()
        await fill(await leader_address(cluster), _one_an_hour(scale.hours), 1)
        for name, data_bytes in ((figure, None), (f"once more, {LITTLE}", DATA_BYTES)):
            commit_index = (await cluster.wait_leader()).commit_index
            await cluster.wait_applied(commit_index, *cluster.nodes)
            await _kill_within(cluster, commit_index, scale.hours // 2)
            named = {node_id: _named(node.data_path) for node_id, node in cluster.nodes.items()}
            left = {node_id: len(_directories(node.data_path)) for node_id, node in cluster.nodes.items()}
            row = await _restart(cluster, name, commit_index, data_bytes)
            row.detail.update({f"{node_id}: left over": left[node_id] - named[node_id] for node_id in left})
            rows += told([row])
    return rows


async def _kill_within(cluster: Cluster, commit_index: int, hours: int) -> None:
    """Kill each node when its checkpoint has made `hours` directories. Kill it at the latest when the checkpoint is
    over. In that case the figure's detail shows that no unfinished directory is left over."""
    before = {node_id: _directories(node.data_path) for node_id, node in cluster.nodes.items()}

    async def killed() -> bool:
        for node_id in cluster.running():
            node = cluster.nodes[node_id]
            made = len(_directories(node.data_path) - before[node_id])
            if made >= hours or await _checkpoint_index(node.url) >= commit_index:
                await cluster.kill(node_id)
        return not cluster.running()

    await cluster.until(killed, "the first checkpoint of all nodes", CHECKPOINT_S)


def _directories(data: Path) -> set[str]:
    return set(os.listdir(data / "hours"))


def _named(data: Path) -> int:
    """Return the number of hours in the last checkpoint of a node that does not run."""
    catalog = Catalog.open(data / "catalog", Disk(), read_only=True)
    try:
        return len(catalog.record.hours) if catalog.record else 0
    finally:
        catalog.close()


async def _checkpointed(cluster: Cluster, index: int) -> None:
    """Wait until a checkpoint of every node covers this entry."""

    async def covered() -> bool:
        return all([await _checkpoint_index(node.url) >= index for node in cluster.nodes.values()])

    await cluster.until(covered, f"a checkpoint at {index} on all nodes", CHECKPOINT_S, 1.0)


async def _checkpoint_index(url: str) -> int:
    address = parse_address(url)
    caller = await Caller.connect(address.host, address.port)
    try:
        _, page = await caller.call(render("GET", "/metrics", b""))
    finally:
        caller.close()
    lines = (each.split() for each in page.decode().splitlines() if each.startswith(CHECKPOINT_INDEX))
    return max(int(float(value)) for _, value in lines)


def _one_an_hour(hours: int) -> list[bytes]:
    """Return batch requests for `hours` hours, from ten hours ahead on."""
    due_ms = _first_ms() + np.arange(hours) * HOUR_MS
    return [batch(due_ms[first : first + BATCH].tolist()) for first in range(0, hours, BATCH)]


def _first_ms() -> int:
    return (int(time.time() * 1000) // HOUR_MS + 10) * HOUR_MS


async def _spread(cluster: Cluster, scale: Scale) -> list[Row]:
    term = (await cluster.wait_leader()).term
    address = await leader_address(cluster)
    first_ms = _first_ms()
    filled, fill_s = await fill(address, _one_an_hour(scale.hours), 1)
    caller = await Caller.connect(address.host, address.port)
    failed, worst_s, posts = 0, 0.0, 0
    commit_index, start_s = (await cluster.wait_leader()).commit_index, time.perf_counter()
    saved = asyncio.ensure_future(_checkpointed(cluster, commit_index))  # other clients wait for its end, the sync
    least_s = WATCHED_S if scale.hours > BATCH else scale.seconds
    while (begin_s := time.perf_counter()) < start_s + least_s or not saved.done():
        status, _ = await caller.call(render("POST", "/v1/messages", line(first_ms)))
        failed, posts = failed + (status != 201), posts + 1
        worst_s = max(worst_s, time.perf_counter() - begin_s)
        await asyncio.sleep(POST_S)
    caller.close()
    await saved
    watched_s = time.perf_counter() - start_s
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
        Row(f"{name}: elections", terms, "", watched_s, at_most(0)),
        Row(
            f"{name}: worst POST beside",
            worst_s * 1000,
            "ms",
            watched_s,
            at_most(250),
            detail={"posts": posts, "failed": failed},
        ),
    ]


async def _restart(cluster: Cluster, figure: str, commit_index: int, data_bytes: int | None = None) -> Row:
    """Restart nodes that were killed, and wait until all are ready and have applied this entry. If `data_bytes` limits
    their memory, wait also until they have made a checkpoint, and note how many still run."""
    for node_id in cluster.nodes:
        await cluster.ended(node_id)
    start = time.perf_counter()
    cluster.start()
    if data_bytes is not None:
        for node_id in cluster.nodes:
            resource.prlimit(cluster.pid(node_id), resource.RLIMIT_DATA, (data_bytes, data_bytes))
    await cluster.wait_ready(timeout_s=600)
    await cluster.wait_applied(commit_index, *cluster.nodes, timeout_s=600)
    took_s = time.perf_counter() - start
    detail: dict[str, object] = {"commit index": commit_index}
    if data_bytes is not None:
        await _checkpointed(cluster, commit_index + 1)
        detail["alive after a checkpoint"] = len(cluster.running())
    return Row(figure, took_s, "s", took_s, at_most(5), detail=detail)
