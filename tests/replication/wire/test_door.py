"""The door on real sockets: what comes without the cluster id moves nothing, and who has a place keeps it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

import replication.wire.listener as transport_module
from chaos.cluster.ports import free_ports
from replication.wire.contacts import Contact, Contacts
from replication.wire.door import CONTEST_S, GUEST_KINDS, STRANGERS_MAX, UNHEARD_KINDS
from replication.wire.frame import HELLO_BYTES_MAX, Message, encode_message
from replication.wire.handshake import Hello, Refusal
from replication.wire.listener import AsyncTransport
from tests.replication.socket_node import Recorder, Stranger, run, transport
from tests.replication.wire.test_frame import MESSAGES

CLUSTER, OTHER = b"c" * 16, b"o" * 16
SAID = [message for message in MESSAGES if message["type"] not in ("ping", "pong")]


def pair() -> tuple[list[int], list[tuple[str, int]]]:
    """Ports and addresses of n1 and n2."""
    ports = free_ports(2)
    return ports, [("127.0.0.1", port) for port in ports]


async def joined(one: AsyncTransport, two: AsyncTransport, heard: Recorder) -> None:
    """Both directions stand."""
    await heard.until(lambda: one.connected("n2") and two.connected("n1"))
    await heard.until(lambda: "n2" in one._incoming and "n1" in two._incoming)


def test_every_kind_has_its_place_in_the_table() -> None:
    """A guest's message is heard, not heard, or refused: each kind of the protocol is one of these, on purpose."""
    refused = {"append_entries", "heartbeat", "request_vote", "timeout_now", "snapshot_offer", "snapshot_piece"}
    assert GUEST_KINDS | UNHEARD_KINDS | refused == {message["type"] for message in SAID}
    assert not GUEST_KINDS & UNHEARD_KINDS


@pytest.mark.parametrize("message", SAID, ids=lambda message: str(message["type"]))
def test_a_guest_moves_nothing(message: Message) -> None:
    """An empty node that is where it should be: it asks and acknowledges, without a vote; all else is not heard, and
    what only a leader or a candidate says ends its connection. It is back at once."""

    async def test() -> None:
        ports, peers = pair()
        async with (
            transport("n1", {"n2": peers[1]}, port=ports[0], cluster_id=CLUSTER) as (one, heard),
            transport("n2", {"n1": peers[0]}, port=ports[1]) as (two, there),
        ):
            await joined(one, two, heard)
            line = one._incoming["n2"]
            assert two.send("n1", message)
            assert two.send("n1", {"type": "census"})
            kind = message["type"]
            if kind in GUEST_KINDS | UNHEARD_KINDS:
                await heard.until(lambda: ("n2", {"type": "census"}) in heard.messages)
                assert one._incoming["n2"] is line
            else:
                await heard.until(lambda: one._incoming.get("n2") not in (None, line))
            others = [said for _peer, said in heard.messages if said != {"type": "census"}]
            wanted = {"next_node_idx": message | {"voter": False}}.get(kind, message)
            assert others == ([wanted] if kind in GUEST_KINDS - {"census"} else [])
            assert not there.errors

    run(test())


def test_a_guest_from_elsewhere_is_not_heard_at_all() -> None:
    """Who says to be an empty n2 and is not at n2's address: no word counts, and no disk is taken for wiped."""

    async def test() -> None:
        ports, peers = pair()
        async with (
            transport("n1", {"n2": peers[1]}, port=ports[0], cluster_id=CLUSTER) as (one, heard),
            transport("n2", {"n1": peers[0]}, port=ports[1]) as (two, _),
        ):
            await joined(one, two, heard)
            before = set(heard.connections)
            two._diallers["n1"].end()  # the real n2 says nothing for a while, but it listens
            await heard.until(lambda: "n2" not in one._incoming)
            stranger = await Stranger.dial(one)
            answer = await stranger.greet(store_id=b"made up")
            assert isinstance(answer, Refusal)
            assert answer.reason == "connected"
            await stranger.close()
        async with transport("n1", {"n2": peers[1]}, cluster_id=CLUSTER) as (one, heard):
            stranger = await Stranger.dial(one)
            assert isinstance(await stranger.greet(store_id=b"made up"), Hello)
            for message in SAID:
                if message["type"] in GUEST_KINDS | UNHEARD_KINDS:
                    stranger.writer.write(b"".join(encode_message(message)))
            stranger.writer.write(b"".join(encode_message(SAID[0])))
            assert await stranger.closed_by_peer()
            assert not heard.messages
            assert not heard.connections
            await stranger.close()
        assert before == {("n2", b"n2")}

    run(test())


