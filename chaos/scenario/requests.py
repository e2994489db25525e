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

import asyncio
import json
import random
from abc import ABC, abstractmethod
from collections import Counter
from functools import partial
from typing import Any, Final, NamedTuple

import aiohttp

from chaos.cluster.cluster import Cluster, ClusterFailed
from chaos.scenario.killed_leader import run_kills

CLIENTS: Final = 24
LINES: Final = 20
#: The leader is killed so long after the clients began, s.
KILLED_S: Final = (0.2, 0.8)
WITHIN_S: Final = 60.0
ANSWER_S: Final = 5.0
PAUSE_S: Final = 0.05
_JSON: Final = "application/json"


class Said(NamedTuple):
    """An answer. `replayed`: it repeats the answer to an earlier request, by its header."""

    status: int
    replayed: bool
    body: bytes


class Load(ABC):
    """The clients of one kill. `fell` counts the requests by what became of them, `open` the messages that are open by
    the answers."""

    path = "/v1/messages"
    media = _JSON

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.open = 0
        self.fell: Counter[str] = Counter()
        self.killed = False

    @abstractmethod
    def body(self, name: str, client: int) -> str:
        """The body of a request with this name, the same for each try."""

    @abstractmethod
    def check(self, client: int, said: Said) -> bool:
        """Note a success. Return True if an earlier request had the effect. Raises ClusterFailed."""

    def message(self, name: str, **more: str) -> dict[str, Any]:
        """A message that is due long after the run."""
        return {"topic": self.topic, "body": name, "delay": "10h", **more}

    async def client(self, asker: Asker, number: int) -> None:
        """Send requests until the leader is killed, the last one until it is answered."""
        count = 0
        while not self.killed:
            name = f"{self.topic}-{number}-{count}"
            first = said = await asker.ask(self, name, number)
            before = not self.killed
            while said is None:
                await asyncio.sleep(PAUSE_S)
                said = await asker.ask(self, name, number)
            if said.status != 201:
                raise ClusterFailed(f"{name}: {said.status} {said.body[:300]!r}")
            earlier = self.check(number, said)
            if first is not None:
                self.fell["answered"] += 1
            elif not before:
                self.fell["written, not answered" if earlier else "not written"] += 1
            count += 1


class Replacing(Load):
    """Each client replaces the message of its key. `held` has the id of each client's message."""

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.held: dict[int, str] = {}

    def body(self, name: str, client: int) -> str:
        """See Load."""
        return json.dumps(self.message(name, key=f"client-{client}", on_conflict="replace"))

    def check(self, client: int, said: Said) -> bool:
        """See Load."""
        answer = json.loads(said.body)
        before = answer.get("previous", {}).get("id")
        if before != self.held.get(client):
            raise ClusterFailed(f"client {client} had {self.held.get(client)}, and {answer} names another one")
        self.held[client] = answer["id"]
        self.open = len(self.held)
        return said.replayed


class Batches(Load):
    """Atomic batches. Each line has a key, so the answer says of each line if an earlier request wrote it."""

    path = "/v1/messages/batch?atomic=true"
    media = "application/x-ndjson"

    def body(self, name: str, client: int) -> str:
        """See Load."""
        return "\n".join(json.dumps(self.message(name, key=f"{name}-{line}")) for line in range(LINES))

    def check(self, client: int, said: Said) -> bool:
        """See Load."""
        lines = [json.loads(line) for line in said.body.splitlines()]
        earlier = sum(bool(line.get("replayed")) for line in lines)
        if len({line["id"] for line in lines}) != LINES or earlier not in (0, LINES):
            raise ClusterFailed(f"{self.topic}: {earlier} of {len(lines)} lines were written before")
        self.open += LINES
        return earlier > 0


class Once(Load):
    """Messages without a key."""

    def body(self, name: str, client: int) -> str:
        """See Load."""
        return json.dumps(self.message(name))

    def check(self, client: int, said: Said) -> bool:
        """See Load."""
        self.open += 1
        return said.replayed


class Asker(NamedTuple):
    """Asker nodes that run, drawn by chance."""

    cluster: Cluster
    http: aiohttp.ClientSession
    chance: random.Random

    async def ask(self, load: Load, name: str, client: int) -> Said | None:
        """Send a request one time. None if nothing is known of its outcome, or it was not done for now."""
        headers = {"Content-Type": load.media} | ({"Idempotency-Key": name} if load.media == _JSON else {})
        url = self.cluster.nodes[self.chance.choice(self.cluster.running())].url + load.path
        try:
            async with self.http.post(url, data=load.body(name, client), headers=headers) as answer:
                said = Said(answer.status, answer.headers.get("Idempotency-Replayed") == "true", await answer.read())
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None
        return None if said.status in (429, 503, 504) else said

    async def counted(self, load: Load) -> bool:
        """True once a node has said that the open messages are those of the answers. Raises ClusterFailed if it says
        otherwise."""
        for node in self.cluster.running():
            async with self.http.get(f"{self.cluster.nodes[node].url}/v1/messages/count?topic={load.topic}") as answer:
                if answer.status == 200:
                    found = (await answer.json())["count"]
                    if found != load.open:
                        raise ClusterFailed(f"{load.topic}: {found} messages are open, {load.open} were answered")
                    return True
        return False


async def once(
    kind: type[Load], cluster: Cluster, http: aiohttp.ClientSession, number: int, chance: random.Random
) -> Counter[str]:
    """One kill (see killed_leader.py)."""
    leader = await cluster.wait_leader()
    load, asker = kind(f"{kind.__name__.lower()}-{number}"), Asker(cluster, http, chance)
    clients = [asyncio.ensure_future(load.client(asker, each)) for each in range(CLIENTS)]
    await asyncio.sleep(chance.uniform(*KILLED_S))
    load.killed = True
    await cluster.kill(leader.node_id)
    await asyncio.wait_for(asyncio.gather(*clients), WITHIN_S)
    await cluster.wait_leader(after_term=leader.term)
    await cluster.until(partial(asker.counted, load), f"the count of {load.topic}", WITHIN_S)
    cluster.start(leader.node_id)
    await cluster.wait_ready()
    return load.fell


KINDS: Final[dict[str, type[Load]]] = {"replace": Replacing, "batch": Batches, "once": Once}


def main() -> None:
    """Kill in the middle of single requests."""
    run_kills(str(main.__doc__), {name: partial(once, kind) for name, kind in KINDS.items()}, ANSWER_S)


if __name__ == "__main__":
    main()
