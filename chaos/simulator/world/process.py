"""A simulated machine with a node's process on it: the faults of either, and the ends of a process.

The machine (`Process`) has a disk and clocks that outlive the process. Every start is a new incarnation with an event
loop, a disk access and a SimEnvironment of its own. An incarnation ends once, in one of these ways:

- kill: written data stays. Each job under way has done a few of its operations or none. Connections are reset.
- crash at a disk operation: as after a kill, but no job goes on.
- power cut: unsynced data is gone, or torn. The network hears nothing.
- stop (SIGTERM): a last checkpoint, and connections are closed in order.
- a failure of its own: the disk stays as it is, connections are reset, and `failure` has the error.

After the end the disk refuses everything and the loop runs nothing. A process may end in the middle of its own
callback. So its remains (coroutines, LMDB's environment, descriptors) are put away in a later event.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chaos.simulator.build import older_build
from chaos.simulator.disk.disk import ANY, SimDisk
from chaos.simulator.disk.platter import Platter
from chaos.simulator.network.network import Network
from chaos.simulator.network.stream import connect
from chaos.simulator.time.clock import SimClock
from chaos.simulator.time.loop import Gone, Scheduler, SimLoop
from chaos.simulator.time.trace import Trace
from chaos.simulator.world.environment import SimEnvironment
from chaos.simulator.world.receivers import Receivers
from node.group.group import Group
from node.node import Node
from node.runtime.config import Config
from storage.file.disk import DiskFailed

#: The time from the start of a process to our first instruction in it.
START_S = (0.05, 0.3)
#: The time of a sync, a read, or any job off the loop on a healthy disk.
JOB_S = (0.0002, 0.002)
#: A job that a kill interrupts has carried out fewer disk operations than this.
STRAY_OPERATIONS = 8


@dataclass(frozen=True, slots=True)
class End:
    """The end of a process. `at_s` is true time. `how` is kill, power-cut, crash, stop or failure. `error` is the
    failure's."""

    at_s: float
    node: str
    how: str
    error: BaseException | None = None


@dataclass(slots=True)
class Surroundings:
    """The parts that all machines of a world share. The calls `on_...` tell the world of a new group, of the end of a
    process, and of a charged step."""

    scheduler: Scheduler
    network: Network
    receivers: Receivers
    trace: Trace
    chance: Callable[[str], random.Random]
    on_group: Callable[[str, Group], None]
    on_end: Callable[[End], None]
    on_held: Callable[[str, float, dict[str, float]], None]
    weight: int = 1
    framed: bool = False
    """True if calls between front, group and push wire cross as bytes, through the codec."""


@dataclass(slots=True)
class _Incarnation:
    loop: SimLoop
    disk: SimDisk
    outside: SimEnvironment
    node: Node | None = None
    stopping: bool = False
    over: bool = False


