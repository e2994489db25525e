"""A whole node, asked through its service port: what each answer says about the life of a message."""

import asyncio
from pathlib import Path

import pytest

from api.contract.checker import pack_headers
from api.port.port import ANONYMOUS, Delivery, MessageIn, PullIn, TopicChange
from api.port.problem import Problem
from node.node import Node
from storage.format.schedule_status import NEW, REPLAYED
from tests.node.single_node import run_node
from tests.waiting import until


async def schedule(node: Node, *messages: MessageIn) -> list[str]:
    """Schedule; the ids."""
    result = await node.front.schedule(messages, ANONYMOUS)
    assert set(result.status.tolist()) <= {NEW, REPLAYED}
    return [bytes(id).decode() for id in result.ids]


async def pull(node: Node, topic: str, wait_ms: int = 5_000, most: int = 100) -> list[Delivery]:
    """Pull from a topic."""
    return list(await node.front.pull(PullIn(topic, most, wait_ms, 1_000), ANONYMOUS))


async def code_of(awaitable: object) -> str:
    """The code of the Problem that this raises."""
    with pytest.raises(Problem) as refused:
        await awaitable  # type: ignore[misc]
    return refused.value.code


def test_a_message_from_schedule_to_ack(tmp_path: Path) -> None:
    """Scheduled, then leased, then delivered; history and times tell the same; the body comes back as it was."""

    async def play(node: Node) -> None:
        now_ms = node.front.now_ms()
        message = MessageIn(
            "t",
            b'{"a": 1 }',
            delay_ms=200,
            tags=("eu",),
            headers=pack_headers({"h": "v"}),
            key="k",
            fingerprint=b"f" * 16,
        )
        (id,) = await schedule(node, message)
        assert (await node.front.message(id, local=False, principal=ANONYMOUS)).state == "scheduled"
        (delivery,) = await pull(node, "t")
        assert delivery.handed_over_ms >= delivery.due_ms >= now_ms + 200
        assert (delivery.id, delivery.body, delivery.attempt, delivery.tags) == (id, b'{"a": 1 }', 1, ("eu",))
        assert (delivery.headers, delivery.key) == ({"h": "v"}, "k")
        assert await node.front.ack("t", [delivery.receipt], ANONYMOUS) == ["acked"]
        assert await node.front.ack("t", [delivery.receipt], ANONYMOUS) == ["acked"]
        view = await node.front.message(id, local=True, principal=ANONYMOUS)
        assert view.state == "delivered"
        assert [event.event for event in view.history] == ["scheduled", "leased", "delivered"]
        assert [event.node for event in view.history] == ["", "n1", "n1"]
        assert view.lateness_ms == delivery.handed_over_ms - delivery.asked_due_ms
        assert await code_of(node.front.cancel(id, if_match=None, principal=ANONYMOUS)) == "already-settled"

    run_node(tmp_path / "n1", play)


def test_a_lease_that_ends_makes_the_message_come_again(tmp_path: Path) -> None:
    """One attempt higher, not before the lease has ended; the first receipt is stale once the second is out."""

    async def play(node: Node) -> None:
        await schedule(node, MessageIn("t", b"1"))
        (first,) = await pull(node, "t")
        (second,) = await pull(node, "t")
        assert (second.attempt, second.id) == (2, first.id)
        assert second.handed_over_ms >= first.leased_until_ms
        assert await node.front.ack("t", [first.receipt, second.receipt], ANONYMOUS) == ["stale", "acked"]

    run_node(tmp_path / "n1", play)


