"""Leadership moves while pushes are under way: what was sent is finished and its outcome kept, nothing is sent late."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import node.push.feed
from api.port.loop_turn import Line
from api.port.port import ANONYMOUS, MessageIn
from node.node import Node
from tests.node.pushing import LOOPBACK, in_state, put, schedule, view
from tests.node.receiver import Request, answer, answering, read_request, receiver
from tests.node.three_nodes import leader_of, run_nodes
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("border")


def play(directory: Path, scene: Callable[[list[Node]], Awaitable[None]]) -> None:
    """Run a scene on three nodes that may push to loopback."""
    run_nodes(directory, scene, push=LOOPBACK)


async def depose(nodes: list[Node]) -> tuple[Node, Node]:
    """Move leadership on purpose: (the old leader, the new one)."""
    old = await leader_of(nodes)
    term = old.group.raft.term
    await old.front.transfer(None, principal=ANONYMOUS)
    async with asyncio.timeout(20):
        return old, await leader_of(nodes, term_above=term)


def test_what_was_sent_is_finished_and_not_sent_again(tmp_path: Path) -> None:
    """The receiver answers 200 after the transfer: the new leader's records say delivered, after one attempt."""
    seen: list[Request] = []
    gate = asyncio.Event()

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            seen.append(await read_request(reader))
            await gate.wait()
            writer.write(answer(200))
            await writer.drain()

    async def scene(nodes: list[Node]) -> None:
        async with receiver(behave) as url:
            leader = await leader_of(nodes)
            await put(leader, "orders", url)
            ids = await schedule(leader, *[MessageIn("orders", b"{}")] * 5)
            await until(lambda: len(seen) == 5)
            old, new = await depose(nodes)
            assert old is not new
            assert old.group.push_feed.on_wire == 5, "a request on the wire is not cut off"
            gate.set()
            for id in ids:
                await until(in_state(new, id, "delivered"))
                assert (await view(new, id)).attempt == 1
            assert old.group.push_feed.on_wire == 0
        assert len(seen) == 5

    play(tmp_path, scene)


def test_a_failure_after_the_transfer_is_tried_again_by_the_new_leader(tmp_path: Path) -> None:
    """Long before the lease ends, under the same id and with a higher (term, attempt)."""
    seen: list[Request] = []
    gate = asyncio.Event()

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            seen.append(await read_request(reader))
            if len(seen) == 1:
                await gate.wait()
                writer.write(answer(500, b"not yet"))
            else:
                writer.write(answer(200))
            await writer.drain()

    async def scene(nodes: list[Node]) -> None:
        async with receiver(behave) as url:
            leader = await leader_of(nodes)
            await put(leader, "orders", url)
            (id,) = await schedule(leader, MessageIn("orders", b"{}"))
            await until(lambda: len(seen) == 1)
            _, new = await depose(nodes)
            gate.set()
            await until(in_state(new, id, "delivered"), 8)
        named = [(int(each.headers["hourwheel-term"]), int(each.headers["hourwheel-attempt"])) for each in seen]
        assert len(named) == 2
        assert named[0] < named[1]
        assert named[1][0] == new.group.raft.term

    play(tmp_path, scene)


def test_what_was_not_sent_yet_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is still being looked up when leadership moves: the connection comes to stand, nothing leaves, and the
    new leader sends instead, without waiting for the lease. Nothing was attempted, so it does not count as the only
    attempt that this message has; it did, and the message was dead and had never been sent."""
    seen: list[Request] = []
    release = threading.Event()
    asked = threading.Event()
    real = socket.getaddrinfo

    def getaddrinfo(host: str, *rest: Any, **kinds: Any) -> list[Any]:
        if host == "slow.example":
            asked.set()
            release.wait(20)
            host = "127.0.0.1"
        return real(host, *rest, **kinds)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    async def scene(nodes: list[Node]) -> None:
        async with receiver(answering(answer(200), seen=seen)) as url:
            leader = await leader_of(nodes)
            await put(leader, "orders", url.replace("127.0.0.1", "slow.example"), retry={"max_attempts": 1})
            (id,) = await schedule(leader, MessageIn("orders", b"{}"))
            await until(asked.is_set)
            _, new = await depose(nodes)
            release.set()
            await until(in_state(new, id, "delivered"), 8)
        assert [each.headers["hourwheel-attempt"] for each in seen] == ["2"]
        assert seen[0].headers["hourwheel-term"] == str(new.group.raft.term)

    try:
        play(tmp_path, scene)
    finally:
        release.set()


def deposed_at_the_second_try(leader: Node) -> None:
    """Nobody can take leadership when it is asked first; then an election comes before the answer."""
    tries = 0

    async def leave() -> bool:
        nonlocal tries
        tries += 1
        if tries == 2:
            leader.group.raft.resign()
            await until(lambda: leader.group.leader_term is None)
        return False

    leader.group.transfer.leave = leave  # type: ignore[method-assign]


@pytest.mark.parametrize("how", ["gives leadership away", "is deposed as it tries to"])
def test_a_leader_that_stops_finishes_what_is_on_the_wire(tmp_path: Path, how: str) -> None:
    """SIGTERM in flight: the node stays until the receiver has answered, and the others know of it. One that nobody
    could take over from at first, and that lost its leadership as it tried again, left at once: its push came twice."""
    seen: list[Request] = []
    gate = asyncio.Event()

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            seen.append(await read_request(reader))
            await gate.wait()
            writer.write(answer(200))
            await writer.drain()

    async def scene(nodes: list[Node]) -> None:
        async with receiver(behave) as url:
            leader = await leader_of(nodes)
            term = leader.group.raft.term
            await put(leader, "orders", url)
            (id,) = await schedule(leader, MessageIn("orders", b"{}"))
            await until(lambda: len(seen) == 1)
            if how != "gives leadership away":
                deposed_at_the_second_try(leader)
            leader.life.stop()
            others = [node for node in nodes if node is not leader]
            new = await leader_of(others, term_above=term)
            await until(lambda: leader.group.raft.released)
            with pytest.raises(AssertionError, match="not within"):
                await until(lambda: leader.group.drain.gone, 0.3)
            assert leader.group.push_feed.on_wire == 1
            gate.set()
            await until(in_state(new, id, "delivered"))
        assert len(seen) == 1

    play(tmp_path, scene)


def test_what_waits_to_connect_for_longer_than_its_lease_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message is due again meanwhile: the receiver would get it twice, or after it was cancelled."""
    seen: list[Request] = []
    has_time = asyncio.Event()

    async def turn(_: Line) -> None:
        await has_time.wait()

    monkeypatch.setattr(Line, "turn", turn)
    monkeypatch.setattr(node.push.feed, "LEASE_MARGIN_MS", 0)

    async def scene(nodes: list[Node]) -> None:
        async with receiver(answering(answer(200), seen=seen)) as url:
            leader = await leader_of(nodes)
            await put(leader, "orders", url, target={"timeout_ms": 1_000})
            (id,) = await schedule(leader, MessageIn("orders", b"{}"))
            await until(lambda: leader.group.push_feed.attempts)
            (first,) = leader.group.push_feed.attempts
            # Where a busy machine stands still for a second, the second attempt is not to wait for too long as well.
            monkeypatch.setattr(node.push.feed, "LEASE_MARGIN_MS", 10_000)
            await until(lambda: any(each is not first for each in leader.group.push_feed.attempts))
            has_time.set()
            await until(in_state(leader, id, "delivered"))
        assert [request.headers["hourwheel-attempt"] for request in seen] == ["2"]

    play(tmp_path, scene)
