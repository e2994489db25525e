"""R15 to R17: what comes from the wire is data, a shortage of descriptors passes, buffers have an end."""

from __future__ import annotations

import asyncio
import errno
import os
import pickle
import socket
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pysyncobj.tcp_connection
import pysyncobj.tcp_server
import pytest
from pysyncobj.poller import createPoller

from chaos.cluster.ports import free_ports
from replication.wire.frame import FRAME_BYTES_MAX, HEADER, FrameRefused
from replication.wire.frame_reader import FrameReader
from replication.wire.handshake import Hello
from replication.wire.link import BACK_OFF_MAX_S
from tests.replication.sim_network import SimNetwork
from tests.replication.socket_node import LOOPS, Stranger, rests_longest, run, transport
from tests.replication.stock_cluster import stock
from tests.waiting import until

RAN: list[str] = []


def explode(by: str) -> None:
    """What a stranger wants to run."""
    RAN.append(by)


class Bomb:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return explode, ("whoever reached the port",)


def test_r15_nothing_from_the_wire_is_unpickled(tmp_path: Path) -> None:
    """R15: a stranger's pickle runs in stock before anybody asks who he is; ours hangs up and unpickles nothing."""
    RAN.clear()
    payload = zlib.compress(pickle.dumps(Bomb()))
    connection = pysyncobj.tcp_connection.TcpConnection(createPoller("auto"))
    connection._TcpConnection__readBuffer = len(payload).to_bytes(4, "little") + payload
    connection._TcpConnection__processParseMessage()
    assert RAN, "control: the stock library no longer unpickles what strangers send"
    RAN.clear()

    async def test() -> None:
        async with transport("n1", {"n2": ("127.0.0.1", free_ports(1)[0])}) as (wire, _):
            stranger = await Stranger.dial(wire)
            stranger.writer.write(len(payload).to_bytes(4, "little") + payload)
            assert await stranger.closed_by_peer()
            await stranger.close()

    run(test())
    network = SimNetwork(tmp_path)
    node = network.elect()
    for kind in range(4):  # also as commands of the library's own kinds
        node.group.propose(bytes([kind]) + pickle.dumps(Bomb()), lambda outcome: None)
    network.run(1)
    assert all(len(each.applied) == 4 for each in network.nodes.values())
    assert not RAN


def test_r15_a_length_is_checked_before_memory_is_taken() -> None:
    """R15: stock inflates whatever it is sent; ours refuses a length beyond its limit before it allocates."""
    bomb = zlib.compress(pickle.dumps(bytes(64 << 20)))
    assert len(bomb) < 100_000
    received: list[Any] = []
    connection = pysyncobj.tcp_connection.TcpConnection(createPoller("auto"), onMessageReceived=received.append)
    connection._TcpConnection__readBuffer = len(bomb).to_bytes(4, "little") + bomb
    message = connection._TcpConnection__processParseMessage()
    assert len(message) == 64 << 20, "control: the stock library limits what it inflates"

    for limit in (4096, FRAME_BYTES_MAX):
        reader = FrameReader(lambda meta, blob, crc: None, limit)
        reader.space()[: HEADER.size] = HEADER.pack(limit + 1, 10, 0)
        with pytest.raises(FrameRefused, match=f"the limit is {limit}"):
            reader.received(HEADER.size)


@pytest.mark.parametrize("loop", LOOPS)
def test_r16_a_shortage_of_descriptors_passes(
    monkeypatch: pytest.MonkeyPatch, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """R16: one EMFILE closes stock's listener for good; ours accepts again as soon as there are descriptors."""

    def refused(*_: object) -> Any:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    server = pysyncobj.tcp_server.TcpServer(createPoller("auto"), "127.0.0.1", 0, lambda connection: None)
    server.bind()
    listener = server._TcpServer__socket
    server._TcpServer__socket = _Raising(listener, refused)
    server._TcpServer__onNewConnection(server._TcpServer__fileno, 1)
    assert server._TcpServer__state == pysyncobj.tcp_server.SERVER_STATE.UNBINDED, "control: stock survives EMFILE"
    listener.close()

    async def test() -> None:
        async with transport("n1", {"n2": ("127.0.0.1", free_ports(1)[0])}) as (wire, _):
            real = wire._acceptor._socket
            assert real is not None
            short = _Raising(real, refused)
            monkeypatch.setattr(wire._acceptor, "_socket", short)
            stranger = await Stranger.dial(wire)
            greeting = asyncio.ensure_future(stranger.greet())
            await until(lambda: short.asked >= 2, what="it tries again")
            assert not greeting.done()
            monkeypatch.undo()
            assert isinstance(await asyncio.wait_for(greeting, 1), Hello)
            await stranger.close()

    run(test(), loop)


class _Raising:
    """A listening socket that cannot accept; the rest is the real one's."""

    def __init__(self, real: socket.socket, accept: Callable[[], Any]) -> None:
        self.asked = 0
        self._real = real
        self._accept = accept

    def accept(self) -> Any:
        self.asked += 1
        return self._accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def test_r16_the_pause_between_attempts_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """R16: stock tries again after 5 s and waits up to 28 for a healed link; ours tries every second at least."""
    with stock() as control:
        assert control.conf("A").connectionRetryTime == 5.0, "control: stock's pause has changed"
    assert BACK_OFF_MAX_S <= 1.0

    async def test() -> None:
        port = free_ports(1)[0]
        async with transport("n1", {"n2": ("127.0.0.1", port)}):
            await until(rests_longest(monkeypatch))
            with socket.socket() as listener:
                listener.bind(("127.0.0.1", port))
                listener.listen()
                listener.setblocking(False)
                accepted, _address = await asyncio.wait_for(asyncio.get_running_loop().sock_accept(listener), 1.2)
                accepted.close()

    run(test())


def test_r17_what_waits_for_a_slow_follower_is_bounded(tmp_path: Path) -> None:
    """R17: towards a follower that does not read stock queues everything; ours has one batch on its way, no more."""
    with stock() as control:
        leader = control.elect("A")
        control.held = {("A", "B"), ("B", "A")}
        for _ in range(40):
            leader.put("x" * 20_000)
            control.tick(0.11)
        queued = sum(len(entry[0]) for message in control.queues["A", "B"] for entry in message.get("entries", ()))
        assert queued > 700_000, "control: stock holds back now"

    network = SimNetwork(tmp_path, max_batch_bytes=50_000)
    node = network.elect()
    network.run(0.5)
    slow = network.others(node)[0].id
    network.hold(node.id, slow)
    for number in range(40):
        network.fill(node, 1, f"{number}." + "x" * 20_000)
        network.run(0.01)
    waiting = sum(
        len(entry[0]) for _receiver, message in network.held[node.id, slow] for entry in message.get("entries", ())
    )
    assert waiting <= 50_000
    network.release(node.id, slow)
    assert network.run(1, network.equal)
