"""Pulls on a whole node that wait with tag filters: what they look at, how often, and who goes on meanwhile."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import node.handover.ready_units
import node.pull.pulling
from api.port.port import ANONYMOUS, Delivery, MessageIn, PullIn, TopicChange
from api.port.problem import Problem
from node.leader.leader_term import LeaderTerm
from node.node import Node
from storage.format.predicate import tags_mask
from storage.tables.topic import Subscription
from tests.calls import calls_of
from tests.node.pull.test_pulling import steps
from tests.node.single_node import run_node
from tests.waiting import until


def one_filter_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step has time for no more, and filters do not rest."""
    monkeypatch.setattr(node.pull.pulling, "WAKE_S", 1e-9)
    monkeypatch.setattr(node.pull.pulling, "CREDIT_S", 60.0)


@asynccontextmanager
async def filtered_pulls(
    node: Node, count: int
) -> AsyncIterator[tuple[list[asyncio.Task[Sequence[Delivery]]], LeaderTerm]]:
    """Pulls that wait for tags x0, x1, ... of topic t, longer than any test does, and that have been looked at."""
    await node.front.put_topic("t", TopicChange(), create=True, if_match=None, principal=ANONYMOUS)
    pulls = [
        asyncio.ensure_future(node.front.pull(PullIn("t", 10, 600_000, None, ((f"x{number}",),)), ANONYMOUS))
        for number in range(count)
    ]
    assert node.group.leader_term is not None
    waiters = node.group.leader_term.pulling._waiters
    await until(lambda: sum(map(len, waiters.values())) == count)
    pulling = node.group.leader_term.pulling
    await until(lambda: not pulling._look)
    yield pulls, node.group.leader_term
    for pull in pulls:
        pull.cancel()


def test_a_filter_that_many_masks_fit_gets_to_what_stands_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One try looks at so many records and no more; the pull goes on from there, and not when its time is over."""
    monkeypatch.setattr(node.handover.ready_units, "EXACT_ROWS", 4)
    bits = tags_mask([b"w"])
    cover = [f"t{n}" for n in range(1000) if tags_mask([f"t{n}".encode()]) & bits][:64]
    tags = next(trio for trio in combinations(cover, 3) if tags_mask(tag.encode() for tag in trio) & bits == bits)

    async def play(node: Node) -> None:
        messages = [MessageIn("t", b"0", delay_ms=0, tags=tags) for _ in range(50)]
        await node.front.schedule([*messages, MessageIn("t", b"1", delay_ms=0, tags=("w",))], ANONYMOUS)
        leader_term = node.group.leader_term
        assert leader_term is not None
        await until(lambda: leader_term.handing_over.ready_count == 51)
        async with asyncio.timeout(15):
            (found,) = await node.front.pull(PullIn("t", 10, 20_000, None, (("w",),)), ANONYMOUS)
        assert found.body == b"1"

    run_node(tmp_path / "n1", play)


def test_b7_many_waiting_filters_sleep_while_nothing_new_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 65 different filters all marks were forgotten, so each look made the others fresh again: 100 % of a core."""

    async def play(node: Node) -> None:
        service = node.front
        await service.schedule([MessageIn("t", b"0", tags=("asia",)) for _ in range(50)], ANONYMOUS)
        async with filtered_pulls(node, 150) as (pulls, leader_term):
            tries = calls_of(monkeypatch, leader_term.handing_over, "hand_over")
            await steps(leader_term)
            await service.schedule([MessageIn("t", b"0", tags=("africa",))], ANONYMOUS)
            await steps(leader_term)
            assert not tries
            await service.schedule([MessageIn("t", b"7", tags=("x77",))], ANONYMOUS)
            assert [each.body for each in await pulls[77]] == [b"7"]
            assert len(tries) < 10, "a waiter is woken by what its filter may want"

    run_node(tmp_path, play)


