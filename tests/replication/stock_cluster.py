"""The control: unmodified pysyncobj in the same kind of world, so that each regression test shows the flaw it is for.

Virtual clock, FIFO links that can be cut or held, crashes, real journal files. A test of ours that would pass on this
cluster has gone blind.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import random
import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pysyncobj.syncobj
from pysyncobj import SyncObj, SyncObjConf, replicated
from pysyncobj.node import Node
from pysyncobj.transport import Transport

Message = dict[str, Any]
TICK_S = 0.02


class _Link(Transport):  # type: ignore[misc]  # pysyncobj has no types
    def __init__(self, cluster: StockCluster, node: Node, others: list[Node]) -> None:
        super().__init__(None, node, others)
        self.cluster = cluster
        self.node_id = node.id
        self.nodes = {other.id: other for other in others}

    def send(self, node: Node, message: Message) -> bool:
        return self.cluster.send(self.node_id, node.id, message)

    def deliver(self, source: str, message: Message) -> None:
        self._onMessageReceived(self.nodes[source], message)


class StockNode(SyncObj):  # type: ignore[misc]  # pysyncobj has no types
    """One stock node; applied commands are in `applied`."""

    def __init__(self, cluster: StockCluster, node_id: str) -> None:
        others = [Node(other) for other in cluster.ids if other != node_id]
        self.link = _Link(cluster, Node(node_id), others)
        super().__init__(Node(node_id), others, cluster.conf(node_id), transport=self.link)
        self.applied: list[str] = []

    @replicated  # type: ignore[untyped-decorator]  # pysyncobj has no types
    def put(self, text: str) -> int:
        """The one command."""
        if text.startswith("raise"):
            raise RuntimeError("poison")
        self.applied.append(text)
        return len(self.applied)

    def private(self, name: str) -> Any:
        """The library's private attribute `__name`."""
        return getattr(self, f"_SyncObj__{name}")

    @property
    def log(self) -> list[tuple[int, int]]:
        """(index, term) of every entry."""
        journal = self.private("raftLog")
        return [(entry[1], entry[2]) for entry in journal[: len(journal)]]


class StockCluster:
    """Use through `stock`, which puts the virtual clock in place and takes it away again."""

    def __init__(self, directory: Path | None, ids: str = "ABC", **conf: Any) -> None:
        self.directory = directory
        self.ids = list(ids)
        self.now = 100.0
        self.settings = conf
        self.queues: dict[tuple[str, str], deque[Message]] = defaultdict(deque)
        self.cut: set[tuple[str, str]] = set()
        self.held: set[tuple[str, str]] = set()
        self.nodes: dict[str, StockNode] = {}
        self.paused: set[str] = set()
        self.raised: list[BaseException] = []
        self.sent: list[tuple[str, str, Message]] = []

    def conf(self, node_id: str) -> SyncObjConf:
        """The library's defaults, ticked by hand."""
        values: dict[str, Any] = {"autoTick": False, "useFork": False, "logCompactionMinEntries": 10**9}
        values["logCompactionMinTime"] = 10**9
        if self.directory is not None:
            values["journalFile"] = str(self.directory / f"{node_id}.journal")
        return SyncObjConf(**(values | self.settings))

    def start(self, *ids: str) -> None:
        """Start nodes (all if none is named) and connect them."""
        for node_id in ids or self.ids:
            self.nodes[node_id] = StockNode(self, node_id)
        for one in self.nodes.values():
            for other in one.link.nodes.values():
                if other.id in self.nodes and not one.isNodeConnected(other):
                    one.link._onNodeConnected(other)

    def kill(self, node_id: str) -> None:
        """kill -9."""
        self.nodes.pop(node_id).private("raftLog")._destroy()
        for link in list(self.queues):
            if node_id in link:
                self.queues[link].clear()
        for other in self.nodes.values():
            other.link._onNodeDisconnected(other.link.nodes[node_id])

    def send(self, source: str, target: str, message: Message) -> bool:
        """A message enters a link."""
        if target not in self.nodes:
            return False
        self.sent.append((source, target, message))
        if (source, target) not in self.cut:
            self.queues[source, target].append(copy.deepcopy(message))
        return True

    def deliver(self, source: str, target: str, count: int | None = None) -> None:
        """Let messages of one link arrive, all or the first `count`."""
        queue = self.queues[source, target]
        for _ in range(len(queue) if count is None else min(count, len(queue))):
            message = queue.popleft()
            if target in self.nodes:
                self.guard(self.nodes[target].link.deliver, source, message)

    def guard(self, call: Callable[..., None], *args: Any) -> None:
        """The library's own thread logs an exception and goes on; so does this."""
        try:
            call(*args)
        except Exception as error:
            self.raised.append(error)

    def tick(self, seconds: float = TICK_S, ids: str | None = None) -> None:
        """Time passes; everybody reads and ticks."""
        self.now += seconds
        for node_id in list(ids or self.nodes):
            if node_id in self.nodes and node_id not in self.paused:
                for source in self.ids:
                    if (source, node_id) not in self.held:
                        self.deliver(source, node_id)
                node = self.nodes.get(node_id)
                if node is not None:
                    self.guard(node.doTick, 0.0)

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Tick for that long, or until `until` holds."""
        end = self.now + seconds
        while self.now < end:
            if until is not None and until():
                return True
            self.tick()
        return bool(until and until())

    def elect(self, node_id: str) -> StockNode:
        """Make this node the leader."""
        for _ in range(8):
            for other in self.nodes.values():
                other._SyncObj__raftElectionDeadline = self.now + 1e6
            if not self.nodes[node_id]._isLeader():
                self.nodes[node_id]._SyncObj__raftElectionDeadline = 0
            self.tick(0.05)
        assert self.nodes[node_id]._isLeader(), "not elected"
        for other in self.nodes.values():
            other._SyncObj__raftElectionDeadline = self.now + other.private("generateRaftTimeout")()
        return self.nodes[node_id]

    def leaders(self) -> list[str]:
        """Nodes that believe to lead."""
        return [node_id for node_id, node in self.nodes.items() if node._isLeader()]

    def isolate(self, node_id: str) -> None:
        """Cut a node off, both ways."""
        for other in self.ids:
            if other != node_id:
                self.cut |= {(node_id, other), (other, node_id)}


@contextlib.contextmanager
def stock(directory: Path | None = None, ids: str = "ABC", *, seed: int = 0, **conf: Any) -> Iterator[StockCluster]:
    """A running stock cluster on a virtual clock."""
    cluster = StockCluster(directory, ids, **conf)
    clock, state, disabled = pysyncobj.syncobj.monotonicTime, random.getstate(), logging.root.manager.disable
    pysyncobj.syncobj.monotonicTime = lambda: cluster.now
    random.seed(seed)
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # the library leaves its meta file open
            cluster.start()
            yield cluster
    finally:
        for node in cluster.nodes.values():
            node.private("raftLog")._destroy()
        pysyncobj.syncobj.monotonicTime = clock
        random.setstate(state)
        logging.disable(disabled)
