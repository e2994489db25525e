"""kill -9 on real processes while one takes a snapshot over from the other: both die, and all come out equal."""

import asyncio
import json
from pathlib import Path

import aiohttp
import pytest

from chaos.cluster.cluster import Cluster
from cli.connection import Connection
from cli.local.local_nodes import LocalNode
from tests.waiting import until

STORAGE = {
    "checkpoint_s": 1,
    "checkpoint_journal_mb": 1,
    "journal_keep_mb": 1,
    "snapshot_journal_mb": 512,
    "snapshot_mb_per_s": 3,
}
BATCH = 500
BATCHES = 8


async def fill(node: LocalNode) -> list[str]:
    """Some MiB of messages due in days; an id of each batch."""
    line = json.dumps({"topic": "t", "body": "x" * 1000, "delay": "72h"})
    ids = []
    async with aiohttp.ClientSession(headers={"Content-Type": "application/x-ndjson"}) as session:
        for _ in range(BATCHES):
            async with session.post(f"{node.url}/v1/messages/batch", data="\n".join([line] * BATCH)) as answer:
                assert answer.status == 200, await answer.text()
                ids.append(json.loads((await answer.text()).splitlines()[0])["id"])
    return ids


async def half_way(cluster: Cluster, leader: str, node_id: str) -> None:
    """Until the leader says that the node has some of a snapshot, and lacks some."""

    async def met() -> bool:
        page = await cluster.status(leader) or {"nodes": []}
        taking = next((row["snapshot"] for row in page["nodes"] if row["id"] == node_id), None)
        return bool(taking and 0 < taking["done_bytes"] < taking["bytes"])

    await until(met)


async def scenario(directory: Path) -> None:
    """A follower is wiped, killed while it takes a snapshot over, and the leader while it gives one."""
    async with Cluster(directory, settings={"storage": STORAGE}) as cluster:
        cluster.start()
        await cluster.wait_ready()
        leader = (await cluster.wait_leader()).node_id
        away = next(node_id for node_id in cluster.nodes if node_id != leader)
        early = await fill(cluster.nodes[leader])
        await cluster.kill(away)
        cluster.wipe(away)
        late = await fill(cluster.nodes[leader])
        cluster.start(away)
        await half_way(cluster, leader, away)
        await cluster.kill(away)
        cluster.start(away)
        await half_way(cluster, leader, away)
        await cluster.kill(leader)
        cluster.start(leader)
        await cluster.wait_ready()
        for id in (*early, *late):
            answer = await asyncio.to_thread(Connection(cluster.nodes[away].url).call, "GET", f"/v1/messages/{id}")
            assert answer.document["state"] == "scheduled"
        digests = await cluster.digests()
        assert len(set(digests.values())) == 1, digests


@pytest.mark.timeout(120)
def test_both_ends_of_a_snapshot_are_killed(tmp_path: Path) -> None:
    """Wiped, killed half-way, its leader killed half-way: nothing acknowledged is missing, and all files are equal."""
    asyncio.run(scenario(tmp_path))
