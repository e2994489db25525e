"""The connections of a node: made when they are needed, shared, given up when silent, closed at rest."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

import node.peer_wire.wire as wire_module
from node.peer_wire.connection import Lost, Reply
from node.peer_wire.frame import CALL, Piece
from node.port.group_port import PeerNode
from tests.node.peer_wire.pair import Desk, echo, outcome, run
from tests.node.peer_wire.wires import answering, gone, greeted, nodes, refusal_of, said_by
from tests.waiting import turns, until


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wires look after their connections fifty times a second."""
    monkeypatch.setattr(wire_module, "PING_S", 0.02)


def test_one_connection_serves_both_nodes() -> None:
    """It is made with the first call, and used for all others, of either node."""

    async def scene() -> None:
        async with nodes(echo, echo) as (one, two):
            assert one.connections == []
            first = await one.to("n2")
            assert await one.asks("n2") == b"c()"
            assert await two.asks("n1") == b"c()"
            assert await one.to("n2") is first
            assert [len(node.connections) for node in (one, two)] == [1, 1]

    run(scene)


def test_who_asks_while_it_is_dialled_waits_for_the_same() -> None:
    """Also when one of them goes away meanwhile."""

    async def scene() -> None:
        async with nodes(echo, echo) as (one, two):
            asking = [asyncio.ensure_future(one.to("n2")) for _ in range(5)]
            await turns(2)
            asking[0].cancel()
            reached = await asyncio.gather(*asking[1:])
            assert reached[0] is not None
            assert set(reached) == {reached[0]}
            assert [len(node.connections) for node in (one, two)] == [1, 1]
            assert asking[0].cancelled()

    run(scene)


@pytest.mark.usefixtures("often")
def test_both_may_dial_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both connections carry calls; each closes when it rests."""
    monkeypatch.setattr(wire_module, "REST_S", 0.2)

    async def scene() -> None:
        async with nodes(echo, echo) as (one, two):
            reached = await asyncio.gather(one.to("n2"), two.to("n1"))
            await until(lambda: len(one.connections) == len(two.connections) == 2)
            for connection in reached:
                assert connection is not None
                assert (await connection.begin("c", b"").answer).frame == b"c()"
            await gone(*one.connections, *two.connections)
            assert one.connections == two.connections == []
            assert await one.asks("n2") == b"c()"

    run(scene)


@pytest.mark.usefixtures("often")
def test_a_connection_rests_when_nothing_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long wait keeps it, however long."""
    monkeypatch.setattr(wire_module, "REST_S", 0.05)

    async def scene() -> None:
        desk = Desk()
        async with nodes(echo, desk.serve) as (one, two):
            waits = asyncio.ensure_future(one.asks("n2"))
            (asked,) = await desk.has(1)
            (connection,) = one.connections
            born_s = connection.used_s
            await until(lambda: connection.heard_s > born_s + 0.2)
            assert connection.usable
            asked.answers(b"done")
            assert await waits == b"done"
            await gone(connection, *two.connections)

    run(scene)


@pytest.mark.usefixtures("often")
def test_a_silent_peer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that stands still, or is cut off: what was asked of it may have been done. One that says that it is there
    stays, though nothing is asked."""
    monkeypatch.setattr(wire_module, "SILENT_S", 0.3)

    async def scene() -> None:
        async with nodes(echo, echo) as (one, two):
            await two.asks("n1")
            (lives,) = one.connections
            stranger = await greeted(one)
            (silent,) = [each for each in one.connections if each is not lives]
            call = silent.begin("c", b"")
            heard_s = lives.heard_s
            lost = await outcome(call.answer)
            assert isinstance(lost, Lost)
            assert lost.begun
            assert await stranger.closed_by_peer()
            await stranger.close()
            await until(lambda: lives.heard_s > heard_s + 0.3)
            assert lives.usable

    run(scene)


@pytest.mark.usefixtures("often")
def test_silence_is_not_judged_after_a_pause_of_this_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the other one said meanwhile may wait unread."""
    monkeypatch.setattr(wire_module, "SILENT_S", 0.3)

    async def scene() -> None:
        async with nodes() as (one,):
            one.knows(PeerNode("n2", "127.0.0.1:1", True))
            stranger = await greeted(one)
            (connection,) = one.connections
            now = asyncio.get_running_loop().time()
            one.wire._swept_s = connection._line.heard_s = now - 10
            one.wire._sweep()
            assert connection.alive
            await gone(connection)  # it was said nothing after that either
            await stranger.close()

    run(scene)


