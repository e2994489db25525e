"""The transport on real sockets: who may speak, what it survives, how fast it is back."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable

import pytest

from chaos.cluster.ports import free_ports
from replication.wire.frame import HEADER, PROTOCOL, Message, encode_frame, encode_message
from replication.wire.handshake import HELLO, Hello, Refusal
from replication.wire.link import OUTBOX_APPEND_MAX, OUTBOX_BYTES_MAX, PING_S, SILENT_S
from tests.pace import slowness
from tests.replication.socket_node import LOOPS, Stranger, deaf_peer, rests_longest, run, transport
from tests.waiting import until

Loop = Callable[[], asyncio.AbstractEventLoop]
CLUSTER, OTHER = b"c" * 16, b"o" * 16


def append(size: int, seq: int = 1) -> Message:
    """An append_entries with one command of that size."""
    return {
        "type": "append_entries",
        "term": 1,
        "seq": seq,
        "commit_index": 1,
        "prevLogIdx": 1,
        "prevLogTerm": 0,
        "entries": [(bytes(size), 2, 1)],
    }


@pytest.mark.parametrize("loop", LOOPS)
def test_messages_arrive_whole_and_in_order(loop: Loop) -> None:
    """Small and large messages of two nodes arrive as they were sent, in order, on either event loop."""

    async def test() -> None:
        ports = free_ports(2)
        peers = [("127.0.0.1", port) for port in ports]
        async with (
            transport("n1", {"n2": peers[1]}, port=ports[0]) as (one, _),
            transport("n2", {"n1": peers[0]}, port=ports[1]) as (_two, heard),
        ):
            await heard.until(lambda: one.connected("n2"))
            sent: list[Message] = []
            for number in range(200):
                size = [1, 100, 70_000, 1 << 20][number % 4] if number % 20 == 0 else number + 1
                sent.append(append(size, number + 1))
                sent.append({"type": "echo", "term": number, "stamp_us": number, "wall_ms": 1, "applied_index": 2,
                             "free_bytes": 3, "low": False, "retiring": False, "leaving": True,
                             "busy": False, "voter": bool(number % 2), "sum_index": 0, "sum": b"",
                             "silence_ms": 400})  # fmt: skip
            for message in sent:
                assert one.send("n2", message)
            await heard.until(lambda: len(heard.messages) == len(sent))
            assert [message for _peer, message in heard.messages] == sent
            assert {peer for peer, _message in heard.messages} == {"n1"}

    run(test(), loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_throughput_is_not_the_bottleneck(loop: Loop) -> None:
    """200 entries of 1 MiB pass between two nodes of one thread in less than two seconds of its processor time, both
    ends together, by the pace of this machine."""

    async def test() -> None:
        ports = free_ports(2)
        peers = [("127.0.0.1", port) for port in ports]
        async with (
            transport("n1", {"n2": peers[1]}, port=ports[0]) as (one, _),
            transport("n2", {"n1": peers[0]}, port=ports[1]) as (_two, heard),
        ):
            await heard.until(lambda: one.connected("n2"))
            begun = time.thread_time()
            for number in range(200):
                assert one.send("n2", append(1 << 20))
                await heard.until(lambda number=number: len(heard.messages) > number)  # type: ignore[misc]
                heard.messages[number] = ("", {})
            took = (time.thread_time() - begun) / slowness()
            assert took < 2.0, f"{200 / took:.0f} MiB/s"

    run(test(), loop)


def test_garbage_closes_one_connection_and_nothing_else() -> None:
    """Random bytes, an oversized frame, a frame before the hello, a bad message: each ends its own connection only."""

    async def test() -> None:
        async with transport("n1", {"n2": ("127.0.0.1", free_ports(1)[0])}) as (wire, heard):
            for junk in (
                b"GET / HTTP/1.1\r\nHost: n1\r\n\r\n" * 20,
                b"\xff" * 5_000,
                HEADER.pack(4 << 20, 10, 0) + bytes(100),
                b"".join(encode_message({"type": "census"})),
            ):
                stranger = await Stranger.dial(wire)
                stranger.writer.write(junk)
                assert await stranger.closed_by_peer()
                await stranger.close()
            for junk in (HEADER.pack(17 << 20, 10, 0), HEADER.pack(30, 40, 0) + bytes(40), b"\0" * 64):
                known = await Stranger.dial(wire)
                assert isinstance(await known.greet(node_id="n2", store_id=b"s2"), Hello)
                known.writer.write(junk)
                assert await known.closed_by_peer()
                await known.close()
            good = await Stranger.dial(wire)
            assert isinstance(await good.greet(), Hello)
            good.writer.write(b"".join(encode_message({"type": "census"})))
            await heard.until(lambda: bool(heard.messages))
            assert heard.messages == [("n2", {"type": "census"})]
            await good.close()

    run(test())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"cluster_id": OTHER}, "other-cluster"),
        ({"node_id": "n9"}, "unknown-node"),
        ({"node_id": "n1"}, "unknown-node"),
        ({"to": "n3"}, "wrong-address"),
        ({"protocol": (PROTOCOL[1] + 1, PROTOCOL[1] + 2)}, "protocol"),
        ({"formats": {"command": (5, 9)}}, "format"),
    ],
)
def test_the_wrong_peer_is_refused_with_its_reason(change: dict[str, object], reason: str) -> None:
    """Another cluster, an unknown node, a wrong address, versions that do not meet: refused, said, and kept."""

    async def test() -> None:
        peers = {"n2": ("127.0.0.1", free_ports(1)[0])}
        async with transport("n1", peers, cluster_id=CLUSTER, formats={"command": (1, 2)}) as (wire, heard):
            stranger = await Stranger.dial(wire)
            answer = await stranger.greet(**({"cluster_id": CLUSTER} | change))
            assert isinstance(answer, Refusal)
            assert answer.reason == reason
            assert await stranger.closed_by_peer()
            await stranger.close()
            assert [refusal.reason for refusal in wire.refusals.values()] == [reason]
            assert not heard.connections
            accepted = await Stranger.dial(wire)
            assert isinstance(await accepted.greet(cluster_id=CLUSTER, formats={"command": (2, 3)}), Hello)
            assert "n2" not in wire.refusals
            await accepted.close()

    run(test())


def test_a_wrong_answer_is_refused_too() -> None:
    """The one who dials checks as well: another node at the address, another cluster, a refusal of the other side."""

    async def test() -> None:
        ports = free_ports(2)
        there = ("127.0.0.1", ports[1])
        async with transport("n1", {"n2": there}, port=ports[0], cluster_id=CLUSTER) as (wire, heard):
            async with transport("n3", {"n1": ("127.0.0.1", ports[0])}, port=ports[1]):
                await heard.until(lambda: "n2" in wire.refusals)
                assert wire.refusals["n2"].reason == "wrong-address"
            wire.refusals.clear()
            async with transport("n2", {"n1": ("127.0.0.1", ports[0])}, port=ports[1], cluster_id=OTHER):
                await heard.until(lambda: "n2" in wire.refusals)
                assert wire.refusals["n2"].reason == "other-cluster"
                assert not wire.connected("n2")
            async with transport("n2", {"n1": ("127.0.0.1", ports[0])}, port=ports[1], cluster_id=CLUSTER):
                await heard.until(lambda: wire.connected("n2"))
                assert not wire.refusals

    run(test())


def test_genesis_parts_from_another_cluster() -> None:
    """A node that learns its cluster hangs up on a peer of another, which it had let in while it knew none."""

    async def test() -> None:
        ports = free_ports(2)
        peers = [("127.0.0.1", port) for port in ports]
        async with (
            transport("n1", {"n2": peers[1]}, port=ports[0]) as (one, heard),
            transport("n2", {"n1": peers[0]}, port=ports[1], cluster_id=OTHER) as (two, _),
        ):
            await heard.until(lambda: one.connected("n2") and two.connected("n1"))
            one.set_cluster_id(CLUSTER)
            await heard.until(lambda: not one.connected("n2") and not two.connected("n1"))
            await heard.until(lambda: "n2" in one.refusals)

    run(test())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_peer_that_does_not_read_costs_bounded_memory(loop: Loop) -> None:
    """Entries are dropped past 16 MiB unsent; past 64 MiB the connection goes."""

    async def test() -> None:
        port = free_ports(1)[0]
        async with transport("n1", {"n2": ("127.0.0.1", port)}) as (wire, heard), deaf_peer(port):
            await heard.until(lambda: wire.connected("n2"))
            taken = 0
            while wire.send("n2", append(1 << 20)):
                taken += 1
                await asyncio.sleep(0)
                assert taken < 40
            dialled = wire._diallers["n2"].connection
            assert dialled is not None
            assert OUTBOX_APPEND_MAX < dialled.unsent < OUTBOX_APPEND_MAX + (3 << 20)
            assert wire.send("n2", {"type": "census"}), "small messages still go"
            filler = [bytes(1 << 20)]
            while dialled.unsent <= OUTBOX_BYTES_MAX:
                dialled.write(filler)
            assert not wire.send("n2", {"type": "census"})
            await heard.until(lambda: wire._diallers["n2"].connection is not dialled)

    run(test(), loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_reconnects_within_two_seconds(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that was away for longer than any back-off is connected again, both ways, within two seconds."""

    async def test() -> None:
        ports = free_ports(2)
        peers = [("127.0.0.1", port) for port in ports]
        async with transport("n1", {"n2": peers[1]}, port=ports[0]) as (one, heard):
            for _ in range(2):
                async with transport("n2", {"n1": peers[0]}, port=ports[1]) as (two, _):
                    begun = asyncio.get_running_loop().time()
                    await heard.until(lambda two=two: one.connected("n2") and two.connected("n1"))  # type: ignore[misc]
                    assert asyncio.get_running_loop().time() - begun < 1.5
                await heard.until(lambda: not one.connected("n2"))
                assert not one.send("n2", {"type": "census"})
                await until(rests_longest(monkeypatch))

    run(test(), loop)


