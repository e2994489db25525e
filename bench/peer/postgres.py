"""PostgreSQL as it is commonly used for delays: a table with an index by due time, its defaults, fsync on.

Inserts have one row or many. Due rows are taken with FOR UPDATE SKIP LOCKED and deleted in the same statement. That is
one commit, where our pull and ack are two. The client speaks only the needed part of the protocol (version 3).
"""

import asyncio
import re
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.client.consumer import CONSUMERS, PULL_MAX
from bench.client.load import BATCH, BATCH_CONNECTIONS, BODY, NEAR_MS, Count, due_times, until
from bench.client.pump import Pump
from bench.measure.drain import DRAINED
from bench.measure.schedule import BATCHED, SINGLE_1, SINGLE_64
from bench.peer.process import LOOPBACK, START_S, Missing, find, free_port, running, unprivileged, version
from bench.row import Row
from bench.scale import Scale
from chaos.cluster.cluster import ClusterFailed
from hourwheel.core.addresses import Address

SYSTEM = "postgres"
_READY = b"Z\x00\x00\x00\x05"
_CREATE = (
    "CREATE TABLE message (id bigserial PRIMARY KEY, due_ms bigint NOT NULL, body text NOT NULL);"
    "CREATE INDEX ON message (due_ms)"
)
_INSERT = "INSERT INTO message (due_ms, body) VALUES ($1, $2)"
_TAKE = (
    "WITH due AS (SELECT id FROM message WHERE due_ms <= $1 ORDER BY due_ms LIMIT $2 FOR UPDATE SKIP LOCKED) "
    "DELETE FROM message USING due WHERE message.id = due.id RETURNING body"
)


def startup() -> bytes:
    """Return the first message of a connection."""
    fields = struct.pack(">i", 196_608) + b"user\x00postgres\x00database\x00postgres\x00\x00"
    return struct.pack(">i", len(fields) + 4) + fields


def message(kind: bytes, content: bytes) -> bytes:
    """Return one message of the protocol, from client to server, with this type byte."""
    return kind + struct.pack(">i", len(content) + 4) + content


def query(text: str) -> bytes:
    """Return the message that runs this SQL text (a "simple query" of the protocol)."""
    return message(b"Q", text.encode() + b"\x00")


def prepare(text: str) -> bytes:
    """Return the request that makes statement `s`. Every connection has its own."""
    return message(b"P", b"s\x00" + text.encode() + b"\x00\x00\x00") + message(b"S", b"")


def execute(*values: bytes) -> bytes:
    """Return the request that runs statement `s` with these values, as text."""
    bound = b"".join(struct.pack(">i", len(value)) + value for value in values)
    bind = b"\x00s\x00\x00\x00" + struct.pack(">h", len(values)) + bound + b"\x00\x00"
    return message(b"B", bind) + message(b"E", b"\x00\x00\x00\x00\x00") + message(b"S", b"")


def frame(buffer: bytearray) -> tuple[int, int, int] | None:
    """A Framing (bench/client/pump.py): an answer is everything up to ReadyForQuery, which ends the answer to each
    request. Raises ClusterFailed for an error."""
    if buffer[-6:-1] != _READY:
        return None
    if buffer[:1] == b"E" or b"\x00VERROR\x00" in buffer[:4096]:
        raise ClusterFailed(f"postgres: {bytes(buffer[:300])!r}")
    return (0, 0, len(buffer))


async def postgres(directory: Path, scale: Scale) -> list[Row]:
    """Measure PostgreSQL: one message a request, batches, and a drain. Raises Missing if it cannot be measured here."""
    server, port = find("postgres"), free_port()
    user, data = unprivileged(), directory.resolve() / "data"
    _make(data, user)
    settings = [
        "-D",
        str(data),
        "-p",
        str(port),
        "-c",
        f"listen_addresses={LOOPBACK}",
        "-c",
        "unix_socket_directories=",
    ]
    detail: dict[str, object] = {"version": version([server, "--version"])[:28], "fsync": "on"}
    with running([server, *settings], port, directory / "log", user, signal.SIGINT):
        address = Address(LOOPBACK, port)
        await _accepting(address)
        await _statements(address, query(_CREATE))
        due = due_times(20_000, NEAR_MS)
        single = [execute(b"%d" % each, BODY.encode()) for each in due]
        multi = [insert_many(due[first : first + BATCH]) for first in range(0, len(due), BATCH)]
        rows = []
        for figure, requests, connections, per_answer in (
            (SINGLE_1, single, 1, 1),
            (SINGLE_64, single, 64, 1),
            (BATCHED, multi, BATCH_CONNECTIONS, BATCH),
        ):
            count = Count(0, wanted=b"INSERT 0 %d\x00" % per_answer, per_answer=1)
            took_s = await _insert(address, requests, connections, scale.seconds, count)
            rate = per_answer * count.acknowledged / took_s
            rows.append(Row(figure, rate, "msg/s", took_s, system=SYSTEM, detail=detail | count.latency()))
        rows.append(await _drain(address, scale.peer_drain, detail))
    return rows


