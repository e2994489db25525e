"""The ledger on real processes: what a killed leader handed over and could not record is found on its own account."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp

from chaos.cluster.cluster import Cluster
from chaos.cluster.links import Condition
from chaos.live.network.proxy import ProxyNetwork
from tests.waiting import until

CUT = Condition(cut=True)
#: The leader hands over alone for a while.
TRUSTED = {"trust_ms": 900, "election_min_ms": 1_000, "election_max_ms": 1_500}
COUNT = 40
LOST_LEASES = 10


class Client:
    """Asks one node after the other, as a test says."""

    def __init__(self, cluster: Cluster, http: aiohttp.ClientSession) -> None:
        self._cluster, self._http = cluster, http

    async def ask(self, node_id: str, method: str, path: str, document: Any = None) -> Any:
        """The answer, which has to be a good one."""
        url = self._cluster.nodes[node_id].url + path
        async with self._http.request(method, url, json=document) as answer:
            assert answer.status < 300, await answer.text()
            return await answer.json()

    async def pull(self, node_id: str, most: int) -> list[dict[str, Any]]:
        """Messages of topic t."""
        pulled = await self.ask(node_id, "POST", "/v1/topics/t/pull", {"max": most, "lease": "10m"})
        messages: list[dict[str, Any]] = pulled["messages"]
        return messages


def test_what_a_killed_leader_handed_over_last_is_a_failover_duplicate(tmp_path: Path) -> None:
    """Of forty messages ten went out while nobody else heard of it; then that leader died. While it is down its account
    is missing, and that is said: nothing that was open in its term is delivered once. When it is back the ten are
    delivered more than once, because of that change of terms, whichever node is asked, and the others once."""

    async def hour_messages() -> None:
        async with (
            ProxyNetwork() as cluster_network,
            Cluster(tmp_path, settings={"raft": TRUSTED}, cluster_network=cluster_network) as cluster,
            aiohttp.ClientSession() as http,
        ):
            client, links = Client(cluster, http), cluster_network.links
            assert links is not None, "there are doors"
            cluster.start(*cluster.nodes)
            await cluster.wait_ready()
            await cluster.wait_raised()  # terms are marked from then on
            first = await cluster.wait_leader()
            ids = [
                (await client.ask(first.node_id, "POST", "/v1/messages", {"topic": "t", "body": number}))["id"]
                for number in range(COUNT)
            ]
            others = [node_id for node_id in cluster.nodes if node_id != first.node_id]
            links.put([(first.node_id, other) for other in others], CUT)  # no Lease gets there
            again = await client.pull(first.node_id, LOST_LEASES)
            assert [message["id"] for message in again] == ids[:LOST_LEASES]
            await cluster.kill(first.node_id)
            second = await cluster.wait_leader(first.term)
            await take_all(client, second.node_id, set(ids))
            await check_while_down(client, second.node_id, first.node_id)
            links.heal()
            cluster.start(first.node_id)
            await cluster.wait_ready(first.node_id)
            for node_id in cluster.nodes:
                await check_summary(client, node_id, (first.term, second.term))
            await check_message(client, first.node_id, ids[0], first.node_id, second.node_id)

    asyncio.run(hour_messages())


async def take_all(client: Client, leader: str, ids: set[str]) -> None:
    """Pull and ack until each was handed over by this leader."""
    async with asyncio.timeout(20):
        while ids:
            messages = await client.pull(leader, 100)
            receipts = [message["receipt"] for message in messages]
            if receipts:
                await client.ask(leader, "POST", "/v1/topics/t/ack", {"receipts": receipts})
            ids -= {message["id"] for message in messages}


async def check_while_down(client: Client, leader: str, dead: str) -> None:
    """Its account is missing and named; nothing is concluded from that."""
    summary = await client.ask(leader, "GET", "/v1/ledger/summary?topic=t")
    assert [each["node"] for each in summary["window"]["unreachable"]] == [dead]
    assert not summary["window"]["complete"]
    assert [gap["node"] for gap in summary["window"]["gaps"]] == [None]
    assert (summary["classes"]["delivered"], summary["classes"]["delivered_once"]) == (COUNT, 0)
    assert summary["classes"]["lost"] == 0


async def check_summary(client: Client, node_id: str, terms: tuple[int, int]) -> None:
    """Every message, each repeat with its change of terms, all within 50 ms of hand-over time."""

    async def complete() -> Any:
        summary = await client.ask(node_id, "GET", "/v1/ledger/summary?topic=t")
        return summary if summary["window"]["complete"] else None

    summary = await until(complete, what="the leader hears of the node that came back")
    assert summary["scheduled"] == COUNT
    assert summary["classes"]["delivered_more"] == LOST_LEASES
    assert summary["classes"]["delivered_once"] == COUNT - LOST_LEASES
    assert {cause: count for cause, count in summary["causes"].items() if count} == {"failover": LOST_LEASES}
    (change,) = summary["term_changes"]
    assert (change["from_term"], change["to_term"], change["duplicates"]) == (*terms, LOST_LEASES)
    assert change["span_ms"] <= 50
    page = await client.ask(node_id, "GET", "/v1/ledger?topic=t&class=delivered_more&limit=6")
    rest = await client.ask(node_id, "GET", f"/v1/ledger?topic=t&class=delivered_more&cursor={page['next_cursor']}")
    assert (len(page["items"]), len(rest["items"]), rest["next_cursor"]) == (6, LOST_LEASES - 6, None)


async def check_message(client: Client, asked: str, id_text: str, first: str, second: str) -> None:
    """Both hand-overs, by whom, and why there were two."""
    ledger = (await client.ask(asked, "GET", f"/v1/messages/{id_text}"))["ledger"]
    assert ledger["class"] == "delivered_more"
    assert [(each["node"], each["outcome"]) for each in ledger["deliveries"]] == [
        (first, "unknown"),
        (second, "delivered"),
    ]
    (duplicate,) = ledger["duplicates"]
    assert (duplicate["cause"], duplicate["node"], duplicate["repeats"]["node"]) == ("failover", second, first)
