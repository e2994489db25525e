"""Who waits behind pushed messages is woken by what the pump does, not by the next message that happens to come.

Nothing else happens in these clusters of one, and no step comes by itself: a wake-up that is lost is lost for good."""

import asyncio
from pathlib import Path

import pytest

from api.port import ANONYMOUS, MessageIn, PullIn, Target, TopicChange
from chaos.ports import free_ports
from node.push_stage import BITE_UNITS
from node.server import Node
from tests.node.pushing import play, put, schedule
from tests.node.receiver import Request, answer, answering, receiver
from tests.waiting import until


@pytest.fixture(autouse=True)
def _no_step_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.steps.LOOK_S", 1e6)


async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Never answers."""
    await reader.read()


async def ready(node: Node, count: int) -> None:
    """Until so many are ready."""
    reign = node.reign
    assert reign is not None
    await until(lambda: reign.dispatcher.ready_count == count)


def test_messages_behind_a_bite_of_cancelled_ones_are_pushed(tmp_path: Path) -> None:
    """The bite has nothing to send, so no attempt ends that would have the pump look again."""
    seen: list[Request] = []

    async def scene(node: Node) -> None:
        async with receiver(answering(answer(200), seen=seen)) as url:
            await put(node, "orders", url, paused=True)
            ended = await schedule(node, *[MessageIn("orders", b"{}")] * (BITE_UNITS + 12))
            await schedule(node, *[MessageIn("orders", b"1")] * 20)
            await ready(node, BITE_UNITS + 32)
            for id in ended:
                await node.service.cancel(id, if_match=None, principal=ANONYMOUS)
            await put(node, "orders", url, paused=False)
            await until(lambda: len(seen) == 20)

    play(tmp_path, scene)


def test_messages_behind_a_receiver_that_hangs_are_pushed_to_another(tmp_path: Path) -> None:
    """They stand some bites behind, within the share of their topic."""
    seen: list[Request] = []

    async def scene(node: Node) -> None:
        async with receiver(hang) as hangs, receiver(answering(answer(200), seen=seen)) as url:
            await put(node, "orders", hangs, paused=True)
            await schedule(node, *[MessageIn("orders", b"{}")] * (3 * BITE_UNITS + 16))
            await schedule(node, *[MessageIn("orders", b"1", target=Target(url=url))] * 5)
            await ready(node, 3 * BITE_UNITS + 21)
            await put(node, "orders", hangs, paused=False)
            await until(lambda: len(seen) == 5)

    play(tmp_path, scene, per_target=1)


def test_overdue_messages_are_pushed_when_their_pace_allows(tmp_path: Path) -> None:
    """The pump takes all that the pace has for these 10 ms between two steps."""
    seen: list[Request] = []
    topics = [f"orders-{number}" for number in range(8)]

    async def before(node: Node) -> None:
        for topic in topics:
            await put(node, topic, None, paused=True)
            await schedule(node, *[MessageIn(topic, b"{}", target=Target(url=f"http://127.0.0.1:{ports[0]}"))] * 400)
            await schedule(node, MessageIn(topic, b"1", target=Target(url=f"http://127.0.0.1:{ports[1]}")))

    async def after(node: Node) -> None:
        await ready(node, 8 * 401)
        async with receiver(hang, ports[0]), receiver(answering(answer(200), seen=seen), ports[1]):
            for topic in topics:
                await put(node, topic, None, paused=False)
            await until(lambda: len(seen) == 8)

    ports = free_ports(2)
    play(tmp_path, before)
    play(tmp_path, after, per_target=4, total=8)


def test_a_pull_gets_what_a_topic_had_staged_for_a_push(tmp_path: Path) -> None:
    """The pump gives it back when it has rested, which is after the step that the change of the topic brought."""

    async def scene(node: Node) -> None:
        async with receiver(hang) as hangs:
            await put(node, "orders", hangs)
            await schedule(node, *[MessageIn("orders", b"{}")] * 20)
            await until(lambda: node.pusher.on_wire == 1 and node.pusher.staged == 19)
            node.pusher._rests_until_s = asyncio.get_running_loop().time() + 0.2  # as after much work
            change = TopicChange(mode="pull")
            await node.service.put_topic("orders", change, create=False, if_match=None, principal=ANONYMOUS)
            deliveries = await node.service.pull(PullIn("orders", 30, 30_000), ANONYMOUS)
            assert len(deliveries) == 19
            assert not node.pusher.staged

    play(tmp_path, scene, per_target=1)