def _make(data: Path, user: str | None) -> None:
    """Make a new database directory. Raises Missing if it cannot be made."""
    initdb = find("initdb")
    data.mkdir()
    if user is not None:
        shutil.chown(data, user)
    made = subprocess.run(
        [initdb, "-D", str(data), "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync"],
        capture_output=True,
        text=True,
        check=False,
        timeout=10 * START_S,
        user=user,
        cwd="/",
    )
    if made.returncode:
        raise Missing(f"initdb failed: {made.stderr.strip()[-200:]}")


def insert_many(due_ms: Sequence[int]) -> bytes:
    """Return the query that inserts one row for each of these due times."""
    values = ",".join(f"({due},'{BODY}')" for due in due_ms)
    return query(f"INSERT INTO message (due_ms, body) VALUES {values}")


async def _accepting(address: Address) -> None:
    """Wait until the server takes statements. Before it has started, it listens and closes each connection."""
    end_s = time.monotonic() + START_S
    while True:
        try:
            return await _statements(address)
        except ClusterFailed:
            if time.monotonic() > end_s:
                raise
        await asyncio.sleep(0.05)


async def _statements(address: Address, *requests: bytes) -> None:
    """Send the requests one after the other over a connection of their own."""
    await Pump.run(address.host, address.port, iter((startup(), *requests)), lambda *_: None, frame)


async def _insert(address: Address, requests: list[bytes], connections: int, seconds: float, count: Count) -> float:
    """Insert for `seconds`. Return the seconds that it took, without the time to connect."""
    begun = asyncio.Event()
    start = 0.0
    opened = 0

    def source() -> Iterator[bytes]:
        yield startup()
        yield prepare(_INSERT)
        yield from until(requests, time.perf_counter() + seconds)

    def answered(status: int, body: bytes, took_s: float) -> None:
        nonlocal start, opened
        if b"INSERT" in body:
            count.answered(status, body, took_s)
            return
        opened += 1
        if opened == 2 * connections:
            start = time.perf_counter()
            begun.set()

    runs = (Pump.run(address.host, address.port, source(), answered, frame) for _ in range(connections))
    await asyncio.gather(*runs)
    assert begun.is_set()
    return time.perf_counter() - start


async def _drain(address: Address, messages: int, detail: dict[str, object]) -> Row:
    now_ms = int(time.time() * 1000)
    due = [now_ms - 1_000 + row * 1000 // messages for row in range(messages)]
    fills = [insert_many(due[first : first + BATCH]) for first in range(0, messages, BATCH)]
    await _statements(address, query("TRUNCATE message"), *fills, query("ANALYZE message"))
    taken = 0

    def source() -> Iterator[bytes]:
        yield startup()
        yield prepare(_TAKE)
        take = execute(b"%d" % now_ms, b"%d" % PULL_MAX)
        while taken < messages:
            yield take

    def answered(status: int, body: bytes, took_s: float) -> None:
        nonlocal taken
        found = re.search(rb"DELETE (\d+)\x00", body[-64:])
        taken += int(found[1]) if found else 0

    start = time.perf_counter()
    await asyncio.gather(*(Pump.run(address.host, address.port, source(), answered, frame) for _ in range(CONSUMERS)))
    took_s = time.perf_counter() - start
    note = {"messages": taken, "taken and deleted": "in one statement"}
    return Row(DRAINED, taken / took_s, "msg/s", took_s, system=SYSTEM, detail=detail | note)
