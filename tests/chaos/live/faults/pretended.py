"""A cluster whose processes are pretended: what hands and the nemesis do to it is seen at once, and in what order."""

import asyncio
from pathlib import Path
from typing import Any, cast

from chaos.cluster.cluster import Cluster, ClusterFailed, Leadership
from chaos.cluster.links import Condition, Link, Links
from chaos.cluster.network import ClusterNetwork
from cli.local.local_nodes import LocalNode


class Told(Links):
    """Remembers what each link is like now."""

    def __init__(self) -> None:
        super().__init__()
        self.now: dict[Link, Condition] = {}

    def apply(self, conditions: dict[Link, Condition]) -> None:
        """See Links."""
        self.now |= conditions

    def cut(self) -> set[Link]:
        """Those that nothing passes."""
        return {link for link, condition in self.now.items() if condition.cut}


class Machines:
    """Stands in for a Cluster of `count` nodes that all run. `log` has what was done, in order."""

    def __init__(self, directory: Path, count: int = 3, spare: int = 0) -> None:
        ids = [f"n{number + 1}" for number in range(count + spare)]
        rows = {name: LocalNode(name, 0, 0, directory / name) for name in ids}
        self.nodes = {name: rows[name] for name in ids[:count]}
        self.spare = {name: rows[name] for name in ids[count:]}
        self.leaving: set[str] = set()
        self.gone: dict[str, LocalNode] = {}
        self.tended = False
        self.cluster_network = ClusterNetwork()
        self.cluster_network.links = self.links = Told()
        self.clocks: Any = None
        self.leader: str | None = "n1"
        self.term = 1
        self.learners: set[str] = set()
        self.applied: dict[str, int] = {}  # 10 of those that are not in it
        self.unready: set[str] = set()
        self.stops_with = 0  # the return code of a node that is asked to stop
        self.log: list[str] = []
        self.changed = asyncio.Event()
        self._pids = {name: 100 * (place + 1) for place, name in enumerate(ids)}
        self._ends: dict[str, asyncio.Future[int]] = {}
        for name in self.nodes:
            self.start(name)
        self.log.clear()

    def cluster(self) -> Cluster:
        """As what the code under test takes it for."""
        return cast(Cluster, self)

    def running(self) -> list[str]:
        """See Cluster."""
        return [name for name, end in self._ends.items() if not end.done()]

    def pid(self, name: str) -> int:
        """See Cluster."""
        return self._pids[name]

    def start(self, *names: str) -> None:
        """See Cluster."""
        for name in names or tuple(self.nodes):
            assert name not in self.running(), f"{name} runs already"
            self._pids[name] += 1
            self._ends[name] = asyncio.get_running_loop().create_future()
            self.log.append(f"start {name}")
            self.changed.set()

    def end(self, name: str, returncode: int) -> None:
        """The process ends."""
        self._ends[name].set_result(returncode)
        self.log.append(f"end {name} {returncode}")

    def signal_kill(self, name: str) -> None:
        """See Cluster."""
        self.end(name, -9)

    def signal_stop(self, name: str) -> None:
        """See Cluster."""
        self.end(name, self.stops_with)

    async def kill(self, name: str) -> None:
        """See Cluster."""
        self.end(name, -9)

    def pause(self, name: str) -> None:
        """See Cluster."""
        assert name in self.running()
        self.log.append(f"pause {name}")

    def resume(self, name: str) -> None:
        """See Cluster."""
        assert name in self.running()
        self.log.append(f"resume {name}")

    def wipe(self, name: str) -> None:
        """See Cluster."""
        assert name not in self.running()
        self.log.append(f"wipe {name}")

    async def end_of(self, name: str) -> int:
        """See Cluster."""
        return await asyncio.shield(self._ends[name])

    async def ended(self, name: str) -> int:
        """See Cluster."""
        return await self.end_of(name)

    async def is_ready(self, name: str) -> bool:
        """See Cluster."""
        return name in self.running() and name not in self.unready

    async def wait_ready(self, *names: str, timeout_s: float = 1.0) -> None:
        """See Cluster."""
        assert names
        while not all([await self.is_ready(name) for name in names]):
            await self.changed.wait()
            self.changed.clear()

    async def wait_leader(self, after_term: int = 0, timeout_s: float = 1.0) -> Leadership:
        """See Cluster."""
        while self.leader is None or self.term <= after_term:
            await self.changed.wait()
            self.changed.clear()
        return Leadership(self.leader, self.term, 10)

    async def transfer(self, via: str, to: str) -> dict[str, Any]:
        """Refused; see Cluster."""
        self.log.append(f"transfer {via} {to}")
        raise ClusterFailed("not now")

    async def status(self, name: str | None) -> dict[str, Any] | None:
        """See Cluster."""
        if name not in self.running():
            return None
        rows = [
            {
                "id": each,
                "role": "learner" if each in self.learners else "follower",
                "applied_index": self.applied.get(each, 10),
            }
            for each in self.nodes
        ]
        return {"leader": self.leader, "term": self.term, "commit_index": 10, "nodes": rows}