def test_b7_so_many_different_filters_wait_for_a_topic_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each looks at every message that comes: 10,000 of them held the loop for 40 ms a message. Pulls that want the
    same, or anything, are not counted; who has left makes room."""
    monkeypatch.setattr(node.pull.pulling, "FILTERS_MAX", 2)

    async def play(node: Node) -> None:
        service = node.front
        await service.put_topic("t", TopicChange(), create=True, if_match=None, principal=ANONYMOUS)

        def pull(*groups: tuple[str, ...]) -> asyncio.Task[Any]:
            return asyncio.ensure_future(service.pull(PullIn("t", 10, 20_000, None, groups), ANONYMOUS))

        assert node.group.leader_term is not None
        waiters = node.group.leader_term.pulling._waiters
        pulls = [pull(("a",)), pull(("b",)), pull(("a",)), pull(("b",)), pull()]
        await until(lambda: sum(map(len, waiters.values())) == len(pulls))
        with pytest.raises(Problem, match="2 different filters wait") as refused:
            await pull(("c",))
        assert refused.value.code == "over-limit"
        for each in (pulls[0], pulls[2]):
            each.cancel()
        await until(lambda: sum(map(len, waiters.values())) == 3)
        pulls.append(pull(("c",)))
        await until(lambda: sum(map(len, waiters.values())) == 4)
        for each in pulls:
            each.cancel()

    run_node(tmp_path, play)


def test_what_filters_a_step_has_no_time_for_the_next_ones_look_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """900 filters over 3,000 messages that none of them wants held the loop for 0.9 s."""
    one_filter_a_step(monkeypatch)

    async def play(node: Node) -> None:
        service = node.front
        async with filtered_pulls(node, 50) as (pulls, leader_term):
            steps_begun = calls_of(monkeypatch, leader_term.pulling, "wake")
            looks = calls_of(
                monkeypatch,
                leader_term.handing_over,
                "waiting",
                lambda _, tags=None: len(steps_begun) if tags else None,
            )
            await service.schedule([MessageIn("t", b"x", tags=("x49",))], ANONYMOUS)
            assert [each.body for each in await pulls[49]] == [b"x"]
            a_step = Counter(step for step in looks if step is not None)
            assert max(a_step.values()) <= 2
            assert a_step.total() >= 50

    run_node(tmp_path, play)


def test_what_comes_while_a_look_is_under_way_wakes_who_wants_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look that takes several steps has passed its filter already: it slept until its wait was over."""
    one_filter_a_step(monkeypatch)

    async def play(node: Node) -> None:
        service = node.front
        async with filtered_pulls(node, 50) as (pulls, leader_term):
            looks = calls_of(monkeypatch, leader_term.handing_over, "waiting", lambda _, tags=None: tags is not None)
            wake, scheduled = leader_term.pulling.wake, asyncio.Event()

            def held_back() -> bool:
                """No step goes on with the look until what wants waking is here."""
                return False if sum(looks) >= 2 and not scheduled.is_set() else wake()

            monkeypatch.setattr(leader_term.pulling, "wake", held_back)
            await service.schedule([MessageIn("t", b"a", tags=("nobody",))], ANONYMOUS)
            await until(lambda: sum(looks) >= 2)
            await service.schedule([MessageIn("t", b"b", tags=("x0",))], ANONYMOUS)
            scheduled.set()
            leader_term.poke()
            await until(pulls[0].done)
            assert [each.body for each in pulls[0].result()] == [b"b"]

    run_node(tmp_path, play)


