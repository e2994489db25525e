"""`make bench`: the figures of this version, on this machine, each from a command that anybody can repeat.

Three nodes with a majority's fdatasync and the client on the same cores. `python -m bench.run PART` runs one part
alone, on a fresh cluster; without a part all of them run. No thresholds here: a figure that is off is for a reader to
see, and to profile.
"""

import argparse
import asyncio
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from bench.lateness import lateness
from bench.restart import restart
from bench.row import Row, show
from bench.schedule import batched, single
from chaos.cluster import Cluster

PARTS = ("schedule", "single", "lateness", "restart")


async def _part(name: str, directory: Path, seconds: float, pending: int) -> list[Row]:
    """One part on a fresh cluster, removed afterwards."""
    parts: dict[str, Callable[[Cluster], Awaitable[list[Row]]]] = {
        "schedule": lambda cluster: batched(cluster, seconds),
        "single": lambda cluster: single(cluster, seconds),
        "lateness": lambda cluster: lateness(cluster, seconds),
        "restart": lambda cluster: restart(cluster, pending),
    }
    async with Cluster(directory / name) as cluster:
        cluster.start()
        await cluster.wait_ready()
        print(f"{name} ...", file=sys.stderr, flush=True)
        rows = await parts[name](cluster)
    shutil.rmtree(directory / name)
    return rows


def main() -> None:
    """Measures the parts named (default: all) and prints a table and one JSON line."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("parts", nargs="*", choices=(*PARTS, []), metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--dir", type=Path, default=Path("bench-data"), help="for the nodes; removed again")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--pending", type=int, default=5_000_000, help="messages before the restart")
    options = parser.parse_args()
    rows: list[Row] = []
    for name in options.parts or PARTS:
        if (options.dir / name).exists():
            shutil.rmtree(options.dir / name)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            rows += runner.run(_part(name, options.dir, options.seconds, options.pending))
    show(rows)


if __name__ == "__main__":
    main()
