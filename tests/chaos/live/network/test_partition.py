"""A leader that is cut off, in every way in which it can be: it acknowledges nothing, another leads, it comes back."""

import asyncio
import time
from pathlib import Path

import aiohttp

from chaos.cluster.cluster import Cluster
from chaos.cluster.links import Condition
from chaos.live.network.choose import choose_ground
from chaos.plan.target import FaultTarget
from cli.local.local_nodes import LocalNode

#: FAULTS: healed and caught up.
CAUGHT_UP_S = 5.0
MESSAGE = {"topic": "t", "body": "x", "delay": "1h"}


async def accepts(http: aiohttp.ClientSession, node: LocalNode) -> bool:
    """Whether a message scheduled at this node is acknowledged within a moment."""
    try:
        async with http.post(f"{node.url}/v1/messages", json=MESSAGE) as answer:
            return answer.status == 201
    except (aiohttp.ClientError, TimeoutError):
        return False


async def cut_off(cluster: Cluster, http: aiohttp.ClientSession, target: str) -> None:
    """The links of `target` are cut until another leads and has served; then they are whole."""
    links = cluster.cluster_network.links
    assert links is not None
    before = await cluster.wait_leader()
    fault_target = FaultTarget(lambda: list(cluster.nodes), lambda: before.node_id)
    held = links.put(fault_target.apart(target) if "|" in target else fault_target.links(target), Condition(cut=True))
    after = await cluster.wait_leader(before.term)
    assert after.node_id != before.node_id
    while not await accepts(http, cluster.nodes[after.node_id]):
        assert await cluster.leadership() is not None
    if target == "leader|*":
        assert not await accepts(http, cluster.nodes[before.node_id])
    links.lift(held)
    healed_s = time.monotonic()
    index = (await cluster.wait_leader()).commit_index
    await cluster.wait_applied(index, *cluster.nodes)
    await cluster.wait_ready()
    assert time.monotonic() - healed_s < CAUGHT_UP_S


def test_leader_that_is_cut_off(tmp_path: Path) -> None:
    """Both ways, heard by nobody, hearing nobody: each time another takes over while clients still reach both."""

    async def run() -> None:
        chosen = await choose_ground(tmp_path, 1)
        async with (
            chosen.cluster_network as cluster_network,
            Cluster(tmp_path, cluster_network=cluster_network) as cluster,
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=1.5)) as http,
        ):
            cluster.start()
            await cluster.wait_ready()
            async with http.put(f"{cluster.nodes['n1'].url}/v1/topics/t", json={"mode": "pull"}) as answer:
                assert answer.status < 300
            for target in ("leader|*", "leader>*", "*>leader"):
                await cut_off(cluster, http, target)
            await cluster.wait_level()

    asyncio.run(run())
