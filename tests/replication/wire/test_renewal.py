"""A founded cluster: each node says its id on a new connection, and nothing said meanwhile is lost or waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from chaos.cluster.ports import free_ports
from replication.wire.frame import encode_message
from replication.wire.handshake import Hello, Refusal
from replication.wire.link import Connection, Incoming
from replication.wire.listener import AsyncTransport
from tests.replication.socket_node import LOOPS, Recorder, run, transport

CLUSTER = b"c" * 16

Loop = Callable[[], asyncio.AbstractEventLoop]
Greeted = Callable[[Connection, Hello | Refusal], None]


class Says:
    """Numbers its messages to n2."""

    def __init__(self, wire: AsyncTransport, heard: Recorder) -> None:
        self._wire, self._heard = wire, heard
        self.former = wire._dialled("n2")
        self.sent = 0

    def say(self, count: int = 1, size: int = 0) -> None:
        """So many more, with an entry of that size."""
        for _ in range(count):
            self.sent += 1
            message: dict[str, Any] = {"type": "timeout_now", "term": self.sent}
            if size:
                index = {"seq": 1, "commit_index": 1, "prevLogIdx": 1, "prevLogTerm": 0}
                message |= {"type": "append_entries", "entries": [(bytes(size), 2, 1)], **index}
            assert self._wire.send("n2", message)

    @property
    def renewed(self) -> bool:
        """Whether another connection stands."""
        return self._wire._dialled("n2") not in (None, self.former)

    @property
    def numbers(self) -> list[int]:
        """The numbers that n2 has heard, in order."""
        return [message["term"] for _peer, message in self._heard.messages]

    @property
    def complete(self) -> bool:
        """Whether all that was said was heard, once and in order."""
        return self.numbers == list(range(1, self.sent + 1))


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[AsyncTransport, AsyncTransport, Recorder, Says]]:
    """Two that are connected and know no cluster; what n2 hears, and who says something to it."""
    ports = free_ports(2)
    peers = [("127.0.0.1", port) for port in ports]
    async with (
        transport("n1", {"n2": peers[1]}, port=ports[0]) as (one, _),
        transport("n2", {"n1": peers[0]}, port=ports[1]) as (two, heard),
    ):
        await heard.until(lambda: one.connected("n2") and two.connected("n1") and "n1" in two._incoming)
        yield one, two, heard, Says(one, heard)


@pytest.mark.parametrize("loop", LOOPS)
def test_what_is_sent_while_a_connection_is_renewed_arrives_in_order(loop: Loop) -> None:
    """A TimeoutNow that was sent at that moment was lost with the former one, and leadership went to another node 1.2 s
    later."""

    async def test() -> None:
        async with pair() as (one, two, heard, says):
            one.set_cluster_id(CLUSTER)
            while not says.renewed or says.sent % 100:
                says.say()
                await asyncio.sleep(0)
            await heard.until(lambda: len(says.numbers) >= says.sent)
            assert says.complete
            await heard.until(lambda: len(two._incoming.all()) == 1)
            assert two._incoming["n1"].hello is not None
            assert two._incoming["n1"].hello.cluster_id == CLUSTER

    run(test(), loop)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("size", [0, 1 << 20])
def test_what_comes_late_on_the_former_connection_is_heard_first(size: int, loop: Loop) -> None:
    """Its last packets may be lost and come again after those of the new one. Some may not be sent yet."""

    async def test() -> None:
        async with pair() as (one, two, heard, says):
            late = cast(asyncio.Transport, two._incoming["n1"]._transport)
            late.pause_reading()
            says.say(12, size)
            assert says.former is not None
            assert (says.former.unsent > 0) is (size > 0)
            one.set_cluster_id(CLUSTER)
            await heard.until(lambda: says.renewed)
            says.say(10)
            await heard.until(lambda: len(two._incoming.all()) == 2)
            assert not says.numbers
            late.resume_reading()
            await heard.until(lambda: len(says.numbers) >= says.sent)
            assert says.complete

    run(test(), loop)


@pytest.mark.parametrize("answers", [True, False])
def test_what_is_sent_does_not_wait_for_the_new_connection(monkeypatch: pytest.MonkeyPatch, answers: bool) -> None:
    """Trust ends after 250 ms. The greeting of the new connection may take longer, or come to nothing."""

    async def test() -> None:
        async with pair() as (one, two, heard, says):
            held: list[tuple[Any, ...]] = []
            real: Greeted = two._greeted
            monkeypatch.setattr(two, "_greeted", lambda *greeting: held.append(greeting))
            one.set_cluster_id(CLUSTER)
            await heard.until(lambda: bool(held))
            says.say(10)
            await heard.until(lambda: len(says.numbers) == 10)
            assert not says.renewed
            if answers:
                real(*held[0])
                await heard.until(lambda: says.renewed)
                says.say()
                await heard.until(lambda: len(says.numbers) == 11)
            else:
                monkeypatch.setattr(two, "_greeted", real)
                await heard.until(lambda: says.renewed)  # once it has lost patience, from the start
            assert says.complete

    run(test())


def test_an_id_that_is_learned_while_the_first_connection_is_made_renews_nothing() -> None:
    """Its hello says it already. A second one was contested by the first for 0.7 s, and refused."""

    async def test() -> None:
        loop = asyncio.get_running_loop()
        dialling, go_on = asyncio.Event(), asyncio.Event()
        real: Any = loop.create_connection

        async def slow(*args: Any, **options: Any) -> Any:
            dialling.set()
            await go_on.wait()
            return await real(*args, **options)

        loop.create_connection = slow  # type: ignore[method-assign]
        ports = free_ports(2)
        async with (
            transport("n1", {"n2": ("127.0.0.1", ports[1])}, port=ports[0]) as (one, heard),
            transport("n2", {"n1": ("127.0.0.1", ports[0])}, port=ports[1]),
        ):
            await dialling.wait()
            one.set_cluster_id(CLUSTER)
            go_on.set()
            await heard.until(lambda: one.connected("n2"))
            assert not one._diallers["n2"]._renewing

    run(test())


def test_only_the_same_peer_that_has_learned_its_cluster_renews_a_connection() -> None:
    """For a process that came in its place nobody reads what the one before had said."""

    async def test() -> None:
        async with pair() as (_one, two, _heard, _says):
            former = two._incoming["n1"]
            assert former.hello is not None
            said = replace(former.hello, cluster_id=CLUSTER)
            assert former.renewed_by(said)
            former.guest = True
            assert not former.renewed_by(said)
            former.guest = False
            assert not former.renewed_by(former.hello)
            assert not former.renewed_by(replace(said, store_id=b"other"))
            former.hello = said
            assert not former.renewed_by(said)
            former.hello = replace(said, cluster_id=None)
            former.abort()
            assert not former.renewed_by(said)

    run(test())


def test_a_former_connection_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger may have made it, before there was a cluster to know. Its pings do not keep the member out."""

    async def test() -> None:
        async with pair() as (one, two, heard, says):
            monkeypatch.setattr(Connection, "end", lambda connection: None)
            former, stranger = two._incoming["n1"], says.former
            assert stranger is not None
            one.set_cluster_id(CLUSTER)
            await heard.until(lambda: says.renewed)
            says.say()

            def complete_beside_pings() -> bool:
                stranger.write(encode_message({"type": "ping"}, stranger.protocol))
                return says.complete

            await heard.until(complete_beside_pings)
            assert former.closed.done()

    run(test())


