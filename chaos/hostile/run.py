"""Runs each attack beside bystanders, each attack against three real nodes of its own."""

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from chaos.cluster.cluster import Cluster
from chaos.cluster.network import ClusterNetwork
from chaos.hostile.attacker import Attacker
from chaos.hostile.attacks import STORED_BYTES
from chaos.hostile.bystanders import Bystanders
from chaos.hostile.silent_names import SilentNames
from chaos.hostile.verdict import COMES_BACK_S, Verdict, Window, judge
from chaos.load.webhooks import PUSH_SETTINGS
from cli.local.local_nodes import LOOPBACK

BEFORE_S: Final = 8.0
#: By attack: the names of the bystanders' receiver, on a network where no name server answers.
SILENT: Final = {"lookups": tuple(f"calm{number}.test" for number in range(20))}


async def attack(
    cluster: Cluster,
    names: Sequence[str],
    *,
    before_s: float = BEFORE_S,
    during_s: float,
    after_s: float = COMES_BACK_S,
    size: float = 1.0,
    hosts: Sequence[str] = (LOOPBACK,),
) -> Verdict:
    """Run these attacks at once against a running cluster. Return the verdict on what its bystanders noticed. They are
    watched `before_s` before the attacks and `after_s` after them, in which memory may shrink again. `hosts` are names
    of this machine that nodes can resolve."""
    async with Bystanders(cluster, hosts) as seen:
        before = await _window(before_s)
        leader = await cluster.wait_leader()
        nodes = cluster.nodes
        async with Attacker(names, nodes[leader.node_id], tuple(nodes.values()), size) as attacker:
            during = await _window(during_s)
            failed = await attacker.end()
        after = await _window(after_s)
        last = await cluster.wait_leader()
        await seen.stop()
        stored_bytes = size * sum(STORED_BYTES.get(name, 0.0) for name in names)
        verdict = judge(seen, before, during, after, (leader.term, last.term), stored_bytes)
        verdict.wrong += [f"an attack failed: {error}" for error in failed]
        return verdict


async def _window(seconds: float) -> Window:
    begin_s = time.monotonic()
    await asyncio.sleep(seconds)
    return Window(begin_s, time.monotonic())


async def run(directory: Path, names: Sequence[str], during_s: float, say: Callable[[str], None]) -> dict[str, Verdict]:
    """Run each attack against a cluster of its own, one after the other. `say` gets the result of each."""
    found: dict[str, Verdict] = {}
    for name in names:
        hosts = SILENT.get(name, (LOOPBACK,))
        async with (
            SilentNames(hosts) if name in SILENT else ClusterNetwork() as cluster_network,
            Cluster(directory / name, settings=PUSH_SETTINGS, cluster_network=cluster_network) as cluster,
        ):
            cluster.start()
            await cluster.wait_ready()
            await cluster.wait_raised()
            verdict = found[name] = await attack(cluster, [name], during_s=during_s, hosts=hosts)
        figures = ", ".join(f"{figure} {value:.1f}" for figure, value in verdict.figures.items())
        noticed = verdict.wrong + verdict.slow
        say(f"{name:12} {'NOTICED' if noticed else 'ok'}  {figures}")
        for wrong in noticed:
            say(f"    {wrong}")
    return found
