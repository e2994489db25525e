"""`python -m chaos.hostile.soak`: failures of all kinds for an hour, and the memory of each node.

30 topics: some push, each to a receiver that misbehaves in its own way. The others have consumers that ack, nack,
extend or forget. A node's memory must follow from its open messages, whose number stays the same. So from the tenth
minute on its memory is flat. A leader uses more than a follower, so it is compared with itself as leader.
"""

import argparse
import asyncio
import itertools
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import aiohttp
import numpy as np

from chaos.cluster.cluster import Cluster
from chaos.hostile.bystanders import Look, resident_bytes
from chaos.hostile.receivers import Receivers
from chaos.load.webhooks import PUSH_SETTINGS

#: All clients together send about 55 requests a second.
SEND_S: Final = 0.05
WEIGH_S: Final = 5.0
SETTLED_S: Final = 600.0
#: From SETTLED_S on no node may grow by more than the larger of the two. One is for fragments and caches, one a share
#: of its memory.
FLAT_BYTES: Final = 15e6
FLAT_SHARE: Final = 0.05
#: The minutes whose median is compared, and the minutes that a node's memory gets to fit a new role.
WINDOW_MIN: Final = 5
CHANGED_MIN: Final = 2
#: This many minutes of a window must be known.
KNOWN_MIN: Final = 3
CONSUMERS: Final = ("ack", "nack", "extend", "forget", "reject", "ack") * 3


