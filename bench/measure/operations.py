"""Measure operations: a cancel of a million messages by window, alone and beside consumers of another topic.

The messages are due within six hours, from an hour ahead. The cancel is one request to the leader, which answers at its
end. Beside it, messages of another topic fall due all the while, and waiting consumers pull them. Their lateness is
measured once with the cancel and once without, in the same cluster.

A shift is one request, too, which is asked for until it has ended. Then messages of another topic are pulled and acked
as fast as consumers can. No operation runs then, or as many paused ones as may be, in turn. Each hand-over asks the
sets of the paused ones.
"""

import asyncio
import itertools
import json
import statistics
import time
from typing import Any

from bench.client.consumer import CONSUMERS, Drain, Waiting
from bench.client.load import BATCH, RENDERED_BATCHES, batches, due_times, fill, fill_due, lead_ms, leader_address
from bench.client.pump import Caller, render
from bench.measure.lateness import spread_ms
from bench.row import Row, at_least, at_most
from bench.scale import Scale
from chaos.cluster.cluster import Cluster, ClusterFailed
from chaos.history.verdict import percentiles
from hourwheel.core.addresses import Address

HOUR_MS = 3_600_000
DUE_RATE = 1_000
GRACE_S = 60.0
SHIFTED_SHARE = 10  # one in so many of the messages of a cancel is shifted: a move costs ten times as much
DRAINED_SHARE = 10  # likewise of the drain
PAUSED = 16
RESTING = 9  # messages of each paused operation, so that it has not ended when it is paused
PAIRS = 5
LOOK_S = 0.05


async def operations(cluster: Cluster, scale: Scale) -> list[Row]:
    """Cancel alone, then beside a topic in use, and show the lateness of that topic without and with it."""
    address = await leader_address(cluster)
    count = await _fill(address, "alone", scale.cancelled)
    alone_s = await _cancel(address, "alone", count)
    quiet = await _late(address, "quiet", scale.seconds)
    await _fill(address, "beside", scale.cancelled)
    late, beside_s = await _both(address, scale)
    detail: dict[str, object] = {"cancelled": count}
    figure = f"lateness by pull, {DUE_RATE:,} due/s, {CONSUMERS} waiting consumers"
    return [
        Row(f"cancel of {count:,}, alone", alone_s, "s", alone_s, at_most(2), detail=detail),
        Row(f"cancel of {count:,}, beside {DUE_RATE:,} due/s", beside_s, "s", beside_s, at_most(4), detail=detail),
        Row(f"{figure}: p99", quiet["p99"], "ms", scale.seconds, detail=dict(quiet)),
        Row(f"{figure}, beside the cancel: p99", late["p99"], "ms", beside_s, at_most(10), detail=dict(late)),
    ]


async def _fill(address: Address, topic: str, count: int) -> int:
    spread = batches(due_times(BATCH * RENDERED_BATCHES, 6 * HOUR_MS), topic)
    filled, _ = await fill(address, itertools.islice(itertools.cycle(spread), count // BATCH))
    return filled


async def _cancel(address: Address, topic: str, count: int) -> float:
    """Cancel all messages of a topic; the seconds until it is done. Raises ClusterFailed if it took others, or less."""
    caller = await Caller.connect(address.host, address.port)
    try:
        begun_s = time.perf_counter()
        body = json.dumps({"topic": topic}).encode()
        status, answer = await caller.call(render("POST", "/v1/messages/cancel", body))
        took_s = time.perf_counter() - begun_s
    finally:
        caller.close()
    if status != 200 or json.loads(answer)["changed"] != count:
        raise ClusterFailed(f"status {status}: {answer[:500]!r}; {count} were to be cancelled")
    return took_s


async def _late(address: Address, topic: str, seconds: float) -> dict[str, float]:
    """Percentiles of the lateness of a topic in use for so many seconds, in ms."""
    offsets = spread_ms(DUE_RATE, seconds)
    base_ms = lead_ms(len(offsets))
    await fill_due(address, [base_ms + offset for offset in offsets], topic)
    run = Waiting(address, topic, len(offsets))
    async with asyncio.timeout(base_ms / 1000 - time.time() + seconds + GRACE_S):
        await run.run()
    return percentiles(run.late_ms)


async def _both(address: Address, scale: Scale) -> tuple[dict[str, float], float]:
    """The lateness of messages that fell due during the cancel, and the seconds that the cancel took."""
    offsets = spread_ms(DUE_RATE, scale.seconds)
    base_ms = lead_ms(len(offsets))
    await fill_due(address, [base_ms + offset for offset in offsets], "beside-it")
    run = Waiting(address, "beside-it", len(offsets))
    waiting = asyncio.ensure_future(run.run())
    await asyncio.sleep(base_ms / 1000 - time.time() + 1)  # some are due before it begins
    begun_ms = time.time() * 1000
    took_s = await _cancel(address, "beside", scale.cancelled // BATCH * BATCH)
    async with asyncio.timeout(scale.seconds + GRACE_S):
        await waiting
    during = [
        late_ms
        for due_ms, late_ms in zip(run.due_ms, run.late_ms, strict=True)
        if begun_ms <= due_ms < begun_ms + 1000 * took_s
    ]
    return percentiles(during) | {"messages": float(len(during))}, took_s


async def moves(cluster: Cluster, scale: Scale) -> list[Row]:
    """Shift, then drain without and with paused operations."""
    await cluster.wait_raised()
    address = await leader_address(cluster)
    count = scale.cancelled // SHIFTED_SHARE // BATCH * BATCH
    spread = batches(due_times(BATCH * RENDERED_BATCHES, 6 * HOUR_MS), "shifted")
    await fill(address, itertools.islice(itertools.cycle(spread), count // BATCH))
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
