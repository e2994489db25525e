"""What other nodes ask of a group: carried out, or refused; and hand-overs that leave within their window alone."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from api.port.problem import Problem
from node.peer_wire.connection import Reply
from node.peer_wire.served_group import ServedGroup
from node.port.codec import encode
from node.port.group_frames import Nothing, read_answer, refusal_of
from node.port.group_port import GroupPort
from node.port.message_port import CancelAsked, MessageAsked
from node.port.pull_port import Claims, PullAsked, claims_of, stays
from tests.node.peer_wire.group import LEASE_END_MS, TERM, Group, handed_over
from tests.node.peer_wire.pair import run, with_bare
from tests.waiting import turns, until

PULL = encode(PullAsked(5, "mail", 10, 20_000))


class Scene:
    """A group that is served, at a second of its clock."""

    def __init__(self) -> None:
        self.group, self.now_s = Group(), 10.0
        self.port: Callable[[], GroupPort] = lambda: self.group.port
        self.served = ServedGroup(lambda: self.port(), lambda: TERM + 1, itertools.count(41), lambda: self.now_s)

    async def asks(self, name: str, frame: bytes, full: Callable[[], bool] = stays) -> Reply:
        """A call that is answered at once."""
        return await self.served.answer(name, frame, full)

    async def pulls(self, *bodies: bytes) -> Reply:
        """A pull that is handed so much."""
        pulling = asyncio.ensure_future(self.served.answer("pull", PULL, stays))
        await until(lambda: self.group.answers)
        self.group.answers[-1].set_result(handed_over(*bodies))
        return await pulling


def code_of(frame: bytes) -> str:
    """Of a refusal; "" of an answer."""
    refusal = refusal_of(frame)
    return refusal.code if refusal is not None else ""


def test_a_call_is_carried_out_and_answered_with_the_term() -> None:
    """Its answer, or its refusal, which is the same problem on the other side."""

    async def scene() -> None:
        play = Scene()
        reply = await play.asks("cluster", encode(Nothing()))
        assert read_answer("cluster", reply.frame) == await play.group.cluster()
        assert reply.term == TERM + 1
        reply = await play.asks("message", encode(MessageAsked("m1")))
        with pytest.raises(Problem, match="unknown-message: no m1"):
            read_answer("message", reply.frame)
        assert reply.term == TERM + 1
        assert reply.leaves is None

    run(scene)


@pytest.mark.parametrize("name", ["unheard_of", "", "attach", "give_back", "end_wait", "__class__", "_answer"])
def test_a_call_that_this_build_does_not_know(name: str) -> None:
    """Of a later build: refused by name, nothing is called."""

    async def scene() -> None:
        play = Scene()
        refusal = refusal_of((await play.asks(name, b"")).frame)
        assert refusal is not None
        assert refusal.code == "not-supported-yet"
        assert f"this node knows no call {name}" in refusal.detail

    run(scene)


@pytest.mark.parametrize("name", ["cluster", "pull"])
def test_a_group_that_is_gone(name: str) -> None:
    """It is being opened again: `no-leader`, which another node may be asked about."""

    async def scene() -> None:
        play = Scene()

        def gone() -> GroupPort:
            raise Problem("no-leader", "it is being opened")

        play.port = gone
        assert code_of((await play.asks(name, PULL)).frame) == "no-leader"

    run(scene)


def test_what_fails_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    """No exception crosses, and the connection stands: the log of this node has it."""

    async def scene() -> None:
        play = Scene()
        for name, frame in (("pull", PULL), ("cancel", encode(CancelAsked("m1")))):
            asking = asyncio.ensure_future(play.asks(name, frame))
            await until(lambda: play.group.answers and not play.group.answers[-1].done())
            play.group.answers[-1].set_exception(ZeroDivisionError())
            assert code_of((await asking).frame) == "internal"
        assert [record.exc_info is not None for record in caplog.records] == [True, True]

    run(scene)


@pytest.mark.parametrize("name", ["pull", "cancel", "message"])
@pytest.mark.parametrize("frame", [b"\xc1", b"\x91\x01", b""])
def test_what_cannot_be_read_is_refused(name: str, frame: bytes) -> None:
    """By the type that is asked for; the group is not asked."""

    async def scene() -> None:
        play = Scene()
        assert code_of((await play.asks(name, frame)).frame) == "internal"
        assert play.group.pulls == []
        assert play.group.answers == []

    run(scene)


def test_a_pull_waits_under_a_number_of_this_process() -> None:
    """Two nodes number theirs alike. `full` stands for a client that has gone."""

    async def scene() -> None:
        play = Scene()
        pulling = [asyncio.ensure_future(play.asks("pull", PULL, stays)) for _ in range(2)]
        await until(lambda: len(play.group.answers) == 2)
        assert [(asked.number, asked.topic, asked.most) for asked in play.group.pulls] == [
            (41, "mail", 10), (42, "mail", 10)
        ]  # fmt: skip
        assert play.group.gone == [stays, stays]
        for answer in play.group.answers:
            answer.set_result(handed_over())
        for reply in await asyncio.gather(*pulling):
            assert encode(read_answer("pull", reply.frame)) == encode(handed_over())
            assert reply.leaves is None
            reply.dropped()
        assert play.group.given_back == []

    run(scene)


def test_what_is_handed_over_leaves_within_its_window() -> None:
    """It is asked right before the answer does, each time."""

    async def scene() -> None:
        play = Scene()
        reply = await play.pulls(b"one", b"two")
        assert reply.leaves is not None
        assert reply.leaves() == reply.frame
        assert encode(read_answer("pull", reply.frame)) == encode(handed_over(b"one", b"two"))
        assert play.group.given_back == []

    run(scene)


def test_a_hand_over_leaves_in_its_step() -> None:
    """In the next one the term has ended: what leaves then would have to be given back."""

    async def scene() -> None:
        play = Scene()
        async with with_bare(play.served.answer) as (_, bare):
            bare.calls(1, PULL, "pull")
            await until(lambda: play.group.answers)
            play.group.answers[0].set_result(handed_over(b"one"))
            asyncio.get_running_loop().call_soon(play.group.window.close)  # behind the step that this wakes
            await until(lambda: bare.answered == [1])
            assert play.group.given_back == []

    run(scene)


@pytest.mark.parametrize("why", ["closed", "another term", "trust is over", "lease is over"])
def test_what_is_handed_over_outside_of_its_window_is_given_back(why: str) -> None:
    """And the answer is a refusal, which says that nothing came of it."""

    async def scene() -> None:
        play = Scene()
        reply = await play.pulls(b"one", b"two")
        assert reply.leaves is not None
        window = play.group.window
        if why == "closed":
            window.close()
        elif why == "another term":
            window.open(TERM + 1, float("inf"), 0.0)
        elif why == "trust is over":
            window.open(TERM, play.now_s, 0.0)
        else:
            play.now_s = LEASE_END_MS / 1000
        assert code_of(reply.leaves()) == "outcome-unknown"
        assert play.group.given_back == [Claims("mail", claims_of(handed_over(b"one", b"two")))]

    run(scene)


def test_what_is_handed_over_and_not_sent_is_given_back() -> None:
    """The connection ended before."""

    async def scene() -> None:
        play = Scene()
        reply = await play.pulls(b"one")
        reply.dropped()
        assert play.group.given_back == [Claims("mail", claims_of(handed_over(b"one")))]

    run(scene)


def test_a_pull_that_is_ended_is_cancelled_in_the_group() -> None:
    """It has handed over nothing then."""

    async def scene() -> None:
        play = Scene()
        pulling = asyncio.ensure_future(play.asks("pull", PULL))
        await until(lambda: play.group.answers)
        pulling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pulling
        assert play.group.answers[0].cancelled()
        assert play.group.given_back == []

    run(scene)


@pytest.mark.parametrize("ends", ["window", "connection"])
def test_on_a_connection(ends: str) -> None:
    """The answer to a pull waits for credit. The term or the connection ends meanwhile: it is given back, once."""

    async def scene() -> None:
        play = Scene()
        async with with_bare(play.served.answer, bytes_max=500) as (side, bare):
            bare.calls(1, PULL, "pull")
            bare.calls(2, PULL, "pull")
            await until(lambda: len(play.group.answers) == 2)
            play.group.answers[0].set_result(handed_over(bytes(300)))
            await until(lambda: bare.answered == [1])
            play.group.answers[1].set_result(handed_over(bytes(300)))
            await turns()
            assert play.group.given_back == []
            if ends == "window":
                play.group.window.close()
                bare.says(taken=bare.bytes)
                await until(lambda: bare.answered == [1, 2])
            bare.line.abort()
            await until(lambda: side.ended)
            assert play.group.given_back == [Claims("mail", claims_of(handed_over(bytes(300))))]

    run(scene)


def test_a_peer_that_asks_and_does_not_read_is_not_answered_without_end() -> None:
    """Reads hold as much as pulls do: beyond what it keeps, and as much again, nothing more is found for it."""

    async def scene() -> None:
        play = Scene()
        play.group.message = _large  # type: ignore[method-assign]
        async with with_bare(play.served.answer, bytes_max=2000) as (side, bare):
            for number in range(1, 41):
                bare.calls(number, encode(MessageAsked("m")), "message")
                await turns(3)
            await until(lambda: side.wire._newest == 40)
            await turns()
            kept = side.wire._answers_out.bytes
            side.line.abort()
            assert kept <= 5000 + 40 * 150, "all that it asked for is kept"

    run(scene)


async def _large(asked: MessageAsked) -> Any:
    raise Problem("unknown-message", "m" * 1000)
