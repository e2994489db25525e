"""Who waits behind other messages is woken by what happens to those, not by the next message that happens to come.

Nothing else happens in these clusters of one, and no step comes by itself: a wake-up that is lost is lost for good."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from api.port.message import Target
from api.port.port import ANONYMOUS, MessageIn, PullIn, TopicChange
from chaos.cluster.ports import free_ports
from node.handover.term import Term
from node.node import Node
from node.push.lanes import Lane
from node.push.stage import BITE_UNITS, TURN_BYTES
from tests.node.pushing import play, put, schedule
from tests.node.receiver import Behave, Request, answer, answering, read_request, receiver
from tests.node.single_node import run_node
from tests.waiting import WITHIN_S, turns, until

LONG_MS = 90_000
"""Far longer than a test waits for anything: no end of a pull or of an attempt helps it along."""


@pytest.fixture(autouse=True)
def _no_step_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.runtime.step_alarm.LOOK_S", 1e6)


async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Never answers."""
    await reader.read()


async def ready(node: Node, count: int) -> None:
    """Until so many are ready."""
    leader_term = node.group.leader_term
    assert leader_term is not None
    await until(lambda: leader_term.handing_over.ready_count == count)


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
                await node.front.cancel(id, if_match=None, principal=ANONYMOUS)
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

    play(tmp_path, scene, per_target=1, timeout_ms=LONG_MS)


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
    play(tmp_path, after, per_target=4, total=8, timeout_ms=LONG_MS)


def test_a_pull_gets_what_a_topic_had_staged_for_a_push(tmp_path: Path) -> None:
    """The pump gives it back when it has rested, which is after the step that the change of the topic brought."""

    async def scene(node: Node) -> None:
        async with receiver(hang) as hangs:
            await put(node, "orders", hangs)
            await schedule(node, *[MessageIn("orders", b"{}")] * 20)
            await until(lambda: node.group.push_feed.on_wire == 1 and node.group.push_feed.staged == 19)
            node.group.push_feed._rests_until_s = asyncio.get_running_loop().time() + 0.2  # as after much work
            change = TopicChange(mode="pull")
            await node.front.put_topic("orders", change, create=False, if_match=None, principal=ANONYMOUS)
            pull = node.front.pull(PullIn("orders", 30, LONG_MS), ANONYMOUS)
            assert len(await asyncio.wait_for(pull, WITHIN_S)) == 19
            assert not node.group.push_feed.staged

    play(tmp_path, scene, per_target=1, timeout_ms=LONG_MS)