def test_cancel_before_during_and_after_a_lease(tmp_path: Path) -> None:
    """Scheduled: cancelled, twice the same; leased: refused with the lease; the wrong revision: refused."""

    async def play(node: Node) -> None:
        far, near = await schedule(node, MessageIn("t", b"1", delay_ms=3_600_000), MessageIn("t", b"2"))
        assert await code_of(node.front.cancel(far, if_match=2, principal=ANONYMOUS)) == "revision-mismatch"
        for _ in range(2):
            done = await node.front.cancel(far, if_match=1, principal=ANONYMOUS)
            assert (done.attempts_made, done.prior) == (0, "none")
        (delivery,) = await pull(node, "t")
        with pytest.raises(Problem) as refused:
            await node.front.cancel(near, if_match=None, principal=ANONYMOUS)
        assert (refused.value.code, refused.value.extra["attempt"]) == ("leased", delivery.attempt)
        assert await code_of(node.front.cancel("0" * 26, if_match=None, principal=ANONYMOUS)) == "unknown-message"
        assert await code_of(node.front.message("short", local=False, principal=ANONYMOUS)) == "unknown-message"

    run_node(tmp_path / "n1", play)


def test_receipts_that_are_none(tmp_path: Path) -> None:
    """Forged, of another topic, or text: invalid, and the message is not settled by it."""

    async def play(node: Node) -> None:
        await schedule(node, MessageIn("t", b"1"), MessageIn("u", b"1"))
        (delivery,) = await pull(node, "t")
        forged = ("A" if delivery.receipt[0] != "A" else "B") + delivery.receipt[1:]
        assert await node.front.ack("t", [forged, "text", ""], ANONYMOUS) == ["invalid"] * 3
        assert await node.front.ack("u", [delivery.receipt], ANONYMOUS) == ["invalid"]
        assert await code_of(node.front.ack("nowhere", [delivery.receipt], ANONYMOUS)) == "unknown-topic"
        assert (await node.front.message(delivery.id, local=False, principal=ANONYMOUS)).state == "leased"

    run_node(tmp_path / "n1", play)


def test_a_paused_topic_hands_over_nothing_until_it_is_resumed(tmp_path: Path) -> None:
    """A waiting pull gets the message at the moment of resuming."""

    async def play(node: Node) -> None:
        await node.front.put_topic("t", TopicChange(paused=True), create=True, if_match=None, principal=ANONYMOUS)
        await schedule(node, MessageIn("t", b"1"))
        assert await pull(node, "t", wait_ms=100) == []
        waiting = asyncio.ensure_future(pull(node, "t"))
        await asyncio.sleep(0)
        view = await node.front.put_topic("t", TopicChange(paused=False), create=False, if_match=1, principal=ANONYMOUS)
        assert (view.paused, view.revision) == (False, 2)
        assert len(await waiting) == 1

    run_node(tmp_path / "n1", play)


def test_messages_and_keys_survive_a_restart(tmp_path: Path) -> None:
    """After a stop and a start everything is where it was, keys included, and what is due comes out."""
    kept = MessageIn("t", b"1", delay_ms=100, key="k", fingerprint=b"f" * 16)
    ids: list[str] = []

    async def first(node: Node) -> None:
        ids.extend(await schedule(node, kept, MessageIn("t", b"2", delay_ms=86_400_000)))

    async def second(node: Node) -> None:
        assert await schedule(node, kept) == ids[:1]
        assert [delivery.id for delivery in await pull(node, "t")] == ids[:1]
        assert (await node.front.message(ids[1], local=False, principal=ANONYMOUS)).state == "scheduled"

    run_node(tmp_path / "n1", first)
    run_node(tmp_path / "n1", second)


def test_a_leader_whose_wall_clock_steps_yields(tmp_path: Path) -> None:
    """It ends its term, and leads again only on a clock that follows the wall clock."""

    async def play(node: Node) -> None:
        leader_term = node.group.leader_term
        real = node.group.clock._wall
        node.group.clock._wall = lambda: real() + 3600
        await until(lambda: node.group.leader_term is not None and node.group.leader_term is not leader_term)
        assert node.group.raft.term > leader_term.term if leader_term else False
        assert abs(node.group.clock.error_ms()) < 100

    run_node(tmp_path / "n1", play)
