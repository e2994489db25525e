"""Nodes that go on purpose, with pushes on the wire: one, most of them, all at once; and nodes that are drained."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from api.port.port import ANONYMOUS, MessageIn, PullIn
from api.port.problem import Problem
from node.node import Node
from tests.node.pushing import LOOPBACK, in_state, put, schedule, view
from tests.node.receiver import Request, answer, read_request, receiver
from tests.node.single_node import run_node
from tests.node.three_nodes import leader_of, run_nodes
from tests.waiting import until


@asynccontextmanager
async def slow(seen: list[Request], gate: asyncio.Event) -> AsyncIterator[str]:
    """A receiver that answers 200, and not before the gate is open."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            seen.append(await read_request(reader))
            await gate.wait()
            writer.write(answer(200))
            await writer.drain()

    async with receiver(behave) as url:
        yield url


def others(nodes: list[Node], leader: Node) -> list[Node]:
    """The followers."""
    return [node for node in nodes if node is not leader]


def cares(nodes: list[Node]) -> list[bool]:
    """One for each time that a leader, from now on, hands nothing over because a majority goes."""
    caring: list[bool] = []
    for node in nodes:
        care = node.group.drain._care

        async def noted(*how: Any, care: Any = care) -> None:
            caring.append(True)
            await care(*how)

        setattr(node.group.drain, "_care", noted)  # noqa: B010 - its types are those of `care`
    return caring


async def call(node: Node, method: str, path: str, document: Any = None) -> tuple[int, Any]:
    """Status and document that a node answers over HTTP."""
    async with (
        aiohttp.ClientSession() as http,
        http.request(method, f"http://{node.config.http.listen}{path}", json=document) as reply,
    ):
        return reply.status, await reply.json(content_type=None) if "json" in reply.content_type else await reply.text()


@pytest.mark.parametrize("stopped", ["all", "both followers", "leader and one"])
def test_a_majority_that_stops_at_once_pushes_nothing_twice(tmp_path: Path, stopped: str) -> None:
    """Everybody is told to stop with 100 pushes on the wire and 200 ready behind them: what was sent is finished, its
    outcome is in the log of those that start again, and the rest is sent once. 66 of 1,000 came twice before."""
    seen: list[Request] = []

    async def first(nodes: list[Node], url: str, open_gate: Callable[[], None]) -> None:
        leader = await leader_of(nodes)
        await put(leader, "orders", url)
        await schedule(leader, *[MessageIn("orders", b"{}")] * 300)
        await until(lambda: len(seen) >= 50)
        followers = others(nodes, leader)
        caring = cares(nodes)
        gone = {"all": nodes, "both followers": followers, "leader and one": [leader, followers[0]]}[stopped]
        for node in gone:
            node.life.stop()
        await until(lambda: any(caring), what="somebody cares for those that go")
        open_gate()
        if stopped != "all":
            raft = leader.group.raft
            await until(lambda: not raft.is_leader or not any(peer.connected for peer in raft.peers.values()))

    async def again(nodes: list[Node]) -> None:
        await until(lambda: len({each.headers["webhook-id"] for each in seen}) == 300, 20)
        leader = await leader_of(nodes)
        await until(lambda: leader.group.push_feed.on_wire == 0)

    async def whole() -> None:
        gate, loop = asyncio.Event(), asyncio.get_running_loop()

        def open_gate() -> None:
            loop.call_soon_threadsafe(gate.set)

        async with slow(seen, gate) as url:
            await asyncio.to_thread(run_nodes, tmp_path, lambda nodes: first(nodes, url, open_gate), push=LOOPBACK)
            before = len(seen)
            assert 50 <= before < 300
            await asyncio.to_thread(run_nodes, tmp_path, again, push=LOOPBACK)

    asyncio.run(whole())
    assert [id for id, count in Counter(each.headers["webhook-id"] for each in seen).items() if count > 1] == []
    assert len(seen) == 300


def test_what_a_receiver_said_reaches_the_new_leader(tmp_path: Path) -> None:
    """Status, text and the wait asked for, of pushes that failed after leadership had moved: as if it had pushed."""
    seen: list[Request] = []
    gate = asyncio.Event()

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            seen.append(await read_request(reader))
            await gate.wait()
            writer.write(answer(503, b"the till is closed", "Retry-After: 2"))
            await writer.drain()

    async def scene(nodes: list[Node]) -> None:
        async with receiver(behave) as url:
            leader = await leader_of(nodes)
            await put(leader, "orders", url, retry={"min_backoff_ms": 10, "max_backoff_ms": 60_000})
            await put(leader, "last", url, retry={"max_attempts": 1})
            (id,) = await schedule(leader, MessageIn("orders", b"{}"))
            (last,) = await schedule(leader, MessageIn("last", b"{}"))
            await until(lambda: len(seen) == 2)
            moved = await leader.front.transfer(None, principal=ANONYMOUS)
            assert (moved.in_flight_carried, moved.repeated) == (2, 0)
            new = await leader_of(nodes, term_above=moved.term_before)
            gate.set()
            await until(in_state(new, id, "scheduled"))
            await until(in_state(new, last, "dead"))
            waits, dead = await view(new, id), await view(new, last)
            assert (waits.last_error, dead.last_error) == ("http-503: the till is closed", "http-503")
            assert waits.due_ms - new.clock.now_ms() > 1_000, "the receiver asked for two seconds"
            assert (waits.attempt, dead.attempt) == (1, 1)
        assert len(seen) == 2

    run_nodes(tmp_path, scene, push=LOOPBACK)