def test_silence_closes_a_connection() -> None:
    """A connection on which nothing is heard for two seconds is closed, whichever side dialled; pings keep one open."""

    async def test() -> None:
        port = free_ports(1)[0]
        async with transport("n1", {"n2": ("127.0.0.1", port)}) as (wire, heard), deaf_peer(port):
            silent = await Stranger.dial(wire)
            await silent.greet()
            speechless = await Stranger.dial(wire)
            await heard.until(lambda: wire.connected("n2"))
            line, begun = wire._diallers["n2"].connection, asyncio.get_running_loop().time()
            assert line is not None
            assert await silent.closed_by_peer(4)
            assert await speechless.closed_by_peer(4)
            await heard.until(line.closed.done)  # it is dialled again at once
            assert 1.0 < asyncio.get_running_loop().time() - begun < 3.5
            await silent.close()
            await speechless.close()

        ports = free_ports(2)
        peers = [("127.0.0.1", port) for port in ports]
        async with (
            transport("n1", {"n2": peers[1]}, port=ports[0]) as (one, heard),
            transport("n2", {"n1": peers[0]}, port=ports[1]),
        ):
            await heard.until(lambda: one.connected("n2"))
            connection = one._diallers["n2"].connection
            assert connection is not None
            first_s = connection.heard_s
            await until(lambda: connection.heard_s > first_s + SILENT_S + PING_S)
            assert one._diallers["n2"].connection is connection

    run(test())


