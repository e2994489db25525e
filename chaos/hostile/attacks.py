"""The attacks of docs/chaos.md: each is what one client, or a few, can do to a leader or to every node.

An attack gets an AttackSetup, prepares what it needs, and goes on until it is cancelled. Numbers such as B1 name the
findings that the attacks came from.
"""

import asyncio
import io
import itertools
import json
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from cli.local.local_nodes import LocalNode

NDJSON: Final = {"Content-Type": "application/x-ndjson"}
PACE_S: Final = 0.01


@dataclass(frozen=True)
class AttackSetup:
    """The leader, all nodes, a session without limits, and the size of the attack: 1.0 is that of docs/chaos.md.
    `sound`: no fault runs beside the attack, so no valid request is refused because of one."""

    leader: LocalNode
    nodes: tuple[LocalNode, ...]
    http: aiohttp.ClientSession
    size: float = 1.0
    sound: bool = True

    def count(self, full: int) -> int:
        """Return the share of `full` for this size, at least 1."""
        return max(1, round(full * self.size))

    async def send(
        self, method: str, path: str, node: LocalNode | None = None, data: bytes | None = None, **options: Any
    ) -> int:
        """Send a request and read the whole answer. Return its status, 0 without an answer."""
        if data is not None:
            options["data"] = io.BytesIO(data)
        with suppress(aiohttp.ClientError, TimeoutError):
            async with self.http.request(method, (node or self.leader).url + path, **options) as answer:
                await answer.read()
                return answer.status
        return 0

    async def batch(self, lines: list[bytes]) -> int:
        """Send a batch to the leader."""
        return await self.send("POST", "/v1/messages/batch", data=b"\n".join(lines), headers=NDJSON)


Attack = Callable[[AttackSetup], Awaitable[None]]


def _names(count: int) -> bytes:
    return b"{" + b",".join(b'"n%06d":1' % number for number in range(count)) + b"}"


async def many_names(setup: AttackSetup) -> None:
    """B1: JSON documents with up to 75,000 unknown field names, and batches in which every line is wrong."""
    json_type = {"Content-Type": "application/json"}
    names = _names(setup.count(75_000))
    lines = [_names(50)] * 9_999
    wrong = [b'{"topic":"calm","body":1,"dealy":"1s"}'] * 9_900
    while True:
        await setup.send("POST", "/v1/messages", data=names, headers=json_type)
        await setup.send("PUT", "/v1/topics/b1", data=b'{"target":' + names + b"}", headers=json_type)
        for batch in (lines, wrong, [b'{"body":1}'] * 9_900):
            await setup.batch(batch)


async def many_connections(setup: AttackSetup) -> None:
    """B2: 3,000 idle connections to every node. They are closed after a second, and opened again."""
    held: list[socket.socket] = []
    loop = asyncio.get_running_loop()
    try:
        while True:
            for _ in range(setup.count(3_000)):
                for node in setup.nodes:
                    one = socket.socket()
                    one.setblocking(False)
                    held.append(one)
                    with suppress(OSError, TimeoutError):
                        async with asyncio.timeout(1):
                            await loop.sock_connect(one, (node.host, node.http_port))
            await asyncio.sleep(1)
            for one in held:
                one.close()
            held.clear()
    finally:
        for one in held:
            one.close()


async def many_polls(setup: AttackSetup) -> None:
    """One client opens 8,000 connections, each with a pull that waits, and closes all of them at once. It does so again
    and again."""
    body = b'{"wait":"30s"}'
    poll = _head(b"/v1/topics/polls/pull", b"application/json", len(body)) + body
    await setup.send("PUT", "/v1/topics/polls", data=b"{}", headers={"Content-Type": "application/json"})
    await _opened(setup, setup.count(8_000), poll, hold_s=2.0)


async def half_requests(setup: AttackSetup) -> None:
    """9,500 connections to the leader. Each sends the head of a request and the first of the 50 bytes of its body."""
    await _opened(setup, setup.count(9_500), _head(b"/v1/messages", b"application/json", 50) + b"{", hold_s=5.0)


async def _opened(setup: AttackSetup, count: int, request: bytes, hold_s: float) -> None:
    """Open `count` connections to the leader, as fast as it takes them, and send `request` on each. Close all after
    `hold_s`. A second later do it again, until cancelled."""
    loop = asyncio.get_running_loop()
    where = setup.leader.host, setup.leader.http_port
    while True:
        with ExitStack() as held:
            for _ in range(count):
                one = held.enter_context(socket.socket())
                one.setblocking(False)
                with suppress(OSError, TimeoutError):
                    async with asyncio.timeout(1):
                        await loop.sock_connect(one, where)
                        await loop.sock_sendall(one, request)
            await asyncio.sleep(hold_s)
        await asyncio.sleep(1)


