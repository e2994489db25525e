"""What consumers do with what they took: each fate does what it says, to the messages it was drawn for."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web

from chaos.cluster.local_nodes import LocalNode
from chaos.history.event import Extended, GaveBack
from chaos.history.history import History
from chaos.load.consumer import Pulled
from chaos.load.fates import LATE_S, Fates
from chaos.plan.load_plan import Plan

SHARES = ("twice_share", "late_share", "forget_share", "nack_share", "extend_share")
LEASE_S = 0.2


def pulled(number: int) -> Pulled:
    """A message whose lease has just begun."""
    now = datetime.now(UTC)
    until = now + timedelta(seconds=LEASE_S)
    return Pulled(f"id{number}", f"r{number}", 1, 1, now, now, now, until, number)


Decided = tuple[list[float], History, list[tuple[str, object]]]


async def decided(share: str, seconds: float, status: int = 200) -> Decided:
    """Two messages of this fate: when they were given to be acked, the history, and what the node was asked."""
    asked: list[tuple[str, object]] = []

    async def answer(request: web.Request) -> web.Response:
        document = await request.json()
        asked.append((request.path, document))
        word = {"nack": "nacked", "extend": "extended"}[request.path.rpartition("/")[2]]
        results = [{"receipt": receipt, "result": word} for receipt in document["receipts"]]
        return web.json_response({"results": results}, status=status)

    server = web.Application()
    server.router.add_post("/v1/topics/chaos/{word}", answer)
    runner = web.AppRunner(server)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    history, acks = History(), asyncio.Queue[Pulled]()
    plan = Plan(**{share: 1.0} if share else {}, lease_ms=200)  # type: ignore[arg-type]
    fates = Fates([LocalNode("n1", port, 1, Path())], 0, plan, history, acks)
    running = asyncio.create_task(fates.run())
    begun = time.monotonic()
    for number in range(2):
        fates.decide(pulled(number))
    times: list[float] = []
    try:
        async with asyncio.timeout(seconds):
            while True:
                await acks.get()
                times.append(time.monotonic() - begun)
    except TimeoutError:
        pass
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await runner.cleanup()
    return times, history, asked


ACKS = {"": 2, "twice_share": 4, "late_share": 2, "forget_share": 0, "nack_share": 0, "extend_share": 2}


@pytest.fixture(scope="module")
def found() -> dict[str, Decided]:
    """What came of each fate, all at the same time."""

    async def all_at_once() -> list[Decided]:
        return await asyncio.gather(*(decided(share, 1.0) for share in ACKS))

    return dict(zip(ACKS, asyncio.run(all_at_once()), strict=True))


@pytest.mark.parametrize("share", ACKS)
def test_each_fate(share: str, found: dict[str, Decided]) -> None:
    """Acked once, twice, when the lease is over, or never; given back and extended by one request for what waits."""
    times, history, asked = found[share]
    assert len(times) == ACKS[share]
    if share == "late_share":
        assert min(times) >= LEASE_S + LATE_S - 0.05
    given_back, extended = history.of(GaveBack), history.of(Extended)
    assert [event.result for event in given_back] == (["nacked"] * 2 if share == "nack_share" else [])
    assert [event.result for event in extended] == (["extended"] * 2 if share == "extend_share" else [])
    assert len(asked) == (share in ("nack_share", "extend_share"))
    for _, document in asked:
        assert isinstance(document, dict)
        assert document["receipts"] == ["r0", "r1"]


def test_without_an_answer_it_is_unknown() -> None:
    """A node that refuses leaves it open; what was to be extended is acked all the same."""
    times, history, _ = asyncio.run(decided("extend_share", 0.5, status=503))
    assert [event.result for event in history.of(Extended)] == ["unknown"] * 2
    assert len(times) == 2
