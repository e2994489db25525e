"""Measure the cost of a receiver that hangs: the lateness of another topic, alone and beside a million hanging
messages.

The same load runs three times on one cluster: alone, and alone again, which shows how much two equal runs differ on
this machine. The third time another topic has `scale.hanging` messages due at once. Its receiver accepts connections
and never answers.
"""

import asyncio
import socket
import statistics
import time

from bench.client.consumer import Waiting
from bench.client.load import fill_due, lead_ms, leader_address, put_topic
from bench.measure.lateness import GRACE_S, spread_ms
from bench.row import Row, at_most
from bench.scale import Scale
from chaos.cluster.cluster import Cluster
from chaos.history.verdict import percentiles
from hourwheel.core.addresses import Address

RATE = 1_000
#: The hanging topic's attempts time out after this, again and again.
TIMEOUT = "10s"
#: Consumers begin to wait this long before the first due time.
EARLY_S = 2.0


async def _late(address: Address, topic: str, base_ms: int, seconds: float) -> dict[str, float]:
    """Schedule RATE messages a second that are due from `base_ms` on, for this many seconds, and pull them. Return
    percentiles of their lateness in ms."""
    due_ms = [base_ms + offset for offset in spread_ms(RATE, seconds)]
    await fill_due(address, due_ms, topic)
    await asyncio.sleep(max(0.0, base_ms / 1000 - time.time() - EARLY_S))  # idle connections are closed
    run = Waiting(address, topic, len(due_ms))
    async with asyncio.timeout(base_ms / 1000 - time.time() + seconds + GRACE_S):
        await run.run()
    return percentiles(run.late_ms)


async def isolation(cluster: Cluster, scale: Scale) -> list[Row]:
    """Return three rows: the p99 of the lateness alone, that beside the hanging receiver, and by how many per cent the
    second is more."""
    address = await leader_address(cluster)
    alone = [await _late(address, f"alone-{turn}", lead_ms(0), scale.seconds) for turn in range(2)]
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as hanging:  # the kernel accepts, and no process reads
        port = hanging.getsockname()[1]
        target = {"url": f"http://127.0.0.1:{port}/", "timeout": TIMEOUT}
        await put_topic(address, "hanging", {"mode": "push", "target": target})
        base_ms = lead_ms(scale.hanging)
        await fill_due(address, [base_ms] * scale.hanging, "hanging")
        # The load begins when the million has been due for a second, so attempts hang already.
        beside = await _late(address, "beside", base_ms + 1_000, scale.seconds)
    reference = statistics.mean(run["p99"] for run in alone)
    more = 100 * (beside["p99"] / reference - 1)
    name = f"lateness by pull, {RATE:,} due/s"
    detail: dict[str, object] = {"alone p99": [run["p99"] for run in alone], "p50": beside["p50"], "max": beside["max"]}
    return [
        Row(f"{name}, alone: p99", reference, "ms", scale.seconds),
        Row(f"{name}, {scale.hanging:,} due to a receiver that hangs: p99", beside["p99"], "ms", scale.seconds),
        Row("p99 more beside a receiver that hangs", more, "%", scale.seconds, at_most(20), detail=detail),
    ]
