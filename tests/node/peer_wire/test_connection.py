"""Calls on one connection: both ways, in any order, gathered in frames, large beside small."""

import asyncio
from collections.abc import Callable

import pytest

from node.peer_wire.connection import Answered, Lost, Reply
from node.peer_wire.frame import ANSWER, CALL, CANCEL, FRAME_MAX, PIECE_MAX, Piece
from tests.node.peer_wire.pair import TERM, Desk, outcome, pair, run, with_bare
from tests.waiting import turns, until

LARGE = bytes(range(256)) * 65_536  # 16 MiB: more than sockets hold


def test_calls_go_both_ways_at_once() -> None:
    """Each node makes 300 calls; each answer is that of its call, with the node and the term of who gave it."""

    async def scene() -> None:
        async with pair() as (one, two):
            calls = [(side, side.wire.begin(f"c{n}", bytes([n % 251]) * n)) for n in range(300) for side in (one, two)]
            for at, (side, call) in enumerate(calls):
                n = at // 2
                answered = await call.answer
                assert answered.frame == b"c%d(" % n + bytes([n % 251]) * n + b")"
                assert (answered.node, answered.term) == ("n2" if side is one else "n1", TERM)
            assert one.wire.at_rest
            assert two.wire.at_rest

    run(scene)


def test_answers_come_in_any_order() -> None:
    """The last call is answered first; the others wait on."""

    async def scene() -> None:
        desk = Desk()
        async with pair(two=desk.serve) as (one, _):
            calls = [one.wire.begin("wait", b"%d" % n) for n in range(3)]
            asked = await desk.has(3)
            for n in (2, 0, 1):
                assert not calls[n].answer.done()
                asked[n].answers(b"answer %d" % n)
                assert (await calls[n].answer).frame == b"answer %d" % n

    run(scene)


def test_all_that_a_turn_says_leaves_in_one_frame() -> None:
    """Calls, answers to calls that came together, and the end of a wait."""

    async def scene() -> None:
        async with with_bare() as (side, bare):
            waiting = [side.wire.begin("wait", b"x") for _ in range(100)]
            await until(lambda: bare.of(CALL))
            assert [piece.number for piece in bare.heads[0].pieces] == list(range(1, 101))
            assert {piece.name for piece in bare.heads[0].pieces} == {"wait"}
            bare.says(*(Piece(CALL, n, 1, name="echo") for n in (1, 2, 3)), data=b"abc")
            await until(lambda: bare.of(ANSWER))
            assert [piece.number for piece in bare.heads[1].pieces] == [1, 2, 3]
            side.wire.end(waiting[4])
            waiting += [side.wire.begin("wait", b"y")]
            await until(lambda: bare.of(CANCEL))
            assert [(piece.kind, piece.number) for piece in bare.heads[2].pieces] == [(CANCEL, 5), (CALL, 101)]
            assert [head.number for head in bare.heads] == [1, 2, 3]
            side.line.abort()
            assert all([isinstance(await outcome(call.answer), Lost) for call in waiting])

    run(scene)


def test_a_large_call_and_its_large_answer_arrive_whole() -> None:
    """Of more than a frame, in both directions at once."""

    async def scene() -> None:
        async with pair() as (one, two):
            asking = [side.wire.begin("big", LARGE).answer for side in (one, two)]
            for answer in asking:
                assert (await answer).frame == b"big(" + LARGE + b")"

    run(scene)


def test_small_calls_go_between_the_pieces_of_a_large_one() -> None:
    """The other side does not read for a while: a call made meanwhile does not wait for the rest of the large one."""

    async def scene() -> None:
        async with with_bare() as (side, bare):
            bare.stop_reading()
            large = side.wire.begin("large", LARGE)
            await until(lambda: not side.line.writable)
            small = side.wire.begin("small", b"x")
            bare.go_on_reading()
            await until(lambda: bare.bytes == len(LARGE) + 1)
            assert [piece.number for piece in bare.pieces if not piece.more] == [2, 1]
            assert all(piece.size == PIECE_MAX for piece in bare.pieces if piece.more)
            assert max(sum(piece.size for piece in head.pieces) for head in bare.heads) <= FRAME_MAX
            side.line.abort()
            assert [(await outcome(call.answer)).begun for call in (large, small)] == [True, True]

    run(scene)


