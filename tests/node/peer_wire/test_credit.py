"""How much one side keeps for the other: calls under way, their bytes, and answers that nobody reads."""

from typing import Any

import pytest

from node.peer_wire.connection import Busy, Lost, Reply
from node.peer_wire.frame import ANSWER, CALL, FRAME_MAX, PIECE_MAX, Piece
from node.peer_wire.greeting import BYTES_MAX
from tests.node.peer_wire.pair import Bare, Desk, Side, outcome, pair, run, transport, with_bare
from tests.waiting import turns, until

MIB = 1024 * 1024


def kept(side: Side) -> int:
    """Bytes of answers that wait here."""
    return side.wire._answers_out.bytes


async def sent_all_it_may(side: Side) -> None:
    """Let it send what it can."""
    await until(lambda: not side.wire._flushing)
    await turns()


@pytest.mark.parametrize("size", [10_000, 100_000], ids=["small", "in pieces"])
def test_answers_that_are_not_read_wait_where_they_were_given(size: int) -> None:
    """No more is sent than the other side keeps. What waits is counted, and who serves sees when it is that much; when
    the other has read some, as many go on, each once and whole."""

    async def scene() -> None:
        desk, bytes_max = Desk(), 200_000
        count = 5 * bytes_max // size
        async with with_bare(desk.serve, bytes_max=bytes_max) as (side, bare):
            for number in range(1, count + 1):
                bare.calls(number)
            asked = await desk.has(count)
            assert not asked[-1].full()
            for each in asked[:-1]:
                each.answers(bytes(size))
            await sent_all_it_may(side)
            await until(lambda: bare.bytes == (count - 1) * size - kept(side))
            assert bytes_max - PIECE_MAX < bare.bytes <= bytes_max
            assert asked[-1].full()
            asked[-1].answers(bytes(size))
            while bare.bytes < count * size:
                before = bare.bytes
                bare.says(taken=before)
                await until(lambda before=before: bare.bytes > before)  # type: ignore[misc]
                await sent_all_it_may(side)
                assert bare.bytes - before <= bytes_max
            assert sorted(bare.answered) == list(range(1, count + 1))
            assert (kept(side), asked[0].full()) == (0, False)

    run(scene)


def test_a_peer_that_does_not_read_its_socket() -> None:
    """What it asked for stays here, but for what the sockets hold, and leaves when it reads again."""

    async def scene() -> None:
        desk = Desk()
        async with pair(two=desk.serve) as (one, two):
            transport(one.line).pause_reading()
            calls = [one.wire.begin("big", b"") for _ in range(10)]
            asked = await desk.has(10)
            for each in asked:
                each.answers(bytes(4 * MIB))
            await until(lambda: not two.line.writable)
            assert asked[0].full()
            assert kept(two) >= BYTES_MAX
            assert two.line.unsent <= 2 * FRAME_MAX
            transport(one.line).resume_reading()
            for call in calls:
                assert len((await call.answer).frame) == 4 * MIB
            await until(lambda: not asked[0].full())

    run(scene)


def test_what_was_read_is_told_without_being_asked() -> None:
    """More answers than the credit holds arrive where nothing else is said."""

    async def scene() -> None:
        async def serve(*_: Any) -> Reply:
            return Reply(bytes(12 * MIB))

        async with pair(two=serve) as (one, _):
            for call in [one.wire.begin("big", b"") for _ in range(4)]:
                assert len((await call.answer).frame) == 12 * MIB

    run(scene)


def test_who_serves_sees_that_the_connection_is_gone() -> None:
    """Nothing that holds much is worth finding any more."""

    async def scene() -> None:
        desk = Desk()
        async with with_bare(desk.serve) as (side, bare):
            bare.calls(1)
            (asked,) = await desk.has(1)
            assert not asked.full()
            bare.line.abort()
            await side.line.closed
            assert asked.full()

    run(scene)


def test_more_calls_than_the_other_takes_are_refused_here() -> None:
    """Nothing of them is sent; when one is answered there is room again."""

    async def scene() -> None:
        desk = Desk()
        async with pair(two=desk.serve, calls_max=2) as (one, _):
            calls = [one.wire.begin("wait", b"") for _ in range(2)]
            with pytest.raises(Busy, match="2 requests are under way to n2"):
                one.wire.begin("wait", b"")
            (first, second) = await desk.has(2)
            first.answers(b"")
            await calls[0].answer
            calls.append(one.wire.begin("wait", b""))
            with pytest.raises(Busy):
                one.wire.begin("wait", b"")
            await desk.has(3)
            second.answers(b"")
            desk.asked[2].answers(b"")
            for call in calls:
                await call.answer

    run(scene)


def test_a_call_that_is_larger_than_the_other_takes_is_refused_here() -> None:
    """One of just that size is not."""

    async def scene() -> None:
        desk = Desk()
        async with pair(two=desk.serve, bytes_max=2 * PIECE_MAX) as (one, _):
            with pytest.raises(Busy, match="131073 bytes; n2 takes 131072"):
                one.wire.begin("big", bytes(2 * PIECE_MAX + 1))
            call = one.wire.begin("big", bytes(2 * PIECE_MAX))
            (asked,) = await desk.has(1)
            assert len(asked.frame) == 2 * PIECE_MAX
            asked.answers(b"")
            await call.answer

    run(scene)


@pytest.mark.parametrize("size", [40_000, 90_000], ids=["small", "in pieces"])
def test_calls_wait_for_those_before_them_to_be_answered(size: int) -> None:
    """Their bytes count until then: the third goes when there is room for it."""

    async def scene() -> None:
        async with with_bare(bytes_max=3 * PIECE_MAX) as (side, bare):
            calls = [side.wire.begin("c", bytes(size)) for _ in range(6)]
            for number in range(1, 7):
                await until(lambda number=number: number in done(bare))  # type: ignore[misc]
                await sent_all_it_may(side)
                assert bare.bytes - (number - 1) * size <= 3 * PIECE_MAX
                bare.says(Piece(ANSWER, number))
                await calls[number - 1].answer
            assert done(bare) == list(range(1, 7))

    run(scene)


def done(bare: Bare) -> list[int]:
    """The calls that are complete."""
    return [piece.number for piece in bare.of(CALL) if not piece.more]


def test_the_last_piece_of_a_call_needs_no_more_credit_than_it_has_bytes() -> None:
    """A peer that keeps 100,000 bytes takes a call of 90,000."""

    async def scene() -> None:
        async with with_bare(bytes_max=100_000) as (side, bare):
            call = side.wire.begin("c", bytes(90_000))
            await until(lambda: bare.pieces)
            await sent_all_it_may(side)
            bare.says()
            await turns(50)
            sent = bare.bytes
            side.line.abort()
            assert isinstance(await outcome(call.answer), Lost)
            assert sent == 90_000, "the rest never leaves, though there is credit for it"

    run(scene)
