"""`make bench`: the figures of this version, on this machine, each from a command that anybody can repeat.

Three nodes with a majority's fdatasync and the client share the same cores. `python -m bench.run NAME...` measures the
named parts, each on a fresh cluster. Without a name it measures all of ours. `make bench-peers` (`--peers`) also
measures Redis, PostgreSQL and beanstalkd, in the same run. Targets stand beside the figures. A missed target does not
change the exit status: a reader sees it and looks for the cause.
"""

import argparse
import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import uvloop

from bench.client.receivers import PUSH_SETTINGS
from bench.measure.any_node import any_node, follower
from bench.measure.catch_up import SETTINGS as CATCH_UP_SETTINGS
from bench.measure.catch_up import catch_up
from bench.measure.crowds import TOPICS_SETTINGS, closed_ports, filters, topics
from bench.measure.drain import drain
from bench.measure.failover import failover
from bench.measure.hours import hours
from bench.measure.isolation import isolation
from bench.measure.lateness import by_pull, by_push
from bench.measure.lists import lists
from bench.measure.operations import moves, operations
from bench.measure.pending import pending
from bench.measure.push import push
from bench.measure.schedule import near, single, spread
from bench.peer.beanstalkd import beanstalkd
from bench.peer.postgres import postgres
from bench.peer.process import Missing
from bench.peer.redis import redis
from bench.row import Row, show
from bench.scale import Scale
from chaos.cluster.cluster import Cluster

PARTS: dict[str, Callable[[Cluster, Scale], Coroutine[Any, Any, list[Row]]]] = {
    "near": near,
    "spread": spread,
    "single": single,
    "follower": follower,
    "any-node": any_node,
    "drain": drain,
    "push": push,
    "lateness-pull": by_pull,
    "lateness-push": by_push,
    "isolation": isolation,
    "topics": topics,
    "filters": filters,
    "closed-ports": closed_ports,
    "failover": failover,
    "catch-up": catch_up,
    "pending": pending,
    "lists": lists,
    "hours": hours,
    "operations": operations,
    "moves": moves,
}
SETTINGS: dict[str, Mapping[str, Mapping[str, object]]] = {"catch-up": CATCH_UP_SETTINGS, "topics": TOPICS_SETTINGS}
PEERS: dict[str, Callable[[Path, Scale], Coroutine[Any, Any, list[Row]]]] = {
    "redis": redis,
    "postgres": postgres,
    "beanstalkd": beanstalkd,
}


async def _ours(name: str, directory: Path, scale: Scale) -> list[Row]:
    """Measure one part on a fresh cluster."""
    async with Cluster(directory, settings=SETTINGS.get(name, PUSH_SETTINGS)) as cluster:
        cluster.start()
        await cluster.wait_ready()
        return await PARTS[name](cluster, scale)


async def _peer(name: str, directory: Path, scale: Scale) -> list[Row]:
    """Measure one peer. If it is not installed, return a row that says so."""
    try:
        return await PEERS[name](directory, scale)
    except Missing as missing:
        return [Row(name, None, "", system=name, detail={"missing": str(missing)})]


def _measure(name: str, directory: Path, scale: Scale) -> list[Row]:
    """Measure one part or peer in this directory, which is made for it and removed again."""
    print(f"{name} ...", file=sys.stderr, flush=True)
    if directory.exists():
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    run = _peer if name in PEERS else _ours
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(run(name, directory, scale))
    finally:
        shutil.rmtree(directory)


def main() -> None:
    """Measure the named parts (default: all of ours) and print a table and one JSON line."""
    defaults = Scale()
    names = (*PARTS, *PEERS)
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", choices=(*names, []), metavar="NAME", help=f"of {', '.join(names)}")
    parser.add_argument("--dir", type=Path, default=Path("bench-data"), help="for the nodes; removed again")
    parser.add_argument("--seconds", type=float, default=defaults.seconds, help="of each rate and lateness")
    parser.add_argument("--drain", type=int, default=defaults.drain, help="messages to drain")
    parser.add_argument("--pending", type=int, default=defaults.pending, help="messages of the part `pending`")
    parser.add_argument("--quick", action="store_true", help="a fraction of everything: shows only that it works")
    parser.add_argument("--peers", action="store_true", help="Redis, PostgreSQL and beanstalkd too")
    options = parser.parse_args()
    scale = Scale(seconds=options.seconds, drain=options.drain, pending=options.pending)
    chosen = list(options.names or PARTS) + (
        [name for name in PEERS if name not in options.names] if options.peers else []
    )
    print(f"load average at the start: {os.getloadavg()[0]:.2f}; whatever runs beside takes its share", file=sys.stderr)
    rows: list[Row] = []
    try:
        for name in chosen:
            rows += _measure(name, options.dir / name, scale.quick() if options.quick else scale)
    finally:
        show(rows)
        with contextlib.suppress(OSError):
            options.dir.rmdir()


if __name__ == "__main__":
    main()
