"""The driver on the real loop, real sockets and real files: three nodes, their latency, their end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import random
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import replication.wire.link
import replication.wire.listener
from chaos.cluster.ports import free_ports
from replication.driver import PUT_OFF_S, GroupDriver
from replication.group import RaftGroup
from replication.journal.journal import Journal
from replication.journal.writer import WriterThread
from replication.raft.options import GroupOptions, NodeReport
from replication.raft.proposal import NOT_LEADER, UNKNOWN
from replication.wire.listener import AsyncTransport, Identity
from storage.file.disk import Disk, DiskFailed
from tests.replication.socket_node import LOOPS, run
from tests.waiting import WITHIN_S, turns, until

IDS = ("n1", "n2", "n3")


class BrokenDisk(Disk):
    """Works until it is told to fail; slow while `quick` is clear."""

    broken = False

    def __init__(self) -> None:
        super().__init__()
        self.quick = threading.Event()
        self.quick.set()

    def fdatasync(self, fd: int) -> None:
        """Fail like a disk that is gone."""
        self.quick.wait()
        if self.broken:
            raise DiskFailed("fdatasync", "journal", errno.EIO)
        super().fdatasync(fd)


class Process:
    """One node as a process would assemble it."""

    def __init__(self, directory: Path, node_id: str, ports: dict[str, int]) -> None:
        (directory / node_id).mkdir(exist_ok=True)
        self.disk = BrokenDisk()
        self.applied: list[bytes] = []
        self.fatal: list[BaseException] = []
        self.journal = Journal.open(directory / node_id, disk=self.disk)
        self.transport = AsyncTransport(
            Identity(node_id, node_id.encode()),
            ("127.0.0.1", ports[node_id]),
            {peer: ("127.0.0.1", port) for peer, port in ports.items() if peer != node_id},
        )
        self.group = RaftGroup(
            GroupOptions(node_id, tuple(peer for peer in ports if peer != node_id)),
            self.journal,
            self.transport.attach,
            self._apply,
            monotonic=time.monotonic,
            random=random.Random(node_id).random,
            node_report=lambda: NodeReport(0, 0),
        )
        self.group.start_at(0)
        self.driver = GroupDriver(self.group, self.transport, on_fatal=self.fatal.append)

    def _apply(self, index: int, term: int, command: bytes) -> int:
        self.applied.append(command)
        return len(self.applied)

    async def close(self) -> None:
        """As a process ends: the driver, then the journal."""
        await self.driver.close()
        self.journal.close()


@contextlib.asynccontextmanager
async def cluster(directory: Path, ids: tuple[str, ...] = IDS) -> AsyncIterator[dict[str, Process]]:
    """Running nodes, closed at the end."""
    ports = dict(zip(ids, free_ports(len(ids)), strict=True))
    nodes = {node_id: Process(directory, node_id, ports) for node_id in ids}
    for node in nodes.values():
        await node.driver.start()
    try:
        yield nodes
    finally:
        for node in nodes.values():
            await node.close()


async def leader(nodes: dict[str, Process]) -> Process:
    """The trusted leader."""
    await until(lambda: any(node.group.trusted(time.monotonic()) for node in nodes.values()))
    return next(node for node in nodes.values() if node.group.trusted(time.monotonic()))


@pytest.mark.parametrize("loop", LOOPS)
def test_three_nodes(tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """Elect, commit from many tasks at once, lose the leader, go on, come back: all nodes have applied the same."""

    async def test() -> None:
        async with cluster(tmp_path) as nodes:
            first = await leader(nodes)
            outcomes = await asyncio.gather(*(first.driver.propose(f"c{number}".encode()) for number in range(500)))
            assert [outcome.error for outcome in outcomes] == [None] * 500
            assert sorted(outcome.result for outcome in outcomes) == list(range(1, 501))
            follower = next(node for node in nodes.values() if node is not first)
            assert (await follower.driver.propose(b"no")).error == NOT_LEADER
            await first.close()
            rest = {node_id: node for node_id, node in nodes.items() if node is not first}
            second = await leader(rest)
            assert (await second.driver.propose(b"after")).error is None
            await until(lambda: all(len(node.applied) == 501 for node in rest.values()))
            assert len({tuple(node.applied) for node in rest.values()}) == 1
            nodes.pop(first.group.options.node_id)

    run(test(), loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_command_waits_for_no_timer(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between proposal and result there are messages and two writes: without any timer a command is carried out."""
    monkeypatch.setattr(replication.wire.link, "PING_S", 3_600.0)
    for module in (replication.wire.link, replication.wire.listener):
        monkeypatch.setattr(module, "SILENT_S", 3_600.0)

    async def test() -> None:
        async with cluster(tmp_path) as nodes:
            done = 0
            while done < 100:
                first = await leader(nodes)
                async with without_timers(nodes):
                    while done < 100 and await carried_out(first):
                        done += 1

    run(test(), loop)


@contextlib.asynccontextmanager
async def without_timers(nodes: dict[str, Process]) -> AsyncIterator[None]:
    """No driver has a timer; who wants to be led again after the machine stood still needs one."""
    with pytest.MonkeyPatch.context() as patch:
        for node in nodes.values():
            patch.setattr(node.driver, "_arm", lambda: None)
            if node.driver._timer is not None:
                node.driver._timer.cancel()
                node.driver._timer = None
        yield
    for node in nodes.values():
        node.driver.wake()


