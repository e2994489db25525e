"""Measure how late messages come, by pull to waiting consumers and by push to ten receivers.

All messages are scheduled before the first is due. So the cluster cannot shift the due times, and a stall shows in
every message behind it (no coordinated omission). Lateness is the receiver's time of receipt minus due time. By pull
the leader's own (delivery minus due time) stands beside it. The difference is the way to the consumer.
"""

import asyncio
import time
from pathlib import Path

import numpy as np

from bench.client.consumer import CONSUMERS, Waiting
from bench.client.load import fill_due, lead_ms, leader_address, put_topic
from bench.client.receivers import Receivers, firsts, repeats
from bench.measure.push import wait_received
from bench.row import Row, Target, at_most
from bench.scale import Scale
from chaos.cluster.cluster import Cluster
from chaos.history.verdict import percentiles

GRACE_S = 60.0
RECEIVERS = 10
#: The shares of the due rate at which pushes are measured. Fewer messages a second can be pushed than pulled. Above
#: that rate lateness only grows with the length of the run.
PUSH_SHARES = (0.5, 1.0)


def spread_ms(rate: int, seconds: float) -> list[int]:
    """Return offsets in ms, `rate` a second for `seconds`: drawn uniformly from all milliseconds, in rising order."""
    return sorted(
        int(value) for value in np.random.default_rng(1).integers(0, int(seconds * 1000), int(rate * seconds))
    )


def bursts_ms(rate: int, seconds: float) -> list[int]:
    """Return offsets in ms, `rate` a second for `seconds`: all of a second are equal, a multiple of 1,000."""
    return [second * 1000 for second in range(int(seconds)) for _ in range(rate)]


def _rows(
    figure: str, late_ms: list[float], took_s: float, target: Target | None, more: dict[str, object]
) -> list[Row]:
    """Return two rows: the p50 of these latenesses, and their p99 with its target."""
    found = percentiles(late_ms)
    detail: dict[str, object] = {"messages": len(late_ms), "early": sum(ms < 0 for ms in late_ms), **found, **more}
    return [
        Row(f"{figure}: p50", found["p50"], "ms", took_s),
        Row(f"{figure}: p99", found["p99"], "ms", took_s, target, detail=detail),
    ]


async def by_pull(cluster: Cluster, scale: Scale) -> list[Row]:
    """Measure due times that are spread over the milliseconds, then due times on full seconds, `due_rate` messages a
    second each."""
    address = await leader_address(cluster)
    rows: list[Row] = []
    for shape, topic, offsets, target in (
        ("", "spread", spread_ms(scale.due_rate, scale.seconds), at_most(15)),
        (", on each full second", "burst", bursts_ms(scale.due_rate, scale.seconds), None),
    ):
        base_ms = lead_ms(len(offsets))
        await fill_due(address, [base_ms + offset for offset in offsets], topic)
        run = Waiting(address, topic, len(offsets))
        async with asyncio.timeout(base_ms / 1000 - time.time() + scale.seconds + GRACE_S):
            await run.run()
        figure = f"lateness by pull, {scale.due_rate:,} due/s, {CONSUMERS} waiting consumers{shape}"
        more: dict[str, object] = {f"leader's {name}": value for name, value in percentiles(run.leader_late_ms).items()}
        rows += _rows(figure, run.late_ms, scale.seconds, target, more)
    return rows


async def by_push(cluster: Cluster, scale: Scale) -> list[Row]:
    """Measure pushes spread over the milliseconds and over ten receivers."""
    rows: list[Row] = []
    for share in PUSH_SHARES:
        rows += await _push(cluster, int(scale.due_rate * share), scale.seconds, at_most(30))
    return rows


async def _push(cluster: Cluster, rate: int, seconds: float, target: Target) -> list[Row]:
    address = await leader_address(cluster)
    offsets = spread_ms(rate, seconds)
    directory: Path = next(iter(cluster.nodes.values())).directory.parent
    with Receivers(directory / f"late-{rate}.ndjson", RECEIVERS) as listening:
        base_ms = lead_ms(len(offsets))
        for place, url in enumerate(listening.urls):
            topic = f"late-{rate}-{place}"
            await put_topic(address, topic, {"mode": "push", "target": {"url": f"{url}/"}})
            await fill_due(address, [base_ms + offset for offset in offsets[place::RECEIVERS]], topic)
        await wait_received(listening, len(offsets), base_ms / 1000 + seconds + GRACE_S)
    late_ms = [one.late_ms for one in firsts(listening.received).values()]
    more: dict[str, object] = {"received again": repeats(listening.received).count}
    return _rows(f"lateness by push, {rate:,} due/s, {RECEIVERS} receivers", late_ms, seconds, target, more)
