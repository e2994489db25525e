"""Measure the price of a request at a node that does not lead. Behind a load balancer two of three requests reach such
a node.

`follower`: all clients at one follower, or at both. `any-node`: clients spread over all three nodes, and for comparison
the same clients at the leader. The figures include the processor time a message of the leader's process, and of a
follower's.
"""

import asyncio
import itertools
import json
from collections.abc import Sequence

from bench.client.consumer import CONSUMERS, Drain
from bench.client.load import (
    BATCH,
    BATCH_CONNECTIONS,
    NEAR_MS,
    RENDERED_BATCHES,
    Count,
    batches,
    due_times,
    fill_due,
    lead_ms,
    line,
    pump,
    put_topic,
)
from bench.client.pump import Pump, render
from bench.measure.processor import processor_s, share_of_leader
from bench.row import Row, at_most
from bench.scale import Scale
from chaos.cluster.cluster import Cluster, ClusterFailed
from hourwheel.core.addresses import Address, parse_address

CONNECTIONS = (64, 256)
POLLS = 2_000
SETTLE_S = 2.0


async def _nodes(cluster: Cluster) -> tuple[str, list[str]]:
    """Return the leader and the followers."""
    leader = (await cluster.wait_leader()).node_id
    return leader, [node_id for node_id in cluster.nodes if node_id != leader]


def _address(cluster: Cluster, node_id: str) -> Address:
    return parse_address(cluster.nodes[node_id].url)


async def _pumped(
    cluster: Cluster,
    figure: str,
    at: Sequence[str],
    requests: Sequence[bytes],
    connections: int,
    scale: Scale,
    per: int,
) -> Row:
    """Send requests of `per` messages each over `connections` connections, spread over the nodes `at`. Return the rate
    as a row."""
    leader, followers = await _nodes(cluster)
    counts = [Count(201 if per == 1 else 200, per_answer=per) for _ in at]
    before = {node_id: processor_s(cluster.pid(node_id)) for node_id in (leader, followers[0])}
    took_s = await asyncio.gather(
        *(
            pump(_address(cluster, node_id), requests, connections // len(at), scale.seconds, count)
            for node_id, count in zip(at, counts, strict=True)
        )
    )
    used_s = {node_id: processor_s(cluster.pid(node_id)) - since_s for node_id, since_s in before.items()}
    total = Count(0, acknowledged=sum(count.acknowledged for count in counts))
    total.seconds = list(itertools.chain.from_iterable(count.seconds for count in counts))
    detail = total.latency() | {
        "leader's us a message": round(1e6 * used_s[leader] / total.acknowledged, 1),
        "a follower's us a message": round(1e6 * used_s[followers[0]] / total.acknowledged, 1),
    }
    return Row(figure, total.acknowledged / max(took_s), "msg/s", max(took_s), detail=detail)


def _singles() -> list[bytes]:
    return [render("POST", "/v1/messages", line(due)) for due in due_times(2_000, NEAR_MS)]


async def follower(cluster: Cluster, scale: Scale) -> list[Row]:
    """Measure requests at followers: single messages, batches, a drain and long polls. Batches and the drain run at the
    leader too."""
    leader, followers = await _nodes(cluster)
    rows = []
    for connections in CONNECTIONS:
        figure = f"schedule at a follower, one a request, {connections} connections"
        rows.append(await _pumped(cluster, figure, followers[:1], _singles(), connections, scale, 1))
    requests = batches(due_times(BATCH * RENDERED_BATCHES, NEAR_MS))
    for name, at in (("the leader", [leader]), ("a follower", followers[:1])):
        figure = f"schedule at {name}, batches of {BATCH:,}, {BATCH_CONNECTIONS} connections"
        rows.append(await _pumped(cluster, figure, at, requests, BATCH_CONNECTIONS, scale, BATCH))
    rows.append(await _drained(cluster, [leader], "the leader", scale))
    rows.append(await _drained(cluster, followers, "followers", scale))
    rows.append(await _polls(cluster, followers[0], scale))
    return rows


async def _drained(cluster: Cluster, at: Sequence[str], name: str, scale: Scale) -> Row:
    """Pull and ack due messages, by consumers spread over these nodes."""
    topic, base_ms = f"drain-{len(at)}", lead_ms(scale.drain)
    leader = _address(cluster, (await _nodes(cluster))[0])
    await fill_due(leader, [base_ms + row * 1000 // scale.drain for row in range(scale.drain)], topic)
    run = Drain(leader, topic, scale.drain)
    await run.at([_address(cluster, node_id) for node_id in at])
    took_s = run.last_s - max(base_ms / 1000, run.first_s)
    figure = f"drain at {name}, {CONSUMERS} consumers"
    return Row(figure, run.acked / took_s, "msg/s", took_s, detail={"received again": run.received - run.acked})


async def _polls(cluster: Cluster, at: str, scale: Scale) -> Row:
    """Measure by how much the leader's share of a core grows while pulls wait at the node `at`."""
    address = _address(cluster, at)
    await put_topic(address, "polls", {})
    before = await share_of_leader(cluster, scale.seconds)
    pull = render("POST", "/v1/topics/polls/pull", json.dumps({"wait": "30s"}).encode())

    def answered(status: int, body: bytes, seconds: float) -> None:
        if status != 200:
            raise ClusterFailed(f"status {status}: {body[:300]!r}")

    polls = [
        asyncio.create_task(Pump.run(address.host, address.port, itertools.repeat(pull), answered))
        for _ in range(POLLS)
    ]
    try:
        await asyncio.sleep(SETTLE_S)
        share = await share_of_leader(cluster, scale.seconds)
    finally:
        for poll in polls:
            poll.cancel()
        await asyncio.gather(*polls, return_exceptions=True)
    figure = f"{POLLS:,} long polls at a follower: what they add to the leader's share of a core"
    return Row(figure, share - before, "%", scale.seconds, at_most(1), detail={"without them": before})


async def any_node(cluster: Cluster, scale: Scale) -> list[Row]:
    """Measure single messages a request, with all clients at the leader and with the clients spread over all nodes."""
    leader, followers = await _nodes(cluster)
    rows = []
    for name, at in (("the leader", [leader]), ("any node", [leader, *followers])):
        figure = f"schedule at {name}, one a request, 63 connections"
        rows.append(await _pumped(cluster, figure, at, _singles(), 63, scale, 1))
    return rows
