"""One question to a node that is no member yet: what does it answer to a hello that is meant for it?"""

from __future__ import annotations

from replication.wire.dialler import dial
from replication.wire.handshake import Hello, Refusal, check, check_entries, in_own_words
from replication.wire.link import Address


async def probe(own: Hello, address: Address) -> Hello | Refusal | None:
    """What the node at this address says to `own`, or why it cannot be a member; None if nothing that speaks so
    answers."""
    opened = await dial(address, own.encode)  # it may be of a build that reads no longer form
    if opened is None:
        return None
    connection, said = opened
    connection.abort()
    if isinstance(said, Refusal):
        return check_entries(own.to, said.formats, own.level) or in_own_words(said, own.to)
    return check(own, said) or said
