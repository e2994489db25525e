"""Measure how long overdue messages wait when the leader dies: from kill -9 to the first message at a consumer.

When the leader is killed, many messages lie ahead, and many are ready without a consumer. The new leader has to be
elected, learn where dispatching stood, load the overdue messages and hand them over. Consumers ask the two other nodes
the whole time, as clients do: again at once after a refusal.
"""

import asyncio
import itertools
import time

from bench.client.consumer import pull_request
from bench.client.load import (
    BATCH,
    FAR_MS,
    RENDERED_BATCHES,
    batches,
    due_times,
    fill,
    fill_due,
    lead_ms,
    leader_address,
)
from bench.client.pump import Caller
from bench.row import Row, at_most
from bench.scale import Scale
from chaos.cluster.cluster import Cluster, ClusterFailed
from cli.local.local_nodes import LocalNode
from hourwheel.core.addresses import parse_address
from hourwheel.core.errors import Refused, error_of
from hourwheel.core.problem import read_problem

TOPIC = "overdue"
AGAIN_S = 0.01
GIVE_UP_S = 60.0
WAIT_MS = 1_000


async def failover(cluster: Cluster, scale: Scale) -> list[Row]:
    """Schedule what lies ahead, let the ready messages become due, kill the leader, and wait for the first message."""
    address = await leader_address(cluster)
    rendered = batches(due_times(BATCH * RENDERED_BATCHES, FAR_MS))
    pending, _ = await fill(address, itertools.islice(itertools.cycle(rendered), scale.failover_pending // BATCH))
    base_ms = lead_ms(scale.failover_ready)
    await fill_due(
        address, [base_ms + row * 1000 // scale.failover_ready for row in range(scale.failover_ready)], TOPIC
    )
    await asyncio.sleep(base_ms / 1000 + 2 - time.time())
    before = await cluster.wait_leader()
    others = [node for node_id, node in cluster.nodes.items() if node_id != before.node_id]
    cluster.signal_kill(before.node_id)
    killed_s = time.perf_counter()
    asking = [asyncio.create_task(_first(node)) for node in others]
    async with asyncio.timeout(GIVE_UP_S):
        done, left = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
    took_s = min(task.result() for task in done) - killed_s
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    after = await cluster.wait_leader(before.term)
    detail: dict[str, object] = {"pending": pending, "ready": scale.failover_ready, "terms": after.term - before.term}
    return [Row("first overdue message after kill -9 of the leader", took_s, "s", took_s, at_most(1), detail=detail)]


async def _first(node: LocalNode) -> float:
    """Pull at this node until a message comes. Return the moment (perf_counter)."""
    request = pull_request(TOPIC, WAIT_MS)
    address = parse_address(node.url)
    caller = await Caller.connect(address.host, address.port)
    try:
        while True:
            status, body = await caller.call(request)
            if status == 200 and b'"receipt"' in body:
                return time.perf_counter()
            if status != 200:
                error = error_of(read_problem(status, {}, body), address.url)
                if isinstance(error, Refused) or error.code == "internal":
                    raise ClusterFailed(str(error))
                await asyncio.sleep(AGAIN_S)
    finally:
        caller.close()
