"""Consumers for measuring: connections that pull and ack, and decode only the measured parts of an answer."""

import asyncio
import itertools
import json
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Generic, TypeVar

import msgspec

from bench.client.pump import Caller, Pump, render
from chaos.cluster.cluster import ClusterFailed
from hourwheel.core.addresses import Address

CONSUMERS = 8
PULL_MAX = 1_000
WAIT_MS = 500
#: Acks are gathered for this long. The measurement is of when messages come, not of how soon they are acked.
BEAT_S = 0.005


class Receipt(msgspec.Struct, gc=False):
    """The part of a pulled message that `Drain` needs."""

    receipt: str


class Timed(msgspec.Struct, gc=False):
    """The parts of a pulled message that `Waiting` needs to compute lateness."""

    receipt: str
    asked_due: datetime
    handed_over: datetime


M = TypeVar("M", Receipt, Timed)


class Messages(msgspec.Struct, Generic[M]):
    """The answer to a pull."""

    messages: list[M]


def ack_request(topic: str, receipts: list[str]) -> bytes:
    """Return an ack of these receipts, which are plain ASCII."""
    return render("POST", f"/v1/topics/{topic}/ack", msgspec.json.encode({"receipts": receipts}))


def pull_request(topic: str, wait_ms: int = WAIT_MS) -> bytes:
    """Return a pull for PULL_MAX messages, the most that a pull may ask for."""
    return render("POST", f"/v1/topics/{topic}/pull", json.dumps({"max": PULL_MAX, "wait": wait_ms}).encode())


class Drain:
    """Consumers that together pull and ack, until `count` messages are acked. Each is one connection, which sends a
    pull, then an ack, and so on.

    `first_s` and `last_s` (time.time) are the times of the first message received and the last ack answered. `received`
    counts messages, repeats too.
    """

    def __init__(self, address: Address, topic: str, count: int) -> None:
        self._address, self._topic, self._count = address, topic, count
        self._decoder = msgspec.json.Decoder(Messages[Receipt])
        self.received = 0
        self.acked = 0
        self.first_s = 0.0
        self.last_s = 0.0

    async def run(self, connections: int = CONSUMERS) -> None:
        """Pull and ack with consumers at the address of this Drain, until all messages are acked."""
        await self.at([self._address], connections)

    async def at(self, addresses: Sequence[Address], connections: int = CONSUMERS) -> None:
        """Pull and ack until all messages are acked, with the connections spread over these addresses."""
        turns = itertools.islice(itertools.cycle(addresses), connections)
        await asyncio.gather(*map(self._one, turns))

    async def _one(self, address: Address) -> None:
        receipts: list[str] = []
        pull = pull_request(self._topic)

        def requests() -> Iterator[bytes]:
            while self.acked < self._count:
                yield ack_request(self._topic, receipts) if receipts else pull

        def answered(status: int, body: bytes, seconds: float) -> None:
            if status != 200:
                raise ClusterFailed(f"status {status}: {body[:300]!r}")
            if receipts:
                self.acked += body.count(b'"acked"')
                self.last_s = time.time()
                receipts.clear()
                return
            receipts.extend([message.receipt for message in self._decoder.decode(body).messages])
            if receipts:
                self.first_s = self.first_s or time.time()
                self.received += len(receipts)

        await Pump.run(address.host, address.port, requests(), answered)


class Waiting:
    """Consumers that always have a pull waiting, until `count` messages have come. All acks go over one further
    connection.

    Each list has one element for each message received. `late_ms` is receive time minus due time, `leader_late_ms`
    delivery time minus due time, `due_ms` the due time.
    """

    def __init__(self, address: Address, topic: str, count: int) -> None:
        self._address, self._topic, self._count = address, topic, count
        self._decoder = msgspec.json.Decoder(Messages[Timed])
        self._receipts: list[str] = []
        self.late_ms: list[float] = []
        self.leader_late_ms: list[float] = []
        self.due_ms: list[float] = []

    async def run(self, connections: int = CONSUMERS) -> None:
        """Run until all messages have come and their acks are answered."""
        host, port = self._address.host, self._address.port
        pulls = (Pump.run(host, port, self._pulls(), self._received) for _ in range(connections))
        await asyncio.gather(*pulls, self._acking())

    def _pulls(self) -> Iterator[bytes]:
        pull = pull_request(self._topic)
        while len(self.late_ms) < self._count:
            yield pull

    def _received(self, status: int, body: bytes, seconds: float) -> None:
        now_ms = time.time() * 1000
        if status != 200:
            raise ClusterFailed(f"status {status}: {body[:300]!r}")
        for message in self._decoder.decode(body).messages:
            due_ms = message.asked_due.timestamp() * 1000
            self.due_ms.append(due_ms)
            self.late_ms.append(now_ms - due_ms)
            self.leader_late_ms.append(message.handed_over.timestamp() * 1000 - due_ms)
            self._receipts.append(message.receipt)

    async def _acking(self) -> None:
        caller = await Caller.connect(self._address.host, self._address.port)
        try:
            while len(self.late_ms) < self._count or self._receipts:
                receipts, self._receipts = self._receipts, []
                if receipts:
                    status, body = await caller.call(ack_request(self._topic, receipts))
                    if status != 200:
                        raise ClusterFailed(f"ack: status {status}: {body[:300]!r}")
                await asyncio.sleep(BEAT_S)
        finally:
            caller.close()
