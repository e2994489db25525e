"""Replaces nodes of a running cluster: a spare node starts and is added, an old one is removed and ends.

It uses the API, as an operator would. It asks any node that runs, because a follower passes the request on to the
leader.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from chaos.cluster.cluster import POLL_S, READY_S, Cluster, ClusterFailed

#: The longest wait for the vote of a node that was added and makes progress all the while.
VOTE_S = 600.0

Change = Callable[[Cluster, str], Awaitable[None]]

REQUEST = aiohttp.ClientTimeout(total=10.0)
#: The codes of refusals after which the request is repeated. Their reasons pass: leadership moves or is elected, a vote
#: is about to be given, a follower lags for a moment.
PASSING = {"no-leader", "draining", "change-in-progress", "not-caught-up"}


async def add(cluster: Cluster, node_id: str) -> None:
    """Start a spare node of the cluster, add it, and wait until it has its vote. Raises ClusterFailed."""
    take(cluster, node_id)
    cluster.start(node_id)
    await admit(cluster, node_id)
    await cluster.wait_ready(node_id)


def take(cluster: Cluster, node_id: str) -> None:
    """Move a node from `cluster.spare` to `cluster.nodes`. The caller starts it, and `admit` makes it a member."""
    cluster.nodes[node_id] = cluster.spare.pop(node_id)


async def admit(cluster: Cluster, node_id: str) -> None:
    """Make a running node a member, and wait until it has its vote. May be repeated. Raises ClusterFailed."""
    node = cluster.nodes[node_id]
    member = {"id": node_id, "raft": node.raft_seen, "http": node.http_seen}
    # Until the node listens, the addition is refused because of its address (`invalid-field`).
    await _change(cluster, node_id, "POST", "/v1/cluster/members", member, {*PASSING, "invalid-field"})

    await has_vote(cluster, node_id)


async def has_vote(cluster: Cluster, node_id: str) -> None:
    """Wait until a member has its vote, while it makes progress: a node that takes over 15,000 hours needs minutes.
    Raises ClusterFailed."""
    seen: tuple[Any, ...] = ()
    since_s = time.monotonic()

    async def votes() -> bool:
        nonlocal seen, since_s
        page = await cluster.status(node_id)
        own: dict[str, Any] = (
            next((each for each in page["nodes"] if each["id"] == node_id), {}) if page is not None else {}
        )
        found = own.get("applied_index"), own.get("snapshot")
        if found != seen:
            seen, since_s = found, time.monotonic()
        if time.monotonic() - since_s > READY_S:
            raise ClusterFailed(f"{node_id} has no vote, and has not got on for {READY_S:.0f} s: {own}")
        return bool(own.get("role", "learner") != "learner")

    await cluster.until(votes, f"the vote of {node_id}", VOTE_S)


async def dismiss(cluster: Cluster, node_id: str) -> None:
    """Remove a node from the members. The node ends when it hears of it. May be called again. Raises ClusterFailed."""
    await _change(cluster, node_id, "DELETE", f"/v1/cluster/members/{node_id}", None, PASSING)


async def _change(
    cluster: Cluster, node_id: str, method: str, path: str, document: dict[str, Any] | None, passing: set[str]
) -> None:
    """Send this request about the node `node_id` to the other running nodes in turn, until one confirms it. A refusal
    whose code is in `passing` is tried again. Raises ClusterFailed after any other refusal, or after READY_S."""
    refusal: object = "no answer"
    turn = 0
    try:
        async with asyncio.timeout(READY_S), aiohttp.ClientSession(timeout=REQUEST) as http:
            while True:
                others = [other for other in cluster.running() if other in cluster.nodes and other != node_id]
                turn += 1
                try:
                    url = f"{cluster.nodes[others[turn % len(others)]].url}{path}" if others else ""
                    async with http.request(method, url, json=document) as answer:
                        refusal = await answer.json(content_type=None)
                        status = answer.status
                except (aiohttp.ClientError, TimeoutError) as error:
                    refusal, status = repr(error), 0
                if 200 <= status < 300:
                    return
                code = refusal.get("code") if isinstance(refusal, dict) else None
                # After a 5xx the change may have happened. Then ask again: the next answer says if it has.
                if 400 <= status < 500 and code not in passing:
                    break
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        pass
    raise ClusterFailed(f"{method} {path} of {node_id}: {refusal}")
