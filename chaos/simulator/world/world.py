"""A whole world in one process: n nodes, the network between them, clients, receivers, all on one virtual time.

    with World(seed=7) as world:
        world.start()
        world.run_until(lambda: world.leader() is not None, 5)
        world.client("n1").call(lambda port: port.schedule([message], ANONYMOUS), done)
        world.processes["n2"].power_cut(torn=True)
        world.run(10)

Every draw comes from `random(name)`, a generator that follows from the seed and the name alone. So the draws of one
part do not change those of another. No part reads a real clock. Files are real (LMDB needs them), in memory where there
is room (disk/memory.py).
"""

from __future__ import annotations

import math
import random
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any, Self

from chaos.simulator.disk.memory import in_memory
from chaos.simulator.disk.platter import Platter
from chaos.simulator.network.network import Network
from chaos.simulator.time.clock import SimClock
from chaos.simulator.time.cost import counted
from chaos.simulator.time.log import Log
from chaos.simulator.time.loop import Scheduler
from chaos.simulator.time.trace import Trace
from chaos.simulator.world.client import Client
from chaos.simulator.world.process import End, Process, Surroundings
from chaos.simulator.world.receivers import NETWORK, Receivers
from node.group.group import Group
from node.node import Node
from node.runtime.config import Config, parse_config
from storage.directory.verify import digest

RAFT_PORT = 7000
HTTP_PORT = 8000
#: 2026-03-01T00:00:00Z: a full hour. The seed says how long before it the world begins.
EPOCH_S = 1_772_323_200.0
HOUR_S = 3600.0
#: The most that a crystal runs wrong.
CRYSTAL_PPM = 500.0


