"""What does not fit: the connection is closed, with one line that names it, and nothing else is changed."""

import asyncio
from collections.abc import Awaitable, Callable

import google_crc32c
import pytest

import node.peer_wire.connection as limits
from node.peer_wire.frame import ANSWER, CALL, CANCEL, LEAVE, NAME_MAX, PIECE_MAX, PIECES_MAX, Head, Piece, write_frame
from node.port.codec import encode
from replication.wire.frame import HEADER, seal
from replication.wire.link import Connection
from tests.node.peer_wire.pair import Bare, Desk, Side, outcome, pair, run, with_bare
from tests.waiting import until

Says = Callable[[Bare], None]


def raw(bare: Bare, packed: bytes, data: bytes = b"", crc: int | None = None) -> None:
    """Send a frame of these bytes, with a right checksum unless it is given."""
    found = google_crc32c.value(packed + data)
    size = HEADER.size + len(packed) + len(data)
    bare.line.write([HEADER.pack(size, len(packed), found if crc is None else crc) + packed + data])


async def refused(side: Side, bare: Bare, why: str) -> None:
    """The connection is closed from that side, which says why in one line, once."""
    await bare.line.closed
    await side.line.closed
    assert len(side.said) == 1, side.said
    assert side.said[0].startswith("closing the connection with ")
    assert why in side.said[0]
    assert "\n" not in side.said[0]


def refuses(says: Says, why: str) -> None:
    """A node serves nothing of this, whose call under way may have been carried out. Its other connections go on."""

    async def scene() -> None:
        desk = Desk()
        async with pair() as (other, _), with_bare(desk.serve) as (side, bare):
            call = side.wire.begin("own", b"")
            await until(lambda: bare.pieces)
            says(bare)
            await refused(side, bare, why)
            lost = await outcome(call.answer)
            assert isinstance(lost, limits.Lost)
            assert lost.begun
            assert all(asked.reply.cancelled() for asked in desk.asked)
            assert await other.ask("c") == b"c()"

    run(scene)


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        ((1, 1), "frame 1 comes where 2 is next"),
        ((2,), "frame 2 comes where 1 is next"),
        ((1, 3, 2), "frame 3 comes where 2 is next"),
        ((0,), "frame 0 comes where 1 is next"),
    ],
    ids=["repeated", "skipped", "out of order", "none"],
)
def test_frames_come_once_and_in_order(numbers: tuple[int, ...], why: str) -> None:
    """By their numbers. What is refused is not served, nor what comes behind it."""

    def says(bare: Bare) -> None:
        for number in numbers:
            bare.says(number=number)

    refuses(says, why)


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (lambda bare: raw(bare, encode(Head(1, 0, []))[:-1] + b"\x91", crc=0), "checksum"),
        (lambda bare: raw(bare, encode(Head(1, 0, [Piece(CALL, 1, 2, name="c")])), b"ab", crc=1), "checksum"),
        (lambda bare: raw(bare, encode(Head(1, 0, [Piece(CANCEL, 0, 5)])), b"abcd"), "4 bytes, of pieces with 5"),
        (lambda bare: raw(bare, encode(Head(1, 0, [Piece(CANCEL, 0, 3)])), b"abcd"), "4 bytes, of pieces with 3"),
        (lambda bare: raw(bare, encode(Head(1, 0, [])), b"abcd"), "4 bytes, of pieces with 0"),
        (lambda bare: bare.says(Piece(LEAVE + 1, 1)), "Head.pieces"),
        (lambda bare: bare.says(Piece(0, 1)), "Head.pieces"),
        (lambda bare: bare.says(Piece(CALL, -1, name="c")), "Head.pieces"),
        (lambda bare: bare.says(Piece(CALL, 1, PIECE_MAX + 1, name="c"), data=bytes(PIECE_MAX + 1)), "Head.pieces"),
        (lambda bare: bare.says(Piece(CALL, 1, name="c" * (NAME_MAX + 1))), "Head.pieces"),
        (lambda bare: bare.says(*[Piece(CANCEL, 0)] * (PIECES_MAX + 1)), "Head.pieces"),
        (lambda bare: raw(bare, b"\x94\x01\x00\x90\x07"), "Head"),
        (lambda bare: raw(bare, b"\xc1garbage"), "Head"),
        (lambda bare: raw(bare, b"\x93\x01\x00\x91\x96\x01\x01\x00\xc2\xa1\xff\x00"), "Head"),
        (lambda bare: bare.line.write([b"GET / HTTP/1.1\r\n\r\n"]), "frame of"),
        (lambda bare: bare.line.write([HEADER.pack(17 << 20, 10, 0)]), "frame of"),
    ],
)  # fmt: skip
def test_frames_that_are_none(says: Says, why: str) -> None:
    """A checksum that is wrong, sizes that do not add up, a kind, a size or a name that is none, or no frame at all."""
    refuses(says, why)


