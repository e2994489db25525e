"""What consumers do with what they took: each fate does what it says, to the messages it was drawn for."""

import asyncio
import random

import pytest

from api.port.port import Delivery
from chaos.client.caller import Caller
from chaos.client.consumer import ONCE_S, Consumer, ConsumerBehaviour, Fate
from chaos.history.event import Acked, Extended, HandedOver, Nacked, Pulled
from chaos.history.history import History
from chaos.load.client import Tasks
from tests.chaos.client.scripted import ScriptedClient, virtual_history
from tests.virtual_time import passes, virtually

LEASE_MS, EXTEND_MS = 2_000, 3_000
Asked = list[tuple[float, str, list[str]]]


def delivery(number: int, now_ms: int) -> Delivery:
    """A message whose lease has just begun."""
    until_ms = now_ms + LEASE_MS
    body = str(number).encode()
    return Delivery(f"id{number}", f"r{number}", 1, 1, until_ms, "topic", now_ms, now_ms, now_ms, now_ms, body)


def taken(fate: Fate, refuses: str = "", all_back_share: float = 0.0) -> tuple[Asked, History]:
    """Two messages of this fate: what the node was asked, seconds from their lease's begin, and the history."""

    async def scene() -> tuple[Asked, History]:
        history, client = virtual_history(), ScriptedClient()
        begun_s, client.refuses = asyncio.get_running_loop().time(), refuses
        client.messages = [delivery(number, history.now()[1]) for number in range(2)]
        behaviour = ConsumerBehaviour(
            fates=((fate, 1.0),),
            lease_ms=LEASE_MS,
            pulled=(10,),
            nack_delays_ms=(None,),
            beat_s=0.5,
            wait_ms=1_000,
            extend_ms=EXTEND_MS,
            all_back_share=all_back_share,
        )
        async with asyncio.TaskGroup() as group:
            tasks = Tasks(group)
            consumer = Consumer(
                client, Caller([client], tasks, random.Random(1)), history, "topic", behaviour, "connection"
            )
            tasks.start(consumer.run())
            await passes(20.0)
            await consumer.answered()
            tasks.cancel()
        return [(at_s - begun_s, call, receipts) for at_s, call, receipts in client.asked], history

    return virtually(scene)


@pytest.mark.parametrize(
    ("fate", "calls"),
    [
        ("ack", ["ack"]),
        ("twice", ["ack", "ack"]),
        ("late", ["ack"]),
        ("forget", []),
        ("give back", ["nack"]),
        ("extend", ["ack", "extend"]),
    ],
)
def test_each_fate(fate: Fate, calls: list[str]) -> None:
    """Acked once, twice, when the lease is over, or never; given back and extended by one request for a response."""
    asked, history = taken(fate)
    assert sorted(call for _, call, _ in asked) == calls
    assert all(receipts == ["r0", "r1"] for _, _, receipts in asked)
    if fate == "late":
        assert asked[0][0] >= LEASE_MS / 1000
    assert [event.number for event in history.of(HandedOver)] == [0, 1]
    assert [event.result for event in history.of(Acked)] == ["acked"] * 2 * calls.count("ack")
    assert [event.result for event in history.of(Nacked)] == ["nacked"] * 2 * calls.count("nack")
    assert [event.result for event in history.of(Extended)] == ["extended"] * 2 * calls.count("extend")
    assert not history.of(Pulled)


def test_a_response_is_given_back_as_a_whole() -> None:
    """Once, whatever else was drawn."""
    asked, history = taken("ack", refuses="no-leader", all_back_share=1.0)
    assert [(call, receipts) for _, call, receipts in asked if receipts] == [("nack", ["r0", "r1"])]
    assert [event.result for event in history.of(Nacked)] == ["refused"] * 2


def test_what_is_refused_is_asked_again_for_a_while_and_recorded_so() -> None:
    """A node that has no leader leaves it as it was."""
    asked, history = taken("give back", refuses="no-leader")
    assert len(asked) > 5
    assert asked[-1][0] - asked[0][0] == pytest.approx(ONCE_S, abs=0.5)
    assert [event.result for event in history.of(Nacked)] == ["refused"] * 2


@pytest.mark.parametrize("alone", [0.0, 1.0])
def test_who_waits_for_all_answers_has_all_acks(alone: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those too whose moment has not come. A run of strict topics ended 50 ms before the last ack was to leave: the
    message stayed open, and nobody was left to pull it."""
    monkeypatch.setattr("chaos.client.consumer.ALONE_SHARE", alone)

    async def scene() -> list[str]:
        history, client = virtual_history(), ScriptedClient()
        client.messages = [delivery(number, history.now()[1]) for number in range(3)]
        behaviour = ConsumerBehaviour(
            fates=(("ack", 1.0),), lease_ms=LEASE_MS, pulled=(10,), nack_delays_ms=(None,), beat_s=0.5, wait_ms=1_000
        )
        async with asyncio.TaskGroup() as group:
            tasks = Tasks(group)
            consumer = Consumer(client, Caller([client], tasks, random.Random(1)), history, "topic", behaviour, "c")
            tasks.start(consumer.run())
            while not history.of(HandedOver):
                await passes(0.001)
            await consumer.answered()
            tasks.cancel()
        return [event.result for event in history.of(Acked)]

    assert virtually(scene) == ["acked"] * 3
