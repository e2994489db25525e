"""Strict topics on whole nodes: what is handed over stands in the log before, and what is not is taken back."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from api.port.port import ANONYMOUS, Delivery, MessageIn, PullIn, TopicChange
from api.port.problem import Problem
from node.message.view import find, newest_lease
from node.node import Node
from storage.catalog.doubt import CLOCKS_MS
from storage.format.level import LEVELS
from storage.format.pieces import at_once
from storage.format.states import LEASED, STATES
from tests.node.pushing import LOOPBACK, put, schedule, view
from tests.node.pushing import play as play_push
from tests.node.receiver import Request, answer, answering, receiver
from tests.node.single_node import run_node
from tests.node.three_nodes import leader_of, run_nodes
from tests.waiting import turns, until


async def strict_pull(node: Node, topic: str = "t") -> None:
    """A strict topic to pull from."""
    change = TopicChange(handover="strict")
    await node.front.put_topic(topic, change, create=True, if_match=None, principal=ANONYMOUS)


async def pull(node: Node, wait_ms: int = 0) -> list[Delivery]:
    """One pull."""
    return [*await node.front.pull(PullIn("t", 100, wait_ms), ANONYMOUS)]


def newest(node: Node, id: str) -> list[tuple[str, int]]:
    """The message's story in the log: events and attempts."""
    found = find(node.group.store, id)
    return [
        (STATES[int(row["what"])].event, int(row["attempt"])) for row in at_once(node.group.store.history(found.home))
    ]


def delivered(node: Node, ids: Sequence[str]) -> Callable[[], bool]:
    """Whether all of these are. Each is looked at until it is, and no more: the looks hold the nodes' loop."""
    left = [*ids]

    def looked() -> bool:
        while left and [event for event, _ in newest(node, left[0])][-1:] == ["delivered"]:
            del left[0]
        return not left

    return looked


async def leased_ahead(node: Node) -> None:
    """Until a hand-over waits for its Lease."""
    leader_term = node.group.leader_term
    assert leader_term is not None
    await until(lambda: leader_term.handing_over.strict.waiting)


class Unsent:
    """Planned pushes are not sent inside this block, however long it takes; those that are due go at its end."""

    def __init__(self, node: Node) -> None:
        self._plans = node.group.push_feed._plans

    def __enter__(self) -> None:
        self._plans._send_due = lambda term: None  # type: ignore[method-assign]

    def __exit__(self, *error: object) -> None:
        del self._plans._send_due
        if self._plans._steps is not None:
            self._plans._steps.poke()


class Stalled:
    """The node's proposer proposes nothing inside this block; what comes waits."""

    def __init__(self, node: Node) -> None:
        self._proposer = node.group.proposer

    async def __aenter__(self) -> None:
        await until(lambda: not self._proposer._in_flight)
        self._proposer._held = True

    async def __aexit__(self, *error: object) -> None:
        self._proposer.resume()


def test_a_pull_answers_when_its_lease_is_in_the_log(tmp_path: Path) -> None:
    """Nothing is answered before; then the records hold the lease at the moment of the answer."""

    async def play(node: Node) -> None:
        await strict_pull(node)
        (id,) = await schedule(node, MessageIn("t", b"1"))
        async with Stalled(node):
            waiting = asyncio.ensure_future(pull(node, 5_000))
            await leased_ahead(node)
            assert not waiting.done()
            assert (await view(node, id)).state == "ready"
        (got,) = await waiting
        assert newest(node, id) == [("leased", 1)]
        shown = await view(node, id)
        assert (shown.state, shown.attempt) == ("leased", 1)
        assert await node.front.ack("t", [got.receipt], ANONYMOUS) == ["acked"]

    run_node(tmp_path / "n1", play)


def test_a_consumer_that_goes_away_meanwhile_costs_nobody_a_lease(tmp_path: Path) -> None:
    """What was leased for it is released and handed over to the next, as a first attempt."""

    async def play(node: Node) -> None:
        await strict_pull(node)
        await schedule(node, MessageIn("t", b"1"))
        async with Stalled(node):
            gone = asyncio.ensure_future(pull(node, 5_000))
            await leased_ahead(node)
            gone.cancel()
            await asyncio.wait((gone,))
        (got,) = await pull(node, 5_000)
        assert got.attempt == 1

    run_node(tmp_path / "n1", play)


@pytest.mark.usefixtures("direct")
def test_a_connection_that_closes_as_its_lease_is_committed_gets_nothing(tmp_path: Path) -> None:
    """Its end was read and has not ended the wait yet: the lease is released."""

    async def play(node: Node) -> None:
        await strict_pull(node)
        await schedule(node, MessageIn("t", b"1"))
        closing = False
        async with Stalled(node):
            request = PullIn("t", 100, 5_000, gone=lambda: closing)
            gone = asyncio.ensure_future(node.front.pull(request, ANONYMOUS))
            await leased_ahead(node)
            closing = True
        assert await gone == []
        (got,) = await pull(node, 5_000)
        assert got.attempt == 1

    run_node(tmp_path / "n1", play)


