"""A client of webhooks played against real receivers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from node.push_address import Addresses
from node.push_client import Answer, PushClient
from node.push_target import make_target
from tests.node.receiver import Behave, receiver

NOW_MS = 1_800_000_000_000
LOOPBACK = ("127.0.0.0/8", "::1/128")
Send = Callable[..., Awaitable[Answer]]


def run(play: Callable[[Send], Awaitable[None]], allow: tuple[str, ...] = LOOPBACK) -> None:
    """Play with a client's `send(url, body=..., timeout_ms=..., may_send=..., method=..., headers=...)`."""

    async def main() -> None:
        client = PushClient(Addresses(allow), lambda: NOW_MS)
        await client.start()

        async def send(url: str, body: bytes = b"{}", **fields: Any) -> Answer:
            may_send = fields.pop("may_send", lambda: True)
            target = make_target(
                {}, {"url": url, "method": fields.pop("method", "POST")}, fields.pop("timeout_ms", 5000)
            )
            return await client.send(target, fields.pop("headers", {}), body, may_send)

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
