"""The whole way, on sockets: a front on one node, and the group on another that leads it."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from api.port.problem import Problem
from node.peer_wire.served_group import ServedGroup
from node.peer_wire.to_leader import ToLeader
from node.port.codec import encode
from node.port.group_frames import FramedGroup
from node.port.message_port import CancelAsked, MessageAsked
from node.port.pull_port import Claims, PullAsked, claims_of
from node.port.trust_window import SentWindow
from tests.node.peer_wire.group import Group, handed_over
from tests.node.peer_wire.pair import echo, run
from tests.node.peer_wire.wires import Node, nodes
from tests.waiting import until

PULL = PullAsked(4, "mail", 10, 20_000)


class Through:
    """n1 asks, n2 leads."""

    def __init__(self, one: Node, two: Node, leading: Group) -> None:
        self.one, self.two, self.leading = one, two, leading
        one.status = replace(one.status, leader="n2", leader_http="n2:80")
        self.to_leader = ToLeader(lambda: one.status, lambda: Group().port, one.wire, asyncio.get_running_loop().time)
        self.group = FramedGroup(0, SentWindow(), self.to_leader)

    async def pulling(self, count: int = 1) -> list[asyncio.Task[Any]]:
        """So many pulls wait at the leader."""
        pulls = [asyncio.ensure_future(self.group.pull(replace(PULL, number=number))) for number in range(1, count + 1)]
        await until(lambda: len(self.leading.answers) == count)
        return pulls


@contextlib.asynccontextmanager
async def through() -> AsyncIterator[Through]:
    """Two nodes, and a group that is led on the second."""
    leading = Group()
    served = ServedGroup(lambda: leading.port, lambda: 7, itertools.count(1), lambda: 10.0)
    async with nodes(echo, served.answer) as (one, two):
        yield Through(one, two, leading)


def test_calls_reach_the_group_and_its_answers_come_back() -> None:
    """An answer, a refusal, and what is handed over."""

    async def scene() -> None:
        async with through() as way:
            assert (await way.group.cluster()).members == {"node": "n2"}  # type: ignore[union-attr]
            with pytest.raises(Problem, match="unknown-message: no m1"):
                await way.group.message(MessageAsked("m1"))
            (pull,) = await way.pulling()
            way.leading.answers[0].set_result(handed_over(b"one"))
            assert encode(await pull) == encode(handed_over(b"one"))
            assert len(way.one.connections) == 1

    run(scene)


def test_a_consumer_that_goes_ends_its_pull_at_the_leader() -> None:
    """The others wait on; nothing is pulled in its place."""

    async def scene() -> None:
        async with through() as way:
            pulls = await way.pulling(3)
            pulls[1].cancel()
            await until(lambda: way.leading.answers[1].cancelled())
            await until(lambda: len(way.to_leader._waits) == 2 or len(way.leading.pulls) > 3)
            assert len(way.leading.pulls) == 3, "it is pulled again, for nobody"
            assert [answer.done() for answer in way.leading.answers] == [False, True, False]
            for at in (0, 2):
                way.leading.answers[at].set_result(handed_over(b"one"))
                assert (await pulls[at]).bodies == [b"one"]

    run(scene)


def test_many_consumers_that_go_at_once_leave_nothing_behind() -> None:
    """In whatever step of their pull each of them is."""

    async def scene() -> None:
        async with through() as way:
            await way.group.cluster()
            pulls = []
            for number in range(1, 61):
                pulls.append(asyncio.ensure_future(way.group.pull(replace(PULL, number=number))))
                await asyncio.sleep(0)
                if number > 3:
                    pulls[number - 4].cancel()
            for pull in pulls:
                pull.cancel()
            await asyncio.gather(*pulls, return_exceptions=True)
            (connection,) = way.one.connections
            way.one.status = replace(way.one.status, leader=None, leader_http=None)  # whoever asks again waits
            await until(lambda: connection.at_rest, within_s=2, what="no call is under way any more")

    run(scene)


def test_a_node_that_goes_ends_its_pulls_at_the_leader() -> None:
    """What was about to be handed over is given back."""

    async def scene() -> None:
        async with through() as way:
            pulls = await way.pulling(2)
            (connection,) = way.two.connections
            connection._line.pause_writing()
            way.leading.answers[0].set_result(handed_over(b"one"))
            await until(lambda: connection._answers_out.bytes)
            way.one.connections[0].abort()
            await until(lambda: way.leading.answers[1].cancelled())
            assert way.leading.given_back == [Claims("mail", claims_of(handed_over(b"one")))]
            for pull in pulls:
                with pytest.raises(Problem, match="comes again when its lease has ended"):
                    await pull

    run(scene)


def test_a_leader_that_dies_under_a_call() -> None:
    """Its outcome is not known, and nobody is asked again; a later call waits for the next leader."""

    async def scene() -> None:
        async with through() as way:
            calling = asyncio.ensure_future(way.group.cancel(CancelAsked("m1")))
            await until(lambda: way.leading.answers)
            way.two.connections[0].abort()
            with pytest.raises(Problem, match="outcome-unknown"):
                await calling
            assert len(way.leading.answers) == 1
            assert (await way.group.cluster()).members == {"node": "n2"}  # type: ignore[union-attr]

    run(scene)


def test_a_leader_that_closes_answers_first() -> None:
    """What it carries out has half a second; nothing is lost on the way."""

    async def scene() -> None:
        async with through() as way:
            pulls = await way.pulling(2)
            closing = asyncio.ensure_future(way.two.wire.close())
            await until(lambda: not way.one.connections[0].usable)
            way.leading.answers[0].set_result(handed_over(bytes(1024 * 1024)))
            way.leading.answers[1].set_result(handed_over(b"two"))
            assert [len((await pull).bodies[0]) for pull in pulls] == [1024 * 1024, 3]
            await closing
            assert way.leading.given_back == []

    run(scene)
