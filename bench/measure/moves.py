"""Measure operations that move: a shift of many messages, and what operations that do not end cost others.

The shift is one request to the leader, which is asked for until it has ended. Then messages of another topic are pulled
and acked as fast as consumers can. No operation runs then, or as many paused ones as may be, in turn. Each hand-over
asks the sets of the paused ones.
"""

import asyncio
import json
import statistics
import time
from itertools import cycle, islice
from typing import Any

from bench.client.consumer import Drain
from bench.client.load import BATCH, RENDERED_BATCHES, batches, due_times, fill, fill_due, lead_ms, leader_address
from bench.client.pump import Caller, render
from bench.row import Row, at_least, at_most
from bench.scale import Scale
from chaos.cluster.cluster import Cluster, ClusterFailed
from hourwheel.core.addresses import Address

HOUR_MS = 3_600_000
SHIFTED_SHARE = 10  # one in so many of the messages of a cancel is shifted: a move costs ten times as much
DRAINED_SHARE = 10  # likewise of the drain
PAUSED = 16
RESTING = 9  # messages of each paused operation, so that it has not ended when it is paused
PAIRS = 5
LOOK_S = 0.05


async def moves(cluster: Cluster, scale: Scale) -> list[Row]:
    """Shift, then drain without and with paused operations."""
    await cluster.wait_raised()
    address = await leader_address(cluster)
    count = scale.cancelled // SHIFTED_SHARE // BATCH * BATCH
    spread = batches(due_times(BATCH * RENDERED_BATCHES, 6 * HOUR_MS), "shifted")
    await fill(address, islice(cycle(spread), count // BATCH))
    shift_s = await _shift(address, count)
    rest_ms = (int(time.time()) + 8 * 3_600) * 1_000
    await fill_due(address, [rest_ms + 1_000 * at + 500 for at in range(PAUSED) for _ in range(RESTING)], "resting")
    rates: list[tuple[float, float]] = []
    for pair in range(PAIRS):
        without = await _drained(address, f"without-{pair}", scale.drain // DRAINED_SHARE)
        names = [await _paused(address, rest_ms + 1_000 * at) for at in range(PAUSED)]
        with_them = await _drained(address, f"with-{pair}", scale.drain // DRAINED_SHARE)
        for name in names:
            await _change(address, name, "abort")
        rates.append((without, with_them))
    ratio = statistics.median(after / before for before, after in rates)
    detail: dict[str, object] = {"without": round(rates[-1][0]), "with": round(rates[-1][1])}
    return [
        Row(f"shift of {count:,}, alone", shift_s, "s", shift_s, at_most(20 * count / 1_000_000)),
        Row(f"drain beside {PAUSED} paused operations", ratio, "of that without", 0.0, at_least(0.95), detail=detail),
    ]


async def _ask(address: Address, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """The document of an answer. Raises ClusterFailed for a refusal."""
    caller = await Caller.connect(address.host, address.port)
    try:
        status, answer = await caller.call(render(method, path, b"" if body is None else json.dumps(body).encode()))
    finally:
        caller.close()
    if status not in (200, 202):
        raise ClusterFailed(f"{method} {path}: status {status}: {answer[:500]!r}")
    return json.loads(answer)


async def _shift(address: Address, count: int) -> float:
    """Shift all messages of a topic by an hour; the seconds until it is done."""
    begun_s = time.perf_counter()
    told = await _ask(address, "POST", "/v1/operations", {"kind": "shift", "topic": "shifted", "by": "1h"})
    while told["state"] == "running":
        await asyncio.sleep(LOOK_S)
        told = await _ask(address, "GET", f"/v1/operations/{told['id']}")
    if told["changed"] != count:
        raise ClusterFailed(f"{told['changed']} of {count} were shifted")
    return time.perf_counter() - begun_s


async def _paused(address: Address, from_ms: int) -> str:
    """Begin an operation over a second, and pause it; its id."""
    wish = {"kind": "shift", "topic": "resting", "by": 1, "rate": 1, "from": from_ms, "to": from_ms + 1_000}
    name: str = (await _ask(address, "POST", "/v1/operations", wish))["id"]
    return await _change(address, name, "pause")


async def _change(address: Address, name: str, verb: str) -> str:
    await _ask(address, "POST", f"/v1/operations/{name}/{verb}")
    return name


async def _drained(address: Address, topic: str, count: int) -> float:
    """Messages a second that are pulled and acked."""
    base_ms = lead_ms(count)
    await fill_due(address, [base_ms] * count, topic)
    await asyncio.sleep(max(0.0, base_ms / 1000 - time.time()))
    run = Drain(address, topic, count)
    await run.run()
    return run.acked / (run.last_s - max(base_ms / 1000, run.first_s))
