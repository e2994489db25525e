"""A node that lost its disk must not vote: with it and one node that missed the last entries there is no majority."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from chaos.cluster.cluster import Cluster
from cli.connection import Connection
from cli.failure import Failure
from cli.local.local_nodes import LocalNode
from tests.waiting import until

COUNT = 50
QUIET_S, QUIET_LOOKS = 4.0, 20


async def call(node: LocalNode, method: str, path: str, document: Mapping[str, object] | None = None) -> dict[str, Any]:
    """One request, off the loop."""
    answer = await asyncio.to_thread(Connection(node.url).call, method, path, document)
    return answer.document


async def schedule(node: LocalNode, count: int) -> list[str]:
    """Ids of messages due in an hour."""
    message = {"topic": "t", "body": 1, "delay": "1h"}
    return [(await call(node, "POST", "/v1/messages", message))["id"] for _ in range(count)]


async def term_of(cluster: Cluster, node_id: str) -> int:
    """The node's term, or 0 when it gives no page."""
    return int((await cluster.status(node_id) or {}).get("term") or 0)


async def scenario(directory: Path) -> None:
    """Messages are acknowledged by two nodes; one of those is wiped, the other stopped, the third has missed them."""
    async with Cluster(directory) as cluster:
        cluster.start()
        await cluster.wait_ready()
        leadership = await cluster.wait_leader()
        leader = leadership.node_id
        wiped, stale = (node_id for node_id in cluster.nodes if node_id != leader)
        early = await schedule(cluster.nodes[leader], COUNT)
        await cluster.wait_level()
        await cluster.stop(stale)
        late = await schedule(cluster.nodes[leader], COUNT)
        await cluster.stop(wiped)
        await cluster.stop(leader)
        cluster.wipe(wiped)
        cluster.start(wiped, stale)
        # The stale node campaigns in vain: its (pre-)votes are refused for as long as we watch.
        await asyncio.gather(*(no_leader(cluster, node_id) for node_id in (wiped, stale)))
        with pytest.raises(Failure):
            await schedule(cluster.nodes[stale], 1)
        cluster.start(leader)
        await cluster.wait_ready()
        for message_id in early + late:
            document = await call(cluster.nodes[wiped], "GET", f"/v1/messages/{message_id}")
            assert document["state"] == "scheduled"
        await schedule(cluster.nodes[wiped], 1)
        digests = await cluster.digests()
        assert len(set(digests.values())) == 1, digests


async def no_leader(cluster: Cluster, node_id: str) -> None:
    """The node answers and names no leader, for several election timeouts of 0.8 s."""
    began_s, seen = time.monotonic(), 0

    async def watched() -> bool:
        nonlocal seen
        page = await cluster.status(node_id)
        assert page is None or page["leader"] is None, page
        seen += page is not None
        return seen > QUIET_LOOKS and time.monotonic() - began_s > QUIET_S

    await until(watched, 60)


@pytest.mark.timeout(120)
def test_wiped_node_does_not_vote(tmp_path: Path) -> None:
    """Wiped and stale together elect nobody; with the third node back nothing acknowledged is missing."""
    asyncio.run(scenario(tmp_path))
