"""Slow, refusing, paused and changed receivers: their own messages wait, and nobody else's."""

import asyncio
import re
import socket
from pathlib import Path

from api.port.port import ANONYMOUS, MessageIn, TopicChange
from node.node import Node
from node.push.lanes import ILL_MS
from tests.node.pushing import in_state, play, put, schedule
from tests.node.receiver import Request, answer, answering, read_request, receiver
from tests.waiting import until


async def _hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


def test_who_hangs_holds_up_nobody_else(tmp_path: Path) -> None:
    """A topic with many messages for a receiver that never answers: another topic's go out at once, and attempts on
    the wire stay within the bound."""
    seen: list[Request] = []

    async def scene(node: Node) -> None:
        async with receiver(_hang) as hangs, receiver(answering(answer(200), seen=seen)) as url:
            await put(node, "slow", hangs, target={"timeout_ms": 60_000})
            await put(node, "quick", url)
            await schedule(node, *[MessageIn("slow", b"{}")] * 500)
            await until(lambda: node.group.push_feed.on_wire == 10)
            for _ in range(20):
                began = asyncio.get_running_loop().time()
                (id,) = await schedule(node, MessageIn("quick", b"{}"))
                await until(in_state(node, id, "delivered"))
                assert asyncio.get_running_loop().time() - began < 2
            assert node.group.push_feed.on_wire == 10
        assert len(seen) == 20

    play(tmp_path, scene, per_target=10, total=100, staged_per_topic=50)


def test_who_refuses_is_not_hammered(tmp_path: Path) -> None:
    """A refused connection fails at once, and each failure is written on every node: 500 messages due do not turn into
    500 attempts, and another topic's go out at once."""
    seen: list[Request] = []

    async def scene(node: Node) -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            async with receiver(answering(answer(200), seen=seen)) as url:
                await put(node, "refused", f"http://127.0.0.1:{closed.getsockname()[1]}/")
                await put(node, "quick", url)
                began = asyncio.get_running_loop().time()
                await schedule(node, *[MessageIn("refused", b"{}")] * 500)
                for _ in range(20):
                    (id,) = await schedule(node, MessageIn("quick", b"{}"))
                    await until(in_state(node, id, "delivered"))
                seconds = asyncio.get_running_loop().time() - began
        assert len(seen) == 20
        text = (await node.front.metrics()).decode()
        refused = re.search(r'hourwheel_push_attempts_total{outcome="connect"} (\d+)', text)
        assert refused is not None
        assert 9 <= int(refused[1]) <= 30 + seconds * 1000 / ILL_MS

    play(tmp_path, scene, per_target=10)


def test_a_paused_topic_stops_and_goes_on(tmp_path: Path) -> None:
    """What was staged goes back to its window; nothing is lost."""
    seen: list[Request] = []
    gate = asyncio.Event()

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            seen.append(await read_request(reader))
            await gate.wait()
            writer.write(answer(200))
            await writer.drain()

    async def pause(node: Node, paused: bool) -> None:
        change = TopicChange(paused=paused)
        await node.front.put_topic("orders", change, create=False, if_match=None, principal=ANONYMOUS)

    async def scene(node: Node) -> None:
        async with receiver(behave) as url:
            await put(node, "orders", url)
            ids = await schedule(node, *[MessageIn("orders", b"{}")] * 10)
            await until(lambda: len(seen) == 2)
            await pause(node, True)
            gate.set()
            await until(lambda: node.group.push_feed.on_wire == 0)
            assert len(seen) == 2
            await pause(node, False)
            for id in ids:
                await until(in_state(node, id, "delivered"))
        assert len(seen) == 10

    play(tmp_path, scene, per_target=2)


def test_a_changed_target_counts_for_what_is_staged(tmp_path: Path) -> None:
    """Units that wait for a slot go to the new URL."""
    first: list[Request] = []
    second: list[Request] = []
    gate = asyncio.Event()

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            first.append(await read_request(reader))
            await gate.wait()
            writer.write(answer(200))
            await writer.drain()

    async def scene(node: Node) -> None:
        async with receiver(behave) as url, receiver(answering(answer(200), seen=second)) as other:
            await put(node, "orders", url)
            ids = await schedule(node, *[MessageIn("orders", b"{}")] * 6)
            await until(lambda: len(first) == 1)
            await put(node, "orders", other)
            gate.set()
            for id in ids:
                await until(in_state(node, id, "delivered"))
        assert (len(first), len(second)) == (1, 5)

    play(tmp_path, scene, per_target=1)


def test_a_cancelled_message_that_was_staged_is_not_sent(tmp_path: Path) -> None:
    """Records are asked again right before the hand-over."""
    seen: list[Request] = []
    gate = asyncio.Event()

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            seen.append(await read_request(reader))
            await gate.wait()
            writer.write(answer(200))
            await writer.drain()

    async def scene(node: Node) -> None:
        async with receiver(behave) as url:
            await put(node, "orders", url)
            first, *others = await schedule(node, *[MessageIn("orders", b"{}")] * 4)
            await until(lambda: len(seen) == 1)
            await until(lambda: node.group.push_feed.staged == 3)
            for id in others[:2]:
                await node.front.cancel(id, if_match=None, principal=ANONYMOUS)
            gate.set()
            await until(in_state(node, others[2], "delivered"))
            await until(in_state(node, first, "delivered"))
        assert {request.headers["webhook-id"] for request in seen} == {first, others[2]}

    play(tmp_path, scene, per_target=1)
