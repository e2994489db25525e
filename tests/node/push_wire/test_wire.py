"""The wire between groups and connections: whom it tells, and what it lets leave."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from node.port.failure_code import BAD_URL, STOPPED
from node.port.loopback import FramedReceivers
from node.port.push_port import PushDone, PushWork, Receivers
from node.port.trust_window import TrustWindow
from node.push_wire.answer import Answer
from node.push_wire.connection import Ended
from node.push_wire.wire import PushWire
from tests.node.push_wire.attempt import NOW_MS, work


class Connections:
    """In place of a client: what it was given, and how it ends."""

    def __init__(self, may_send: Callable[[PushWork], bool], ended: Ended) -> None:
        self.may_send, self.ended = may_send, ended
        self.sent: list[tuple[PushWork, bytes]] = []

    async def start(self) -> None:
        """Nothing to begin."""

    async def close(self) -> None:
        """Nothing to close."""

    def send(self, work: PushWork, head: bytes) -> None:
        """What leaves, or ends at once."""
        if self.may_send(work):
            self.sent.append((work, head))
        else:
            self.ended(work, Answer(STOPPED), asyncio.get_running_loop().time())


Between = Callable[[PushWire], Receivers]


@pytest.fixture(params=["direct", "framed"])
def between(request: pytest.FixtureRequest) -> Between:
    """What stands between a group and the wire."""
    return FramedReceivers if request.param == "framed" else lambda wire: wire


Play = Callable[[Receivers, Connections], Awaitable[None]]


def play(between: Between, scene: Play) -> None:
    """With a wire that has no group yet."""

    async def main() -> None:
        made: list[Connections] = []

        def make(may_send: Callable[[PushWork], bool], ended: Ended) -> Connections:
            made.append(Connections(may_send, ended))
            return made[0]

        wire = PushWire(make, lambda: NOW_MS / 1000)
        await wire.start()
        await scene(between(wire), made[0])
        await wire.close()

    asyncio.run(main())


def open_window(term: int = 1) -> TrustWindow:
    """Of a group whose node clock is the monotonic one."""
    window = TrustWindow()
    window.open(term, float("inf"), 0.0)
    return window


def test_each_group_is_told_of_its_own(between: Between) -> None:
    """Two groups number their work alike."""
    told: dict[int, list[PushDone]] = {0: [], 1: []}

    async def scene(receivers: Receivers, connections: Connections) -> None:
        for group in told:
            receivers.attach(group, open_window(), told[group].append)
        receivers.send(work(number=5, group=1, body=b"one"))
        receivers.send(work(number=5, group=0, body=b"zero"))
        (one, head), (zero, _) = connections.sent
        assert (one.body, zero.body) == (b"one", b"zero")
        assert head.startswith(b"user-agent: hourwheel\r\n")
        connections.ended(zero, Answer(503, "busy", 7_000), asyncio.get_running_loop().time())
        assert told[1] == []
        (done,) = told[0]
        assert (done.number, done.code, done.text, done.retry_after_ms) == (5, 503, "busy", 7_000)

    play(between, scene)


@pytest.mark.parametrize("fields", [{"term": 2}, {"lease_end_ms": NOW_MS}, {}], ids=["another term", "lease", "closed"])
def test_nothing_leaves_outside_of_the_window(between: Between, fields: dict[str, Any]) -> None:
    """Of another term, after the lease, or while the group may not act: it ends as one that was never sent."""
    told: list[PushDone] = []

    async def scene(receivers: Receivers, connections: Connections) -> None:
        window = open_window()
        if not fields:
            window.close()
        receivers.attach(0, window, told.append)
        receivers.send(work(**fields))
        assert connections.sent == []
        assert [(done.number, done.code) for done in told] == [(1, STOPPED)]

    play(between, scene)


def test_a_group_that_is_closed_hears_nothing_and_sends_nothing(between: Between) -> None:
    """An attempt on the wire ends, and nobody is told."""
    told: list[PushDone] = []

    async def scene(receivers: Receivers, connections: Connections) -> None:
        receivers.attach(0, open_window(), told.append)
        receivers.send(work())
        receivers.detach(0)
        (sent, _) = connections.sent[0]
        connections.ended(sent, Answer(200), 0.0)
        receivers.send(work(number=2))
        assert len(connections.sent) == 1
        receivers.detach(0)  # one that never came is let go as well
        assert told == []

    play(between, scene)


def test_a_group_that_is_opened_again_is_told_nothing_of_its_former_life(between: Between) -> None:
    """It numbers its work from 1 again: an old 200 would settle another message. An end that comes twice is one."""
    told: list[PushDone] = []

    async def scene(receivers: Receivers, connections: Connections) -> None:
        receivers.attach(0, open_window(), told.append)
        receivers.send(work())
        ((old, _),) = connections.sent
        receivers.detach(0)
        receivers.attach(0, open_window(), told.append)
        receivers.send(work())
        assert not connections.may_send(old)
        connections.ended(old, Answer(200), 0.0)
        assert told == []
        for _ in range(2):
            connections.ended(connections.sent[1][0], Answer(503), 0.0)
        assert [done.code for done in told] == [503]

    play(between, scene)


def test_what_cannot_be_sent_ends_at_once(between: Between) -> None:
    """A header with a line break; and what was said is cut to what a record keeps, in whole characters."""
    told: list[PushDone] = []

    async def scene(receivers: Receivers, connections: Connections) -> None:
        receivers.attach(0, open_window(), told.append)
        receivers.send(work(headers={"x": "a\r\nb"}))
        assert [(done.number, done.code) for done in told] == [(1, BAD_URL)]
        receivers.send(work(number=2))
        connections.ended(connections.sent[0][0], Answer(500, "\ud800" + "ü" * 2_000), 0.0)
        assert told[1].text == "?" + "ü" * 511

    play(between, scene)
