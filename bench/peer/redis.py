"""Redis as it is commonly used for delays: a sorted set by due time, its log fsynced with every write.

Members are added by one ZADD a request, or 1,000 in a pipeline. One Lua script takes due members and removes them. So a
message whose consumer dies is gone, which is less than our pull and ack give.
"""

import asyncio
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

from bench.client.consumer import CONSUMERS, PULL_MAX
from bench.client.load import BATCH, BATCH_CONNECTIONS, BODY, NEAR_MS, RENDERED_BATCHES, Count, due_times
from bench.client.pump import Framing, Pump
from bench.measure.drain import DRAINED
from bench.measure.schedule import BATCHED, SINGLE_1, SINGLE_64
from bench.peer.process import LOOPBACK, find, free_port, running, version
from bench.row import Row
from bench.scale import Scale
from chaos.cluster.cluster import ClusterFailed
from hourwheel.core.addresses import Address

SYSTEM = "redis"
KEY = b"bench0000"
DRAIN_KEY = b"drain0000"
_TAKE = (
    b"local m = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2]) "
    b"if #m > 0 then redis.call('ZREM', KEYS[1], unpack(m)) end return m"
)


def command(*words: bytes) -> bytes:
    """Return a command as Redis reads it."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def zadds(due_ms: list[int], key: bytes = KEY) -> list[bytes]:
    """Return one ZADD per due time. A member is its number and the body, since a set holds a member once."""
    body = BODY.encode()
    return [command(b"ZADD", key, b"%d" % due, b"%08d" % number + body) for number, due in enumerate(due_ms)]


def again(requests: list[bytes], turns: Iterator[int]) -> Iterator[bytes]:
    """Yield all requests once for each of `turns`, each time with another key. A second ZADD to the same key would only
    be an update."""
    for turn in turns:
        key = b"bench%04d" % turn
        for request in requests:
            yield request.replace(KEY, key)


def integers(count: int) -> Framing:
    """Return the Framing of a request that is answered by `count` replies of one line each."""

    def frame(buffer: bytearray) -> tuple[int, int, int] | None:
        return (0, 0, len(buffer)) if buffer.count(b"\r\n") >= count else None

    return frame


def array(buffer: bytearray) -> tuple[int, int, int] | None:
    """A Framing (bench/client/pump.py) of a reply that is an array of texts without line ends. Raises ClusterFailed for
    an error."""
    end = buffer.find(b"\r\n")
    if end < 0:
        return None
    if buffer[:1] != b"*":
        raise ClusterFailed(f"redis: {bytes(buffer[:200])!r}")
    lines = 1 + 2 * int(buffer[1:end])
    return (0, 0, len(buffer)) if buffer.count(b"\r\n") >= lines else None


async def redis(directory: Path, scale: Scale) -> list[Row]:
    """Measure Redis: one message a request, batches, and a drain. Raises Missing if it cannot be measured here."""
    server, port = find("redis-server"), free_port()
    settings = ["--bind", LOOPBACK, "--port", str(port), "--dir", str(directory.resolve()), "--save", ""]
    settings += ["--appendonly", "yes", "--appendfsync", "always"]
    detail: dict[str, object] = {"version": version([server, "--version"])[:24], "appendfsync": "always"}
    with running([server, *settings], port, directory / "log"):
        address = Address(LOOPBACK, port)
        single = zadds(due_times(20_000, NEAR_MS))
        many = zadds(due_times(BATCH * RENDERED_BATCHES, NEAR_MS))
        pipelined = [b"".join(many[first : first + BATCH]) for first in range(0, len(many), BATCH)]
        turns = itertools.count()
        rows = []
        for figure, requests, connections, per_answer in (
            (SINGLE_1, single, 1, 1),
            (SINGLE_64, single, 64, 1),
            (BATCHED, pipelined, BATCH_CONNECTIONS, BATCH),
        ):
            count = Count(0, wanted=b":1\r\n", per_answer=per_answer)
            took_s = await _pump(address, again(requests, turns), connections, scale.seconds, count, per_answer)
            rate = count.acknowledged / took_s
            rows.append(Row(figure, rate, "msg/s", took_s, system=SYSTEM, detail=detail | count.latency()))
        rows.append(await _drain(address, scale.peer_drain, detail))
    return rows


async def _pump(
    address: Address, requests: Iterator[bytes], connections: int, seconds: float, count: Count, per_answer: int
) -> float:
    """Send each request once, over any of the connections, for `seconds`. Return the seconds that it took."""
    start = time.perf_counter()
    source = itertools.takewhile(lambda _: time.perf_counter() < start + seconds, requests)
    frame = integers(per_answer)
    runs = (Pump.run(address.host, address.port, source, count.answered, frame) for _ in range(connections))
    await asyncio.gather(*runs)
    return time.perf_counter() - start


async def _drain(address: Address, messages: int, detail: dict[str, object]) -> Row:
    due_ms = int(time.time() * 1000) - 1_000
    adds = zadds([due_ms + row * 1000 // messages for row in range(messages)], DRAIN_KEY)
    groups = (b"".join(adds[first : first + BATCH]) for first in range(0, messages - messages % BATCH, BATCH))
    count = Count(0, wanted=b":1\r\n", per_answer=BATCH)
    await Pump.run(address.host, address.port, groups, count.answered, integers(BATCH))
    taken = 0

    def requests() -> Iterator[bytes]:
        now_ms = b"%d" % int(time.time() * 1000)
        while taken < count.acknowledged:
            yield command(b"EVAL", _TAKE, b"1", DRAIN_KEY, now_ms, b"%d" % PULL_MAX)

    def answered(status: int, body: bytes, seconds: float) -> None:
        nonlocal taken
        taken += int(body[1 : body.index(b"\r\n")])

    start = time.perf_counter()
    runs = (Pump.run(address.host, address.port, requests(), answered, array) for _ in range(CONSUMERS))
    await asyncio.gather(*runs)
    took_s = time.perf_counter() - start
    note = {"messages": taken, "removed when taken": "lost with their consumer"}
    return Row(DRAINED, taken / took_s, "msg/s", took_s, system=SYSTEM, detail=detail | note)
