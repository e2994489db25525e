"""A cluster of real `hourwheel serve` processes that faults can be put on.

Every signal goes to the pid that a process was started with. Every wait is for a node's report (its cluster page, its
readiness) or for the end of a process. A wait of fixed length would only test how fast the machine is.
"""

import asyncio
import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

from chaos.cluster.faulty_disk import FaultyDisk
from chaos.cluster.network import ClusterNetwork
from chaos.cluster.preload import together
from chaos.cluster.skewed_clock import SkewedClock
from cli.local.local_nodes import LocalNode, how_it_ended, last_words, start_process, write_config
from cli.local.process_end import end_of
from storage.directory.verify import digest
from storage.format.level import LEVELS

POLL_S = 0.1  # a request to each node: often enough for waits of seconds
READY_S = 60.0
STOP_S = 30.0
TRANSFER_S = 15.0
KEPT = "kept"
DELIVERIES = "deliveries"


class ClusterFailed(Exception):
    """The cluster did not reach the awaited state. The text says which, with the nodes' last log lines."""


@dataclass(frozen=True)
class Leadership:
    """The statement of a node that it leads this term."""

    node_id: str
    term: int
    commit_index: int


class Cluster:
    """The processes of `count` nodes n1, n2, ..., with their files below `directory`. Use as `async with`; leaving it
    kills them.

    - `settings` are further tables of the nodes' configuration files.
    - `slow` lets their disks be slowed and fail. `skewed` gives each a wall clock of its own.
    - `spare` further nodes can join later.
    - `cluster_network` gives the nodes their addresses. None: loopback.
    """

    def __init__(
        self,
        directory: Path,
        count: int = 3,
        settings: Mapping[str, Mapping[str, object]] | None = None,
        slow: bool = False,
        skewed: bool = False,
        spare: int = 0,
        cluster_network: ClusterNetwork | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        total = count + spare
        self.cluster_network = cluster_network or ClusterNetwork()
        rows = self.cluster_network.place([f"n{i + 1}" for i in range(total)], directory)
        founders, spares = rows[:count], rows[count:]
        self.nodes = {node.node_id: node for node in founders}
        self.spare = {node.node_id: node for node in spares}
        """Nodes that are configured to join and not started. See replacing.py."""
        self.gone: dict[str, LocalNode] = {}
        """Nodes that were removed."""
        self.leaving: set[str] = set()
        """Nodes that were told to go: their end is no failure."""
        self.tended = False
        """True: another part (ProcessHolds) handles nodes that end by themselves, so waits do not fail for them."""
        for node in founders:
            write_config(node, founders, settings)
        for node in spares:
            write_config(node, [*founders, node], settings, join=True)
        self.disks = FaultyDisk(directory) if slow else None
        if self.disks is not None:
            self.disks.build()
        self.clocks = SkewedClock(directory) if skewed else None
        if self.clocks is not None:
            self.clocks.build()
        self.other_builds: dict[str, Path] = {}
        """By node: the directory of its code, if it runs another build (versions/older_build.py)."""
        self.environment: dict[str, str] = {}
        """Environment variables of every process."""
        self._disks_had: Counter[str] = Counter()  # how often the node got a new directory
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ended: set[int] = set()  # pids of processes that got a signal that ends them
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=1.0))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node_id in self.running():
            await self.kill(node_id)
        if self._http is not None:
            await self._http.close()

    def running(self) -> list[str]:
        """Ids of the nodes whose process lives, paused or not."""
        return [node_id for node_id, process in self._processes.items() if process.poll() is None]

    def forget(self, node_id: str) -> None:
        """Remove a node from `nodes`: it was removed from the members, and has ended. Its files stay, and `gone` keeps
        it."""
        self.gone[node_id] = self.nodes.pop(node_id)
        del self._processes[node_id]

    def pid(self, node_id: str) -> int:
        """The pid of the node's last process."""
        return self._processes[node_id].pid

    def start(self, *node_ids: str) -> None:
        """Start the processes of these nodes (default: all). Return at once: the nodes are not ready yet."""
        for node_id in node_ids or tuple(self.nodes):
            assert node_id not in self.running(), f"{node_id} runs already"
            tools = [tool.environment(node_id) for tool in (self.disks, self.clocks) if tool is not None]
            prefix = self.cluster_network.prefix(node_id)
            environment, other = together(self.environment, *tools), self.other_builds.get(node_id)
            self._processes[node_id] = start_process(self.nodes[node_id], environment, prefix, other)
            self.cluster_network.started(node_id, self._processes[node_id].pid)

    async def stop(self, node_id: str) -> None:
        """Send SIGTERM and wait for the end. Raises ClusterFailed if the node does not end in time, or ends with
        another status than 0."""
        self._signal(node_id, signal.SIGTERM)
        returncode = await self.ended(node_id)
        if returncode:
            raise ClusterFailed(
                f"{node_id} asked to stop: {how_it_ended(returncode)}\n{last_words(self.nodes[node_id])}"
            )

    async def kill(self, node_id: str) -> None:
        """Send SIGKILL and wait for the end."""
        self.signal_kill(node_id)
        await self.ended(node_id)

    def signal_kill(self, node_id: str) -> None:
        """Send SIGKILL. `ended` then waits for the end."""
        self._signal(node_id, signal.SIGKILL)

    def signal_stop(self, node_id: str) -> None:
        """Send SIGTERM. `ended` or `end_of` then waits for the end."""
        self._signal(node_id, signal.SIGTERM)

    def pause(self, node_id: str) -> None:
        """Send SIGSTOP."""
        self._signal(node_id, signal.SIGSTOP)

    def resume(self, node_id: str) -> None:
        """Send SIGCONT."""
        self._signal(node_id, signal.SIGCONT)

    def wipe(self, node_id: str) -> None:
        """Empty the data directory of a node that does not run. The directory stays, because a disk may be mounted
        there."""
        assert node_id not in self.running(), f"{node_id} runs"
        self.keep_deliveries(node_id, last=True)
        for path in self.nodes[node_id].data_path.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def keep_deliveries(self, node_id: str, *, last: bool = False) -> None:
        """Copy the delivery log of a node that does not run, before its files are damaged or removed. The checkers need
        the log: it is the node's own record of its pushes. `last`: the node's directory is about to be replaced, so the
        copies of the next one go into another folder."""
        node = self.nodes[node_id]
        target = node.directory / KEPT / str(self._disks_had[node_id]) / DELIVERIES
        for path in (node.data_path / DELIVERIES).glob("*.log"):
            copy = target / path.name
            if not copy.exists() or copy.stat().st_size < path.stat().st_size:
                target.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copy)
        self._disks_had[node_id] += last

    def kept(self) -> list[tuple[str, Path]]:
        """(node, directory with `deliveries`) of each copy of `keep_deliveries`. The last bytes of a copy may be
        damaged."""
        nodes = self.nodes | self.gone
        return [(name, path) for name, node in nodes.items() for path in sorted((node.directory / KEPT).glob("*"))]

    async def status(self, node_id: str) -> dict[str, Any] | None:
        """Return the node's cluster page, GET `/v1/cluster`. None if there is no answer, or no node of this name."""
        assert self._http is not None, "use `async with`"
        if node_id not in self.nodes:
            return None
        try:
            async with self._http.get(f"{self.nodes[node_id].url}/v1/cluster") as answer:
                document = await answer.json()
                return document if answer.status == 200 and isinstance(document, dict) else None
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return None

    async def is_ready(self, node_id: str) -> bool:
        """True if /readyz answers 200. False for a removed node."""
        assert self._http is not None, "use `async with`"
        if node_id not in self.nodes:
            return False
        try:
            async with self._http.get(f"{self.nodes[node_id].url}/readyz") as answer:
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def wait_ready(self, *node_ids: str, timeout_s: float = READY_S) -> None:
        """Wait until these nodes (default: all that run) are ready."""
        wanted = node_ids or tuple(self.running())

        async def ready() -> bool:
            return all([await self.is_ready(node_id) for node_id in wanted])

        await self.until(ready, f"{', '.join(wanted)} ready", timeout_s)

    async def wait_raised(self, timeout_s: float = READY_S) -> None:
        """Wait until the cluster is at the newest level of this build."""

        async def raised() -> bool:
            pages = await asyncio.gather(*map(self.status, self.running()))
            return any(page is not None and page.get("level") == LEVELS[1] for page in pages)

        await self.until(raised, f"level {LEVELS[1]}", timeout_s)

    async def leadership(self) -> Leadership | None:
        """Ask every node if it leads. Return the statement with the highest term, None if no node leads."""
        found: list[Leadership] = []
        for node_id, page in zip(self.nodes, await asyncio.gather(*map(self.status, self.nodes)), strict=True):
            if page is not None and page.get("leader") == node_id:
                found.append(Leadership(node_id, int(page["term"]), int(page["commit_index"])))
        return max(found, key=lambda leadership: leadership.term, default=None)

    async def wait_leader(self, after_term: int = 0, timeout_s: float = READY_S) -> Leadership:
        """Wait until a node says that it leads a term above `after_term`."""
        found: list[Leadership] = []

        async def led() -> bool:
            now = await self.leadership()
            if now is not None and now.term > after_term:
                found.append(now)
            return bool(found)

        await self.until(led, f"a leader of a term above {after_term}", timeout_s)
        return found[0]

    async def wait_applied(self, index: int, *node_ids: str, timeout_s: float = READY_S) -> None:
        """Wait until these nodes have applied at least `index`."""

        async def applied() -> bool:
            return all([_applied(await self.status(node_id), node_id) >= index for node_id in node_ids])

        await self.until(applied, f"{', '.join(node_ids)} at index {index}", timeout_s)

    async def wait_level(self, timeout_s: float = READY_S) -> int:
        """Wait until two polls in a row find the same applied index on all running nodes. Return that index."""
        seen: list[set[int]] = [set()]

        async def level() -> bool:
            pages = [await self.status(node_id) for node_id in self.running()]
            now = {_applied(page, node_id) for page, node_id in zip(pages, self.running(), strict=True)}
            steady = len(now) == 1 and -1 not in now and now == seen[0]
            seen[0] = now
            return steady

        await self.until(level, "the same applied index on all nodes", timeout_s, POLL_S * 2)
        return seen[0].pop()

    async def digests(self, attempts: int = 4) -> dict[str, tuple[str, int]]:
        """Stop all nodes gracefully at once. Return digest and applied index of each. All stay stopped.

        A leader may still commit its last dispatch state while a follower stops. Then the indexes differ. The nodes are
        started again, so that the one behind catches up, and stopped once more.
        """
        for _ in range(attempts):
            await self.wait_level()
            await asyncio.gather(*map(self.stop, self.running()))
            found = {node_id: digest(node.data_path) for node_id, node in self.nodes.items()}
            if len({applied for _, applied in found.values()}) == 1:
                return found
            self.start()
            await self.wait_ready()
        raise ClusterFailed(f"after {attempts} graceful stops the nodes are at different indexes: {found}")

    async def transfer(self, via: str, to: str) -> dict[str, Any]:
        """Ask node `via` to move leadership to node `to`, or to the follower that the leader chooses if `to` is "".
        Return the JSON of the answer. Raises ClusterFailed if refused."""
        assert self._http is not None, "use `async with`"
        request = self._http.post(
            f"{self.nodes[via].url}/v1/cluster/transfer",
            json={"to": to} if to else {},
            timeout=aiohttp.ClientTimeout(total=TRANSFER_S),
        )
        async with request as answer:
            document: dict[str, Any] = await answer.json(content_type=None)
            if answer.status != 200:
                raise ClusterFailed(f"transfer to {to or 'the best'} asked of {via}: {answer.status} {document}")
            return document

    async def until(self, condition: Callable[[], Any], what: str, timeout_s: float, poll_s: float = POLL_S) -> None:
        """Wait until `condition`, a coroutine function, returns true. `what` names it in errors. Raises ClusterFailed
        after `timeout_s`, or if a node ends by itself."""
        try:
            async with asyncio.timeout(timeout_s):
                while not await condition():
                    self._check_alive()
                    await asyncio.sleep(poll_s)
        except TimeoutError:
            raise ClusterFailed(f"waited {timeout_s} s for {what}\n{self._logs()}") from None

    def _check_alive(self) -> None:
        if self.tended:
            return
        for node_id, process in self._processes.items():
            returncode = process.poll()
            if returncode and (returncode > 0 or process.pid not in self._ended) and node_id not in self.leaving:
                raise ClusterFailed(
                    f"{node_id} ended by itself: {how_it_ended(returncode)}\n{last_words(self.nodes[node_id], 30)}"
                )

    def _logs(self) -> str:
        return "\n".join(f"--- {node_id}\n{last_words(node)}" for node_id, node in self.nodes.items())

    def _signal(self, node_id: str, number: signal.Signals) -> None:
        process = self._processes[node_id]
        assert process.poll() is None, f"{node_id} does not run"
        if number in (signal.SIGTERM, signal.SIGKILL):
            self._ended.add(process.pid)
        os.kill(process.pid, number)

    async def end_of(self, node_id: str) -> int:
        """Wait without a limit for the end of the node's present process. Return its return code."""
        return await end_of(self._processes[node_id])

    async def ended(self, node_id: str) -> int:
        """Wait for the end of the node's process. Return its return code. Raises ClusterFailed if it does not end."""
        try:
            return await asyncio.to_thread(self._processes[node_id].wait, STOP_S)
        except subprocess.TimeoutExpired:
            raise ClusterFailed(
                f"{node_id} did not end within {STOP_S} s\n{last_words(self.nodes[node_id], 30)}"
            ) from None


def _applied(page: dict[str, Any] | None, node_id: str) -> int:
    """The applied index in the row that a node's cluster page has of the node itself. -1 if there is none."""
    for row in (page or {}).get("nodes", []):
        if row.get("id") == node_id and row.get("applied_index") is not None:
            return int(row["applied_index"])
    return -1
