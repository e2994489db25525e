"""The ledger that the nodes answer is, message by message, the one that the reconciliation makes of their data."""

import asyncio
import time
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pyarrow.parquet as pq
import pytest

from chaos.cluster.cluster import Cluster
from hourwheel.webhook_receiver import Receiver, Reply, Request
from reconcile.judge.job import Request as Reconciled
from reconcile.judge.job import reconcile
from reconcile.output.read_rows import duplicates
from reconcile.output.repair import read_repairs
from storage.format.level import LEVELS

pytestmark = pytest.mark.usefixtures("no_page")

PUSH = {"push": {"allow": ["127.0.0.0/8"]}}
#: What both tell of a message, and how the reconciliation writes what there is nothing of.
NOTHING = {"class": "", "late_cause": "none", "lost": "none", "hand_overs": 0, "retries": 0, "term": 0, "attempt": 0}


class Client:
    """Asks the node that leads."""

    def __init__(self, cluster: Cluster, http: aiohttp.ClientSession, leader: str) -> None:
        self.cluster, self._http, self.leader = cluster, http, leader

    async def ask(self, method: str, path: str, document: Any = None) -> Any:
        """The answer, which has to be a good one."""
        url = self.cluster.nodes[self.leader].url + path
        async with self._http.request(method, url, json=document) as answer:
            assert answer.status < 300, await answer.text()
            return await answer.json()

    async def schedule(self, topic: str, count: int, **fields: Any) -> list[str]:
        """Ids of so many messages."""
        sent = [{"topic": topic, "body": number} | fields for number in range(count)]
        return [(await self.ask("POST", "/v1/messages", message))["id"] for message in sent]

    async def pull(self, topic: str, count: int, lease: str = "10m") -> list[str]:
        """Receipts of so many messages, which come sooner or later."""
        receipts: list[str] = []
        async with asyncio.timeout(60):
            while len(receipts) < count:
                wanted = {"max": count - len(receipts), "lease": lease, "wait": "1s"}
                pulled = await self.ask("POST", f"/v1/topics/{topic}/pull", wanted)
                receipts += [message["receipt"] for message in pulled["messages"]]
        return receipts

    async def settle(self, topic: str, how: str, receipts: list[str], **fields: Any) -> None:
        """ack, nack or extend."""
        await self.ask("POST", f"/v1/topics/{topic}/{how}", {"receipts": receipts} | fields)

    async def ledger(self) -> dict[str, Any]:
        """All messages by id, page by page."""
        items: dict[str, Any] = {}
        cursor = ""
        while True:
            path = f"/v1/ledger?from=2020-01-01T00:00:00Z&to=2099-01-01T00:00:00Z&limit=7{cursor}"
            page = await self.ask("GET", path)
            assert page["window"]["complete"], page["window"]
            items |= {item["id"]: item for item in page["items"]}
            if page["next_cursor"] is None:
                return items
            cursor = f"&cursor={page['next_cursor']}"


async def all_kinds_of_lives(client: Client) -> None:
    """Acked, given back, extended, left, acked too late, cancelled, moved to earlier and later, dead, equal ones."""
    await client.schedule("a", 6)
    receipts = await client.pull("a", 6)
    await client.settle("a", "ack", receipts[:2])
    await client.settle("a", "nack", receipts[2:5], delay="50ms")
    await client.settle("a", "extend", receipts[5:], lease="20m")
    again = await client.pull("a", 3)
    await client.settle("a", "ack", again[:1])
    await client.settle("a", "nack", again[1:2], delay="1h")
    await client.schedule("b", 3)
    left = await client.pull("b", 3, lease="1s")
    taken = await client.pull("b", 3)
    await client.settle("b", "ack", left[:1])  # stale
    await client.settle("b", "ack", taken)
    cancelled, *moved = await client.schedule("c", 4, delay="2h")
    await client.ask("DELETE", f"/v1/messages/{cancelled}")
    await client.ask("PATCH", f"/v1/messages/{moved[0]}", {"delay": "10ms"})
    await client.ask("PATCH", f"/v1/messages/{moved[1]}", {"delay": "5h"})
    await client.settle("c", "ack", await client.pull("c", 1))
    await client.ask("PUT", "/v1/topics/d", {"retry": {"max_attempts": 1}})
    await client.schedule("d", 2)
    await client.settle("d", "nack", await client.pull("d", 2))
    due = {"deliver_at": int(time.time() * 1000) + 500}
    await client.ask("PUT", "/v1/topics/e", {"handover": "strict"})
    for _ in range(2):
        await client.ask("POST", "/v1/messages", {"topic": "e", "body": "the same", **due})
    await client.settle("e", "ack", await client.pull("e", 2))


