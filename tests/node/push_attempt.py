"""A client of webhooks played against real receivers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from api.port.address_guard import Addresses
from node.push.answer import Answer
from node.push.client import PushClient
from node.push.target import make_head, make_target
from storage.format.record import Record
from tests.node.receiver import Behave, receiver

NOW_MS = 1_800_000_000_000
LOOPBACK = ("127.0.0.0/8", "::1/128")
Send = Callable[..., Awaitable[Answer]]


def record(**fields: Any) -> Record:
    """A record with these fields, the others empty."""
    blank: dict[str, Any] = dict.fromkeys(Record.__struct_fields__, 0)
    blank |= {"tags": (), "headers": {}, "key": b"", "content_type": "", "target": b"", "order_key": b""}
    return Record(**{**blank, "extension": {}, "body": b"{}", **fields})


def run(play: Callable[[Send], Awaitable[None]], allow: tuple[str, ...] = LOOPBACK) -> None:
    """Play with a client's `send(url, body=..., timeout_ms=..., may_send=..., method=..., headers=...)`."""

    async def main() -> None:
        client = PushClient(Addresses(allow), lambda: NOW_MS)
        await client.start()

        async def send(url: str, body: bytes = b"{}", **fields: Any) -> Answer:
            may_send = fields.pop("may_send", lambda: True)
            own = {"url": url, "method": fields.pop("method", "POST"), "headers": fields.pop("headers", {})}
            target = make_target({}, own, fields.pop("timeout_ms", 5000))
            head = make_head(target, record(body=body), id="1ID", topic="t", term=1, attempt=1, now_ms=NOW_MS)
            ended: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            client.send(target, head, body, may_send, ended.set_result)
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