def when(gate: asyncio.Event | asyncio.Semaphore) -> Behave:
    """Answers 200 to a request when the gate is open, or has one more token."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            await (gate.wait() if isinstance(gate, asyncio.Event) else gate.acquire())
            writer.write(answer(200))
            await writer.drain()

    return behave


def test_room_that_other_topics_gave_back_is_used(tmp_path: Path) -> None:
    """A topic has staged what it may beside another one, all for a receiver that hangs. When the other one's are gone
    there is room for its messages to a receiver that answers."""
    seen: list[Request] = []
    gate = asyncio.Event()

    async def scene(node: Node) -> None:
        async with (
            receiver(hang) as hangs,
            receiver(when(gate)) as slow,
            receiver(answering(answer(200), seen=seen)) as url,
        ):
            await put(node, "busy", slow)
            await schedule(node, *[MessageIn("busy", b"{}")] * 11)
            await until(lambda: node.group.push_feed.staged == 10 and node.group.push_feed.on_wire == 1)
            await put(node, "orders", hangs, paused=True)
            await schedule(node, *[MessageIn("orders", b"{}")] * 8)
            await schedule(node, *[MessageIn("orders", b"1", target=Target(url=url))] * 5)
            await ready(node, 13)
            await put(node, "orders", hangs, paused=False)
            await until(lambda: len(seen) == 2 and node.group.push_feed.on_wire == 2)
            gate.set()
            await until(lambda: len(seen) == 5)

    play(tmp_path, scene, per_target=1, staged_total=20, staged_per_topic=10, timeout_ms=LONG_MS)


@pytest.mark.parametrize("move", [False, True])
def test_messages_that_ended_give_their_room_back(tmp_path: Path, move: bool) -> None:
    """All that their topic may stage waits for a receiver that hangs, and is cancelled, or put off for an hour."""
    seen: list[Request] = []

    async def scene(node: Node) -> None:
        async with receiver(hang) as hangs, receiver(answering(answer(200), seen=seen)) as url:
            await put(node, "orders", hangs)
            _, *waiting = await schedule(node, *[MessageIn("orders", b"{}")] * 11)
            await until(lambda: node.group.push_feed.staged == 10)
            await schedule(node, *[MessageIn("orders", b"1", target=Target(url=url))] * 5)
            await ready(node, 5)
            for id in waiting:
                if move:
                    await node.front.reschedule(id, due_ms=None, delay_ms=3_600_000, if_match=None, principal=ANONYMOUS)
                else:
                    await node.front.cancel(id, if_match=None, principal=ANONYMOUS)
            await until(lambda: len(seen) == 5)

    play(tmp_path, scene, per_target=1, staged_per_topic=10, timeout_ms=LONG_MS)


def test_messages_that_come_when_their_topics_staged_ones_have_ended_are_pushed(tmp_path: Path) -> None:
    """These ended while nothing waited for their room."""
    seen: list[Request] = []

    async def scene(node: Node) -> None:
        async with receiver(hang) as hangs, receiver(answering(answer(200), seen=seen)) as url:
            await put(node, "orders", hangs)
            _, *waiting = await schedule(node, *[MessageIn("orders", b"{}")] * 11)
            await until(lambda: node.group.push_feed.staged == 10)
            for id in waiting:
                await node.front.cancel(id, if_match=None, principal=ANONYMOUS)
            await schedule(node, *[MessageIn("orders", b"1", target=Target(url=url))] * 5)
            await until(lambda: len(seen) == 5)

    play(tmp_path, scene, per_target=1, staged_per_topic=10, timeout_ms=LONG_MS)


@pytest.mark.parametrize("more", [0, 5])
def test_messages_that_ended_give_the_room_of_all_back(tmp_path: Path, more: int) -> None:
    """All that may be staged is taken up by other topics, one of which has more that wait, or none."""
    seen: list[Request] = []

    async def scene(node: Node) -> None:
        async with receiver(hang) as hangs, receiver(answering(answer(200), seen=seen)) as url:
            for topic, count, staged in (("a", 11, 10), ("b", 5, 15), ("c", 5 + more, 20)):
                await put(node, topic, hangs)
                ids = await schedule(node, *[MessageIn(topic, b"{}")] * count)
                await until(lambda staged=staged: node.group.push_feed.staged == staged)  # type: ignore[misc]
            await put(node, "orders", url)
            await schedule(node, *[MessageIn("orders", b"1")] * 5)
            await ready(node, 5 + more)
            for id in ids:
                await node.front.cancel(id, if_match=None, principal=ANONYMOUS)
            await until(lambda: len(seen) == 5)

    play(tmp_path, scene, per_target=1, staged_per_topic=10, staged_total=20, timeout_ms=LONG_MS)


def test_a_turn_stages_so_many_bytes(tmp_path: Path) -> None:
    """A message of each of 30 topics is 12 MB; read in one turn, 60 topics with 16 of them held the loop for 0.7 s."""

    async def scene(node: Node) -> None:
        staged: list[int] = []
        lanes, turn = node.group.push_feed._lanes, node.group.push_feed._staging.turn

        def weighed(term: Term, now_ms: int) -> bool:
            before = lanes.bytes
            done = turn(term, now_ms)
            staged.append(lanes.bytes - before)
            return done

        async with receiver(hang) as hangs:
            for number in range(30):
                await put(node, f"orders-{number}", hangs, paused=True)
                await schedule(node, *[MessageIn(f"orders-{number}", bytes(200_000))] * 2)
            await ready(node, 60)
            node.group.push_feed._staging.turn = weighed  # type: ignore[method-assign]
            for number in range(30):
                await node.front.put_topic(
                    f"orders-{number}", TopicChange(paused=False), create=False, if_match=None, principal=ANONYMOUS
                )
            await until(lambda: node.group.push_feed.staged + node.group.push_feed.on_wire == 60)
        assert max(staged) <= TURN_BYTES

    play(tmp_path, scene, per_target=1, timeout_ms=LONG_MS)


def test_a_clock_that_has_gone_back_a_little_is_waited_for_as_little(tmp_path: Path) -> None:
    """A leader that is held back to the median of its peers goes back and forth by some milliseconds."""

    async def scene(node: Node) -> None:
        leader_term = node.group.leader_term
        assert leader_term is not None
        latest_ms = leader_term.handing_over._units.latest_ms
        began_s = asyncio.get_running_loop().time()
        node.group.push_feed._turn(latest_ms - 5)
        assert began_s < node.group.push_feed._rests_until_s <= asyncio.get_running_loop().time() + 0.005

    play(tmp_path, scene)


def test_a_clock_that_has_gone_back_costs_few_looks(tmp_path: Path) -> None:
    """Messages that were ready are due again later. There is a step each 10 ms, and each looked at all windows: eight
    topics with 20,000 messages took a whole core."""
    seen: list[Request] = []

    async def scene(node: Node) -> None:
        async with receiver(answering(answer(200), seen=seen)) as url:
            await put(node, "orders", url, paused=True)
            leader_term = node.group.leader_term
            assert leader_term is not None
            await until(
                lambda: node.group.clock.now_ms() > leader_term.promoted_ms + 1_100
            )  # else the dispatcher sleeps as long
            await schedule(node, MessageIn("orders", b"{}"))
            await ready(node, 1)
            looks, turn = [0], node.group.push_feed._staging.turn

            def counted(term: Term, now_ms: int) -> bool:
                looks[0] += 1
                return turn(term, now_ms)

            node.group.push_feed._staging.turn = counted  # type: ignore[method-assign]
            node.group.skew.least_median_ms = lambda: -1_500.0  # type: ignore[method-assign]
            node.group.clock.bound(-1_500.0)
            await put(node, "orders", url, paused=False)
            await until(lambda: seen)
            assert looks[0] < 40

    play(tmp_path, scene)


def test_an_ill_receiver_that_waited_for_a_trial_slot_is_tried_when_there_is_one(tmp_path: Path) -> None:
    """The slot comes free by a success, which brings no other work with it."""
    seen: list[Request] = []
    tokens = asyncio.Semaphore(0)
    (port,) = free_ports(1)
    never = {"min_backoff_ms": 3_600_000, "max_backoff_ms": 3_600_000}

    async def scene(node: Node) -> None:
        lanes = node.group.push_feed._lanes

        def ill() -> list[Lane]:
            return [lane for lane in lanes._lanes.values() if lane.origin.port == port and lane.ill]

        await put(node, "ill", f"http://127.0.0.1:{port}", retry=never)
        await schedule(node, *[MessageIn("ill", b"{}")] * 60)
        await until(ill)
        async with AsyncExitStack() as stack:
            for number in range(4):
                url = await stack.enter_async_context(receiver(when(tokens)))
                await put(node, f"held-{number}", url)
                await schedule(node, *[MessageIn(f"held-{number}", b"{}")] * (3 if number == 0 else 2))
            await until(lambda: ill() and ill()[0].waits and not ill()[0].on_wire)
            await stack.enter_async_context(receiver(answering(answer(200), seen=seen), port))
            tokens.release()
            await until(lambda: seen)

    play(tmp_path, scene, total=10, per_target=10, timeout_ms=LONG_MS)


def test_cancelled_messages_are_forgotten_while_nothing_may_be_handed_over(tmp_path: Path) -> None:
    """Kept, they were staged and given back in every turn of the loop: a wake-up without an end."""

    async def scene(node: Node) -> None:
        leader_term = node.group.leader_term
        assert leader_term is not None
        await put(node, "orders", "http://127.0.0.1:9", paused=True)
        (id,) = await schedule(node, MessageIn("orders", b"{}"))
        await ready(node, 1)
        await node.front.cancel(id, if_match=None, principal=ANONYMOUS)
        leader_term.trusted = lambda: False  # type: ignore[method-assign]
        topic = node.group.store.catalog.topics_with_settings()[0]
        leader_term.on_topic(topic.number, {**topic.settings, "paused": False})
        await ready(node, 0)

    play(tmp_path, scene)


def test_a_filtered_pull_sees_the_backlog_when_the_share_of_its_window_grows(tmp_path: Path) -> None:
    """Half of the windows is another topic's, until its messages are gone. What "eu" waits for stands behind the 50
    that had room, which stay."""

    async def scene(node: Node) -> None:
        leader_term = node.group.leader_term
        assert leader_term is not None
        leader_term.dispatcher._ready._per_topic = leader_term.dispatcher._ready._total = 100
        for topic in ("a", "b"):
            await node.front.put_topic(topic, TopicChange(), create=True, if_match=None, principal=ANONYMOUS)
        await schedule(node, *[MessageIn("b", b"0")] * 3)
        await ready(node, 3)
        await schedule(node, *[MessageIn("a", b"0", tags=("us",))] * 50, MessageIn("a", b"1", tags=("eu",)))
        await ready(node, 53)
        eu = PullIn("a", 10, LONG_MS, tags=(("eu",),))
        pull = asyncio.ensure_future(node.front.pull(eu, ANONYMOUS))
        await turns()
        assert len(await node.front.pull(PullIn("b", 10, 0), ANONYMOUS)) == 3
        assert len(await asyncio.wait_for(pull, WITHIN_S)) == 1

    run_node(tmp_path, scene)