def _head(path: bytes, kind: bytes, length: int) -> bytes:
    lines = b"POST %s HTTP/1.1", b"Host: x", b"Content-Type: %s", b"Content-Length: %d", b"", b""
    return b"\r\n".join(lines) % (path, kind, length)


async def _unread(node: LocalNode, requests: Iterator[bytes]) -> None:
    """Send these requests on one connection, and never read an answer. Return when the node breaks the connection."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    one.setblocking(False)
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_connect(one, (node.host, node.http_port))
        for request in requests:
            await loop.sock_sendall(one, request)
        await asyncio.Event().wait()
    except OSError:
        await asyncio.sleep(PACE_S)
    finally:
        one.close()


async def unread_answers(setup: AttackSetup) -> None:
    """B3: on each of 3 connections 15,000 pipelined requests for a message of 40 KB. On each of 45 others 100 pulls of
    7 MB. No answer is read."""
    await setup.batch([b'{"topic":"b3","body":"' + b"x" * 200_000 + b'"}'] * 70)
    message = {"topic": "b3-one", "body": "x" * 40_000, "delay": "1h"}
    async with setup.http.post(f"{setup.leader.url}/v1/messages", json=message) as answer:
        path = f"/v1/messages/{(await answer.json())['id']}?ledger=false"
    get = f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    body = b'{"max":35,"lease":"1s"}'
    head = (
        b"POST /v1/topics/b3/pull HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    pull = head % len(body) + body

    async def again(request: bytes, count: int) -> None:
        while True:
            await _unread(setup.leader, iter([request * 100] * count))

    await asyncio.gather(*(again(get, 150) for _ in range(3)), *(again(pull, 1) for _ in range(setup.count(45))))


async def large_questions(setup: AttackSetup) -> None:
    """500 connections that ask for a message of 255 KB, a thousand times each, and read nothing."""
    message = {"topic": "asked", "body": "x" * 255_000, "delay": "1h"}
    async with setup.http.post(f"{setup.leader.url}/v1/messages", json=message) as answer:
        path = f"/v1/messages/{(await answer.json())['id']}"
    asked = f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 1_000

    async def again() -> None:
        while True:
            await _unread(setup.leader, iter([asked]))

    async with asyncio.TaskGroup() as group:
        for _ in range(setup.count(500)):
            group.create_task(again())


async def odd_framing(setup: AttackSetup) -> None:
    """Eight connections, half with a body in chunks of a byte, half with a header that never ends. They are opened
    again when they are closed."""
    chunked = b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    kinds = (chunked, b"1\r\n \r\n" * 10_000), (b"GET /livez HTTP/1.1\r\nHost: x\r\nX: ", b"a" * 65_536)

    async def again(begins: bytes, goes_on: bytes) -> None:
        while True:
            await _unread(setup.leader, itertools.chain([begins], itertools.repeat(goes_on)))

    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(again(*kinds[number % 2]))


async def bodies_under_way(setup: AttackSetup) -> None:
    """B4: 40 batches of 16 MiB to every node, each without its last 64 KiB."""
    size = 16 * 1024 * 1024
    head = _head(b"/v1/messages/batch", b"application/x-ndjson", size)

    async def again(node: LocalNode) -> None:
        while True:
            await _unread(node, iter([head, *[b" " * 65_536] * (size // 65_536 - 1)]))

    await asyncio.gather(*(again(node) for node in setup.nodes for _ in range(setup.count(40))))


async def many_topics(setup: AttackSetup) -> None:
    """B5 and B6: 100,000 topics with one ready message each. Then the topics are listed and /metrics is scraped, again
    and again."""
    count = setup.count(100_000)
    for first in range(0, count, 5_000):
        numbers = range(first, min(count, first + 5_000))
        await setup.batch([b'{"topic":"b5-%d","body":1}' % number for number in numbers])
    while True:
        await setup.send("GET", "/v1/topics?limit=1000&counts=false")
        await setup.send("GET", "/metrics")
        await asyncio.sleep(0.1)


async def many_filters(setup: AttackSetup) -> None:
    """B7: consumers that wait, each with a filter that none of 150,000 ready messages fits."""
    count = setup.count(150_000)
    for _ in range(0, count, 10_000):
        await setup.batch([b'{"topic":"b7","body":1,"tags":["none"]}'] * min(count, 9_900))

    async def again(number: int) -> None:
        while True:
            await setup.send("POST", "/v1/topics/b7/pull", json={"wait": "20s", "tags": f"x{number}"})

    await asyncio.gather(*(again(number) for number in range(setup.count(400))))


async def one_message_changed_often(setup: AttackSetup) -> None:
    """B8: a message is rescheduled 10,000 times. Then it is read by GET again and again."""
    async with setup.http.post(
        f"{setup.leader.url}/v1/messages", json={"topic": "b8", "body": 1, "delay": "1h"}
    ) as answer:
        path = f"/v1/messages/{(await answer.json())['id']}"
    for number in range(setup.count(10_000)):
        await setup.send("PATCH", path, json={"delay": f"{3_600_000 + number}ms"})
    while True:
        await setup.send("GET", path)


async def full_batches(setup: AttackSetup) -> None:
    """B9: batches of valid lines that use every field. Six requests are under way at a time."""
    line = json.dumps(
        {
            "topic": "b9",
            "body": {"x": 1},
            "delay": "1h",
            "tags": [f"tag{number}" for number in range(16)],
            "headers": {f"h{number}": "v" * 20 for number in range(20)},
            "key": "k",
            "retry": {"max_attempts": 5},
        }
    ).encode()
    rounds = itertools.count(1)

    async def again() -> None:
        while True:
            round_ = next(rounds)
            lines = [line.replace(b'"k"', b'"%d-%d"' % (round_, number)) for number in range(setup.count(9_900))]
            assert await setup.batch(lines) in (0, 200, 429) or not setup.sound
            await asyncio.sleep(0.5)

    async with asyncio.TaskGroup() as group:
        for _ in range(6):
            group.create_task(again())


async def hanging_receivers(setup: AttackSetup) -> None:
    """B11: messages of one topic to 2,300 receivers that accept connections and never answer."""
    held: list[asyncio.StreamWriter] = []
    listening = await asyncio.start_server(lambda reader, writer: held.append(writer), "0.0.0.0", 0)
    port = listening.sockets[0].getsockname()[1]
    await setup.send("PUT", "/v1/topics/b11", json={"mode": "push"})
    rows = [(number // 250 + 1, number % 250 + 1) for number in range(setup.count(2_300))]
    lines = [
        b'{"topic":"b11","body":1,"target":{"url":"http://127.9.%d.%d:%d/","timeout":"5m"}}' % (high, low, port)
        for high, low in rows
    ]
    try:
        await setup.batch(lines)
        await asyncio.Event().wait()
    finally:
        listening.close()
        for writer in held:
            writer.transport.abort()


async def silent_names(setup: AttackSetup) -> None:
    """B12: messages to 900 receivers whose names no name server answers for (silent_names.py). Every ten seconds again,
    with 900 other names."""
    await setup.send("PUT", "/v1/topics/b12", json={"mode": "push"})
    for round_ in itertools.count():
        names = (b"s%d-%d.slow.test" % (round_, number) for number in range(setup.count(900)))
        await setup.batch([b'{"topic":"b12","body":1,"target":{"url":"http://%s/"}}' % name for name in names])
        await asyncio.sleep(10)


async def new_hours(setup: AttackSetup) -> None:
    """B14: batches in which each line is due in another hour, 100 to 60,000 hours from now. No other message is due
    there."""
    first = 100
    while first < 60_000:
        lines = [b'{"topic":"b14","body":1,"delay":"%dh"}' % hour for hour in range(first, first + setup.count(9_900))]
        await setup.batch(lines)
        first += len(lines)
        await asyncio.sleep(0.2)
    await asyncio.Event().wait()


async def closed_ports(setup: AttackSetup) -> None:
    """B15: 20 topics that push to closed ports."""
    for number in range(20):
        target = {"url": f"http://127.0.0.1:{9 + number}/"}
        await setup.send("PUT", f"/v1/topics/b15-{number}", json={"mode": "push", "target": target})
    await setup.batch([b'{"topic":"b15-%d","body":1}' % (number % 20) for number in range(setup.count(9_900))])
    await asyncio.Event().wait()


async def searches(setup: AttackSetup) -> None:
    """B16: 11 clients at each node that search the whole delivery log of every node."""
    message = {"topic": "b16", "body": 1, "delay": "1h"}

    async def again(node: LocalNode) -> None:
        query = {"from": "2020-01-01T00:00:00Z", "to": "2039-01-01T00:00:00Z"}
        while True:
            await setup.send("GET", "/v1/ledger/summary", node, params=query)

    await setup.send("POST", "/v1/messages", json=message)
    await asyncio.gather(*(again(node) for node in setup.nodes for _ in range(setup.count(11))))


ATTACKS: Final[dict[str, Attack]] = {
    "names": many_names,
    "connections": many_connections,
    "polls": many_polls,
    "halves": half_requests,
    "unread": unread_answers,
    "questions": large_questions,
    "framing": odd_framing,
    "bodies": bodies_under_way,
    "topics": many_topics,
    "filters": many_filters,
    "changes": one_message_changed_often,
    "batches": full_batches,
    "receivers": hanging_receivers,
    "lookups": silent_names,
    "hours": new_hours,
    "ports": closed_ports,
    "searches": searches,
}

#: By name: the bytes that each node keeps in memory while the attack's messages are stored. A topic takes 250 bytes.
STORED_BYTES: Final = {"topics": 25e6}