async def carried_out(node: Process) -> bool:
    """Whether a command was, and not refused because the node leads no more."""
    async with asyncio.timeout(WITHIN_S):
        return (await node.driver.propose(b"command")).error is None


def test_many_wakes_are_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked for before the loop comes round is one tick of the group and one write of its journal."""

    async def test() -> None:
        async with cluster(tmp_path, ("n1",)) as nodes:
            node = await leader(nodes)
            await until(lambda: node.journal.durable_seq == node.journal.write_seq)
            ticks: list[bool] = []
            tick = node.group.tick

            def counted(**how: bool) -> bool:
                ticks.append(True)
                return tick(**how)

            monkeypatch.setattr(node.group, "tick", counted)
            for _ in range(50):
                node.driver.wake()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert 1 <= len(ticks) <= 2
            outcomes = await asyncio.gather(*(node.driver.propose(b"command") for _ in range(20)))
            assert len({outcome.index for outcome in outcomes}) == 20

    run(test())


def test_a_failed_write_ends_the_node(tmp_path: Path) -> None:
    """EIO from fdatasync: on_fatal is told once, nothing is acknowledged any more, nothing is tried again."""

    async def test() -> None:
        async with cluster(tmp_path, ("n1",)) as nodes:
            node = await leader(nodes)
            node.disk.broken = True
            pending = [asyncio.ensure_future(node.driver.propose(b"lost")) for _ in range(3)]
            await until(lambda: bool(node.fatal))
            assert isinstance(node.fatal[0], DiskFailed)
            node.disk.broken = False
            await turns(50)
            assert len(node.fatal) == 1
            assert not node.applied
            assert not any(each.done() for each in pending)
            assert (await node.driver.propose(b"late")).error == NOT_LEADER
            await node.driver.close()
            assert [(await each).error for each in pending] == [UNKNOWN] * 3
            nodes.clear()

    run(test())


def test_an_exception_of_apply_ends_the_node(tmp_path: Path) -> None:
    """What apply raises reaches on_fatal; the loop and the other tasks go on until the process ends."""

    async def test() -> None:
        async with cluster(tmp_path, ("n1",)) as nodes:
            node = await leader(nodes)

            def poison(index: int, term: int, command: bytes) -> int:
                raise RuntimeError(f"cannot apply entry {index}")

            node.group._apply_command = poison
            pending = asyncio.ensure_future(node.driver.propose(b"poison"))
            await until(lambda: bool(node.fatal))
            assert "cannot apply" in str(node.fatal[0])
            assert not node.group.is_leader
            pending.cancel()

    run(test())


def test_closing_finishes_the_write_under_way(tmp_path: Path) -> None:
    """close: open proposals are unknown, the write under way ends, and the journal reopens with it."""

    async def test() -> None:
        async with cluster(tmp_path, ("n1",)) as nodes:
            node = await leader(nodes)
            pending = [asyncio.ensure_future(node.driver.propose(bytes(1 << 20))) for _ in range(10)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            last = node.journal.last_index
            await node.close()
            assert {(await each).error for each in pending} <= {UNKNOWN, None}
            nodes.clear()
            reopened = Journal.open(tmp_path / "n1", disk=Disk())
            assert reopened.last_index == last
            reopened.close()

    run(test())


def test_closing_that_is_cancelled_leaves_no_thread_behind(tmp_path: Path) -> None:
    """The loop ends after it: a thread that still writes would tell a closed loop that it has."""

    async def test() -> None:
        async with cluster(tmp_path, ("n1",)) as nodes:
            node = await leader(nodes)
            node.disk.quick.clear()
            pending = asyncio.ensure_future(node.driver.propose(b"slow"))
            await until(lambda: node.driver._syncing is not None)
            closing = asyncio.ensure_future(node.driver.close())
            await turns(50)
            assert not closing.done()
            node.disk.quick.set()
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            assert isinstance(node.driver._writer, WriterThread)
            assert not node.driver._writer._thread.is_alive()
            pending.cancel()
            node.journal.close()
            nodes.clear()

    run(test())


class _Clock:
    """A loop's time and timers, set by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.set_at_s: list[float] = []

    def time(self) -> float:
        """Seconds."""
        return self.now_s

    def call_at(self, at_s: float, _: Callable[[], None]) -> asyncio.TimerHandle:
        """Note it."""
        self.set_at_s.append(at_s)
        return cast(asyncio.TimerHandle, SimpleNamespace(cancel=lambda: None))


def test_b20_heartbeats_put_a_followers_timer_off() -> None:
    """It went off between them. Steps that come close together do not set it each time."""
    group = SimpleNamespace(rest_s=lambda: 0.1)
    driver = GroupDriver(cast(Any, group), cast(Any, None), on_fatal=print, writer=cast(Any, None))
    clock = _Clock()
    driver._loop = cast(Any, clock)
    for beat in range(10):
        clock.now_s = beat * 0.05
        driver._arm()
        assert clock.set_at_s[-1] > clock.now_s + 0.05 + PUT_OFF_S / 2
    assert len(clock.set_at_s) == 10
    for step in range(100):
        clock.now_s = 1.0 + step / 1000
        driver._arm()
        assert clock.set_at_s[-1] > clock.now_s + 0.05
    assert len(clock.set_at_s) == 14
    group.rest_s = lambda: 0.0
    driver._arm()
    assert clock.set_at_s[-1] == pytest.approx(clock.now_s, abs=0.001), "sooner is at once"
