"""Pulls on a whole node: who waits is woken for what it wants, and for nothing else."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from api.port.port import ANONYMOUS, MessageIn, PullIn, TopicChange
from api.port.problem import Problem
from node.handover.attempt_limit import EXHAUSTED_MAX
from node.leader.leader_term import TRUST_RETRY_MS, LeaderTerm
from node.node import Node
from tests.calls import calls_of
from tests.node.single_node import run_node
from tests.waiting import turns, until


async def steps(leader_term: LeaderTerm) -> None:
    """A leader takes many steps at which nothing is new."""
    for _ in range(20):
        leader_term.poke()
        await turns()


def test_each_consumer_gets_what_its_filter_wants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that wait with different filters are both served, whatever stands before; what nobody wants wakes nobody."""

    async def play(node: Node) -> None:
        service = node.front

        def pull(*groups: tuple[str, ...]) -> asyncio.Task[Any]:
            return asyncio.ensure_future(service.pull(PullIn("t", 10, 5_000, None, groups), ANONYMOUS))

        await service.schedule([MessageIn("t", b"0", tags=("asia",)) for _ in range(50)], ANONYMOUS)
        eu, us = pull(("eu", "vip")), pull(("us",), ("ca",))
        assert node.group.leader_term is not None
        leader_term, dispatcher = node.group.leader_term, node.group.leader_term.dispatcher
        await until(lambda: sum(len(waiters) for waiters in leader_term.pulling._waiters.values()) == 2)
        await steps(leader_term)
        tries = calls_of(monkeypatch, dispatcher.handing_over, "hand_over")
        await steps(leader_term)
        assert not tries, "a pull looks again at what it does not want"
        messages = [
            MessageIn("t", b"1", tags=("eu",)),
            MessageIn("t", b"2", tags=("ca",)),
            MessageIn("t", b"3", tags=("vip", "x", "eu")),
        ]
        await service.schedule(messages, ANONYMOUS)
        assert [each.body for each in await us] == [b"2"]
        assert [each.body for each in await eu] == [b"3"]
        # It waits: hand-overs whose leases wait for a slow commit let no other be made for a moment.
        assert len(await service.pull(PullIn("t", 100, 5_000), ANONYMOUS)) == 51

    run_node(tmp_path / "n1", play)


