"""How long a node is away after kill -9 with millions of messages pending.

The clock runs from the start of the process until `/readyz` answers 200 and the node has applied at least the commit
index that the cluster had when it was started: a node that is up but behind does not count. Once for a follower, once
for all nodes at the same time.
"""

import asyncio
import itertools
import time

from bench.pump import Pump
from bench.row import Row
from bench.schedule import BATCH, BATCH_CONNECTIONS, FAR_MS, RENDERED_BATCHES, Count, batch, due_times
from chaos.cluster import Cluster


async def fill(cluster: Cluster, pending: int) -> float:
    """Schedules `pending` messages over 28 hours; returns messages a second."""
    leader = cluster.nodes[(await cluster.wait_leader()).node_id]
    host, port = leader.http.split(":")
    due = due_times(BATCH * RENDERED_BATCHES, FAR_MS)
    requests = [batch(due[first : first + BATCH]) for first in range(0, len(due), BATCH)]
    source = itertools.islice(itertools.cycle(requests), pending // BATCH)
    count = Count(BATCH, 200)
    start = time.perf_counter()
    await asyncio.gather(*(Pump.run(host, int(port), source, count.answered) for _ in range(BATCH_CONNECTIONS)))
    return count.acknowledged / (time.perf_counter() - start)


async def restart(cluster: Cluster, pending: int) -> list[Row]:
    """Fills, then kills and restarts a follower and all nodes."""
    rate = await fill(cluster, pending)
    leadership = await cluster.wait_leader()
    follower = next(node_id for node_id in cluster.nodes if node_id != leadership.node_id)
    rows = []
    for name, victims in (("a follower", [follower]), ("all nodes at once", list(cluster.nodes))):
        commit_index = (await cluster.wait_leader()).commit_index
        for node_id in victims:
            cluster.signal_kill(node_id)
        for node_id in victims:
            await cluster.ended(node_id)
        start = time.perf_counter()
        cluster.start(*victims)
        await cluster.wait_ready(*victims, timeout_s=300)
        await cluster.wait_applied(commit_index, *victims, timeout_s=300)
        detail: dict[str, object] = {"pending": pending, "commit index": commit_index, "filled at msg/s": round(rate)}
        rows.append(Row(f"restart after kill -9, {name}", time.perf_counter() - start, "s", detail))
    return rows