def test_a_drained_leader_gives_leadership_away_and_finishes_its_pushes(tmp_path: Path) -> None:
    """The answer comes when nothing of it is on the wire; it takes no requests, says so to load balancers, keeps up
    with the log, and serves again when it is told to."""
    seen: list[Request] = []

    async def scene(nodes: list[Node]) -> None:
        gate = asyncio.Event()
        async with slow(seen, gate) as url:
            leader = await leader_of(nodes)
            name, term = leader.config.node_id, leader.group.raft.term
            await put(leader, "orders", url)
            (id,) = await schedule(leader, MessageIn("orders", b"{}"))
            await until(lambda: len(seen) == 1)
            draining = asyncio.ensure_future(call(leader, "POST", "/v1/node/drain", {"node": name}))
            new = await leader_of(nodes, term_above=term)
            assert not draining.done(), "its push is on the wire"
            gate.set()
            status, document = await draining
            assert (status, document["draining"], document["led"], document["pushes"]) == (200, True, True, 0)
            assert document["leader"] == new.config.node_id != name
            assert (await view(new, id)).state == "delivered"
            status, problem = await call(leader, "POST", "/v1/messages", {"topic": "orders", "body": 1})
            assert (status, problem["code"]) == (503, "draining")
            assert (await call(leader, "GET", "/readyz"))[0] == 503
            assert (await call(leader, "GET", "/v1/cluster"))[0] == 200
            await schedule(new, MessageIn("orders", b"{}"))
            await until(lambda: leader.group.raft.applied_index == new.group.raft.applied_index)
            with pytest.raises(Problem, match="is draining and shall not lead"):
                await new.front.transfer(name, principal=ANONYMOUS)
            best = await new.front.transfer(None, principal=ANONYMOUS)
            assert best.to_node != name
            status, document = await call(leader, "DELETE", "/v1/node/drain")
            assert (status, document["draining"]) == (200, False)
            assert (await call(leader, "GET", "/readyz"))[0] == 200
            new = await leader_of(nodes, term_above=best.term_before)
            await until(lambda: not new.group.raft.peers[name].retiring)
            assert (await new.front.transfer(name, principal=ANONYMOUS)).to_node == name

    run_nodes(tmp_path, scene, push=LOOPBACK)


def test_a_drained_node_does_not_stand(tmp_path: Path) -> None:
    """The leader ends without giving leadership to anybody: the other follower is elected, every time."""

    async def scene(nodes: list[Node]) -> None:
        drained = others(nodes, await leader_of(nodes))[0]
        await drained.front.drain(None, principal=ANONYMOUS)
        for _ in range(3):
            leader = await leader_of(nodes)
            term = leader.group.raft.term
            leader.group.raft.resign()
            new = await leader_of(nodes, term_above=term)
            assert new is not drained

    run_nodes(tmp_path, scene)


def test_a_drain_that_cannot_be_changes_nothing(tmp_path: Path) -> None:
    """Another node is meant; nobody else can lead; the node stops already."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        down, drained = others(nodes, leader)
        with pytest.raises(Problem, match="unknown-node"):
            await leader.front.drain("n9", principal=ANONYMOUS)
        with pytest.raises(Problem, match="unknown-node"):
            await leader.front.undrain("n9", principal=ANONYMOUS)
        assert (await drained.front.drain(None, principal=ANONYMOUS)).led is False
        down.life.stop()
        await until(lambda: not leader.group.raft.peers[down.config.node_id].connected)
        await until(lambda: leader.group.raft.peers[drained.config.node_id].retiring)
        with pytest.raises(Problem, match="not-caught-up"):
            await leader.front.drain(None, principal=ANONYMOUS)
        assert not leader.front.drained()
        assert leader.front.leads()
        await schedule(leader, MessageIn("t", b"1"))
        assert await leader.front.pull(PullIn("t", 1, 2_000), ANONYMOUS)
        leader.life.stop()
        await until(lambda: leader.group.life.draining)
        with pytest.raises(Problem, match="draining"):
            await leader.front.drain(None, principal=ANONYMOUS)

    run_nodes(tmp_path, scene)


def test_the_only_node_cannot_be_drained(tmp_path: Path) -> None:
    """There is nobody to lead instead."""

    async def scene(node: Node) -> None:
        with pytest.raises(Problem, match="not-caught-up"):
            await node.front.drain(None, principal=ANONYMOUS)
        assert node.front.leads()

    run_node(tmp_path, scene)