@pytest.mark.parametrize("number", [0, 2, 1 << 40])
def test_an_answer_to_a_call_that_was_never_made(number: int) -> None:
    """Of a number that this side has not given yet."""
    refuses(lambda bare: bare.says(Piece(ANSWER, number)), f"an answer to call {number}, which does not wait for one")


def test_an_answer_that_comes_twice() -> None:
    """The first one counts: who asked has it."""

    async def scene() -> None:
        async with with_bare() as (side, bare):
            call = side.wire.begin("own", b"")
            await until(lambda: bare.pieces)
            bare.says(Piece(ANSWER, 1, 3), data=b"one")
            bare.says(Piece(ANSWER, 1, 3), data=b"two")
            await refused(side, bare, "an answer to call 1, which does not wait for one")
            assert (await call.answer).frame == b"one"

    run(scene)


def test_an_answer_to_a_call_that_is_half_sent() -> None:
    """Nobody can have read it."""

    async def scene() -> None:
        async with with_bare() as (side, bare):
            bare.stop_reading()
            call = side.wire.begin("own", bytes(16 * 1024 * 1024))
            await until(lambda: not side.line.writable)
            bare.says(Piece(ANSWER, 1))
            await side.line.closed
            bare.go_on_reading()
            await refused(side, bare, "an answer to call 1, which does not wait for one")
            assert isinstance(await outcome(call.answer), limits.Lost)

    run(scene)


@pytest.mark.parametrize(
    ("pieces", "why"),
    [
        ([Piece(CALL, 1, name="c"), Piece(CALL, 1, name="c")], "call 1 is made twice"),
        ([Piece(CALL, 1, name="c"), Piece(CALL, 1)], "call 1 is made twice"),
        ([Piece(CALL, 1, 3, more=True, name="c"), Piece(CALL, 1, name="c")], "call 1 is made twice"),
        ([Piece(CALL, 2, name="c")], "a piece of call 2, where 1 is next"),
        ([Piece(CALL, 1, name="c"), Piece(CALL, 3, name="c")], "a piece of call 3, where 2 is next"),
        ([Piece(CALL, 0, name="c")], "a piece of call 0, where 1 is next"),
        ([Piece(CALL, 1)], "a piece of call 1, where 1 is next"),
        ([Piece(CANCEL, 1)], "call 1 is cancelled, which was never made"),
        ([Piece(CALL, 1, name="c"), Piece(CANCEL, 2)], "call 2 is cancelled, which was never made"),
    ],
)
def test_calls_are_numbered_without_gaps(pieces: list[Piece], why: str) -> None:
    """No number comes twice, none is left out, each begins with a name, and only a call that was made is cancelled."""
    refuses(lambda bare: bare.says(*pieces, data=bytes(sum(piece.size for piece in pieces))), why)


def test_a_number_is_not_given_again_when_its_call_is_answered() -> None:
    """The answer stands, and a cancel that comes behind it is none of a stranger's: it crossed the answer."""

    async def scene() -> None:
        async with with_bare() as (side, bare):
            bare.calls(1)
            await until(lambda: bare.answered == [1])
            bare.says(Piece(CANCEL, 1))
            bare.calls(2)
            await until(lambda: bare.answered == [1, 2])
            bare.calls(1)
            await refused(side, bare, "a piece of call 1, where 3 is next")

    run(scene)


@pytest.mark.parametrize("taken", [[6, 5], [7], [6, 7], [1 << 60]], ids=["back", "beyond", "later beyond", "far"])
def test_credit_is_for_what_was_sent(taken: list[int]) -> None:
    """Never less than before, and never more than the answer of six bytes."""

    async def scene() -> None:
        async with with_bare() as (side, bare):
            bare.calls(1)
            await until(lambda: bare.answered == [1])
            assert bare.bytes == 6
            for each in taken:
                bare.says(taken=each)
            await refused(side, bare, f"{taken[-1]} bytes of answers are said to be read")

    run(scene)


Sends = Callable[[Bare], Awaitable[None]]


async def calls_of_many_bytes(bare: Bare) -> None:
    """One that fits, and one beyond."""
    bare.calls(1, bytes(1000))
    bare.calls(2, b"x")


async def pieces_of_many_bytes(bare: Bare) -> None:
    """A call without an end."""
    for number in range(1, 4):
        bare.says(Piece(CALL, 1, 400, True, "c" if number == 1 else ""), data=bytes(400))


async def many_calls(bare: Bare) -> None:
    """In one frame."""
    bare.says(*(Piece(CALL, number, name="c") for number in range(1, 6)))


async def a_large_answer(bare: Bare) -> None:
    """In one frame."""
    bare.says(Piece(ANSWER, 1, 1001), data=bytes(1001))


async def an_answer_without_end(bare: Bare) -> None:
    """In pieces, each within the credit of what was read."""
    for _ in range(100):
        if not bare.line.alive:
            return
        bare.says(Piece(ANSWER, 1, 300, True), data=bytes(300))
        await told(bare)