def test_calls_under_way_end_before_a_node_closes() -> None:
    """Its own, and those that it serves; then the connections are gone on both sides."""

    async def scene() -> None:
        desks = Desk(), Desk()
        async with nodes(desks[0].serve, desks[1].serve) as (one, two):
            asking = [asyncio.ensure_future(one.asks("n2"))]
            await desks[1].has(1)
            asking.append(asyncio.ensure_future(two.asks("n1")))
            await desks[0].has(1)
            closing = asyncio.ensure_future(one.wire.close())
            (connection,) = two.connections
            await until(lambda: not connection.usable)
            for desk in desks:
                desk.asked[0].answers(b"done")
            assert await asyncio.gather(*asking) == [b"done", b"done"]
            await closing
            assert one.connections == []
            await gone(connection)

    run(scene)


def test_a_node_does_not_wait_long_for_calls_when_it_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asked hears that they may have been done. Nobody is reached any more, and nobody comes in."""
    monkeypatch.setattr(wire_module, "CLOSE_S", 0.05)

    async def scene() -> None:
        desk = Desk()
        async with nodes(echo, desk.serve) as (one, two):
            asking = asyncio.ensure_future(one.asks("n2"))
            await desk.has(1)
            await one.wire.close()
            lost = await outcome(asking)
            assert isinstance(lost, Lost)
            assert lost.begun
            assert one.connections == []
            assert await one.to("n2") is None
            assert await two.to("n1") is None
            assert (await refusal_of(one, said_by("n2", "n1"))).reason == "not-founded"

    run(scene)


def test_what_stands_in_front_of_the_close_is_waited_for() -> None:
    """It can still make calls."""

    async def scene() -> None:
        async with nodes(echo, echo) as (one, _):
            gave_back: list[bytes] = []

            async def give_back() -> None:
                gave_back.append(await one.asks("n2", "nack"))

            one.wire.closing.append(give_back)
            await one.wire.close()
            assert gave_back == [b"nack()"]
            one.wire.closing.clear()

    run(scene)


def test_who_waits_for_a_connection_when_the_node_closes_gets_none() -> None:
    """It is no cancellation of theirs."""

    async def scene() -> None:
        async with nodes() as (one,), answering(lambda _: None) as (peer, came):
            one.knows(peer)
            reaching = asyncio.ensure_future(one.to("n2"))
            await until(lambda: came)
            await one.wire.close()
            (reached,) = await asyncio.gather(reaching, return_exceptions=True)
            assert reached is None

    run(scene)


def test_a_node_that_dials_anew_has_a_few_connections_at_most() -> None:
    """Its oldest go, with what they serve; the newest is used."""

    async def scene() -> None:
        desk = Desk()
        async with nodes(desk.serve, echo) as (one, _):
            strangers = []
            for number in range(wire_module.OF_A_NODE_MAX + 2):
                strangers.append(await greeted(one))
                strangers[-1].sends(1, Piece(CALL, 1, name="wait"))
                await desk.has(number + 1)
            for stranger in strangers[:2]:
                assert await stranger.closed_by_peer()
            await until(lambda: [asked.reply.cancelled() for asked in desk.asked][:3] == [True, True, False])
            assert len(one.connections) == wire_module.OF_A_NODE_MAX
            assert await one.to("n2") is one.connections[-1]
            for stranger in strangers:
                await stranger.close()

    run(scene)


def test_a_node_that_is_not_there() -> None:
    """Nothing listens, or the address is none: nobody is reached, and the next try may."""

    async def scene() -> None:
        async with nodes(echo, echo) as (one, two):
            nobody = [PeerNode("n3", "127.0.0.1:1"), PeerNode("n4", "no.such.host.invalid:1")]
            assert [await one.wire.reach(peer) for peer in nobody] == [None, None]
            assert await one.wire.reach(PeerNode("n2", two.raft)) is not None

    run(scene)


def test_a_node_that_changed_its_address_is_found_again() -> None:
    """Its connection ended with it."""

    async def scene() -> None:
        async def answers(*_: Any) -> Reply:
            return Reply(b"moved")

        async with nodes(echo, echo, answers) as (one, two, three):
            assert await one.asks("n2") == b"c()"
            await two.wire.close()
            await gone(*one.connections)
            three.status = replace(three.status, node="n2")
            one.knows(replace(one.status.peers[0], raft=three.raft))
            assert await one.asks("n2") == b"moved"

    run(scene)