@pytest.mark.parametrize("change", [{}, {"store_id": b"another"}, {"cluster_id": None}], ids=str)
def test_a_place_that_is_held_is_kept(change: dict[str, Any]) -> None:
    """Somebody says to be n2, with the cluster id and even n2's store id, while n2 is connected: refused by name."""

    async def test() -> None:
        ports, peers = pair()
        async with (
            transport("n1", {"n2": peers[1]}, port=ports[0], cluster_id=CLUSTER) as (one, heard),
            transport("n2", {"n1": peers[0]}, port=ports[1], cluster_id=CLUSTER) as (two, _),
        ):
            await joined(one, two, heard)
            line, before = one._incoming["n2"], list(heard.connections)
            stranger = await Stranger.dial(one)
            stranger.writer.write(
                b"".join(
                    Hello(**({"node_id": "n2", "to": "n1", "store_id": b"n2", "cluster_id": CLUSTER} | change)).encode()
                )
            )
            answer = await stranger.answer()
            assert isinstance(answer, Refusal)
            assert answer.reason == "connected"
            assert CLUSTER.hex() not in answer.detail
            assert await stranger.closed_by_peer()
            assert one._incoming["n2"] is line
            assert heard.connections == before
            assert two.send("n1", {"type": "census"})
            await heard.until(lambda: heard.messages == [("n2", {"type": "census"})])
            await stranger.close()

    run(test())


def test_a_place_whose_holder_is_gone_is_given() -> None:
    """A connection that stands and answers nothing (its host lost power) does not keep the member out."""

    async def test() -> None:
        async with transport("n1", {"n2": ("127.0.0.1", free_ports(1)[0])}, cluster_id=CLUSTER) as (wire, _heard):
            loop = asyncio.get_running_loop()
            mute = await Stranger.dial(wire)
            assert isinstance(await mute.greet(cluster_id=CLUSTER), Hello)
            begun = loop.time()
            again = await Stranger.dial(wire)
            assert isinstance(await again.greet(cluster_id=CLUSTER), Hello)
            assert CONTEST_S <= loop.time() - begun < 4 * CONTEST_S
            assert await mute.closed_by_peer()
            await mute.close()
            await again.close()

    run(test())


def test_an_id_takes_the_place_of_none_at_once() -> None:
    """A guest, whoever it is, does not keep out the member that knows the cluster."""

    async def test() -> None:
        async with transport("n1", {"n2": ("127.0.0.1", free_ports(1)[0])}, cluster_id=CLUSTER) as (wire, heard):
            guest, member = await Stranger.dial(wire), await Stranger.dial(wire)
            assert isinstance(await guest.greet(), Hello)
            assert isinstance(await member.greet(cluster_id=CLUSTER), Hello)
            assert await guest.closed_by_peer(CONTEST_S / 2)
            assert heard.connections == [("n2", b"s2")]
            await guest.close()
            await member.close()

    run(test())


def test_no_answer_tells_the_cluster() -> None:
    """Neither a refusal nor the answer to a guest has the cluster id in it, nor the members; the own log may."""

    async def test() -> None:
        async with transport("n1", {"n2": ("127.0.0.1", free_ports(1)[0])}, cluster_id=CLUSTER) as (wire, _heard):
            stranger = await Stranger.dial(wire)
            refusal = await stranger.greet(cluster_id=OTHER)
            assert isinstance(refusal, Refusal)
            assert refusal.reason == "other-cluster"
            assert CLUSTER.hex() not in refusal.detail
            assert CLUSTER.hex()[:8] not in str({name: each.detail for name, each in wire.refusals.items()})
            await stranger.close()
            guest = await Stranger.dial(wire)
            hello = await guest.greet()
            assert isinstance(hello, Hello)
            assert hello.cluster_id is None
            assert hello.contacts == Contacts()
            await guest.close()

    run(test())


