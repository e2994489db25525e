"""`make bench`: the figures of this version, on this machine, each from a command that anybody can repeat.

Three nodes with a majority's fdatasync and the client on the same cores. `python -m bench.run PART` runs one part
alone, on a fresh cluster; without a part all of them run. No thresholds here: a figure that is off is for a reader to
see, and to profile.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import click
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
        click.echo(f"{name} ...", err=True)
        rows = await parts[name](cluster)
    shutil.rmtree(directory / name)
    return rows


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(PARTS))
@click.option("--dir", "directory", type=click.Path(path_type=Path), default=Path("bench-data"), show_default=True)
@click.option("--seconds", type=click.FloatRange(min=1), default=5.0, show_default=True, help="of each measurement")
@click.option(
    "--pending",
    type=click.IntRange(min=1_000),
    default=5_000_000,
    show_default=True,
    help="messages before the restart",
)
def main(parts: tuple[str, ...], directory: Path, seconds: float, pending: int) -> None:
    """Measures PARTS (default: all) and prints a table and one JSON line."""
    rows: list[Row] = []
    for name in parts or PARTS:
        if (directory / name).exists():
            shutil.rmtree(directory / name)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            rows += runner.run(_part(name, directory, seconds, pending))
    show(rows)


if __name__ == "__main__":
    main()