class Process:
    """One machine and its node. `failure` is the error with which the last process ended by itself. `errors` are
    exceptions of callbacks and requests that asyncio or the HTTP layer would only have logged."""

    def __init__(self, config: Config, platter: Platter, clock: SimClock, around: Surroundings) -> None:
        self.id = config.node_id
        self.config = config
        self.clock = clock
        self.platter = platter
        self.failure: BaseException | None = None
        self.ends: list[End] = []
        self.errors: list[BaseException] = []
        self.starts = 0
        self.boots = 1  # runs of the machine, each until its power is cut
        self.older = False  # True: started as the build before (build/older_build.py)
        self._around = around
        self._living: _Incarnation | None = None
        self._dead: list[_Incarnation] = []
        self._chance = around.chance(f"{self.id} process")

    @property
    def alive(self) -> bool:
        """True if there is a process, paused or not."""
        return self._living is not None

    @property
    def paused(self) -> bool:
        """True if SIGSTOP has paused its process."""
        return self._living is not None and self._living.loop.paused

    @property
    def node(self) -> Node | None:
        """The node, from the opening of its directory to its end."""
        return None if self._living is None else self._living.node

    @property
    def disk(self) -> SimDisk:
        """The living process's access to the disk."""
        assert self._living is not None, f"{self.id} is down"
        return self._living.disk

    # -- called by the world

    def start(self) -> None:
        """Start a process, if there is none."""
        if self._living is not None:
            return
        around, self.starts = self._around, self.starts + 1
        name = f"{self.id} {self.starts}"
        loop = SimLoop(  # type: ignore[abstract] # the methods that no caller uses are missing
            around.scheduler,
            self.clock,
            name=self.id,
            chance=around.chance(f"{name} loop"),
            complain=self._complain,
            job_s=self._job_s,
            weight=around.weight,
        )
        loop.build = older_build.older if self.older else None
        loop.on_charged = lambda seconds, by: self._charged(incarnation, seconds, by)
        loop.connector = lambda this, factory, host, port: connect(around.network, this, factory, (host, port))
        disk = SimDisk(
            self.platter,
            around.chance(f"{name} disk"),
            lambda operation: around.trace.note(self.id, operation),
            lambda: self._end(incarnation, "crash"),
        )
        outside = SimEnvironment(
            loop,
            around.network,
            disk,
            lambda: self.clock.node_clock(counts_work=around.weight > 1),
            around.receivers,
            around.chance(f"{name} entropy"),
            self._failed,
            older=self.older,
            framed=around.framed,
            boot=around.chance(f"{self.id} boot {self.boots}").getrandbits(63) + 1,
        )
        incarnation = self._living = _Incarnation(loop, disk, outside)
        self.failure = None
        around.network.power(self.id, up=True)
        around.trace.note(self.id, "start")
        low_s, high_s = START_S
        around.scheduler.after(low_s + (high_s - low_s) * self._chance.random(), loop.arrive, self._boot, incarnation)

    def kill(self) -> None:
        """kill -9: the process ends, and the page cache stays."""
        if self._living is not None:
            self._end(self._living, "kill")

    def power_cut(self, *, torn: bool = True) -> None:
        """Cut the machine's power: unsynced data is gone, or any part of it if `torn`. The machine stays down until
        `start`."""
        if self._living is not None:
            self._end(self._living, "power-cut")
        self._bury()
        self.boots += 1
        self._around.network.power(self.id, up=False)
        self._around.trace.note(self.id, "power-cut", torn)
        self.platter.power_cut(torn=torn)

    def crash_at(self, operations: int, files: str = ANY) -> None:
        """Crash the process in its `operations`-th disk operation from now (disk.OPERATIONS). `files` is ANY, or a
        directory of its data: then only operations below it count."""
        self.disk.crash_at(operations, files)

    def pause(self) -> None:
        """SIGSTOP: the process runs nothing until `resume`."""
        if self._living is not None:
            self._around.trace.note(self.id, "pause")
            self._living.loop.pause()

    def resume(self) -> None:
        """SIGCONT: the process goes on."""
        if self._living is not None:
            self._around.trace.note(self.id, "resume")
            self._living.loop.resume()

    def stop(self) -> None:
        """SIGTERM: the node drains, gives leadership away, checkpoints and ends."""
        living = self._living
        if living is not None:
            self._around.trace.note(self.id, "stop")
            living.loop.arrive(self._stop, living)

    def wipe(self) -> None:
        """Give the machine an empty disk. The process must be down."""
        assert self._living is None, f"{self.id} is running"
        self._bury()
        self._around.trace.note(self.id, "wipe")
        self.platter.wipe()

    # -- its life

    def _stop(self, incarnation: _Incarnation) -> None:
        incarnation.stopping = True
        if incarnation.node is None:
            self._end(incarnation, "stop")
        else:
            incarnation.node.life.stop()

    def _job_s(self) -> float:
        low_s, high_s = JOB_S
        slow_s = self.platter.slow_s
        return low_s + (high_s - low_s) * self._chance.random() + slow_s * (0.5 + self._chance.random())

    def _charged(self, incarnation: _Incarnation, seconds: float, by: dict[str, float]) -> None:
        """Report the charge of a step, but only while the node serves. While a node opens its directory, or ends, no
        client waits for it. While it opens a group again, its clients wait in any case, as docs/operating.md says."""
        node = incarnation.node
        if node is not None and node.life.serves and all(group.life.serves for group in node.groups.values()):
            self._around.on_held(self.id, seconds, by)

    def _complain(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, BaseException):
            error.add_note(f"{context.get('message')} {context.get('future') or context.get('handle') or ''}")
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        if not isinstance(error, Gone | DiskFailed):  # a failed disk ends the node, and the end has the error
            self.errors.append(error)

    def _boot(self, incarnation: _Incarnation) -> None:
        task = incarnation.loop.create_task(self._live(incarnation), name="node")
        task.add_done_callback(lambda _: self._over(incarnation, task.exception()))

    async def _live(self, incarnation: _Incarnation) -> None:
        opens = itertools.count()

        def opened(group: Group) -> None:
            if next(opens):
                self._around.trace.note(self.id, "reinstalled")
            self._around.on_group(self.id, group)

        incarnation.node = node = Node(self.config, incarnation.outside, opened=opened)
        opened_s, _ = incarnation.loop.meter.take()
        await asyncio.sleep(opened_s)  # no client waits for a node that does not serve yet
        await node.run()

    def _over(self, incarnation: _Incarnation, error: BaseException | None) -> None:
        """End the incarnation, because its node has ended: by a stop if `error` is None, otherwise by a failure."""
        if not incarnation.over:
            self.failure = error
            self._end(incarnation, "stop" if error is None else "failure", error)

    def _end(self, incarnation: _Incarnation, how: str, error: BaseException | None = None) -> None:
        if incarnation.over:
            return
        incarnation.over = True
        around = self._around
        around.trace.note(self.id, how, type(error).__name__ if error is not None else "")
        jobs = incarnation.loop.die()
        if how in ("kill", "power-cut"):
            self._stray(incarnation.disk, jobs)
        incarnation.disk.dead = True
        around.network.process_ended(self.id, silently=how == "power-cut")
        self._living = None
        self._dead.append(incarnation)
        around.scheduler.after(0.0, self._bury)
        end = End(around.scheduler.now, self.id, how, error)
        self.ends.append(end)
        around.on_end(end)

    def _stray(self, disk: SimDisk, jobs: list[Callable[[], None]]) -> None:
        """Let each job under way do its first few operations, or none, because a kill does not wait for threads."""
        for job in jobs:
            if self._chance.random() < 0.5 and not disk.dead:
                disk.crash_at(self._chance.randint(1, STRAY_OPERATIONS))
                with contextlib.suppress(BaseException):
                    job()

    def _bury(self) -> None:
        dead, self._dead = self._dead, []
        for incarnation in dead:
            incarnation.loop.bury()
            if incarnation.node is not None:
                with contextlib.suppress(BaseException):
                    for group in incarnation.node.groups.values():
                        group.let_go()
            incarnation.disk.release()