def test_an_address_in_use_is_said() -> None:
    """Two transports on one port: the second raises OSError from start."""

    async def test() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            with pytest.raises(OSError, match="in use"):
                async with transport("n1", {}, port=taken.getsockname()[1]):
                    pass

    run(test())


def test_a_hello_of_a_newer_form_is_answered_with_what_this_build_reads() -> None:
    """A node of the version after next among those of this one: refused by name, nothing is kept, the others go on."""

    async def test() -> None:
        async with transport("n1", {"n2": ("127.0.0.1", free_ports(1)[0])}) as (wire, heard):
            stranger = await Stranger.dial(wire)
            newer: list[object] = [HELLO, 3, 4, None, "n2", "n1", b"s2", {"entry": [3, 4]}, 0, [], {"level": 4}, "more"]
            stranger.writer.write(b"".join(encode_frame(newer)))
            answer = await stranger.answer()
            assert isinstance(answer, Refusal)
            assert (answer.reason, "reads 11" in answer.detail) == ("protocol", True)
            assert await stranger.closed_by_peer()
            await stranger.close()
            assert not heard.connections
            good = await Stranger.dial(wire)
            assert isinstance(await good.greet(protocol=(1, 3), formats={"entry": (2, 3)}), Hello)
            await good.close()

    run(test())


def test_when_the_level_rises_an_older_build_is_parted_with() -> None:
    """Its connection ends, and the next one is refused with what it reads; a newer build's stays."""

    async def test() -> None:
        peers = {"n2": ("127.0.0.1", free_ports(1)[0]), "n3": ("127.0.0.1", free_ports(1)[0])}
        async with transport("n1", peers, formats={"entry": (1, 2)}) as (wire, heard):
            older, newer = await Stranger.dial(wire), await Stranger.dial(wire)
            assert isinstance(await older.greet(protocol=(1, 1)), Hello)
            said = await newer.greet(node_id="n3", store_id=b"s3", formats={"entry": (1, 2)})
            assert isinstance(said, Hello)
            wire.set_level(2)
            assert await older.closed_by_peer()
            await older.close()
            again = await Stranger.dial(wire)
            answer = await again.greet(protocol=(1, 1))
            assert isinstance(answer, Refusal)
            assert answer.detail.startswith("n2 reads entries of versions 1 to 1, the cluster is at level 2")
            assert wire.refusals["n2"].reason == "format"
            await again.close()
            newer.writer.write(b"".join(encode_message({"type": "census"})))
            await heard.until(lambda: heard.messages == [("n3", {"type": "census"})])
            await newer.close()

    run(test())