def test_without_trust_after_the_commit_nothing_is_answered(tmp_path: Path) -> None:
    """The lease is released, and the message comes when trust is back."""

    async def play(node: Node) -> None:
        await strict_pull(node)
        leader_term = node.group.leader_term
        assert leader_term is not None
        trusted = leader_term.trusted
        waiting = asyncio.ensure_future(pull(node, 5_000))
        (id,) = await schedule(node, MessageIn("t", b"1", delay_ms=50))
        leased = leader_term.leased

        async def and_trust_is_lost(hand_over: Any) -> None:
            await leased(hand_over)
            leader_term.trusted = lambda: False  # type: ignore[method-assign]

        leader_term.leased = and_trust_is_lost  # type: ignore[method-assign]
        await until(lambda: newest(node, id)[-1:] == [("released", 0)])
        leader_term.leased = leased  # type: ignore[method-assign]
        leader_term.trusted = trusted  # type: ignore[method-assign]
        (got,) = await waiting
        assert got.attempt == 1

    run_node(tmp_path / "n1", play)


def test_a_cancel_of_what_is_leased_and_not_handed_over(tmp_path: Path) -> None:
    """It is released and cancelled in one entry: none was made before. The pull goes on waiting."""

    async def play(node: Node) -> None:
        await strict_pull(node)
        (id,) = await schedule(node, MessageIn("t", b"1"))
        async with Stalled(node):
            waiting = asyncio.ensure_future(pull(node, 300))
            await leased_ahead(node)
            cancelling = asyncio.ensure_future(node.front.cancel(id, if_match=None, principal=ANONYMOUS))
            await turns()
        cancelled = await cancelling
        assert (cancelled.attempts_made, cancelled.prior) == (0, "none")
        assert await waiting == []
        assert [event.event for event in (await view(node, id)).history] == ["scheduled", "cancelled"]

    run_node(tmp_path / "n1", play)


def test_a_push_is_planned_ahead_and_sent_at_its_time(tmp_path: Path) -> None:
    """Leased before it is due and not shown as such; sent not before its millisecond, and soon after."""

    async def play(node: Node) -> None:
        seen: list[Request] = []
        async with receiver(answering(answer(200), seen=seen)) as url:
            await put(node, "t", url, handover="strict")
            begun = starts_of(node)
            (warm,) = await schedule(node, MessageIn("t", b"0"))
            await until(lambda: newest(node, warm)[-1:] == [("delivered", 1)])
            (id,) = await schedule(node, MessageIn("t", b"1", delay_ms=600))
            due_ms = (await view(node, id)).due_ms
            with Unsent(node):
                await until(lambda: newest(node, id) == [("leased", 1)])
                shown = await view(node, id)
                assert shown.state in ("scheduled", "ready")
                assert (shown.attempt, shown.handed_over_ms, len(shown.history)) == (0, None, 1)
            await until(lambda: newest(node, id)[-1:] == [("delivered", 1)])
            assert len(seen) == 2
            lease = newest_lease(at_once(node.group.store.history(find(node.group.store, id).home)))
            assert lease is not None
            assert begun[find(node.group.store, id).home] >= int(lease["at_ms"]) >= due_ms

    play_push(tmp_path / "n1", play)


def test_a_cancel_before_the_time_of_a_planned_push(tmp_path: Path) -> None:
    """The lease is released, nothing is sent, and the answer says that nothing was. The same of a reschedule."""

    async def play(node: Node) -> None:
        seen: list[Request] = []
        async with receiver(answering(answer(200), seen=seen)) as url:
            await put(node, "t", url, handover="strict")
            one, two = await schedule(node, MessageIn("t", b"1", delay_ms=600), MessageIn("t", b"2", delay_ms=600))
            with Unsent(node):
                await until(lambda: [newest(node, id) for id in (one, two)] == [[("leased", 1)]] * 2)
                cancelled = await node.front.cancel(one, if_match=None, principal=ANONYMOUS)
                assert (cancelled.attempts_made, cancelled.prior) == (0, "none")
                moved = await node.front.reschedule(two, due_ms=None, delay_ms=400, if_match=None, principal=ANONYMOUS)
            await until(lambda: bool(seen), 3)
            assert node.group.clock.now_ms() >= moved.due_ms
            assert [request.body for request in seen] == [b"2"]
            assert (await view(node, two)).attempt == 1

    play_push(tmp_path / "n1", play)


def test_a_topic_changes_while_pushes_are_planned(tmp_path: Path) -> None:
    """What is planned and not sent when its topic is paused stays; when it goes on, fast, all of it comes once."""

    async def play(node: Node) -> None:
        seen: list[Request] = []
        async with receiver(answering(answer(200), seen=seen)) as url:
            await put(node, "t", url, handover="strict")
            ids = await schedule(node, *(MessageIn("t", b"%d" % n, delay_ms=500 + n) for n in range(20)))
            with Unsent(node):
                await until(lambda: newest(node, ids[0]) == [("leased", 1)])
                await put(node, "t", url, handover="strict", paused=True)
            due_ms = (await view(node, ids[-1])).due_ms
            await until(lambda: node.group.clock.now_ms() > due_ms + 100)
            assert not seen
            await put(node, "t", url, handover="fast")
            await until(lambda: all(newest(node, id)[-1:] == [("delivered", 1)] for id in ids))
            assert sorted(request.body for request in seen) == sorted(b"%d" % n for n in range(20))

    play_push(tmp_path / "n1", play)


