"""How two nodes part: each says that it makes no more calls, and what is under way ends first."""

import asyncio
from collections.abc import Callable

import pytest

from node.peer_wire.connection import Lost
from node.peer_wire.frame import LEAVE, Piece
from tests.node.peer_wire.pair import Desk, pair, run, transport, with_bare
from tests.waiting import turns, until


def test_a_connection_at_rest_is_closed_by_the_one_that_was_told() -> None:
    """Neither makes calls there from then on; nothing is complained of."""

    async def scene() -> None:
        async with pair() as (one, two):
            assert await one.ask("c") == b"c()"
            one.wire.leave()
            one.wire.leave()
            for side in (one, two):
                await until(side.wire.gone.done)
                assert not side.wire.usable
                with pytest.raises(Lost, match="no connection") as lost:
                    side.wire.begin("c", b"")
                assert not lost.value.begun

    run(scene)


def test_calls_under_way_end_before_the_connection_does() -> None:
    """Those of the one that leaves, and of the one that hears it; a call that crossed the word on its way too."""

    async def scene() -> None:
        desks = Desk(), Desk()
        async with pair(desks[0].serve, desks[1].serve) as (one, two):
            calls = [one.wire.begin("a", b""), two.wire.begin("b", b"")]
            await desks[0].has(1)
            await desks[1].has(1)
            one.wire.leave()
            calls.append(two.wire.begin("crosses", b""))
            assert not one.wire.usable
            await until(lambda: not two.wire.usable)
            await desks[0].has(2)
            desks[1].asked[0].answers(b"1")
            assert (await calls[0].answer).frame == b"1"
            for at, frame in enumerate((b"2", b"3")):
                await turns()
                assert two.wire.alive
                desks[0].asked[at].answers(frame)
                assert (await calls[1 + at].answer).frame == frame
            await until(one.wire.gone.done)
            await until(two.wire.gone.done)

    run(scene)


def test_both_may_leave_at_once() -> None:
    """With calls under way both ways."""

    async def scene() -> None:
        desks = Desk(), Desk()
        async with pair(desks[0].serve, desks[1].serve) as (one, two):
            calls = one.wire.begin("a", b""), two.wire.begin("b", b"")
            await desks[0].has(1)
            await desks[1].has(1)
            one.wire.leave()
            two.wire.leave()
            await turns()
            for desk in desks:
                desk.asked[0].answers(b"done")
            for call in calls:
                assert (await call.answer).frame == b"done"
            await until(one.wire.gone.done)
            await until(two.wire.gone.done)

    run(scene)


@pytest.mark.parametrize("when", ["before the answer", "after it began"])
def test_a_large_answer_is_sent_to_its_end_before_the_connection_closes(when: str) -> None:
    """To one that leaves and reads slowly: it arrives whole."""

    async def scene() -> None:
        desk, frame = Desk(), bytes(16 * 1024 * 1024)
        async with pair(two=desk.serve) as (one, two):
            call = one.wire.begin("big", b"")
            (asked,) = await desk.has(1)
            if when == "before the answer":
                one.wire.leave()
                await until(lambda: not two.wire.usable)
            transport(one.line).pause_reading()
            asked.answers(frame)
            await until(lambda: not two.line.writable)
            if when == "after it began":
                one.wire.leave()
                await until(lambda: not two.wire.usable)
            await turns()
            transport(one.line).resume_reading()
            assert len((await call.answer).frame) == len(frame)
            await until(one.wire.gone.done)

    run(scene)


def test_an_answer_without_credit_is_waited_for_as_well() -> None:
    """The one that leaves has not read what came before: the connection stands until it has."""

    async def scene() -> None:
        desk = Desk()
        async with with_bare(desk.serve, bytes_max=70_000) as (side, bare):
            bare.calls(1)
            bare.calls(2)
            for asked in await desk.has(2):
                asked.answers(bytes(70_000))
            bare.says(Piece(LEAVE, 0))
            await until(lambda: bare.bytes >= 65_536)
            await turns()
            closed: Callable[[], bool] = side.line.closed.done
            while bare.bytes < 140_000 and not closed():
                before = bare.bytes
                bare.says(taken=before)
                await until(lambda before=before: bare.bytes > before or closed())  # type: ignore[misc]
            assert bare.answered == [1, 2]
            await side.line.closed

    run(scene)


def test_answers_behind_a_full_socket_are_sent_before_the_connection_closes() -> None:
    """The last of them leaves in the step in which the socket takes more, and nothing fails in it."""

    async def scene() -> None:
        desk = Desk()
        async with with_bare(desk.serve) as (side, bare):
            bare.stop_reading()
            for number in range(1, 301):
                bare.calls(number)
            for asked in await desk.has(300):
                asked.answers(bytes(60_000))
            bare.says(Piece(LEAVE, 0))
            await until(lambda: not side.wire.usable)
            assert side.wire.alive
            bare.go_on_reading()
            await bare.line.closed
            assert sorted(bare.answered) == list(range(1, 301))

    run(scene)


def test_a_wait_that_is_ended_lets_the_connection_go() -> None:
    """The last thing that was under way."""

    async def scene() -> None:
        desk = Desk()
        async with pair(two=desk.serve) as (one, two):
            call = one.wire.begin("pull", b"")
            await desk.has(1)
            two.wire.leave()
            await until(lambda: not one.wire.usable)
            one.wire.end(call)
            assert b"nobody waits" in (await call.answer).frame
            await asyncio.wait_for(asyncio.shield(two.wire.gone), 5)

    run(scene)