class World:
    """One simulated world: its machines, network, receivers, clients and virtual time. Leave its `with` block, or call
    `close`, to end all.

    - `directory`: for the machines' files. None: a temporary one, removed at the end.
    - `config`: tables and keys over the defaults, as in a node's file, e.g. {"storage": {"checkpoint_s": 2}}.
    - `turn_s`: an hour begins this many seconds after the world. Default: drawn, in half of the worlds within a minute.
    - `weight`: how many rows each stored row stands for (time/cost.py).
    - `skew_ms`: how far the clock of a host without a fault may be off.
    - `framed`: calls between front, group and push wire cross as bytes. Default: with two of four seeds.
    """

    def __init__(
        self,
        seed: int,
        directory: Path | None = None,
        *,
        nodes: int = 3,
        config: Mapping[str, Mapping[str, Any]] | None = None,
        turn_s: float | None = None,
        weight: int = 1,
        skew_ms: int = 0,
        framed: bool | None = None,
    ) -> None:
        self.seed = seed
        self.scheduler = Scheduler()
        self.trace = Trace(lambda: self.scheduler.now)
        self.log = Log(lambda: self.scheduler.now)
        self.leaps = 0  # how often a fault set all clocks together, ahead or back
        self.on_group: Callable[[str, Group], None] = lambda node_id, group: None
        self.on_end: Callable[[End], None] = lambda end: None
        self.on_held: Callable[[str, float, dict[str, float]], None] = lambda node_id, seconds, by: None
        self.network = Network(self.scheduler, self.random("network"), self.trace)
        self.receivers = Receivers(self.scheduler, self.network, self.random("receivers"), self.trace)
        self.ids = tuple(f"n{number}" for number in range(1, nodes + 1))
        self._own = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="hourwheel-sim-", dir=in_memory()))
        self._config = config or {}
        drawn = self.random("world")
        if turn_s is None:
            turn_s = drawn.uniform(0, 60) if drawn.random() < 0.5 else drawn.uniform(60, HOUR_S)
        self.epoch_s = EPOCH_S - turn_s
        self._clients = 0
        self._skew_ms = skew_ms
        self._around = Surroundings(
            self.scheduler,
            self.network,
            self.receivers,
            self.trace,
            self.random,
            lambda node_id, group: self.on_group(node_id, group),
            lambda end: self.on_end(end),
            lambda node_id, seconds, by: self.on_held(node_id, seconds, by),
            weight,
            framed=bool(seed // 2 % 2) if framed is None else framed,
        )
        self._costs = counted(weight)
        self._costs.__enter__()
        self.processes = {node_id: self.process(node_id, self.ids) for node_id in self.ids}
        self.log.begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- time and chance

    @property
    def now_s(self) -> float:
        """True time since the world began."""
        return self.scheduler.now

    @property
    def now_ms(self) -> int:
        """True time since 1970, as right clocks show it."""
        return int((self.epoch_s + self.scheduler.now) * 1000)

    def random(self, name: str) -> random.Random:
        """A generator of random numbers that follows from the seed and `name` alone."""
        return random.Random(f"{self.seed}/{name}")

    def after(self, seconds: float, call: Callable[..., object], *args: Any) -> None:
        """Make the call this many seconds from now."""
        self.scheduler.after(seconds, call, *args)

    def run(self, seconds: float) -> None:
        """Let this many seconds of virtual time pass."""
        self.scheduler.run(self.now_s + seconds)

    def run_until(self, predicate: Callable[[], bool], seconds: float) -> bool:
        """Let time pass until the predicate holds. False if it did not within this many seconds."""
        return predicate() or self.scheduler.run(self.now_s + seconds, predicate)

    # -- machines and nodes

    def join(self, node_id: str) -> Process:
        """A machine for a new node that will join the others. It is not started."""
        process = self.processes[node_id] = self.process(node_id, (*self.processes, node_id), join=True)
        return process

    def process(
        self, node_id: str, peers: tuple[str, ...], *, join: bool = False, **tables: Mapping[str, Any]
    ) -> Process:
        """A machine for a node with these peers. It is not started, and not in `processes`."""
        drawn = self.random(f"{node_id} machine")
        zero_s = 1000 * drawn.random()
        off_s, ppm = self._apart(node_id, drawn) if self._skew_ms else (0.0, 0.0)
        clock = SimClock(lambda: self.scheduler.now, epoch_s=self.epoch_s, zero_s=zero_s, off_s=off_s, ppm=ppm)
        root = self.directory / node_id / "data"
        platter = Platter(root, self.directory / node_id / "aside", self.random(f"{node_id} platter"))
        return Process(self.config_of(node_id, peers, tables, join=join), platter, clock, self._around)

    def _apart(self, node_id: str, drawn: Random) -> tuple[float, float]:
        """(offset in seconds, error of the crystal in ppm) of a host without a fault. In three of four cases the offset
        is the largest allowed one, ahead or behind. The crystal's error makes the offset smaller, never larger.

        With odd seeds n1 is ahead and n2 behind: in some storms leadership goes from one to the other
        (chaos/plan/draw_answers.py).
        """
        most_s = self._skew_ms / 1000
        off_s = drawn.choice([-most_s, most_s]) if drawn.random() < 0.75 else drawn.uniform(-most_s, most_s)
        if self.seed % 2 and node_id in ("n1", "n2"):
            off_s = most_s if node_id == "n1" else -most_s
        return off_s, -math.copysign(drawn.uniform(0, CRYSTAL_PPM), off_s)

    def config_of(
        self, node_id: str, peers: tuple[str, ...], tables: Mapping[str, Mapping[str, Any]], *, join: bool = False
    ) -> Config:
        """A node's configuration. `tables` go over those of the world."""
        raw: dict[str, Any] = {
            "node_id": node_id,
            "join": join,
            "data_dir": str(self.directory / node_id / "data"),
            "http": {"listen": f"{node_id}:{HTTP_PORT}", "insecure": True},
            "raft": {"listen": f"{node_id}:{RAFT_PORT}", "insecure": True},
            "push": {"allow": [NETWORK]},
            "peers": [{"id": each, "raft": f"{each}:{RAFT_PORT}", "http": f"{each}:{HTTP_PORT}"} for each in peers],
        }
        for more in (self._config, tables):
            for table, values in more.items():
                raw[table] = {**raw.get(table, {}), **values}
        return parse_config(raw, {})

    def start(self, *node_ids: str) -> None:
        """Start these nodes, all if none is named."""
        for node_id in node_ids or self.ids:
            self.processes[node_id].start()

    def client(self, node_id: str, name: str = "") -> Client:
        """A client of this node, under a host name of its own: `name`, or the next free one."""
        self._clients += 1
        name = name or f"client{self._clients}"
        return Client(self.scheduler, self.network, self.trace, name, node_id, HTTP_PORT)

    # -- questions

    def nodes(self) -> dict[str, Node]:
        """The nodes whose process lives."""
        return {name: process.node for name, process in self.processes.items() if process.node is not None}

    def leader(self) -> str | None:
        """The node that leads the newest term and may act as leader now."""
        found: tuple[int, str] | None = None
        for node_id, node in self.nodes().items():
            if (
                node.group.leader_term is not None
                and not self.processes[node_id].paused
                and node.group.leader_term.trusted()
            ):
                found = max(found or (0, ""), (node.group.leader_term.term, node_id))
        return found[1] if found else None

    def applied(self, node_id: str) -> int:
        """The index of the last entry that a living node has applied."""
        node = self.processes[node_id].node
        assert node is not None, f"{node_id} is down"
        return node.group.machine.applied_index

    def digests(self) -> dict[str, tuple[str, int]]:
        """(digest of the replicated content, applied index) of every living node. Each makes a checkpoint now, and its
        files are read. No checkpoint may be under way, so call it when the cluster has been quiet for a while. Raises
        the errors of verify."""
        found: dict[str, tuple[str, int]] = {}
        for node_id, node in self.nodes().items():
            self.processes[node_id].disk.spare()
            job = node.group.store.begin_checkpoint(node.group.machine.checkpoint_record())
            job.run()
            job.finish()
            copy = self.directory / f"{node_id}-copy"
            shutil.copytree(node.config.directory, copy)
            try:
                found[node_id] = digest(copy)
            finally:
                shutil.rmtree(copy)
        return found

    def close(self) -> None:
        """Kill all processes, restore the log and the counted methods, and remove the directory if the world made
        it."""
        for process in self.processes.values():
            process.kill()
        self.scheduler.run(self.now_s)
        self.log.end()
        self._costs.__exit__(None, None, None)
        if self._own:
            shutil.rmtree(self.directory, ignore_errors=True)