def test_a_pull_costs_a_step_only_where_more_may_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that finds nothing looks at nothing, and wakes nobody; one that takes all that is ready leaves its Lease to
    the beat. Each had a step of the leader, twice what its hand-over took."""

    async def play(node: Node) -> None:
        service, leader_term = node.front, node.group.leader_term
        assert leader_term is not None
        await service.put_topic("t", TopicChange(), create=True, if_match=None, principal=ANONYMOUS)
        await turns()
        looks, pokes = (
            calls_of(monkeypatch, leader_term.handing_over, "hand_over"),
            calls_of(monkeypatch, leader_term, "poke"),
        )
        assert await service.pull(PullIn("t", 1, 0), ANONYMOUS) == []
        assert not looks
        assert not pokes
        await service.schedule([MessageIn("t", b"0", delay_ms=0)] * 3, ANONYMOUS)
        await until(lambda: leader_term.handing_over.ready_count == 3)
        await turns()
        pokes.clear()
        assert len(await service.pull(PullIn("t", 1, 0), ANONYMOUS)) == 1
        assert pokes, "others may find more"
        await until(lambda: leader_term.dispatcher.entry_due_ms() is None, what="its Lease is in an entry")
        await turns()
        pokes.clear()
        beats = calls_of(monkeypatch, leader_term, "poke_by")
        assert len(await service.pull(PullIn("t", 10, 0), ANONYMOUS)) == 2
        assert not pokes
        assert len(beats) == 1
        leased = calls_of(monkeypatch, leader_term, "on_leased")
        await until(lambda: leased, what="the Lease goes out though nothing else happens")

    run_node(tmp_path / "n1", play)


def test_a_refused_pull_is_not_tried_again_at_once(tmp_path: Path) -> None:
    """While leadership is not trusted, or hand-overs wait to be committed, a pull that waits costs next to nothing; it
    gets its message soon after."""

    async def play(node: Node) -> None:
        service, leader_term = node.front, node.group.leader_term
        assert leader_term is not None
        await service.put_topic("t", TopicChange(), create=True, if_match=None, principal=ANONYMOUS)
        waiting = asyncio.ensure_future(service.pull(PullIn("t", 1, 5_000), ANONYMOUS))
        asks = 0
        trusted = leader_term.trusted

        def distrusted() -> bool:
            nonlocal asks
            asks += 1
            return False

        await service.schedule([MessageIn("t", b"0", delay_ms=50)], ANONYMOUS)
        leader_term.trusted = distrusted  # type: ignore[method-assign]
        await until(lambda: asks)
        began_s, asks = asyncio.get_running_loop().time(), 0
        await until(lambda: asks >= 20)
        assert asyncio.get_running_loop().time() - began_s >= 20 * TRUST_RETRY_MS / 1000 / 2.5
        leader_term.trusted = trusted  # type: ignore[method-assign]
        assert len(await waiting) == 1

    run_node(tmp_path / "n1", play)


@pytest.mark.held(250, reason="one pull looks at EXHAUSTED_MAX ended leases in one step, 40 to 90 ms")
def test_a_pull_that_only_met_what_is_given_up_has_that_ended(tmp_path: Path) -> None:
    """More than may wait for their end at once, on a leader where nothing else happens: all are dead soon after one
    pull asked. They stayed held, with the pull beside them, until something else woke the loop."""

    async def play(node: Node) -> None:
        service, leader_term = node.front, node.group.leader_term
        assert leader_term is not None
        once = TopicChange(retry={"max_attempts": 1})
        await service.put_topic("t", once, create=True, if_match=None, principal=ANONYMOUS)
        await service.schedule([MessageIn("t", b"0", delay_ms=0)] * (EXHAUSTED_MAX + 500), ANONYMOUS)
        got = 0
        while got < EXHAUSTED_MAX + 500:
            got += len(await service.pull(PullIn("t", 1_000, 1_000, lease_ms=1_000), ANONYMOUS))
        await until(lambda: leader_term.handing_over.ready_count == EXHAUSTED_MAX + 500, what="all leases end")
        waiting = asyncio.ensure_future(service.pull(PullIn("t", 10, 20_000), ANONYMOUS))
        await until(lambda: not node.group.store.open_hours())
        waiting.cancel()

    run_node(tmp_path / "n1", play)


def test_b17_a_pull_whose_topic_was_deleted_waits_for_the_next_of_that_name(tmp_path: Path) -> None:
    """It slept on the old number while a message of the new topic lay ready, and got an empty list in the end."""

    async def play(node: Node) -> None:
        service = node.front
        await service.put_topic("t", TopicChange(), create=True, if_match=None, principal=ANONYMOUS)
        pull = asyncio.ensure_future(service.pull(PullIn("t", 10, 20_000), ANONYMOUS))
        leader_term = node.group.leader_term
        assert leader_term is not None
        await until(lambda: leader_term.pulling._waiters)
        await service.delete_topic("t", if_match=None, principal=ANONYMOUS)
        await service.schedule([MessageIn("t", b"1")], ANONYMOUS)
        (delivery,) = await pull
        assert delivery.body == b"1"

    run_node(tmp_path, play)


def test_a_pull_waits_for_a_topic_that_nobody_has_named(tmp_path: Path) -> None:
    """It was 404, and a worker that started before the first message died. Each of two pulls gets a message of its
    own; a PUT alone ends no wait; a pull that does not wait is empty."""

    async def play(node: Node) -> None:
        service = node.front
        leader_term = node.group.leader_term
        assert leader_term is not None
        assert await service.pull(PullIn("t", 10, 0), ANONYMOUS) == []
        assert await service.pull(PullIn("t", 10, 1), ANONYMOUS) == []
        tags = (("eu",),)
        pulls = [
            asyncio.ensure_future(service.pull(PullIn("t", 1, 20_000, None, wanted), ANONYMOUS))
            for wanted in (tags, (), ())
        ]
        await until(lambda: len(leader_term.pulling._topic_waits._waiters.get("t", ())) == 3)
        await service.put_topic("t", TopicChange(), create=True, if_match=None, principal=ANONYMOUS)
        await until(lambda: not leader_term.pulling._topic_waits._waiters)
        assert not any(pull.done() for pull in pulls)
        await service.schedule([MessageIn("t", b"1"), MessageIn("t", b"2")], ANONYMOUS)
        assert sorted([delivery.body for pull in pulls[1:] for delivery in await pull]) == [b"1", b"2"]
        await service.schedule([MessageIn("t", b"3", tags=("eu",))], ANONYMOUS)
        assert [delivery.body for delivery in await pulls[0]] == [b"3"]

    run_node(tmp_path, play)


def test_a_pull_of_no_topic_ends_with_its_client_and_with_the_term(tmp_path: Path) -> None:
    """No wait is left behind; the end of the term is told as no-leader, which a client repeats."""

    async def play(node: Node) -> None:
        service = node.front
        leader_term = node.group.leader_term
        assert leader_term is not None
        waits = leader_term.pulling._topic_waits
        pulls = [asyncio.ensure_future(service.pull(PullIn("t", 1, 30_000), ANONYMOUS)) for _ in range(2)]
        await until(lambda: len(waits._waiters.get("t", ())) == 2)
        pulls[0].cancel()
        await until(lambda: len(waits._waiters.get("t", ())) == 1)
        leader_term.end()
        with pytest.raises(Problem, match="no-leader"):
            await asyncio.wait_for(pulls[1], 10)  # its own wait is 30 s
        assert not waits._waiters

    run_node(tmp_path, play)


def test_b7_polls_of_many_topics_cost_a_step_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step asked each topic that was waited for whether it had something: 10,000 polls took a whole core."""

    async def play(node: Node) -> None:
        service = node.front
        await service.schedule([MessageIn(f"t{number}", b"0", tags=("asia",)) for number in range(200)], ANONYMOUS)
        pulls = [
            asyncio.ensure_future(service.pull(PullIn(f"t{number}", 10, 20_000, None, (("eu",),)), ANONYMOUS))
            for number in range(200)
        ]
        assert node.group.leader_term is not None
        leader_term, dispatcher = node.group.leader_term, node.group.leader_term.dispatcher
        await until(lambda: len(leader_term.pulling._waiters) == len(pulls))
        await until(lambda: dispatcher.handing_over.ready_count == len(pulls))
        # A step has time for some, and for few where it is not scheduled. A long one is taken again after a rest.
        await until(lambda: not (leader_term.pulling._look or leader_term.pulling._resting))
        looks = calls_of(monkeypatch, dispatcher.handing_over, "waiting")
        await steps(leader_term)
        assert not looks
        await service.schedule([MessageIn("t7", b"7", tags=("eu",))], ANONYMOUS)
        assert [each.body for each in await pulls[7]] == [b"7"]
        assert len(looks) < 10
        for pull in pulls:
            pull.cancel()

    run_node(tmp_path, play)


def test_a_pull_that_waits_gets_what_a_paused_topic_holds_when_it_goes_on(tmp_path: Path) -> None:
    """Nothing is pushed into its window at that moment: it has to be looked at all the same."""

    async def play(node: Node) -> None:
        service = node.front
        await service.put_topic("t", TopicChange(paused=True), create=True, if_match=None, principal=ANONYMOUS)
        await service.schedule([MessageIn("t", b"1")], ANONYMOUS)
        pull = asyncio.ensure_future(service.pull(PullIn("t", 10, 20_000, None), ANONYMOUS))
        assert node.group.leader_term is not None
        await until(lambda: node.group.leader_term is not None and node.group.leader_term.pulling._waiters)
        await steps(node.group.leader_term)
        assert not pull.done()
        await service.put_topic("t", TopicChange(paused=False), create=True, if_match=None, principal=ANONYMOUS)
        assert [each.body for each in await pull] == [b"1"]

    run_node(tmp_path, play)
