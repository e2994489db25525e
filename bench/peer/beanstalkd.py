"""beanstalkd with a log that is synced at every write (-f0): put with a delay, reserve, delete.

Its protocol has no batches; 1,000 commands in one write come closest. Delays are whole seconds.
"""

import asyncio
import itertools
import re
import time
from collections.abc import Iterator
from pathlib import Path

from bench.client.consumer import CONSUMERS, PULL_MAX
from bench.client.load import AHEAD_MS, BATCH, BATCH_CONNECTIONS, BODY, NEAR_MS, Count, pump
from bench.client.pump import Framing, Pump
from bench.measure.drain import DRAINED
from bench.measure.schedule import BATCHED, SINGLE_1, SINGLE_64
from bench.peer.process import LOOPBACK, find, free_port, running, version
from bench.row import Row
from bench.scale import Scale
from hourwheel.core.addresses import Address

SYSTEM = "beanstalkd"
DATA = BODY.encode() + b"xx"  # the JSON's quotes
RESERVE_S = 120
_RESERVE = b"reserve-with-timeout 0\r\n"


def put(delay_s: int) -> bytes:
    """Return the command that puts one job."""
    return b"put 0 %d %d %d\r\n%b\r\n" % (delay_s, RESERVE_S, len(DATA), DATA)


def answers(count: int) -> Framing:
    """Return the Framing (bench/client/pump.py) of a request whose answer is `count` lines."""

    def frame(buffer: bytearray) -> tuple[int, int, int] | None:
        return (0, 0, len(buffer)) if buffer.count(b"\r\n") >= count else None

    return frame


class Taker:
    """A consumer that reserves up to PULL_MAX jobs with one write, then deletes them with another."""

    def __init__(self) -> None:
        self._reserved: list[bytes] = []
        self.deleted = 0

    def request(self) -> bytes:
        """Return the next request: reserve jobs, or delete those that were reserved."""
        if not self._reserved:
            return _RESERVE * PULL_MAX
        return b"".join(b"delete %b\r\n" % job for job in self._reserved)

    def frame(self, buffer: bytearray) -> tuple[int, int, int] | None:
        """The Framing of all answers to the last `request`. The answer with a reserved job has two lines, any other
        answer has one."""
        if self._reserved:
            wanted = len(self._reserved)
        else:
            wanted = PULL_MAX + buffer.count(b"RESERVED ")
        return (0, 0, len(buffer)) if buffer.count(b"\r\n") >= wanted else None

    def answered(self, status: int, body: bytes, seconds: float) -> None:
        """Note the reserved jobs, or count the deleted ones."""
        if self._reserved:
            self.deleted += body.count(b"DELETED")
            self._reserved = []
        else:
            self._reserved = re.findall(rb"RESERVED (\d+) ", body)


async def beanstalkd(directory: Path, scale: Scale) -> list[Row]:
    """Measure beanstalkd: one message a request, batches, and a drain. Raises Missing if it cannot be measured here."""
    server, port = find("beanstalkd"), free_port()
    command = [server, "-l", LOOPBACK, "-p", str(port), "-b", str(directory.resolve()), "-f0"]
    detail: dict[str, object] = {"version": version([server, "-v"]), "sync": "every write (-f0)"}
    delays_s = [(AHEAD_MS + row * NEAR_MS // BATCH) // 1000 for row in range(BATCH)]
    single = [put(delay_s) for delay_s in delays_s]
    rows = []
    with running(command, port, directory / "log"):
        address = Address(LOOPBACK, port)
        for figure, requests, connections, per_answer in (
            (SINGLE_1, single, 1, 1),
            (SINGLE_64, single, 64, 1),
            (BATCHED, [b"".join(single)], BATCH_CONNECTIONS, BATCH),
        ):
            count = Count(0, wanted=b"INSERTED ", per_answer=per_answer)
            took_s = await pump(address, requests, connections, scale.seconds, count, answers(per_answer))
            rate = count.acknowledged / took_s
            rows.append(Row(figure, rate, "msg/s", took_s, system=SYSTEM, detail=detail | count.latency()))
        rows.append(await _drain(address, scale.peer_drain, detail))
    return rows


async def _drain(address: Address, messages: int, detail: dict[str, object]) -> Row:
    groups = itertools.repeat(put(0) * BATCH, messages // BATCH)
    count = Count(0, wanted=b"INSERTED ", per_answer=BATCH)
    await Pump.run(address.host, address.port, groups, count.answered, answers(BATCH))
    takers = [Taker() for _ in range(CONSUMERS)]

    def deleted() -> int:
        return sum(taker.deleted for taker in takers)

    def requests(taker: Taker) -> Iterator[bytes]:
        while deleted() < count.acknowledged:
            yield taker.request()

    start = time.perf_counter()
    runs = (Pump.run(address.host, address.port, requests(each), each.answered, each.frame) for each in takers)
    await asyncio.gather(*runs)
    took_s = time.perf_counter() - start
    return Row(DRAINED, deleted() / took_s, "msg/s", took_s, system=SYSTEM, detail=detail | {"messages": deleted()})