@pytest.mark.parametrize("small_is", ["answer", "call"])
def test_small_ones_go_between_the_pieces_of_a_large_answer(small_is: str) -> None:
    """Other answers, and calls of this node."""

    async def scene() -> None:
        desk = Desk()
        async with with_bare(desk.serve) as (side, bare):
            bare.stop_reading()
            bare.calls(1)
            bare.calls(2)
            large, small = await desk.has(2)
            large.answers(LARGE)
            await until(lambda: not side.line.writable)
            if small_is == "answer":
                small.answers(b"x")
            else:
                call = side.wire.begin("small", b"x")
            bare.go_on_reading()
            await until(lambda: bare.bytes == len(LARGE) + 1)
            first = next(piece for piece in bare.pieces if not piece.more)
            assert first.size == 1, "it came behind the large one"
            side.line.abort()
            if small_is == "call":
                assert isinstance(await outcome(call.answer), Lost)

    run(scene)


def test_what_leaves_is_asked_right_before_it_does() -> None:
    """Not when the answer is ready: another one may go in its place, small for large."""

    async def scene() -> None:
        desk, may = Desk(), True
        async with pair(two=desk.serve) as (one, two):
            calls = [one.wire.begin("pull", b"") for _ in range(2)]
            asked = await desk.has(2)
            two.line.pause_writing()  # as asyncio says that the socket takes no more
            for each in asked:
                each.answers(bytes(100_000), leaves=lambda: b"handed over" if may else b"refused")
            await turns()
            may = False
            two.line.resume_writing()
            assert [(await call.answer).frame for call in calls] == [b"refused", b"refused"]

    run(scene)


def test_a_call_that_is_ended_is_cancelled_where_it_is_served() -> None:
    """It is answered all the same, so that its place is free again; others go on."""

    async def scene() -> None:
        desk = Desk()
        async with pair(two=desk.serve) as (one, two):
            ended, other = [one.wire.begin("wait", b"") for _ in range(2)]
            asked = await desk.has(2)
            one.wire.end(ended)
            assert b"nobody waits" in (await ended.answer).frame
            assert asked[0].reply.cancelled()
            one.wire.end(ended)  # it has ended
            asked[1].answers(b"done")
            assert (await other.answer).frame == b"done"
            assert two.wire.at_rest

    run(scene)


def test_a_call_that_is_ended_before_it_was_read_is_answered_too() -> None:
    """Both came in one read: nothing is carried out, and nothing of it is left on either side."""

    async def scene() -> None:
        desk = Desk()
        async with with_bare(desk.serve) as (side, bare):
            bare.says(Piece(CALL, 1, name="wait"), Piece(CANCEL, 1))
            bare.calls(2, name="other")
            await until(lambda: desk.asked and desk.asked[-1].name == "other")
            desk.asked[-1].answers(b"")
            await until(lambda: 2 in bare.answered)
            assert bare.answered == [1, 2], "the call that was ended at once is never answered"
            assert side.wire.at_rest

    run(scene)


def test_a_call_that_is_ended_before_it_leaves_is_not_sent() -> None:
    """Who waited for it hears that it did not begin."""

    async def scene() -> None:
        async with with_bare() as (side, bare):
            small, large = side.wire.begin("a", b""), side.wire.begin("b", bytes(100_000))
            side.wire.end(small)
            side.wire.end(large)
            for call in (small, large):
                lost = await outcome(call.answer)
                assert isinstance(lost, Lost)
                assert not lost.begun
            third = side.wire.begin("c", b"")
            await until(lambda: bare.of(CALL))
            assert [(piece.name, piece.number) for piece in bare.pieces] == [("c", 1)]
            bare.says(Piece(ANSWER, 1))
            await third.answer
            assert side.wire.at_rest

    run(scene)