def test_filters_that_look_much_and_find_little_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who wants anything, or waits for another topic, does not wait for them; what they want comes when they have
    rested."""
    monkeypatch.setattr(node.pull.pulling, "CREDIT_S", 0.0)
    monkeypatch.setattr(node.pull.pulling, "REST", 1e9)
    monkeypatch.setattr(node.pull.pulling, "REST_MOST_S", 0.4)

    async def play(node: Node) -> None:
        service = node.front

        def pull(topic: str, *groups: tuple[str, ...]) -> asyncio.Task[Any]:
            return asyncio.ensure_future(service.pull(PullIn(topic, 1, 20_000, None, groups), ANONYMOUS))

        for name in "tu":
            await service.put_topic(name, TopicChange(), create=True, if_match=None, principal=ANONYMOUS)
        filtered, other = pull("t", ("x",)), pull("u", ("x",))
        assert node.group.leader_term is not None
        pulling, loop = node.group.leader_term.pulling, asyncio.get_running_loop()
        await until(lambda: len(pulling._waiters) == 2)
        await until(lambda: not pulling._resting)
        await service.schedule([MessageIn("t", b"0", tags=("y",))], ANONYMOUS)
        await until(lambda: pulling._resting)
        rests_s = loop.time()
        await service.schedule([MessageIn("t", b"1", tags=("x",)), MessageIn("u", b"2", tags=("x",))], ANONYMOUS)
        assert [each.body for each in await other] == [b"2"]
        assert [each.body for each in await pull("t")] == [b"0"]
        assert not filtered.done()
        assert loop.time() - rests_s < 0.3
        assert [each.body for each in await filtered] == [b"1"]
        assert loop.time() - rests_s > 0.35

    run_node(tmp_path, play)


def test_b7_a_filter_that_comes_while_others_rest_has_its_first_look_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """400 consumers that came together looked at 150,000 messages each: pulls of other topics were late by 0.1 s. One
    that does not wait looks at once."""
    monkeypatch.setattr(node.pull.pulling, "CREDIT_S", 0.0)
    monkeypatch.setattr(node.pull.pulling, "REST", 1e9)
    monkeypatch.setattr(node.pull.pulling, "REST_MOST_S", 60.0)

    async def play(node: Node) -> None:
        service = node.front

        def pull(wait_ms: int, tag: str) -> asyncio.Task[Any]:
            return asyncio.ensure_future(service.pull(PullIn("t", 1, wait_ms, None, ((tag,),)), ANONYMOUS))

        messages = [MessageIn("t", b"0", tags=("y",)), MessageIn("t", b"1", tags=("x",))]
        await service.schedule(messages, ANONYMOUS)
        leader_term = node.group.leader_term
        assert leader_term is not None
        await until(lambda: leader_term.handing_over.ready_count == 2)
        assert await pull(0, "z") == []
        (number,) = leader_term.pulling._resting
        tries = calls_of(monkeypatch, leader_term.handing_over, "hand_over")
        late = pull(20_000, "x")
        await until(lambda: number in leader_term.pulling._waiters)
        await steps(leader_term)
        assert not tries
        assert [each.body for each in await pull(0, "y")] == [b"0"]
        leader_term.pulling._rested(number)
        assert [each.body for each in await late] == [b"1"]

    run_node(tmp_path, play)


def test_b7_a_filter_that_cannot_wait_looks_while_others_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many filters wait as may, and rest: one more is refused only if there is nothing for it."""
    monkeypatch.setattr(node.pull.pulling, "CREDIT_S", 0.0)
    monkeypatch.setattr(node.pull.pulling, "REST", 1e9)
    monkeypatch.setattr(node.pull.pulling, "REST_MOST_S", 60.0)
    monkeypatch.setattr(node.pull.pulling, "FILTERS_MAX", 1)

    async def play(node: Node) -> None:
        service = node.front

        def pull(tag: str) -> asyncio.Task[Any]:
            return asyncio.ensure_future(service.pull(PullIn("t", 1, 20_000, None, ((tag,),)), ANONYMOUS))

        await service.schedule([MessageIn("t", b"1", tags=("x",))], ANONYMOUS)
        leader_term = node.group.leader_term
        assert leader_term is not None
        await until(lambda: leader_term.handing_over.ready_count == 1)
        waits = pull("z")
        await until(lambda: bool(leader_term.pulling._waiters and leader_term.pulling._resting))
        assert [each.body for each in await pull("x")] == [b"1"]
        with pytest.raises(Problem, match="1 different filters wait"):
            await pull("y")
        waits.cancel()

    run_node(tmp_path, play)


def test_b7_filters_go_on_where_they_stopped_to_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a message that nobody wants between two rests the first of 400 filters looked again and again, and the last
    had nothing until its time was over. Those who want anything stand before them."""
    monkeypatch.setattr(node.pull.pulling, "CREDIT_S", 0.0)
    monkeypatch.setattr(node.pull.pulling, "REST", 1e9)
    monkeypatch.setattr(node.pull.pulling, "REST_MOST_S", 600.0)
    monkeypatch.setattr(node.pull.pulling, "WAKE_S", 1e-9)

    async def play(node: Node) -> None:
        async with filtered_pulls(node, 5) as (pulls, leader_term):
            (number,) = leader_term.pulling._waiters
            looked: list[str] = []
            waiting = leader_term.handing_over.waiting

            def noted(subscription: Subscription, wanted: Any = None) -> bool:
                if wanted is not None:
                    looked.extend(*wanted.groups)
                return waiting(subscription, wanted)

            monkeypatch.setattr(leader_term.handing_over, "waiting", noted)
            await node.front.schedule([MessageIn("t", b"4", tags=("x4",))], ANONYMOUS)
            for _ in range(5):
                await node.front.schedule([MessageIn("t", b"0", tags=("nobody",))], ANONYMOUS)
                await steps(leader_term)
                leader_term.pulling._rested(number)
            await until(pulls[4].done)
            assert [each.body for each in pulls[4].result()] == [b"4"]
            assert looked[:5] == [f"x{at}" for at in range(5)]

    run_node(tmp_path, play)
