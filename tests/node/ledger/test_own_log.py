"""Searches of a node's own delivery log: what is asked for one message waits for no large one."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from api.port.ledger import RecordsAsked
from api.port.port import ANONYMOUS, MessageIn, PullIn
from api.port.problem import Problem
from node.ledger.own_log import LARGE_MAX, QUICK_HOMES
from node.node import Node
from storage.query.delivery_search import DeliverySearch, FoundDeliveries, Search
from tests.node.single_node import run_node

LARGE = RecordsAsked(np.arange(QUICK_HOMES + 1, dtype=np.uint64).tobytes(), 0, 1 << 42)


def test_b16_searches_of_others_make_no_look_at_a_message_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """32 clients that searched the whole log made GET wait in their queue: p50 43 -> 2,088 ms."""
    go_on = threading.Event()
    run = DeliverySearch.run

    def held(self: DeliverySearch, search: Search, *args: Any) -> FoundDeliveries:
        if len(search.homes) > QUICK_HOMES:
            assert go_on.wait(30)
        return run(self, search, *args)

    monkeypatch.setattr(DeliverySearch, "run", held)

    async def play(node: Node) -> None:
        service = node.front
        stored = await service.schedule([MessageIn("t", b"1")], ANONYMOUS)
        (delivery,) = await service.pull(PullIn("t", 1, 5_000), ANONYMOUS)
        await service.ack("t", [delivery.receipt], ANONYMOUS)
        others = [asyncio.ensure_future(service.hand_over_records(LARGE)) for _ in range(LARGE_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(Problem, match="over-limit: 8 searches of the delivery log"):
            await service.hand_over_records(LARGE)
        found = await service.message_ledger(bytes(stored.ids[0]).decode())
        assert (found.entry.kind, found.sight.complete) == ("delivered_once", True)
        assert not any(each.done() for each in others)
        go_on.set()
        assert {each.number for each in await asyncio.gather(*others)} == {1}

    run_node(tmp_path / "n1", play)


def test_what_a_quick_search_does_not_find_soon_is_a_large_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that has been open for days."""
    monkeypatch.setattr("node.ledger.own_log.QUICK_LOOKED", 2)
    looked: list[int] = []
    run = DeliverySearch.run

    def noted(self: DeliverySearch, search: Search, *args: Any) -> FoundDeliveries:
        looked.append(search.looked_max)
        return run(self, search, *args)

    monkeypatch.setattr(DeliverySearch, "run", noted)

    async def play(node: Node) -> None:
        service = node.front
        stored = await service.schedule([MessageIn("t", b"1") for _ in range(20)], ANONYMOUS)
        await service.pull(PullIn("t", 20, 5_000), ANONYMOUS)
        found = await service.message_ledger(bytes(stored.ids[0]).decode())
        assert (found.entry.kind, found.entry.hand_overs) == ("in_flight", 1)
        assert looked == [2, 16_000_000]
        monkeypatch.setattr("node.ledger.own_log.LOOKED_MAX", 2)
        with pytest.raises(Problem, match="over-limit"):
            await service.message_ledger(bytes(stored.ids[0]).decode())

    run_node(tmp_path / "n1", play)
