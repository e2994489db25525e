"""Measure why a leader on a loaded machine becomes unsure, because its trust has run out: `python -m bench.stall
--burners 10`.

Three nodes run, and a client schedules batches into near hours. Beside them run processes that only use a processor,
and perhaps one that writes and syncs. The report has the share of the time in which the leader was sure to lead, and
the answers to the client. For each node it has what held the event loop, by the node's own watchdog
(bench/stalled_node.py).
"""

import argparse
import asyncio
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop

from bench.client.load import BATCH, NEAR_MS, RENDERED_BATCHES, batches, due_times, leader_address, line
from bench.client.pump import Caller, render
from chaos.cluster.cluster import Cluster
from chaos.history.verdict import percentiles

_BURN = "while True: pass"
_WRITE = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
block = bytes(1 << 20)
while True:
    for place in range(64):
        os.pwrite(fd, block, place << 20)
    os.fsync(fd)
"""
CONNECTIONS = 4
PAUSE_S = 0.01
WATCHED = {"watchdog": {"held_ms": 20}}
"""The watchdog reports a hold up to a quarter of `held_ms` too short."""


class StallCluster(Cluster):
    """A cluster whose nodes run as bench/stalled_node.py, which adds a probe of the event loop."""

    def start(self, *node_ids: str) -> None:
        """Start these nodes (default: all)."""
        for node_id in node_ids or tuple(self.nodes):
            node = self.nodes[node_id]
            command = [sys.executable, "-m", "bench.stalled_node", "--config", str(node.config_path)]
            command += ["--out", str(self.found(node_id)), "--parent", str(os.getpid())]
            with node.log_path.open("ab") as log:
                self._processes[node_id] = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def found(self, node_id: str) -> Path:
        """Return the file that the node's probe writes."""
        return self.nodes[node_id].directory / "stall.json"


@contextmanager
def burning(count: int, nice: int, writer: Path | None) -> Iterator[None]:
    """Run `count` processes that use a processor each, and one that writes to `writer`."""
    prefix = ["nice", "-n", str(nice)]
    burners = [subprocess.Popen([*prefix, sys.executable, "-c", _BURN], start_new_session=True) for _ in range(count)]
    if writer is not None:
        burners.append(subprocess.Popen([*prefix, sys.executable, "-c", _WRITE, str(writer)], start_new_session=True))
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
        if writer is not None:
            writer.unlink(missing_ok=True)


async def _pump(
    cluster: Cluster, requests: list[bytes], seconds: float, seen: Counter[int], took_ms: list[float]
) -> None:
    """Run one client. It sends to the node that leads at the begin, waits after a refusal, and counts the answers by
    status."""
    address = await leader_address(cluster)
    caller = await Caller.connect(address.host, address.port)
    end_s = time.perf_counter() + seconds
    try:
        for request in itertools.cycle(requests):
            began_s = time.perf_counter()
            if began_s >= end_s:
                return
            status, _ = await caller.call(request)
            seen[status] += 1
            took_ms.append((time.perf_counter() - began_s) * 1000)
            if status not in (200, 201):
                await asyncio.sleep(PAUSE_S)
    finally:
        caller.close()


async def measure(directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run the whole measurement. Return the report."""
    seen: Counter[int] = Counter()
    took_ms: list[float] = []
    async with StallCluster(directory, settings=WATCHED) as cluster:
        cluster.start()
        await cluster.wait_ready()
        before = await cluster.wait_leader()
        if options.load == "near":
            requests = batches(due_times(BATCH * RENDERED_BATCHES, NEAR_MS))
        else:
            requests = [render("POST", "/v1/messages", line(due)) for due in due_times(2_000, NEAR_MS)]
        with burning(options.burners, options.nice, directory / "burner" if options.disk else None):
            pumps = (_pump(cluster, requests, options.seconds, seen, took_ms) for _ in range(CONNECTIONS))
            await asyncio.gather(*pumps)
        after = await cluster.wait_leader()
        for node_id in cluster.nodes:
            await cluster.stop(node_id)
        nodes = {node_id: json.loads(cluster.found(node_id).read_text()) for node_id in cluster.nodes}
    led_s = sum(node["led_s"] for node in nodes.values())
    unsure_s = sum(node["unsure_s"] for node in nodes.values())
    return {
        "sure_share": round(1 - unsure_s / led_s, 4) if led_s else None,
        "unsure_s": round(unsure_s, 2),
        "led_s": round(led_s, 1),
        "terms": after.term - before.term,
        "answers": dict(sorted(seen.items())),
        "request_ms": {key: round(value, 1) for key, value in percentiles(took_ms).items()},
        "nodes": {node_id: _told(found) for node_id, found in nodes.items()},
    }


def _told(found: dict[str, Any]) -> dict[str, Any]:
    return {
        **{f"held by {kind}": _held(of) for kind, of in found["held"].items()},
        "collections": len(found["collections"]),
        "worst collection_ms": _ms(max(found["collections"], default=0)),
        "syncs": len(found["syncs"]),
        "sync_ms": percentiles([_ms(sync) for sync in found["syncs"]]) if found["syncs"] else {},
        "led_s": round(found["led_s"], 1),
        "unsure_s": round(found["unsure_s"], 2),
    }


def _held(of: dict[str, float]) -> dict[str, float]:
    """Return the figures of one histogram of the watchdog (node/runtime/loop_held.py). They say how often the loop was
    held, how often for longer than 20 and 100 ms, and for how many seconds in all."""
    past = {f"past_{ms}_ms": int(of["count"] - of[f"{ms / 1000:g}"]) for ms in (20, 100)}
    return {"times": int(of["count"]), **past, "in all_s": round(of["sum"], 2)}


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def main() -> None:
    """Measure once and print JSON."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--dir", type=Path, default=Path("bench-data/stall"), help="for the nodes; removed again")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--burners", type=int, default=10)
    parser.add_argument("--nice", type=int, default=0, help="of the burners")
    parser.add_argument("--disk", action="store_true", help="one more that writes and syncs")
    parser.add_argument("--load", choices=("near", "single"), default="near")
    options = parser.parse_args()
    if options.dir.exists():
        shutil.rmtree(options.dir)
    options.dir.mkdir(parents=True)
    print(f"load average at the start: {os.getloadavg()[0]:.2f}", file=sys.stderr)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            print(json.dumps(runner.run(measure(options.dir, options)), indent=1))
    finally:
        shutil.rmtree(options.dir)


if __name__ == "__main__":
    main()
