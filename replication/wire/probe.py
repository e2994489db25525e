"""One question to a node that is no member yet: what does it answer to a hello that is meant for it?"""

from __future__ import annotations

import asyncio

from replication.wire.handshake import Hello, Refusal, check, check_entries, in_own_words
from replication.wire.link import CONNECT_S, Address, Connection


async def probe(own: Hello, address: Address) -> Hello | Refusal | None:
    """What the node at this address says to `own`, or why it cannot be a member; None if nothing that speaks so
    answers."""
    loop = asyncio.get_running_loop()
    greeting: asyncio.Future[Hello | Refusal | None] = loop.create_future()

    def greeted(_: Connection, said: Hello | Refusal | None = None) -> None:
        if not greeting.done():
            greeting.set_result(said)

    connection = Connection(greeted, lambda *_: None, greeted)
    try:
        async with asyncio.timeout(CONNECT_S):
            await loop.create_connection(lambda: connection, *address)
            connection.write(own.encode())  # it may be of a build that reads no longer form
            said = await greeting
    except (OSError, TimeoutError, UnicodeError):  # the last: a host that is no name
        return None
    finally:
        connection.abort()
    if isinstance(said, Refusal):
        return check_entries(own.to, said.formats, own.level) or in_own_words(said, own.to)
    return said if said is None else check(own, said) or said