class Soak:
    """The load on one running cluster, and the measured memory of its nodes. `answered` counts answers by status, 0 for
    none."""

    def __init__(self, cluster: Cluster, http: aiohttp.ClientSession, urls: dict[str, str]) -> None:
        self._cluster, self._http = cluster, http
        self._targets = list(urls.values())
        self.begun_s = time.monotonic()
        self.memory: list[Look] = []
        self.led: dict[int, str] = {}
        """By minute: the leader at its end."""
        self.answered: dict[int, int] = {}

    async def run(self, seconds: float) -> None:
        """Create the topics, then send, consume and measure for this time."""
        leader = await self._cluster.wait_leader()
        self._url = self._cluster.nodes[leader.node_id].url
        retry = {"min_backoff": "1s", "max_backoff": "10s", "max_attempts": 4, "max_age": "1m"}
        for number, url in enumerate(self._targets):
            target = {"url": url, "timeout": "3s"}
            await self._send("PUT", f"/v1/topics/pushed-{number}", {"mode": "push", "target": target, "retry": retry})
        for number, _ in enumerate(CONSUMERS):
            await self._send("PUT", f"/v1/topics/pulled-{number}", {"retry": retry})
        works = [self._write(), self._weigh(), *(self._consume(*each) for each in enumerate(CONSUMERS))]
        tasks = [asyncio.create_task(work) for work in works]
        try:
            await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error

    async def _send(self, method: str, path: str, document: Any) -> Any:
        try:
            async with self._http.request(method, self._url + path, json=document) as answer:
                self.answered[answer.status] = self.answered.get(answer.status, 0) + 1
                return await answer.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError):
            self.answered[0] = self.answered.get(0, 0) + 1
            return {}

    async def _write(self) -> None:
        topics = [f"pushed-{n}" for n in range(len(self._targets))] + [f"pulled-{n}" for n in range(len(CONSUMERS))]
        due_s = time.monotonic()
        for number in itertools.count():
            message = {"topic": topics[number % len(topics)], "body": "x" * (number % 7 * 500), "delay": "1s"}
            scheduled = await self._send("POST", "/v1/messages", message)
            if number % 11 == 0 and "id" in scheduled:
                await self._send("GET", f"/v1/messages/{scheduled['id']}", None)
            if number % 13 == 0 and "id" in scheduled:
                await self._send("DELETE", f"/v1/messages/{scheduled['id']}", None)
            due_s = max(due_s + SEND_S, time.monotonic())
            await asyncio.sleep(due_s - time.monotonic())

    async def _consume(self, number: int, way: str) -> None:
        path = f"/v1/topics/pulled-{number}"
        while True:
            pulled = await self._send("POST", f"{path}/pull", {"max": 20, "wait": "2s", "lease": "2s"})
            receipts = [each["receipt"] for each in pulled.get("messages", [])]
            if not receipts:
                await asyncio.sleep(SEND_S)
            elif way == "extend":
                await self._send("POST", f"{path}/extend", {"receipts": receipts, "lease": "4s"})
                await self._send("POST", f"{path}/ack", {"receipts": receipts})
            elif way in ("nack", "reject"):
                await self._send("POST", f"{path}/nack", {"receipts": receipts, "counted": way == "reject"})
            elif way == "ack":
                await self._send("POST", f"{path}/ack", {"receipts": receipts})

    async def _weigh(self) -> None:
        while True:
            leader = await self._cluster.wait_leader()
            now_s = time.monotonic() - self.begun_s
            self.led[int(now_s // 60)] = leader.node_id
            for node_id in self._cluster.running():
                self.memory.append(Look(now_s, node_id, resident_bytes(self._cluster.pid(node_id))))
            await asyncio.sleep(WEIGH_S)

    def curve(self, minutes: int) -> dict[str, list[float]]:
        """Return the memory of each node in MB: the median of each minute, [minutes]."""
        nodes = sorted({look.node for look in self.memory})
        return {
            node: [
                float(
                    np.median([each.value for each in self.memory if each.node == node and each.at_s // 60 == minute])
                )
                / 1e6
                for minute in range(minutes)
            ]
            for node in nodes
        }


def grown(curves: dict[str, list[float]], led: dict[int, str], settled: int) -> dict[str, str]:
    """Return the nodes that grew, each with a text that says by how much. `curves` are each node's MB by minute, judged
    from the minute `settled` on. `led` has the leader by minute. A leader uses more than a follower. So the last
    minutes are compared with the first ones of the node's present role. If the role has lasted for too few minutes, the
    text says that the growth is not known."""
    found, leader = {}, list[str]()
    for minute in range(max(map(len, curves.values()), default=0)):
        leader.append(led.get(minute, leader[-1] if leader else ""))
    for node, curve in curves.items():
        leads = [each == node for each in leader[: len(curve)]]
        since = len(leads) - next((at for at, each in enumerate(reversed(leads)) if each != leads[-1]), len(leads))
        first = max(settled, since + CHANGED_MIN if since else 0)
        if first > len(curve) - 3 * WINDOW_MIN and since:
            found[node] = f"not known: it {'leads' if leads[-1] else 'follows'} since minute {since}"
            continue
        windows = [np.array(curve[first : first + WINDOW_MIN]), np.array(curve[-WINDOW_MIN:])]
        if min(int(np.isfinite(window).sum()) for window in windows) < KNOWN_MIN:
            found[node] = "not known: it was not weighed"
            continue
        before, after = (float(np.nanmedian(window)) for window in windows)
        if after - before > max(FLAT_BYTES / 1e6, FLAT_SHARE * before):
            found[node] = f"grew from {before:.0f} to {after:.0f} MB"
    return found


async def _soak(minutes: int) -> bool:
    timeout = aiohttp.ClientTimeout(total=20)
    with tempfile.TemporaryDirectory() as directory:
        async with (
            Cluster(Path(directory), settings=PUSH_SETTINGS) as cluster,
            Receivers() as receivers,
            aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as http,
        ):
            cluster.start()
            await cluster.wait_ready()
            soak = Soak(cluster, http, receivers.urls)
            await soak.run(minutes * 60)
    curves = soak.curve(minutes)
    settled = min(int(SETTLED_S // 60), minutes // 2)
    found = grown(curves, soak.led, settled)
    led = ", then ".join(node for node, _ in itertools.groupby(soak.led.values()))
    print(f"answers by status: {dict(sorted(soak.answered.items()))}; {led} led")
    for node, curve in curves.items():
        print(f"{node} {found.get(node, 'flat')}; MB by minute: {' '.join(f'{value:.0f}' for value in curve)}")
    return not found


def main() -> None:
    """Exit 1 if a node's memory does not stay flat."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=60)
    sys.exit(0 if asyncio.run(_soak(parser.parse_args().minutes)) else 1)


if __name__ == "__main__":
    main()
