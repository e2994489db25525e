"""What a peer said before its directory was wiped: no connection of its former life outlives the news of it."""

from __future__ import annotations

from chaos.cluster.ports import free_ports
from replication.wire.frame import encode_message
from tests.replication.socket_node import Stranger, deaf_peer, run, transport

CENSUS = b"".join(encode_message({"type": "census"}))


def test_a_changed_disk_is_announced_and_its_former_life_unheard() -> None:
    """A peer with another store_id: its older connections are closed before the new one is announced."""

    async def test() -> None:
        async with transport("n1", {"n2": ("127.0.0.1", free_ports(1)[0])}) as (wire, heard):
            former = await Stranger.dial(wire)
            await former.greet(store_id=b"old")
            present = await Stranger.dial(wire)
            await present.greet(store_id=b"new")
            assert heard.connections == [("n2", b"old"), ("n2", b"new")]
            former.writer.write(b"".join(encode_message({"type": "census"})))
            assert await former.closed_by_peer()
            present.writer.write(b"".join(encode_message({"type": "census_answer", "empty": True})))
            await heard.until(lambda: bool(heard.messages))
            assert heard.messages == [("n2", {"type": "census_answer", "empty": True})]
            await former.close()
            await present.close()

    run(test())


def test_a_former_life_is_unheard_when_the_new_one_is_dialled() -> None:
    """The news comes with the answer of the peer that this node dialled: the connection that the peer had made before
    is closed first, so nothing that comes over it counts after `forget`."""

    async def test() -> None:
        port = free_ports(1)[0]
        async with transport("n1", {"n2": ("127.0.0.1", port)}) as (wire, heard):
            former = await Stranger.dial(wire)
            await former.greet(store_id=b"old")
            async with deaf_peer(port):
                await heard.until(lambda: ("n2", b"s2") in heard.connections)
                former.writer.write(CENSUS)
                assert await former.closed_by_peer()
                assert not heard.messages
                assert wire.connected("n2")
            await former.close()

    run(test())


def test_nothing_is_sent_to_a_former_life() -> None:
    """The news comes with a connection that the peer made: the one that this node dialled before is closed first."""

    async def test() -> None:
        port = free_ports(1)[0]
        async with transport("n1", {"n2": ("127.0.0.1", port)}) as (wire, heard), deaf_peer(port):
            await heard.until(lambda: wire.connected("n2"))
            present = await Stranger.dial(wire)
            await present.greet(store_id=b"new")
            assert heard.connections == [("n2", b"s2"), ("n2", b"new")]
            assert not wire.send("n2", {"type": "census"})
            await heard.until(lambda: wire.connected("n2"))
            assert heard.connections[2:] == [("n2", b"s2")]
            await present.close()

    run(test())
