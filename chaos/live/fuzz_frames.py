"""`make fuzz-frames`: sends frames to the Raft ports of real nodes, as a stranger and as an insider.

Three nodes run. A fourth member is down, so one name is free. The stranger knows all node ids and uses any name. The
insider knows the cluster id as well and uses the names of connected nodes. These must hold: no node ends, no term
moves, each of three parts of a node logs at most a line a second. No node's memory grows by more than MEMORY_KB_MAX.
What an insider can do in the name of the member that is down is not judged here (docs/guarantees.md).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
from pathlib import Path
from typing import Final

from chaos.cluster.cluster import Cluster
from chaos.cluster.replacing import add
from chaos.plan import draw_calls
from chaos.plan.draw_frames import frame, hello
from cli.local.local_nodes import LocalNode
from storage.directory.data_directory import owner_of
from storage.file.disk import Disk
from storage.format.rows import HEADER_SIZE, FileHeader

PATIENT: Final = {"heartbeat_ms": 50, "trust_ms": 1500, "election_min_ms": 2500, "election_max_ms": 4000}
"""Raft settings that are slow enough for a busy machine. An election of its own would look like the attacker's."""
DOWN: Final = "n4"
A_LINE: Final = 40
"""Frames on one connection."""
AT_ONCE: Final = 12
CALLS_SHARE: Final = 0.4
"""The share of connections that ask for calls between nodes."""
MEMORY_KB_MAX: Final = 24 * 1024
"""The allowed growth of a node: a quarter of a mebibyte of buffers for each open connection."""


async def _converse(
    chance: random.Random, node: LocalNode, names: list[str], known: bytes | None, stores: dict[str, bytes]
) -> None:
    """Make one connection. Send a hello, or a greeting for calls. Send frames behind it, at once or after the first
    byte of the node's answer. Then read until the connection is closed."""
    speaks_as = chance.choice(names)
    if chance.random() < CALLS_SHARE:
        greeting = draw_calls.greeting(chance, speaks_as, node.node_id, known)
        frames = draw_calls.frames(chance, A_LINE)
    else:
        greeting = hello(chance, speaks_as, node.node_id, known, stores)
        frames = b"".join(frame(chance) for _ in range(A_LINE))
    at_once = chance.random() < 0.5
    with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
        reader, writer = await asyncio.open_connection(node.host, node.raft_port)
        try:
            async with asyncio.timeout(1.0):
                writer.write(greeting + (frames if at_once else b""))
                if not at_once:
                    await reader.read(1)
                    writer.write(frames)
                await writer.drain()
                while await reader.read(65536):
                    pass
        finally:
            writer.transport.abort()


class Fuzz:
    """One run against a cluster that has a leader. `broken` lists the violations."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.broken: list[str] = []
        self._cluster = cluster
        self._chance = random.Random(seed)
        self._nodes = list(cluster.nodes.values())

    async def run(self, who: str, frames: int, names: list[str], known: bytes | None) -> None:
        """Send `frames` frames as one attacker. Then check the cluster. `who` names the attacker in the output, and
        `names` are the node ids that it uses. `known` is the cluster id, None for the stranger."""
        loop = asyncio.get_running_loop()
        before, begun_s = await self._look(), loop.time()
        lines = {node.node_id: _lines(node) for node in self._nodes}
        todo = [self._chance.getrandbits(64) for _ in range(-(-frames // A_LINE))]
        stores = dict.fromkeys([*self._cluster.nodes, DOWN], b"store")
        if known is not None:
            stores |= {node.node_id: owner_of(node.data_path, Disk())[1] for node in self._nodes}

        async def work() -> None:
            while todo:
                chance = random.Random(todo.pop())
                others = chance.choice(self._nodes)
                speaks = [name for name in names if name != others.node_id]
                await _converse(chance, others, speaks, known, stores)

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        took_s, after = loop.time() - begun_s, await self._look()
        for node in self._nodes:
            wrote = _lines(node) - lines[node.node_id]
            term, memory_kb = before[node.node_id]
            term_now, memory_now_kb = after[node.node_id]
            if term_now != term:
                self.broken.append(f"{who}: {node.node_id} went from term {term} to {term_now}")
            if wrote > 3 + 3 * took_s:  # three parts of a node log it: the wire, the group, and the calls
                self.broken.append(f"{who}: {node.node_id} wrote {wrote} lines in {took_s:.0f} s")
            if memory_now_kb - memory_kb > MEMORY_KB_MAX:
                self.broken.append(f"{who}: {node.node_id} grew from {memory_kb} to {memory_now_kb} KiB")
            print(f"  {node.node_id}: term {term_now}, {wrote} lines, {memory_kb} -> {memory_now_kb} KiB")
        print(f"{who}: {frames} frames in {took_s:.0f} s")

    async def _look(self) -> dict[str, tuple[int, int]]:
        """The term and the memory in KiB of each node. Raises ClusterFailed if a node ended, or none leads."""
        await self._cluster.wait_leader()
        await self._cluster.wait_ready()
        pages = {node.node_id: await self._cluster.status(node.node_id) for node in self._nodes}
        return {
            node_id: (int(page["term"]) if page else -1, _memory_kb(self._cluster.pid(node_id)))
            for node_id, page in pages.items()
        }


def cluster_id_of(node: LocalNode) -> bytes:
    """The cluster id, read from the node's disk: the insider's knowledge."""
    mark = b"cluster_id\xc4\x10"
    for path in sorted((node.data_path / "journal").glob("*.seg")):
        data = path.read_bytes()
        header = FileHeader.decode(data[:HEADER_SIZE], str(path))
        _, found, rest = data.partition(mark)
        if found or header.cluster_id != bytes(16):
            return rest[:16] if found else header.cluster_id
    raise AssertionError("the cluster is not founded")


def _memory_kb(pid: int) -> int:
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0])


def _lines(node: LocalNode) -> int:
    return node.log_path.read_bytes().count(b"\n")


async def fuzz(directory: Path, seed: int, frames: int) -> list[str]:
    """Send half of the frames as the stranger, half as the insider. Return the violations."""
    async with Cluster(directory, spare=1, settings={"raft": PATIENT}) as cluster:
        cluster.start()
        await cluster.wait_ready()
        await cluster.wait_leader()
        await add(cluster, DOWN)
        await cluster.stop(DOWN)
        cluster.nodes.pop(DOWN)
        run = Fuzz(cluster, seed)
        names = list(cluster.nodes)
        await run.run("stranger", frames // 2, [*names, DOWN], None)
        await run.run("insider", frames - frames // 2, names, cluster_id_of(cluster.nodes["n1"]))
        return run.broken


def main() -> int:
    """Run from the command line. Exit status 1 if something did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--frames", type=int, default=200_000)
    parser.add_argument("--directory", type=Path, help="keep the nodes' data and logs here")
    options = parser.parse_args()
    print(f"seed {options.seed}; again: make fuzz-frames FUZZ_SEED={options.seed} FUZZ_FRAMES={options.frames}")
    with tempfile.TemporaryDirectory() as aside:
        broken = asyncio.run(fuzz(options.directory or Path(aside), options.seed, options.frames))
    for each in broken:
        print(f"BROKEN: {each}")
    print("held" if not broken else f"{len(broken)} did not hold")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
