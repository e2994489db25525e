"""Measure the cost of millions of pending messages: memory, the rate of scheduling, the time of a restart.

The rate is measured on the empty cluster and again on the full one, with the same requests. Memory is the resident set
of each node's process as the kernel counts it, mapped files included, and its private part beside it.

A restart's clock begins with the process. It ends when `/readyz` answers 200 and the node has applied at least the
commit index that the cluster had at the start. A node that is up but behind does not count.
"""

import itertools
import time
from pathlib import Path

from bench.client.load import (
    BATCH,
    BATCH_CONNECTIONS,
    FAR_MS,
    RENDERED_BATCHES,
    Count,
    batches,
    due_times,
    fill,
    leader_address,
    pump,
)
from bench.row import Row, at_least, at_most
from bench.scale import Scale
from chaos.cluster.cluster import Cluster

RESTART_S = 600.0


def resident_mb(pid: int) -> tuple[float, float]:
    """Return (whole, private) resident memory of a process, in MB of 10^6 bytes."""
    fields = {
        name: int(value.split()[0]) * 1024 / 1e6
        for name, _, value in (line.partition(":") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        if name in ("VmRSS", "RssAnon")
    }
    return fields["VmRSS"], fields["RssAnon"]


async def _rate(cluster: Cluster, requests: list[bytes], seconds: float) -> tuple[float, float]:
    """Send these batch requests again and again for `seconds`. Return (messages scheduled a second, seconds that it
    took)."""
    count = Count(200, per_answer=BATCH)
    took_s = await pump(await leader_address(cluster), requests, BATCH_CONNECTIONS, seconds, count)
    return count.acknowledged / took_s, took_s


async def pending(cluster: Cluster, scale: Scale) -> list[Row]:
    """Measure the empty rate, the fill, the full rate, memory, and the restarts of a follower and of all nodes."""
    requests = batches(due_times(BATCH * RENDERED_BATCHES, FAR_MS))
    empty_rate, _ = await _rate(cluster, requests, scale.seconds)
    address = await leader_address(cluster)
    source = itertools.islice(itertools.cycle(requests), scale.pending // BATCH)
    filled, fill_s = await fill(address, source)
    full_rate, full_s = await _rate(cluster, requests, scale.seconds)
    detail: dict[str, object] = {"pending": filled, "over": "30 days", "filled at msg/s": round(filled / fill_s)}
    memory = {node_id: resident_mb(cluster.pid(node_id)) for node_id in cluster.nodes}
    share = 100 * full_rate / empty_rate
    rates: dict[str, object] = {"empty msg/s": round(empty_rate), "full msg/s": round(full_rate)}
    rows = [
        Row(
            f"memory of a node with {scale.pending:,} pending",
            max(whole for whole, _ in memory.values()),
            "MB",
            fill_s,
            at_most(400),
            detail=detail | {node_id: f"{a:.0f} MB ({b:.0f} private)" for node_id, (a, b) in memory.items()},
        ),
        Row("schedule rate then, of that when empty", share, "%", full_s, at_least(75), detail=rates),
    ]
    leadership = await cluster.wait_leader()
    follower = next(node_id for node_id in cluster.nodes if node_id != leadership.node_id)
    rows.append(await _restart(cluster, "restart then after kill -9, a follower", [follower]))
    rows.append(await _restart(cluster, "restart then after kill -9, all nodes at once", list(cluster.nodes)))
    return rows


async def _restart(cluster: Cluster, figure: str, victims: list[str]) -> Row:
    commit_index = (await cluster.wait_leader()).commit_index
    for node_id in victims:
        cluster.signal_kill(node_id)
    for node_id in victims:
        await cluster.ended(node_id)
    start = time.perf_counter()
    cluster.start(*victims)
    await cluster.wait_ready(*victims, timeout_s=RESTART_S)
    await cluster.wait_applied(commit_index, *victims, timeout_s=RESTART_S)
    took_s = time.perf_counter() - start
    return Row(figure, took_s, "s", took_s, at_most(5), detail={"commit index": commit_index})