@pytest.mark.parametrize("by", ["end", "give_up", "give_up half sent"])
def test_what_comes_when_nobody_waits_is_told_as_late(by: str) -> None:
    """By whom the wait was left, or by a call that was given up, whose waiter has heard so at once."""

    async def scene() -> None:
        late: list[Answered] = []
        async with with_bare() as (side, bare):
            frame = LARGE if by == "give_up half sent" else b""
            bare.stop_reading()
            call = side.wire.begin("pull", frame)
            call.late = late.append
            await until(lambda: call.outgoing.number)
            if by == "end":
                call.answer.cancel()
                side.wire.end(call)
            else:
                side.wire.give_up(call, "another node leads now")
                lost = await outcome(call.answer)
                assert (str(lost), lost.begun) == ("another node leads now", True)
            bare.go_on_reading()
            await until(lambda: bare.bytes == len(frame) and (frame or bare.of(CANCEL)))
            bare.says(Piece(ANSWER, 1, 4, term=3), data=b"late")
            await until(lambda: late)
            assert late == [Answered(b"late", "n2", 3)]
            assert len(bare.of(CANCEL)) == (by != "give_up half sent"), "one that is half sent is not cancelled"
            assert side.wire.at_rest

    run(scene)


def test_a_call_that_is_given_up_before_it_leaves_did_not_begin() -> None:
    """It may be asked of another node."""

    async def scene() -> None:
        async with with_bare() as (side, bare):
            call = side.wire.begin("schedule", b"")
            side.wire.give_up(call, "another node leads now")
            assert not (await outcome(call.answer)).begun
            side.wire.ping()
            await until(lambda: bare.heads)
            assert not bare.pieces

    run(scene)


def test_when_the_connection_ends_each_call_hears_whether_it_had_begun() -> None:
    """One was sent, one is half on its way, one has not left; later ones are refused."""

    async def scene() -> None:
        async with with_bare() as (side, bare):
            sent = side.wire.begin("sent", b"")
            await until(lambda: bare.pieces)
            bare.stop_reading()
            half = side.wire.begin("half", LARGE)
            await until(lambda: not side.line.writable)
            waits = side.wire.begin("waits", b"")
            await turns()
            bare.line.abort()
            lost = [await outcome(call.answer) for call in (sent, half, waits)]
            assert [each.begun for each in lost] == [True, True, False]
            assert not side.wire.usable
            with pytest.raises(Lost, match="no connection with n2") as refused:
                side.wire.begin("more", b"")
            assert not refused.value.begun
            side.wire.end(sent)
            side.wire.leave()
            side.wire.ping()

    run(scene)


def test_when_the_connection_ends_what_it_served_ends() -> None:
    """Calls under way are cancelled. Each answer of which nothing was sent is told so, once: also one that comes after
    the end; not one that was sent, or half."""

    async def scene() -> None:
        desk, dropped = Desk(), []

        async def serve(name: str, frame: bytes, full: Callable[[], bool]) -> Reply:
            try:
                return await desk.serve(name, frame, full)
            except asyncio.CancelledError:
                return Reply(b"after all", dropped=lambda: dropped.append("cancelled"))

        async with with_bare(serve, bytes_max=66_000) as (side, bare):
            for number in range(1, 6):
                bare.calls(number)
            asked = await desk.has(5)
            for at, size in enumerate((10, 66_000, 65_900, 66_000)):
                asked[at].answers(bytes(size), dropped=lambda at=at: dropped.append(at))
                await turns()
            await until(lambda: bare.answered == [1])
            await until(lambda: len(bare.of(ANSWER)) == 2)  # of the second a piece
            bare.line.abort()
            await until(lambda: side.ended)
            await until(lambda: asked[4].reply.cancelled())
            await turns()
            assert sorted(dropped, key=str) == [2, 3, "cancelled"]

    run(scene)
