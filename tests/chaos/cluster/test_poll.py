"""Long polls on real processes: a client that has gone takes nothing with it, asked through any node."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from chaos.cluster.cluster import Cluster

WAIT_MS = 20_000


async def post(http: aiohttp.ClientSession, url: str, document: object) -> dict[str, Any]:
    """The document of a 2xx answer."""
    async with http.post(url, json=document) as answer:
        found: dict[str, Any] = await answer.json()
        assert answer.status < 300, found
        return found


async def scenario(directory: Path) -> None:
    """At each node: a poll waits, its client goes, a message comes due; the next poll has it at its first attempt."""
    async with Cluster(directory) as cluster, aiohttp.ClientSession() as http:
        cluster.start()
        await cluster.wait_ready()
        for number, node in enumerate(cluster.nodes.values()):
            topic, pull = f"{node.url}/v1/topics/t", {"max": 10, "wait": WAIT_MS}
            async with http.put(topic, json={"mode": "pull"}) as answer:
                assert answer.status in (200, 201)
            async with aiohttp.ClientSession() as leaving:
                waiting = asyncio.create_task(post(leaving, f"{topic}/pull", pull))
                done, _ = await asyncio.wait({waiting}, timeout=0.3)
                assert not done, "the poll did not wait"
                waiting.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await waiting
            staying = asyncio.create_task(post(http, f"{topic}/pull", pull))
            await post(http, f"{node.url}/v1/messages", {"topic": "t", "body": number, "delay": 200})
            messages = (await asyncio.wait_for(staying, 5))["messages"]
            assert [(message["body"], message["attempt"]) for message in messages] == [(number, 1)]
            receipts = {"receipts": [messages[0]["receipt"]]}
            assert (await post(http, f"{topic}/ack", receipts))["results"][0]["result"] == "acked"


@pytest.mark.timeout(60)
def test_poll_whose_client_left_makes_no_lease(tmp_path: Path) -> None:
    """Through the leader and through nodes that pass the request on."""
    asyncio.run(scenario(tmp_path))
