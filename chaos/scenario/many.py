"""`python -m chaos.scenario.many`: kills the leader around changes of many messages, and checks each of them.

Three real nodes. For each kill a new topic is filled. A client asks for a cancel of all of it, or for a shift to one
time some hours later. The leader is killed
with SIGKILL shortly before, or up to a quarter of a second after. Then the operation must come to its end under the
next leader, exactly. No message may be left, each is counted once, and none is delivered after the operation began. If
no operation began, the client asks again.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from functools import partial
from typing import Any, Final

import aiohttp

from chaos.cluster.cluster import Cluster, ClusterFailed
from chaos.scenario.killed_leader import run_kills

#: So many messages by kind. The work on them takes about as long as the draws of the kill.
MESSAGES: Final = {"cancel": 30_000, "shift": 10_000}
BATCH: Final = 5_000
#: A tenth of the messages is due so soon that they would be delivered while the next leader begins.
SOON_MS: Final = (1_500, 6_000)
LATER_MS: Final = (60_000, 7_200_000)
#: A shift is to so long after the filling, where no message is due before.
SHIFTED_MS: Final = 14_400_000
#: When the leader is killed, s from the request.
KILLED_S: Final = (-0.05, 0.25)
WITHIN_S: Final = 60.0
ANSWER_S: Final = 15.0
PULLED_S: Final = 7.0


class Client:
    """Asker one node or another."""

    def __init__(self, cluster: Cluster, http: aiohttp.ClientSession) -> None:
        self._cluster, self._http = cluster, http

    async def ask(self, node: str, method: str, path: str, document: Any = None) -> tuple[int, Any]:
        """The status and document of an answer; 0 if there is none."""
        try:
            url = self._cluster.nodes[node].url + path
            async with self._http.request(method, url, json=document) as answer:
                return answer.status, await answer.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, OSError):
            return 0, None

    async def insist(self, method: str, path: str, document: Any = None) -> Any:
        """The document of the first success, from any node that runs. Raises ClusterFailed."""
        found: list[tuple[int, Any]] = []

        async def answered() -> bool:
            for node in self._cluster.running():
                found.append(await self.ask(node, method, path, document))
                if 200 <= found[-1][0] < 300:
                    return True
            return False

        await self._cluster.until(answered, f"{method} {path}", WITHIN_S)
        return found[-1][1]

    async def fill(self, node: str, topic: str, count: int, chance: random.Random) -> None:
        """Schedule the messages of a topic. Raises ClusterFailed."""
        now_ms = int(time.time() * 1000)
        for first in range(0, count, BATCH):
            due = [now_ms + chance.randint(*(SOON_MS if row % 10 == 0 else LATER_MS)) for row in range(BATCH)]
            lines = b"\n".join(json.dumps({"topic": topic, "body": 1, "deliver_at": at}).encode() for at in due)
            headers = {"Content-Type": "application/x-ndjson"}
            url = self._cluster.nodes[node].url + "/v1/messages/batch"
            async with self._http.post(url, data=lines, headers=headers) as answer:
                if answer.status != 200 or (await answer.read()).count(b'"id"') != BATCH:
                    raise ClusterFailed(f"batch at {first}: status {answer.status}")


async def once(
    kind: str, cluster: Cluster, http: aiohttp.ClientSession, number: int, chance: random.Random
) -> Counter[str]:
    """One kill (see killed_leader.py)."""
    client, leader = Client(cluster, http), await cluster.wait_leader()
    others = [node for node in cluster.running() if node != leader.node_id]
    topic, note = f"many-{number}", f"kill {number}"
    count, to_ms = MESSAGES[kind], int(time.time() * 1000) + SHIFTED_MS
    await client.fill(leader.node_id, topic, count, chance)
    delay_s, node = chance.uniform(*KILLED_S), chance.choice([*others, leader.node_id])
    wish = {"kind": kind, "topic": topic, "note": note} | ({"to_due": to_ms} if kind == "shift" else {})
    if delay_s < 0:
        await cluster.kill(leader.node_id)
        await asyncio.sleep(chance.random() * 0.02)
        node = chance.choice(others)
    asking = asyncio.ensure_future(client.ask(node, "POST", "/v1/operations", wish))
    if delay_s >= 0:
        await asyncio.sleep(delay_s)
        answered = asking.done()
        await cluster.kill(leader.node_id)
    status, document = await asking
    where = "before the request" if delay_s < 0 else "behind the answer" if answered else "between"
    await cluster.wait_leader(after_term=leader.term)
    begun = [each for each in (await client.insist("GET", "/v1/operations?limit=100"))["items"] if each["note"] == note]
    if not begun:
        if 200 <= status < 300:
            raise ClusterFailed(f"{topic}: answered {status} {document}, and no operation is known")
        where += ", not begun"
        begun = [await client.insist("POST", "/v1/operations", wish)]
    pulled = await _pulled(client, topic)
    (operation,) = begun
    ended = await _ended(cluster, client, operation["id"])
    moved = (await client.insist("GET", f"/v1/messages/count?topic={topic}&from={to_ms}&to={to_ms + 1}"))["count"]
    left = (await client.insist("GET", f"/v1/messages/count?topic={topic}"))["count"] - moved
    skipped = sum(ended["skipped"].values())
    wanted = (count, count if kind == "shift" else 0, 0, 0, 0)
    if (ended["changed"], moved, skipped, left, pulled) != wanted:
        raise ClusterFailed(f"{topic}, killed {where}: {ended}; {left} are left, {pulled} were delivered")
    cluster.start(leader.node_id)
    await cluster.wait_ready()
    return Counter([where])


async def _pulled(client: Client, topic: str) -> int:
    """How many messages of the topic are delivered while those that were due soon fall due."""
    end_s, count = time.monotonic() + PULLED_S, 0
    while time.monotonic() < end_s:
        pulled = await client.insist("POST", f"/v1/topics/{topic}/pull", {"max": 1_000, "wait": 500})
        count += len(pulled["messages"])
    return count


async def _ended(cluster: Cluster, client: Client, name: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    async def done() -> bool:
        found.append(await client.insist("GET", f"/v1/operations/{name}"))
        return bool(found[-1]["state"] == "done")

    await cluster.until(done, f"the end of {name}", WITHIN_S)
    return found[-1]


def main() -> None:
    """Kill around changes of many messages."""
    run_kills(str(main.__doc__), {kind: partial(once, kind) for kind in MESSAGES}, ANSWER_S)


if __name__ == "__main__":
    main()