def test_a_leased_message_is_refused_once_it_is_handed_over(tmp_path: Path) -> None:
    """A cancel after the hand-over began is 409 `leased`, as in fast mode."""

    async def play(node: Node) -> None:
        await strict_pull(node)
        (id,) = await schedule(node, MessageIn("t", b"1"))
        assert len(await pull(node, 1_000)) == 1
        with pytest.raises(Problem) as refused:
            await node.front.cancel(id, if_match=None, principal=ANONYMOUS)
        assert refused.value.code == "leased"

    run_node(tmp_path / "n1", play)


def starts_of(node: Node) -> dict[int, int]:
    """When messages are handed over by this node from now on, by the delivery log's start records: home -> time."""
    begun: dict[int, int] = {}
    start = node.group.delivery_log.start

    def noted(**columns: Any) -> None:
        begun.update(dict.fromkeys(columns["home"].tolist(), columns["at_ms"]))
        start(**columns)

    node.group.delivery_log.start = noted  # type: ignore[method-assign]
    return begun


def test_a_transfer_takes_planned_pushes_with_it(tmp_path: Path) -> None:
    """What the old leader planned and did not send is released, and the new one sends it at its time, first attempt; no
    push is seen in two terms."""

    async def scene(nodes: list[Node]) -> None:
        seen: list[Request] = []
        async with receiver(answering(answer(200), seen=seen)) as url:
            old = await leader_of(nodes)
            await put(old, "t", url, handover="strict", target={"timeout_ms": 10_000})
            begun, leader_term = starts_of(old), old.group.leader_term
            assert leader_term is not None
            delays = range(300, 1_500, 4)
            ids = await schedule(old, *(MessageIn("t", b"%d" % n, delay_ms=n) for n in delays))
            await until(lambda: len(seen) > 20)
            await old.front.transfer(None, principal=ANONYMOUS)
            assert leader_term.handing_over.strict.released > 0, "none was planned when leadership moved"
            new = await leader_of(nodes, term_above=leader_term.term)
            homes = [find(new.group.store, id).home for id in ids]
            lasts = [at_once(new.group.store.history(home))[-1:] for home in homes]
            kept = {
                home
                for home, last in zip(homes, lasts, strict=True)
                if last["what"].tolist() == [LEASED] and last["term"].tolist() == [leader_term.term]
            }
            assert kept <= begun.keys(), "leased, never sent, and not released"
            # An attempt that had begun and was not on the wire was given back, and bears another number.
            await until(delivered(new, ids))
            assert sorted(int(request.body) for request in seen) == [*delays]
            assert {request.headers["hourwheel-term"] for request in seen} == {
                str(leader_term.term),
                str(new.group.raft.term),
            }

    run_nodes(tmp_path, scene, push=LOOPBACK)


def test_a_cancel_of_a_strict_message_never_doubts(tmp_path: Path) -> None:
    """Under an elected leader, of a message that was due under the old one: nothing was handed over, and that is known.
    One that became due before its topic was strict may have been, for as long as it lives (FOUND D3). A leader that was
    given leadership has nothing to doubt but that (D14)."""

    async def scene(nodes: list[Node]) -> None:
        old = await leader_of(nodes)
        for topic in ("t", "fast"):
            await put(old, topic, "http://127.0.0.1:9", paused=True)
        first, second, fast = await schedule(old, *(MessageIn(topic, b"1") for topic in ("t", "t", "fast")))
        await until(lambda: old.group.machine.level == LEVELS[1])
        old.group.raft.resign()
        new = await leader_of(nodes, term_above=old.group.raft.term)
        await put(new, "t", "http://127.0.0.1:9", paused=True, handover="strict")
        (strict,) = await schedule(new, MessageIn("t", b"2", delay_ms=CLOCKS_MS + 50))
        await until(lambda: new.clock.now_ms() > find(new.group.store, strict).record.asked_due_ms)
        new.group.raft.resign()
        last = await leader_of(nodes, term_above=new.group.raft.term)
        priors = [(await last.front.cancel(id, if_match=None, principal=ANONYMOUS)).prior for id in (first, strict)]
        assert priors == ["unknown", "none"]
        (born,) = await schedule(last, MessageIn("fast", b"3"))
        term = last.group.raft.term
        await last.front.transfer(None, principal=ANONYMOUS)
        given = await leader_of(nodes, term_above=term)
        await until(lambda: given.group.store.doubt.term == given.group.raft.term)
        answers = [await given.front.cancel(id, if_match=None, principal=ANONYMOUS) for id in (second, fast, born)]
        assert [answer.prior for answer in answers] == ["unknown", "unknown", "none"]

    run_nodes(tmp_path, scene, push=LOOPBACK)
