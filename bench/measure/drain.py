"""Measure how fast very many messages of one second are pulled and acked by consumers at the leader.

The clock begins at the due second, or at the first message received if that is later. It ends with the answer to the
last ack. A message counts when its ack is durable on a majority. An election meanwhile would show in the term.
"""

import asyncio
import time

from bench.client.consumer import CONSUMERS, PULL_MAX, Drain
from bench.client.load import fill_due, lead_ms, leader_address
from bench.row import Row, at_least, at_most
from bench.scale import Scale
from chaos.cluster.cluster import Cluster

TOPIC = "drain"
DRAINED = f"drain of what is due, {CONSUMERS} consumers of {PULL_MAX:,}"


async def drain(cluster: Cluster, scale: Scale) -> list[Row]:
    """Return the rate, and the elections during the drain."""
    address = await leader_address(cluster)
    base_ms = lead_ms(scale.drain)
    await fill_due(address, [base_ms + row * 1000 // scale.drain for row in range(scale.drain)], TOPIC)
    before = await cluster.wait_leader()
    await asyncio.sleep(max(0.0, base_ms / 1000 - time.time()))
    run = Drain(address, TOPIC, scale.drain)
    busy_s = time.process_time()
    await run.run()
    busy_s = time.process_time() - busy_s
    after = await cluster.wait_leader()
    took_s = run.last_s - max(base_ms / 1000, run.first_s)
    detail: dict[str, object] = {
        "messages": run.acked,
        "received again": run.received - run.acked,
        "first after due ms": round(run.first_s * 1000 - base_ms),
        "client's CPU share": round(busy_s / took_s, 2),
    }
    elections = float(after.term - before.term)
    return [
        Row(DRAINED, run.acked / took_s, "msg/s", took_s, at_least(80_000), detail=detail),
        Row("elections during the drain", elections, "", took_s, at_most(0)),
    ]