async def in_paused_topics(client: Client) -> tuple[list[str], str]:
    """Three wait in a topic that stays paused; another waited in one that was resumed, and is acked. Returns the three,
    and one that waits in a topic that nobody pulls."""

    async def held(id: str) -> Any:
        message = await client.ask("GET", f"/v1/messages/{id}?ledger=false")
        assert message["state"] == "ready"
        return message.get("held")

    async def newest_level() -> bool:
        return bool((await client.ask("GET", "/v1/cluster"))["level"] == LEVELS[1])

    await client.cluster.until(newest_level, "the newest level", 30)
    for topic in ("paused", "resumed"):
        await client.ask("PUT", f"/v1/topics/{topic}", {"paused": True})
    waiting = await client.schedule("paused", 3)
    (alone,) = await client.schedule("nobody", 1)
    (late,) = await client.schedule("resumed", 1)
    holds = [await held(id) for id in waiting]
    due = [(await client.ask("GET", f"/v1/messages/{id}"))["due"] for id in waiting]
    assert holds == [{"by": "pause", "since": each} for each in due]
    assert await held(alone) is None
    listed = (await client.ask("GET", "/v1/messages?topic=paused"))["items"]
    assert [each["held"] for each in listed] == holds
    until_s = time.monotonic() + 0.3  # later than what counts as late

    async def passed() -> bool:
        return time.monotonic() > until_s

    await client.cluster.until(passed, "a delay", 30)
    await client.ask("PATCH", "/v1/topics/resumed", {"paused": False})
    assert await held(late) is None
    await client.settle("resumed", "ack", await client.pull("resumed", 1))
    assert (await client.ask("GET", f"/v1/messages/{late}"))["ledger"]["late_cause"] == "pause"
    return waiting, alone


async def webhooks(client: Client) -> None:
    """Four, two of which are refused the first time."""
    seen: list[str] = []

    def receive(port: int, request: Request) -> Reply:
        name = request.headers["webhook-id"]
        seen.append(name)
        return Reply(500 if request.body in (b"0", b"1") and seen.count(name) == 1 else 200, 0)

    receiver = Receiver(receive)
    port = await receiver.listen("127.0.0.1", 0)
    retry = {"min_backoff": "20ms", "max_backoff": "20ms"}
    target = {"url": f"http://127.0.0.1:{port}/"}
    await client.ask("PUT", "/v1/topics/hooks", {"mode": "push", "target": target, "retry": retry})
    ids = await client.schedule("hooks", 4)
    await client.cluster.until(partial(all_delivered, client, ids), "webhooks delivered", 20)
    assert len(seen) == 6
    await receiver.close()


async def all_delivered(client: Client, ids: list[str]) -> bool:
    """Whether each of these has ended so."""
    states = {(await client.ask("GET", f"/v1/messages/{id}?ledger=false"))["state"] for id in ids}
    return states == {"delivered"}


