"""The outcome of a call over HTTP: done, not done, or unknown to its client."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from api.port.port import CancelResult, Delivery, RescheduleResult
from chaos.client.client import Account, Sums, View
from chaos.client.outcome import Outcome
from chaos.load.client import HttpClient, session
from cli.local.local_nodes import LOOPBACK, LocalNode
from tests.cli.scripted_node import ScriptedNode

THEN, THEN_MS = "2026-01-02T03:04:00.005Z", 1_767_323_040_005
Call = Callable[[HttpClient], Awaitable[Outcome[Any]]]

NO_LEADER = b'HTTP/1.1 503 Service Unavailable\r\nContent-Length: 20\r\n\r\n{"code":"no-leader"}'
ANSWER = b'HTTP/1.1 404 Not Found\r\nContent-Length: 26\r\n\r\n{"code":"unknown-message"}'


class Dying:
    """A node that answers one request, and dies when it has taken the second; or lives on, and leads no more."""

    def __init__(self, *, lives: bool = False) -> None:
        self.taken, self._lives = 0, lives
        self.dead = asyncio.Event()

    async def serve(self) -> int:
        """Returns its port."""
        self._server = await asyncio.start_server(self._answer, LOOPBACK, 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while self.taken < (3 if self._lives else 2):
            await reader.readuntil(b"\r\n\r\n")
            self.taken += 1
            if self.taken == 2:
                break
            writer.write(ANSWER if self.taken == 1 else NO_LEADER)
        if self.taken == 3 or not self._lives:
            self._server.close()
        writer.close()
        await writer.wait_closed()
        self.dead.set()


@pytest.mark.parametrize("call", ["cancel", "reschedule"])
def test_a_command_that_a_node_took_before_it_died_is_unknown(call: str) -> None:
    """aiohttp sends a DELETE again where a kept connection breaks: that nobody listens then says nothing of the first.
    A run under power cuts called such a cancel refused, and its message lost."""

    async def run() -> str:
        dying = Dying()
        node = LocalNode("n1", await dying.serve(), 0, Path())
        async with session(5.0) as http:
            client = HttpClient(node, http)
            assert (await client.cancel("0B")).code == "unknown-message"
            outcome = await (client.cancel("0A") if call == "cancel" else client.reschedule("0A", 1, None))
        await dying.dead.wait()
        assert dying.taken == 2
        return outcome.kind

    assert asyncio.run(run()) == "unknown"


def test_a_command_that_aiohttp_sent_twice_is_unknown_where_the_second_was_refused() -> None:
    """The first may have been carried out before its connection broke."""

    async def run() -> Outcome[CancelResult]:
        dying = Dying(lives=True)
        node = LocalNode("n1", await dying.serve(), 0, Path())
        async with session(5.0) as http:
            client = HttpClient(node, http)
            await client.cancel("0B")
            outcome = await client.cancel("0A")
        assert dying.taken == 3
        return outcome

    assert asyncio.run(run()) == Outcome("unknown", None, "no-leader")


def test_a_command_to_nobody_is_refused() -> None:
    """No connection came to be, so nothing was done."""

    async def run(port: int) -> tuple[str, str]:
        async with session(5.0) as http:
            client = HttpClient(LocalNode("n1", port, 0, Path()), http)
            return (await client.reschedule("0A", 1, None)).kind, (await client.cancel("0A")).kind

    async def closed_port() -> int:
        server = await asyncio.start_server(lambda reader, writer: None, LOOPBACK, 0)
        port: int = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        return port

    assert asyncio.run(run(asyncio.run(closed_port()))) == ("refused", "refused")


TIMES = ("due", "asked_due", "created", "handed_over", "leased_until")
PULLED = {"id": "0A", "receipt": "r", "attempt": 2, "term": 3, "topic": "t", "body": 7} | dict.fromkeys(TIMES, THEN)
LEASED = {"event": "leased", "at": THEN, "node": "n1", "term": 3, "attempt": 2}
SEEN = {"state": "leased", "due": THEN, "attempt": 2, "handed_over": THEN, "lateness_ms": 4, "history": [LEASED]}
KNOWN = {"class": "delivered_once", "deliveries": [{}], "window": {"complete": True}, "flags": []}
FLAGS = {"records_missing": 0, "outside_window": 0}
SUMMED = {
    "classes": {"lost": 0},
    "strict_failover": 1,
    "hand_overs": 9,
    "window": {"complete": True},
    "flags": FLAGS,
}


def results(*words: str) -> dict[str, object]:
    """The answer to an ack, nack or extend."""
    return {"results": [{"receipt": "r", "result": word} for word in words]}


@pytest.mark.parametrize(
    ("call", "asked", "answer", "value"),
    [
        (
            lambda client: client.pull("t", 2, 100),
            ("POST", "/v1/topics/t/pull", {"max": 2, "wait": 100}),
            {"messages": [PULLED]},
            [Delivery("0A", "r", 2, 3, THEN_MS, "t", THEN_MS, THEN_MS, THEN_MS, THEN_MS, b"7")],
        ),
        (
            lambda client: client.ack("t", ["r", "s"]),
            ("POST", "/v1/topics/t/ack", {"receipts": ["r", "s"]}),
            results("acked", "stale"),
            ["acked", "stale"],
        ),
        (
            lambda client: client.nack("t", ["r"], 5),
            ("POST", "/v1/topics/t/nack", {"receipts": ["r"], "delay": 5}),
            results("nacked"),
            ["nacked"],
        ),
        (
            lambda client: client.nack("t", ["r"], None),
            ("POST", "/v1/topics/t/nack", {"receipts": ["r"]}),
            results("nacked"),
            ["nacked"],
        ),
        (
            lambda client: client.extend("t", ["r"], 9),
            ("POST", "/v1/topics/t/extend", {"receipts": ["r"], "lease": 9}),
            results("extended"),
            ["extended"],
        ),
        (
            lambda client: client.cancel("0A"),
            ("DELETE", "/v1/messages/0A", None),
            {"id": "0A", "attempts_made": 1, "prior": "known"},
            CancelResult("0A", 1, "known"),
        ),
        (
            lambda client: client.reschedule("0A", 8, 4),
            ("PATCH", "/v1/messages/0A", {"deliver_at": 8}),
            {"id": "0A", "topic": "t", "due": THEN, "revision": 5},
            RescheduleResult("0A", "t", THEN_MS, 5),
        ),
        (
            lambda client: client.look("0A", ledger=True),
            ("GET", "/v1/messages/0A?ledger=true", None),
            SEEN | {"ledger": KNOWN},
            (
                View("leased", THEN_MS, 2, THEN_MS, 4, (("leased", THEN_MS, "n1", 3, 2),)),
                Account("delivered_once", 1, True, False),
            ),
        ),
        (
            lambda client: client.sums(),
            ("GET", "/v1/ledger/summary?from=2020-01-01T00:00:00Z", None),
            SUMMED,
            Sums(0, 1, 9, True),
        ),
    ],
)
def test_each_call_asks_and_reads_as_the_api_says(
    call: Call, asked: tuple[str, str, Any], answer: object, value: object
) -> None:
    """Method, path and document; what of the answer is kept. What is no answer of success of ours ends the run: a
    checker would take it for a call of which nobody knows."""
    with ScriptedNode() as node:

        async def run() -> Outcome[Any]:
            port = int(node.url.rpartition(":")[2])
            async with session(5.0) as http:
                client = HttpClient(LocalNode("n1", port, 0, Path()), http)
                node.say(200, answer)
                outcome = await call(client)
                node.say(404, {"code": "unknown-message"})
                assert (await call(client)).code == "unknown-message"
                node.say(200, b"<html>")
                with pytest.raises(msgspec.DecodeError):
                    await call(client)
                return outcome

        assert asyncio.run(run()) == Outcome("ok", value)
        assert node.requests == [asked] * 3
        if_match = '"4"' if asked[0] == "PATCH" else None
        assert [headers.get("if-match") for headers in node.headers] == [if_match] * 3