def test_genesis_is_said_at_once_and_guests_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that learns the cluster id dials again with it. Who still has none is not heard for longer than GUEST_S on
    a connection from before: it may have the id by now, and says so when it dials."""
    monkeypatch.setattr(transport_module, "GUEST_S", 2.0)

    async def test() -> None:
        ports, peers = pair()
        async with (
            transport("n1", {"n2": peers[1]}, port=ports[0]) as (one, heard),
            transport("n2", {"n1": peers[0]}, port=ports[1]) as (two, there),
        ):
            await joined(one, two, heard)
            one.set_cluster_id(CLUSTER)
            founder = one._incoming["n2"]
            await there.until(lambda: (h := two._incoming.get("n1")) is not None and h.hello.cluster_id == CLUSTER)  # type: ignore[union-attr]
            assert two.send("n1", {"type": "stale_term", "term": 1})
            await heard.until(lambda: heard.messages == [("n2", {"type": "stale_term", "term": 1})])
            assert one._incoming["n2"] is founder
            await heard.until(lambda: one._incoming.get("n2") not in (None, founder))
            assert one._incoming["n2"].guest
            two.set_cluster_id(CLUSTER)
            await heard.until(lambda: (h := one._incoming.get("n2")) is not None and not h.guest)

    run(test())


def test_another_list_of_members_adds_and_takes_away_nobody() -> None:
    """A list of a later change, from one who knows the cluster id: its members are dialled beside the own ones, if this
    node believes such lists at all; one that no log can have, or that has no addresses, is refused by name."""

    async def test() -> None:
        ports, peers = pair()
        members = {"n2": peers[1], "n3": ("127.0.0.1", free_ports(1)[0])}
        async with transport("n1", members, port=ports[0], cluster_id=CLUSTER) as (one, heard):
            own = {each.id for each in one.contacts.members}
            me, them = (Contact(name, f"127.0.0.1:{ports[1]}", "") for name in ("n9", "n1"))

            async def say(index: int, *listed: Contact, as_node: str = "n9") -> Hello | Refusal | None:
                stranger = await Stranger.dial(one)
                hello = Hello(as_node, "n1", b"s9", CLUSTER, contacts=Contacts(index, listed))
                stranger.writer.write(b"".join(hello.encode()))
                try:
                    return await stranger.answer()
                except (asyncio.IncompleteReadError, ConnectionError):
                    return None
                finally:
                    await stranger.close()

            assert await say(1 << 62, me, them) is None
            assert await say(7, Contact("n9", "127.0.0.1:x", ""), them) is None
            assert await say(7, *[Contact(f"x{n}", "127.0.0.1:1", "") for n in range(33)]) is None
            refused = await say((1 << 40) + 1, me, them)
            assert isinstance(refused, Refusal)
            assert refused.reason == "unknown-node"
            one.believed = lambda index: False
            assert isinstance(await say(7, me, them), Refusal)
            assert isinstance(await say(7, me, them, Contact("n2", "10.0.0.1:1", ""), as_node="n2"), Hello)
            assert {each.id for each in one.contacts.members} == own
            one.believed = lambda index: True
            assert isinstance(await say(7, me, them), Hello)
            assert {each.id for each in one.contacts.members} == own | {"n9"}
            assert {"n2", "n3", "n9"} == one._diallers.keys()
            one.set_contacts(Contacts(8, tuple(each for each in one.contacts.members if each.id in own)))
            assert {each.id for each in one.contacts.members} == own
            assert not heard.errors

    run(test())


def test_idle_sockets_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strangers fill all places and stay: a member gets in at once, again and again; of an address with few nobody has
    to go for one with many. On a busy machine 800 of them take longer than a stranger may be silent."""
    monkeypatch.setattr("replication.wire.listener.SILENT_S", 3_600.0)

    async def test() -> None:
        async with transport("n1", {"n2": ("127.0.0.1", free_ports(1)[0])}) as (wire, heard):
            few = Stranger(*await asyncio.open_connection(*wire.address, local_addr=("127.0.0.2", 0)))
            crowd = [await Stranger.dial(wire) for _ in range(STRANGERS_MAX + 20)]
            await heard.until(lambda: len(wire._door.strangers) == STRANGERS_MAX)
            for _ in range(3):
                peer = await Stranger.dial(wire)
                assert isinstance(await peer.greet(), Hello)
                await peer.close()
                crowd += [await Stranger.dial(wire) for _ in range(STRANGERS_MAX)]
            assert isinstance(await few.greet(), Hello)
            for each in [*crowd, few]:
                await each.close()

    run(test())


def test_strangers_write_one_line_a_second(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever strangers do, in whatever number: one line, and later how many more there would have been."""

    async def test() -> None:
        loop = asyncio.get_running_loop()
        async with transport("n1", {"n2": ("127.0.0.1", free_ports(1)[0])}, cluster_id=CLUSTER) as (wire, _heard):
            begun = loop.time()
            for number in range(100):
                for junk in (b"\xff" * 100, b"".join(Hello(f"x{number}", "n1", b"s", OTHER).encode())):
                    stranger = await Stranger.dial(wire)
                    stranger.writer.write(junk)
                    assert await stranger.closed_by_peer()
                    await stranger.close()
            assert len(caplog.records) <= 2 + (loop.time() - begun)

    with caplog.at_level(logging.WARNING, "hourwheel"):
        run(test())


def test_a_connection_that_ends_keeps_no_buffer() -> None:
    """A stranger costs what its hello may be long, and nothing once it is gone: the fuzz found 256 KiB for each that
    had ever come, until the collector came by: half a gigabyte in a minute."""

    async def test() -> None:
        async with transport("n1", {"n2": ("127.0.0.1", free_ports(1)[0])}) as (wire, heard):
            stranger = await Stranger.dial(wire)
            await heard.until(lambda: any(each.alive for each in wire._door.strangers))
            (connection,) = wire._door.strangers
            assert len(connection._reader.space()) == HELLO_BYTES_MAX
            await stranger.close()
            await heard.until(lambda: not wire._door.strangers)
            assert len(connection._reader.space()) == 0

    run(test())