async def killed_with_leases(cluster: Cluster, client: Client) -> str:
    """Five are handed over while nobody else hears of it, and that leader dies; all are taken from the next one. The
    dead one comes back. Returns who leads.

    The others do not go on where they were stopped: what the leader sent meanwhile would wait in their sockets."""
    await client.schedule("f", 8)
    first = await cluster.wait_leader()
    others = [node_id for node_id in cluster.nodes if node_id != first.node_id]
    for node_id in others:
        cluster.pause(node_id)
    await client.pull("f", 5)
    for node_id in cluster.nodes:
        await cluster.kill(node_id)
    cluster.start(*others)
    client.leader = (await cluster.wait_leader(first.term)).node_id
    await client.settle("f", "ack", await client.pull("f", 8))
    cluster.start(first.node_id)
    await cluster.wait_ready(first.node_id)
    return client.leader


def test_the_nodes_and_the_reconciliation_tell_the_same(tmp_path: Path) -> None:
    """Of three nodes with every kind of life a message can have, a transfer and a killed leader: class, flags, causes
    and hand-overs of each message are equal, and so is every duplicate."""

    async def story() -> dict[str, Any]:
        async with Cluster(tmp_path / "cluster", settings=PUSH) as cluster, aiohttp.ClientSession() as http:
            cluster.start(*cluster.nodes)
            await cluster.wait_ready()
            client = Client(cluster, http, (await cluster.wait_leader()).node_id)
            await all_kinds_of_lives(client)
            to = next(node_id for node_id in cluster.nodes if node_id != client.leader)
            await cluster.transfer(client.leader, to)
            client.leader = to
            await webhooks(client)
            waits.append(await in_paused_topics(client))
            await killed_with_leases(cluster, client)
            await cluster.wait_level()
            items = await client.ledger()
            for node_id in list(cluster.running()):
                await cluster.stop(node_id)
            data.extend(node.data_path for node in cluster.nodes.values())
            return items

    data: list[Path] = []
    waits: list[tuple[list[str], str]] = []
    told = asyncio.run(story())
    out = tmp_path / "out"
    report = reconcile(None, Reconciled(data, out))
    assert report["promises_broken"] == []
    rows = [row for path in sorted((out / "ledger").glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    judged = {row["id"]: row for row in rows}
    assert told.keys() == judged.keys()
    assert {item["class"] for item in told.values()} >= {
        *("delivered_once", "delivered_more", "dead", "cancelled", "pending", "in_flight")
    }
    for id, item in told.items():
        row = judged[id]
        assert {name: item[name] or NOTHING[name] for name in NOTHING} == {name: row[name] for name in NOTHING}, id
        assert set(item["flags"]) == set(row["flag_names"].split()), id
    assert {row["late_cause"] for row in judged.values()} >= {"pause"}
    repeats = {(row["id"], row["term"], row["attempt"], row["before_term"], row["cause"]) for row in duplicates(out)}
    assert {row[4] for row in repeats} >= {"failover", "lease_ended", "acked_late", "scheduled_twice"}
    assert repeats == {
        (id, each["term"], each["attempt"], each["repeats"]["term"], each["cause"])
        for id, item in told.items()
        for each in item["duplicates"]
    }
    nothing_is_sent_that_waits_for_a_paused_topic(Reconciled(data, tmp_path / "lost", options=IMPATIENT), *waits[0])


IMPATIENT = {"grace_ms": 1, "lost_after_ms": 1}
"""A message that is due for two milliseconds counts as lost."""


def nothing_is_sent_that_waits_for_a_paused_topic(asked: Reconciled, waiting: list[str], alone: str) -> None:
    """However long ago it was due. What waits for nothing but a consumer is sent again."""
    reconcile(None, asked)
    rows = [row for path in sorted((asked.out / "ledger").glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    found = {row["id"]: (row["class"], row["late_cause"]) for row in rows}
    assert [found[id] for id in waiting] == [("pending", "pause")] * 3
    assert found[alone] == ("lost", "none")
    sent = {repair.id for repair in read_repairs(asked.out) if repair.action == "redeliver"}
    assert alone in sent
    assert not sent & set(waiting)
