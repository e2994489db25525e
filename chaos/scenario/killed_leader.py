"""Kills of the leader, one after the other, on three real nodes: what the commands of this room share."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import aiohttp

from chaos.cluster.cluster import Cluster, ClusterFailed

Kill = Callable[[Cluster, aiohttp.ClientSession, int, random.Random], Awaitable[Counter[str]]]
"""One kill, with its number and the draws. Returns how often each place was hit, and raises ClusterFailed if a promise
is broken. The killed node runs again then."""


async def kills(
    directory: Path, kill: Kill, times: int, seed: int, *, answer_s: float, show: Callable[[str], None]
) -> Counter[str]:
    """Kill the leader so many times. Return how often each place was hit. A client waits `answer_s` for an answer."""
    chance, fell = random.Random(seed), Counter[str]()
    timeout = aiohttp.ClientTimeout(total=answer_s)
    async with Cluster(directory) as cluster, aiohttp.ClientSession(timeout=timeout) as http:
        cluster.start()
        await cluster.wait_ready()
        await cluster.wait_raised()
        for number in range(times):
            hit = await kill(cluster, http, number, chance)
            fell += hit
            show(f"{number + 1:3} killed: {places(hit)}; exact")
    return fell


def places(fell: Counter[str]) -> str:
    """Tell how often each place was hit."""
    return ", ".join(f"{count} {where}" for where, count in sorted(fell.items()))


def run_kills(about: str, kinds: Mapping[str, Kill], answer_s: float) -> None:
    """Run as a command: kill, and print where the kills fell. The first of `kinds` is the default. Exit 1 if a promise
    was broken."""
    parser = argparse.ArgumentParser(description=about)
    first = next(iter(kinds))
    parser.add_argument("--kind", choices=kinds, default=first, help=f"what is under way [{first}]")
    parser.add_argument("--times", type=int, default=20, help="kills [20]")
    parser.add_argument("--seed", type=int, default=1, help="of the draws [1]")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        try:
            fell = asyncio.run(
                kills(
                    Path(directory), kinds[given.kind], given.times, given.seed,
                    answer_s=answer_s, show=lambda line: print(line, flush=True),
                )
            )  # fmt: skip
        except ClusterFailed as broken:
            sys.exit(f"broken: {broken}")
    print(f"{given.times} kills, each exact: {places(fell)}")
