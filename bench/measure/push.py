"""Measure how fast the leader pushes: to one receiver and to ten, everything due in one second.

The clock runs from the due second to the last request that a receiver logged. Receivers answer 200 at once. A message
counts once, even if it came several times.
"""

import asyncio
import itertools
import time
from pathlib import Path

from bench.client.load import fill_due, lead_ms, leader_address, put_topic
from bench.client.receivers import Receivers, firsts, repeats
from bench.row import Row, Target, at_least
from bench.scale import Scale
from chaos.cluster.cluster import Cluster

LOOK_S = 0.05
GIVE_UP_S = 120.0


async def push(cluster: Cluster, scale: Scale) -> list[Row]:
    """Measure the pushes to one receiver, then to ten."""
    one = await _to(cluster, scale, 1, "push to one receiver", at_least(2_500))
    ten = await _to(cluster, scale, 10, "push to ten receivers", at_least(4_000))
    return [one, ten]


async def _to(cluster: Cluster, scale: Scale, receivers: int, figure: str, target: Target) -> Row:
    address = await leader_address(cluster)
    each = scale.push // receivers
    with Receivers(_log(cluster, f"push-{receivers}"), receivers) as listening:
        base_ms = lead_ms(scale.push)
        for place, url in enumerate(listening.urls):
            topic = f"push-{receivers}-{place}"
            await put_topic(address, topic, {"mode": "push", "target": {"url": f"{url}/"}})
            await fill_due(address, [base_ms + row * 1000 // each for row in range(each)], topic)
        await wait_received(listening, each * receivers, base_ms / 1000 + GIVE_UP_S)
    received = listening.received
    first = firsts(received)
    took_s = (max(one.received_ms for one in first.values()) - base_ms) / 1000
    detail: dict[str, object] = {"messages": len(first), "received again": repeats(received).count}
    per_port = [len(list(group)) for _, group in itertools.groupby(sorted(one.port for one in first.values()))]
    if receivers > 1:
        detail["per receiver"] = f"{min(per_port)} to {max(per_port)}"
    return Row(figure, len(first) / took_s, "msg/s", took_s, target, detail=detail)


def _log(cluster: Cluster, name: str) -> Path:
    """Return the path of a file, `name`.ndjson, beside the nodes' directories."""
    return next(iter(cluster.nodes.values())).directory.parent / f"{name}.ndjson"


async def wait_received(listening: Receivers, count: int, until_s: float) -> None:
    """Wait until `count` requests are logged. Raises TimeoutError at `until_s` (time.time)."""
    while (came := listening.poll()) < count:
        if time.time() > until_s:
            raise TimeoutError(f"{came} of {count} requests received")
        await asyncio.sleep(LOOK_S)
