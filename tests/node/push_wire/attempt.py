"""A client of webhooks played against real receivers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from api.port.address_guard import Addresses
from node.port.push_port import Origin, PushTarget, PushWork
from node.push.target import make_target
from node.push_wire.answer import Answer
from node.push_wire.client import PushClient
from node.push_wire.head import make_head
from tests.node.receiver import Behave, receiver

NOW_MS = 1_800_000_000_000
LOOPBACK = ("127.0.0.0/8", "::1/128")
Send = Callable[..., Awaitable[Answer]]
NOBODY = PushTarget("http://a/", Origin("http", "a", 80), "POST", {}, 1000, None, b"")


def work(target: PushTarget = NOBODY, **fields: Any) -> PushWork:
    """Work for a wire with these fields, the others as a plain message has them."""
    usual: dict[str, Any] = {"number": 1, "group": 0, "term": 1, "id": "1ID", "topic": "t", "attempt": 1}
    usual |= {"handed_over_ms": NOW_MS, "lease_end_ms": NOW_MS + 60_000, "asked_due_ms": NOW_MS}
    usual |= {"content_type": "", "tags": (), "headers": {}, "body": b"{}"}
    return PushWork(target=target, **{**usual, **fields})


def run(play: Callable[[Send], Awaitable[None]], allow: tuple[str, ...] = LOOPBACK) -> None:
    """Play with a client's `send(url, body=..., timeout_ms=..., may_send=..., method=..., headers=...)`."""

    async def main() -> None:
        under_way: dict[int, tuple[Callable[[], bool], asyncio.Future[Answer]]] = {}
        client = PushClient(
            Addresses(allow),
            lambda: NOW_MS,
            lambda work: under_way[work.number][0](),
            lambda work, answer, begun_s: under_way.pop(work.number)[1].set_result(answer),
        )
        await client.start()
        numbers = iter(range(1_000_000))

        async def send(url: str, body: bytes = b"{}", **fields: Any) -> Answer:
            may_send = fields.pop("may_send", lambda: True)
            own = {"url": url, "method": fields.pop("method", "POST"), "headers": fields.pop("headers", {})}
            asked = work(make_target({}, own, fields.pop("timeout_ms", 5000)), number=next(numbers), body=body)
            ended: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            under_way[asked.number] = may_send, ended
            client.send(asked, make_head(asked))
            return await ended

        try:
            await play(send)
        finally:
            await client.close()

    asyncio.run(main())


def attempt(behave: Behave, **fields: Any) -> Answer:
    """What one attempt at such a receiver comes to."""
    got: list[Answer] = []

    async def play(send: Send) -> None:
        async with receiver(behave) as url:
            got.append(await send(url, **fields))

    run(play)
    return got[0]
