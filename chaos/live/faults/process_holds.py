"""The faults' holds on the processes of a cluster: several faults may keep one node down, or paused, at the same time.

A node runs again when the last fault that holds it has let go. Only this class starts nodes. If another part started a
node that a fault keeps down, it would end that fault. A node that ends by itself is noticed at once, recorded in the
history, and started again after a pause. Each fault is asked if it explains that end.
"""

import asyncio
import signal
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from chaos.cluster.cluster import Cluster
from chaos.history.event import Crashed
from chaos.history.history import History
from cli.local.local_nodes import how_it_ended, last_words
from node.runtime.exit_code import ExitCode

#: A process that ended by itself is started again after this time.
AGAIN_S: Final = 1.0

#: The return codes of a process that a fault ended: in order, or by a signal.
ENDS: Final = (ExitCode.OK, -signal.SIGTERM, -signal.SIGKILL)

AskedOfEnd = Callable[[str, int], Awaitable[bool]]
"""From a node and the return code of its dead process. Return True if a fault explains the end."""


class ProcessHolds:
    """The holds on one cluster. While it is in use, only `start` starts nodes."""

    def __init__(self, cluster: Cluster, history: History) -> None:
        self._cluster, self._history = cluster, history
        self._held: Counter[str] = Counter()
        self._frozen: Counter[int] = Counter()  # by pid
        self._excused: set[int] = set()  # pids of processes that may end by a signal, or in order
        self._guards: dict[str, asyncio.Task[None]] = {}
        self._files: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._over = False
        self.ends_alone: Counter[str] = Counter()
        """How often each node ended by itself without a fault that explains it."""
        self._alone = asyncio.Event()
        self.asked_of_ends: list[AskedOfEnd] = []
        cluster.tended = True

    def start(self, *node_ids: str) -> None:
        """Start these nodes, unless they run, a fault holds them down, or they were removed. If a node's end is being
        recorded at this moment, it starts afterwards."""
        for node_id in node_ids:
            guard = self._guards.get(node_id)
            guarded = guard is not None and not guard.done()
            if guarded or self._held[node_id] or self._over or node_id not in self._cluster.nodes:
                continue
            if node_id not in self._cluster.running():
                self._cluster.start(node_id)
            self._guards[node_id] = asyncio.create_task(self._guard(node_id), name=f"guard {node_id}")

    async def rest(self) -> None:
        """Start no more nodes, and notice no further ends: from now on others stop and start the nodes. Raises the
        error of a task that watched a process and failed."""
        self._over, self._cluster.tended = True, False
        for node_id, guard in self._guards.items():
            if node_id in self._cluster.running():
                guard.cancel()
        for end in await asyncio.gather(*self._guards.values(), return_exceptions=True):
            if isinstance(end, Exception):
                raise end

    @asynccontextmanager
    async def may_end(self, node_id: str) -> AsyncIterator[None]:
        """In the block the node may end, by a signal or by an orderly stop. It is started again only after the block.
        An end with an error of its own is recorded as usual."""
        if node_id in self._cluster.running():
            self._excused.add(self._cluster.pid(node_id))
        self._held[node_id] += 1
        try:
            yield
        finally:
            self._held[node_id] -= 1
            self.start(node_id)

    @asynccontextmanager
    async def down(self, node_id: str) -> AsyncIterator[None]:
        """Kill the node with SIGKILL, if it runs. In the block it stays down."""
        async with self.may_end(node_id):
            if node_id in self._cluster.running():
                await self._cluster.kill(node_id)
            yield

    @asynccontextmanager
    async def files(self, *node_ids: str) -> AsyncIterator[None]:
        """In the block no other fault touches the disks of these nodes. Several faults may hold a node down at once,
        and a disk whose power is cut answers EIO, or is not there. Enter this block inside all others: a fault in it
        must not wait for another fault."""
        async with AsyncExitStack() as held:
            for node_id in sorted(node_ids):
                await held.enter_async_context(self._files[node_id])
            yield

    @asynccontextmanager
    async def paused(self, node_id: str) -> AsyncIterator[None]:
        """In the block the node's present process stands still (SIGSTOP). It is no error if it is killed meanwhile."""
        pid = self._cluster.pid(node_id)
        self._cluster.pause(node_id)
        self._frozen[pid] += 1
        try:
            yield
        finally:
            self._frozen[pid] -= 1
            runs = node_id in self._cluster.running() and self._cluster.pid(node_id) == pid
            if runs and not self._frozen[pid]:
                self._cluster.resume(node_id)

    def stands_still(self, node_id: str) -> bool:
        """True if a fault has paused the node's present process."""
        return self._frozen[self._cluster.pid(node_id)] > 0

    def away(self, node_id: str) -> bool:
        """True if a fault holds the node down or has paused it."""
        return self._held[node_id] > 0 or (node_id in self._cluster.running() and self.stands_still(node_id))

    async def ended_alone(self, times: int) -> str:
        """Wait until a node has ended by itself `times` times without a fault that explains it. Return a sentence about
        it."""
        while True:
            for node_id, count in self.ends_alone.items():
                if count >= times:
                    words = last_words(self._cluster.nodes[node_id], 30)
                    return f"{node_id} ended by itself {count} times, and no fault explains it\n{words}"
            self._alone.clear()
            await self._alone.wait()

    async def _guard(self, node_id: str) -> None:
        """Start the node again after each end of its process, and record the ends that no fault excuses. Return when
        the node was removed, or when a fault holds it down: then the end of that fault starts it again."""
        while True:
            pid = self._cluster.pid(node_id)
            returncode = await self._cluster.end_of(node_id)
            excused = pid in self._excused
            removed = node_id in self._cluster.leaving and returncode == ExitCode.REMOVED
            if not removed and (returncode not in ENDS or not excused):
                await self._ended_by_itself(node_id, returncode)
                await asyncio.sleep(0 if self._over else AGAIN_S)
            if removed or node_id not in self._cluster.nodes or self._held[node_id] or self._over:
                return
            self._cluster.start(node_id)

    async def _ended_by_itself(self, node_id: str, returncode: int) -> None:
        explained = False
        for asked in self.asked_of_ends:
            explained |= await asked(node_id, returncode)
        if not explained:
            self.ends_alone[node_id] += 1
            self._alone.set()
        mono_ms, wall_ms = self._history.now()
        error = f"{how_it_ended(returncode)}: {last_words(self._cluster.nodes[node_id], 3)}"
        self._history.record(Crashed(mono_ms=mono_ms, wall_ms=wall_ms, node=node_id, error=error, expected=explained))