async def answers_without_end(bare: Bare) -> None:
    """Several at once, each within bounds."""
    for number in (1, 2, 3):
        for _ in range(3):
            bare.says(Piece(ANSWER, number, 300, True), data=bytes(300))
            await told(bare)


async def empty_pieces(bare: Bare) -> None:
    """Of a call without an end: they cost no credit."""
    bare.says(Piece(CALL, 1, 0, True, "c"))
    bare.says(*[Piece(CALL, 1, 0, True)] * 4000)
    bare.calls(2)
    await until(lambda: not bare.line.alive or 2 in bare.answered)


async def told(bare: Bare) -> None:
    """Wait until the other side has said that it has read so much, or is gone."""
    heard = len(bare.heads)
    await until(lambda: not bare.line.alive or len(bare.heads) > heard)


@pytest.mark.parametrize(
    ("sends", "why"),
    [
        (calls_of_many_bytes, "2 calls of 1001 bytes, without credit"),
        (pieces_of_many_bytes, "1 calls of 1200 bytes, without credit"),
        (many_calls, "5 calls of 0 bytes, without credit"),
        (a_large_answer, "answers of 1001 bytes, without credit"),
        (an_answer_without_end, ""),
        (answers_without_end, ""),
        (empty_pieces, ""),
    ],
)
def test_nobody_keeps_more_than_it_said(monkeypatch: pytest.MonkeyPatch, sends: Sends, why: str) -> None:
    """This side keeps 1,000 bytes and four calls: a peer that sends more loses the connection, however it does it."""
    monkeypatch.setattr(limits, "BYTES_MAX", 1000)
    monkeypatch.setattr(limits, "TOLD_AT", 250)
    monkeypatch.setattr(limits, "CALLS_MAX", 4)

    async def scene() -> None:
        async with with_bare(Desk().serve if why else _at_once) as (side, bare):
            calls = [side.wire.begin("own", b"") for _ in range(3)]
            await until(lambda: bare.pieces)
            await sends(bare)
            survived = bare.line.alive and not side.said and not why
            if survived:
                side.line.abort()
            assert all([isinstance(await outcome(call.answer), limits.Lost) for call in calls])
            assert not survived, "it keeps all of it"
            await refused(side, bare, why)

    run(scene)


def test_what_is_answered_is_kept_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that waits for its answers may send as much again, for ever."""
    monkeypatch.setattr(limits, "BYTES_MAX", 1000)

    async def scene() -> None:
        async with with_bare(_at_once) as (side, bare):
            for number in range(1, 6):
                bare.calls(number, bytes(900))
                await until(lambda number=number: number in bare.answered or side.said)  # type: ignore[misc]
            assert side.said == []

    run(scene)


async def _at_once(*_: object) -> limits.Reply:
    return limits.Reply(b"")


def test_what_comes_behind_a_violation_is_not_read() -> None:
    """In the same bytes: one line is said, and the call behind it is not made."""

    async def scene() -> None:
        desk = Desk()
        async with with_bare(desk.serve) as (side, bare):
            frames = [write_frame(n, 0, [Piece(CALL, 1, name="c")], []) for n in (2, 1, 2, 3)]
            bare.line.write([b"".join(b"".join(frame) for frame in frames)])
            await refused(side, bare, "frame 2 comes where 1 is next")
            assert not desk.asked

    run(scene)


def test_a_frame_may_not_be_larger_than_a_frame_of_raft() -> None:
    """Before a greeting it may have 8 KiB; then so much, which one of 4 MiB has not."""

    async def scene() -> None:
        async with with_bare() as (side, bare):
            bare.says(*(Piece(CALL, n, PIECE_MAX, n < 1, "c") for n in range(1, 65)), data=bytes(64 * PIECE_MAX))
            await until(lambda: len(bare.answered) == 64)
            assert not side.said

    run(scene)


def test_a_connection_that_is_closing_takes_nothing() -> None:
    """Nor does it fail."""

    async def scene() -> None:
        async with with_bare() as (side, bare):
            bare.calls(1)
            side.wire.abort()
            await side.line.closed
            await asyncio.wait_for(asyncio.shield(bare.line.closed), 5)
            assert (side.said, bare.heads) == ([], [])

    run(scene)


def test_the_control() -> None:
    """What this file calls a frame with its own hands is one that is taken."""

    async def scene() -> None:
        async with with_bare() as (_, bare):
            raw(bare, encode(Head(1, 0, [Piece(CALL, 1, 4, name="c")])), b"abcd")
            await until(lambda: bare.answered == [1])
            line: Connection = bare.line
            line.write(seal(encode(Head(2, 0, []))))
            bare._sent = 2
            bare.calls(2)
            await until(lambda: bare.answered == [1, 2])

    run(scene)