def test_the_newest_of_those_that_stand_behind_another_counts() -> None:
    """A member that dials once more has given up the one before."""

    def line(former: bool = False) -> Mock:
        return Mock(hello=SimpleNamespace(node_id="n1"), renewed_by=lambda said: former)

    incoming, said = Incoming(), cast(Hello, SimpleNamespace(node_id="n1"))
    former, older, newest = line(former=True), line(), line()
    for each in (former, older, newest):
        incoming.admit(each, said)
    older.abort.assert_called_once()
    incoming.lost(older)
    assert (incoming["n1"], incoming.all()) == (former, [former, newest])
    incoming.lost(former)
    assert (incoming["n1"], incoming.all()) == (newest, [newest])


def test_silence_counts_from_when_a_connection_is_read_again() -> None:
    """What came while it stood behind another waits unread."""

    async def test() -> None:
        async with pair() as (one, two, heard, _says):
            former = two._incoming["n1"]
            cast(asyncio.Transport, former._transport).pause_reading()
            one.set_cluster_id(CLUSTER)
            await heard.until(lambda: len(two._incoming.all()) == 2)
            _, behind = two._incoming.all()
            behind.heard_s = float("-inf")
            former.abort()
            await former.closed
            assert behind.heard_s > 0

    run(test())


def test_both_connections_end_with_the_transport() -> None:
    """Also while one stands behind the other."""

    async def test() -> None:
        async with pair() as (one, two, heard, says):
            former = two._incoming["n1"]
            cast(asyncio.Transport, former._transport).pause_reading()
            one.set_cluster_id(CLUSTER)
            await heard.until(lambda: says.renewed and len(two._incoming.all()) == 2)
            lines = two._incoming.all()
            await two.close()
            await heard.until(lambda: all(line.closed.done() for line in lines))
            assert not two._incoming.all()

    run(test())
