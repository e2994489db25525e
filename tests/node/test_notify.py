"""The service manager is told what it asked to be told, in its own protocol, and nobody else is."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.cluster.cluster import Cluster
from node.notify import Notifier


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The service manager's end of the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.setblocking(False)
        yield receiver


def heard(manager: socket.socket) -> list[str]:
    """All lines that have come."""
    lines: list[str] = []
    while True:
        try:
            lines += manager.recv(4096).decode().split("\n")
        except BlockingIOError:
            return lines


def test_the_environment_says_what_is_wanted(manager: socket.socket) -> None:
    """Without a socket nothing is sent; the watchdog is told three times in its time, if it is this process's."""
    path = manager.getsockname()
    assert Notifier({}).beat_s == 0
    assert Notifier({"WATCHDOG_USEC": "3000000"}).beat_s == 0
    assert Notifier({"NOTIFY_SOCKET": path}).beat_s == 0
    assert Notifier({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "3000000"}).beat_s == 1
    own, other = str(os.getpid()), str(os.getpid() + 1)
    assert Notifier({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": own}).beat_s == 1
    assert Notifier({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": other}).beat_s == 0
    Notifier({}).tell("READY=1")
    assert heard(manager) == []
    Notifier({"NOTIFY_SOCKET": path}).tell("READY=1", "STATUS=serves")
    assert heard(manager) == ["READY=1", "STATUS=serves"]


def test_a_socket_without_a_path() -> None:
    """A name that begins with @ is of the abstract namespace."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(f"\0hourwheel-test-{os.getpid()}")
        Notifier({"NOTIFY_SOCKET": f"@hourwheel-test-{os.getpid()}"}).tell("STOPPING=1")
        assert receiver.recv(100) == b"STOPPING=1"


def test_a_manager_that_is_gone_ends_nothing(tmp_path: Path) -> None:
    """Nor does one whose buffer is full."""
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "nobody")}).tell("READY=1")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf:
        deaf.bind(str(tmp_path / "deaf"))
        for _ in range(2000):
            Notifier({"NOTIFY_SOCKET": str(tmp_path / "deaf")}).tell("WATCHDOG=1")


def test_beats_stop_with_the_loop(manager: socket.socket) -> None:
    """A loop that turns is told of as often as the watchdog wants; one that hangs is not."""

    async def play() -> None:
        loop = asyncio.get_running_loop()
        notifier = Notifier({"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "30000"})
        beating = asyncio.ensure_future(notifier.beat(lambda: "turns"))
        for _ in range(3):
            assert (await loop.sock_recv(manager, 100)).decode() == "WATCHDOG=1\nSTATUS=turns"
        beating.cancel()

    asyncio.run(play())
    assert heard(manager) == []


def test_a_node_tells_its_life(tmp_path: Path, manager: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real process: ready when it serves, not before; beats with what it is; says when it stops."""
    monkeypatch.setenv("NOTIFY_SOCKET", manager.getsockname())
    monkeypatch.setenv("WATCHDOG_USEC", "300000")

    async def play() -> list[str]:
        loop = asyncio.get_running_loop()
        async with Cluster(tmp_path / "cluster", count=1) as cluster:
            cluster.start()
            lines = []
            while "STATUS=leads term 1" not in lines:
                lines += (await loop.sock_recv(manager, 4096)).decode().split("\n")
            await cluster.stop("n1")
            return lines

    lines = asyncio.run(play())
    assert lines.count("READY=1") == 1
    assert "WATCHDOG=1" in lines
    assert "STOPPING=1" in heard(manager)
