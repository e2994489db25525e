"""`python -m chaos.scenario.requests`: kills the leader in the middle of single requests, and checks each of them.

Three real nodes. Clients send one request after the other to any of them, until the leader is killed with SIGKILL. Each
request that then has no answer is sent again until it has one. Three kinds:

- `replace`: each client replaces the message of its own key, under an `Idempotency-Key`. Every answer must name the
  message of the answer before, so none was replaced unseen or twice.
- `batch`: atomic batches. Either an earlier request wrote all lines, or none.
- `once`: messages without a key, under an `Idempotency-Key`.

At the end of each kill the open messages must be exactly those of the answers. The repeat tells where the kill fell: it
says if the first request had its effect.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from chaos.cluster.cluster import Cluster, ClusterFailed

CLIENTS: Final = 24
LINES: Final = 20
#: The leader is killed so long after the clients began, s.
KILLED_S: Final = (0.2, 0.8)
WITHIN_S: Final = 60.0
PAUSE_S: Final = 0.05
NDJSON: Final = "application/x-ndjson"


@dataclass
class Load:
    """The clients of one kill. `fell` counts the requests by what became of them. `held` has the id that each client's
    key has, and `written` counts messages that are open."""

    cluster: Cluster
    http: aiohttp.ClientSession
    kind: str
    topic: str
    chance: random.Random
    killed: bool = False
    written: int = 0
    fell: Counter[str] = field(default_factory=Counter)
    held: dict[int, str] = field(default_factory=dict)

    async def client(self, number: int) -> None:
        """Send requests until the leader is killed, the last one until it is answered."""
        count = 0
        while not self.killed:
            name = f"{self.topic}-{number}-{count}"
            first = await self._ask(name, number)
            answer, began_killed = first, self.killed
            while answer is None:
                await asyncio.sleep(PAUSE_S)
                answer = await self._ask(name, number)
            replayed = self._check(number, *answer)
            if first is not None:
                self.fell["answered"] += 1
            elif began_killed:
                self.fell["written, not answered" if replayed else "not written"] += 1
            count += 1

    async def _ask(self, name: str, number: int) -> tuple[int, bool, bytes] | None:
        """The status of an answer, whether it repeats an earlier one, and its body. None if nothing is known."""
        message: dict[str, Any] = {"topic": self.topic, "body": name, "delay": "10h"}
        path, kind, headers = "/v1/messages", "application/json", {"Idempotency-Key": name}
        data = json.dumps(message)
        if self.kind == "replace":
            data = json.dumps(message | {"key": f"client-{number}", "on_conflict": "replace"})
        elif self.kind == "batch":
            path, kind, headers = "/v1/messages/batch?atomic=true", NDJSON, {}
            data = "\n".join(json.dumps(message | {"key": f"{name}-{line}"}) for line in range(LINES))
        url = self.cluster.nodes[self.chance.choice(self.cluster.running())].url + path
        try:
            async with self.http.post(url, data=data, headers=headers | {"Content-Type": kind}) as answer:
                body = await answer.read()
                if answer.status in (503, 504, 429):
                    return None
                return answer.status, answer.headers.get("Idempotency-Replayed") == "true", body
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None

    def _check(self, number: int, status: int, replayed: bool, body: bytes) -> bool:
        """Note an answer. Return True if an earlier request had the effect. Raises ClusterFailed."""
        if status != 201:
            raise ClusterFailed(f"{self.topic}: {status} {body[:300]!r}")
        if self.kind == "batch":
            lines = [json.loads(line) for line in body.splitlines()]
            earlier = sum(bool(line.get("replayed")) for line in lines)
            if len({line["id"] for line in lines}) != LINES or earlier not in (0, LINES):
                raise ClusterFailed(f"{self.topic}: {earlier} of {len(lines)} lines were written before")
            self.written += LINES
            return earlier > 0
        answer = json.loads(body)
        if self.kind == "replace":
            before = answer.get("previous", {}).get("id")
            if before != self.held.get(number):
                raise ClusterFailed(f"client {number} had {self.held.get(number)}, and {answer} names another one")
            self.held[number] = answer["id"]
        self.written = len(self.held) if self.kind == "replace" else self.written + 1
        return replayed


async def once(cluster: Cluster, http: aiohttp.ClientSession, kind: str, number: int, chance: random.Random) -> Load:
    """One kill. Raises ClusterFailed if a promise is broken."""
    leader = await cluster.wait_leader()
    load = Load(cluster, http, kind, f"{kind}-{number}", chance)
    clients = [asyncio.ensure_future(load.client(each)) for each in range(CLIENTS)]
    await asyncio.sleep(chance.uniform(*KILLED_S))
    load.killed = True
    await cluster.kill(leader.node_id)
    await asyncio.wait_for(asyncio.gather(*clients), WITHIN_S)
    await cluster.wait_leader(after_term=leader.term)
    path = f"/v1/messages/count?topic={load.topic}"

    async def counted() -> bool:
        for node in cluster.running():
            async with http.get(cluster.nodes[node].url + path) as answer:
                if answer.status == 200:
                    found = (await answer.json())["count"]
                    if found != load.written:
                        raise ClusterFailed(f"{load.topic}: {found} messages are open, {load.written} were answered")
                    return True
        return False

    await cluster.until(counted, f"the count of {load.topic}", WITHIN_S)
    cluster.start(leader.node_id)
    await cluster.wait_ready()
    return load


async def kills(directory: Path, kind: str, times: int, seed: int, show: Callable[[str], None]) -> Counter[str]:
    """Kill the leader so many times. Return what became of the requests that were under way, and of those before."""
    chance, fell = random.Random(seed), Counter[str]()
    timeout = aiohttp.ClientTimeout(total=5)
    async with Cluster(directory) as cluster, aiohttp.ClientSession(timeout=timeout) as http:
        cluster.start()
        await cluster.wait_ready()
        await cluster.wait_raised()
        for number in range(times):
            load = await once(cluster, http, kind, number, chance)
            fell += load.fell
            show(f"{number + 1:3} killed: {told(load.fell)}; {load.written} messages, exact")
    return fell


def told(fell: Counter[str]) -> str:
    """Tell what became of the requests, in words."""
    return ", ".join(f"{count} {where}" for where, count in sorted(fell.items()))


def main() -> None:
    """Kill, and print where the kills fell. Exit 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--kind", choices=("replace", "batch", "once"), default="replace", help="[replace]")
    parser.add_argument("--times", type=int, default=20, help="kills [20]")
    parser.add_argument("--seed", type=int, default=1, help="of the draws [1]")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        try:
            fell = asyncio.run(
                kills(Path(directory), given.kind, given.times, given.seed, lambda line: print(line, flush=True))
            )
        except ClusterFailed as broken:
            sys.exit(f"broken: {broken}")
    print(f"{given.times} kills in the middle of {given.kind}, each request exact: {told(fell)}")


if __name__ == "__main__":
    main()
