"""Replacing the nodes of a running cluster: a spare one is started and added, an old one is removed and ends.

Through the API, as an operator would, and asked of any node that runs: the request finds its leader.
"""

import asyncio
from typing import Any

import aiohttp

from chaos.cluster import POLL_S, READY_S, Cluster, ClusterFailed
from cli.exit_code import ExitCode

#: Refusals that pass: leadership is being moved or elected, a vote is about to be given, a follower lags for a moment.
PASSING = {"no-leader", "draining", "change-in-progress", "not-caught-up"}


async def add(cluster: Cluster, node_id: str) -> None:
    """Start a spare node of the cluster, add it, and wait until it has its vote. Raises ClusterFailed."""
    node = cluster.spare.pop(node_id)
    cluster.nodes[node_id] = node
    via = next(other for other in cluster.running())
    cluster.start(node_id)
    member = {"id": node_id, "raft": node.raft_seen, "http": node.http_seen}
    # Until it listens, the addition is refused by its address.
    await _change(cluster, via, "POST", "/v1/cluster/members", member, {*PASSING, "invalid-field"})

    async def votes() -> bool:
        page = await cluster.status(node_id)
        return page is not None and any(each["id"] == node_id and each["role"] != "learner" for each in page["nodes"])

    await cluster.until(votes, f"the vote of {node_id}", READY_S)
    await cluster.wait_ready(node_id)


async def remove(cluster: Cluster, node_id: str) -> None:
    """Remove a node, which ends by itself and says why. Raises ClusterFailed if it does not end so."""
    via = next(other for other in cluster.running() if other != node_id)
    cluster.leaving.add(node_id)
    await _change(cluster, via, "DELETE", f"/v1/cluster/members/{node_id}", None, PASSING)
    returncode = await cluster.ended(node_id)
    if returncode != ExitCode.REMOVED:
        raise ClusterFailed(f"{node_id} was removed and ended with {returncode}")
    cluster.forget(node_id)


async def _change(
    cluster: Cluster, via: str, method: str, path: str, document: dict[str, Any] | None, passing: set[str]
) -> None:
    url = f"{cluster.nodes[via].url}{path}"
    refusal: object = "no answer"
    try:
        async with asyncio.timeout(READY_S), aiohttp.ClientSession() as http:
            while True:
                async with http.request(method, url, json=document) as answer:
                    refusal = await answer.json(content_type=None)
                    if answer.status < 300:
                        return
                    code = refusal.get("code") if isinstance(refusal, dict) else None
                    # Whether it happened is not known: then it is asked again, and answered by what is the case.
                    if code == ("unknown-node" if method == "DELETE" else "") or code not in {
                        *passing,
                        "outcome-unknown",
                    }:
                        break
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        pass
    raise ClusterFailed(f"{method} {path} asked of {via}: {refusal}")
