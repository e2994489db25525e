"""Measure lists of waiting messages: a page of 1,000 near and far ahead, and within one crowded second. Measure the
seconds of the wheel's next hour, and counts over all of it.

Messages are spread over 24 h. As many as a tenth of them are due in one more second, and as many again in the next
hour. Each figure is the median of
some requests, one behind the other, with bodies of 100 bytes. A hundredth page is asked for by the cursor of the one
before it.
"""

import itertools
import json
import statistics
import time
from collections.abc import Sequence
from typing import Any, Final

from bench.client.load import BATCH, RENDERED_BATCHES, batches, due_times, fill, leader_address
from bench.client.pump import Caller, render
from bench.row import Row, at_most
from bench.scale import Scale
from chaos.cluster.cluster import Cluster, ClusterFailed

DAY_MS: Final = 86_400_000
HOUR_MS: Final = 3_600_000
PAGE: Final = 1_000
PAGES: Final = 100
ASKED: Final = 9


async def lists(cluster: Cluster, scale: Scale) -> list[Row]:
    """Fill the cluster, then ask for pages at the leader."""
    address = await leader_address(cluster)
    now_ms = int(time.time() * 1000)
    crowded_ms = (now_ms + 5 * HOUR_MS) // 1000 * 1000
    spread = batches(due_times(BATCH * RENDERED_BATCHES, DAY_MS))
    filled, _ = await fill(address, itertools.islice(itertools.cycle(spread), scale.listed // BATCH))
    crowd = batches([crowded_ms + row % 1000 for row in range(BATCH)], "crowd")
    crowded, _ = await fill(address, itertools.islice(itertools.cycle(crowd), scale.listed // 10 // BATCH))
    next_ms = (now_ms // HOUR_MS + 1) * HOUR_MS
    near = batches([next_ms + row * HOUR_MS // BATCH for row in range(BATCH)], "near")
    near_by, _ = await fill(address, itertools.islice(itertools.cycle(near), scale.listed // 10 // BATCH))
    detail: dict[str, object] = {"waiting": filled + crowded + near_by}
    caller = await Caller.connect(address.host, address.port)
    rows = []
    try:
        for name, begin_ms, bound_ms in (
            ("from now", now_ms, 20),
            ("from 20 h ahead", now_ms + 20 * HOUR_MS, 100),
            (f"of a second of {crowded:,}", crowded_ms, 300),
        ):
            for place, took in (await _pages(caller, begin_ms)).items():
                figure = f"list of {PAGE:,}, {place} page, {name}"
                rows.append(
                    Row(figure, 1000 * statistics.median(took), "ms", sum(took), at_most(bound_ms), detail=detail)
                )
        for name, target, bound_ms in (
            ("count of all", "/v1/messages/count", 20),
            ("histogram of all", "/v1/messages/histogram", 20),
            ("count of one topic", "/v1/messages/count?topic=crowd", 2_000),
            ("histogram of one topic", "/v1/messages/histogram?topic=crowd", 2_000),
            ("wheel of the next hour", f"/v1/wheel?hour={next_ms}", 20),
        ):
            times = [await _asked(caller, target) for _ in range(ASKED)]
            rows.append(
                Row(
                    name,
                    1000 * statistics.median(took for took, _ in times),
                    "ms",
                    sum(took for took, _ in times),
                    at_most(bound_ms),
                    detail=detail | _size(times[0][1]),
                )
            )
    finally:
        caller.close()
    return rows


def _size(document: dict[str, Any]) -> dict[str, object]:
    """How many units an hour of the wheel has; nothing for another document."""
    return {"units": sum(each["units"] for each in document["seconds"])} if "seconds" in document else {}


async def _pages(caller: Caller, begin_ms: int) -> dict[str, Sequence[float]]:
    """Return the seconds that the first and the hundredth page took, of several requests each."""
    first, cursor = [], ""
    for _ in range(ASKED):
        took_s, document = await _page(caller, begin_ms, "")
        first.append(took_s)
    cursor = document["next_cursor"]
    for _ in range(PAGES - 2):
        if cursor is None:
            return {"first": first}
        cursor = (await _page(caller, begin_ms, cursor))[1]["next_cursor"]
    if cursor is None:
        return {"first": first}
    return {"first": first, "hundredth": [(await _page(caller, begin_ms, cursor))[0] for _ in range(ASKED)]}


async def _page(caller: Caller, begin_ms: int, cursor: str) -> tuple[float, dict[str, Any]]:
    target = f"/v1/messages?from={begin_ms}&limit={PAGE}" + (f"&cursor={cursor}" if cursor else "")
    return await _asked(caller, target)


async def _asked(caller: Caller, target: str) -> tuple[float, dict[str, Any]]:
    """Return the seconds that a request took, and its document."""
    begun_s = time.perf_counter()
    status, body = await caller.call(render("GET", target, b""))
    took_s = time.perf_counter() - begun_s
    if status != 200:
        raise ClusterFailed(f"status {status}: {body[:300]!r}")
    document: dict[str, Any] = json.loads(body)
    return took_s, document
