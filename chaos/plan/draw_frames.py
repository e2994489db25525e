"""Draws frames as an attacker sends them: every kind of frame, fields with values at the edges of their ranges or of
the wrong type. Some frames are cut or repeated."""

from __future__ import annotations

import random
from typing import Any

from replication.wire.contacts import Contact, Contacts
from replication.wire.frame import HEADER, PROTOCOL, encode_frame, table
from replication.wire.frame_bound import INDEX_MAX, MOST, TERM_MAX
from replication.wire.handshake import Hello

KINDS = table(PROTOCOL[1])
NUMBERS = (0, 1, 2, 7, 1 << 20, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 62, (1 << 63) - 1, (1 << 64) - 1, -1)
OTHERS: tuple[Any, ...] = (None, True, 1.5, "1", b"", b"x" * 17, [], {}, [[]])
READS = {"entry": (1, 9)}


def _value(chance: random.Random, field: str, kind: type) -> Any:
    roll = chance.random()
    if roll < 0.04:
        return chance.choice(OTHERS)
    if kind is bool:
        return chance.random() < 0.5
    if kind is bytes:
        return chance.randbytes(chance.choice((0, 16, 16, 17, 17, 15, 64)))
    if roll < 0.35:
        return chance.choice(NUMBERS)
    if roll < 0.5:
        return chance.choice((MOST[field], MOST[field] + 1))
    return chance.randrange(0, 40)


def frame(chance: random.Random) -> bytes:
    """One frame as it may follow the hello. A few are damaged."""
    kind, number, fields = chance.choice(KINDS)
    meta: list[Any] = [number, *(_value(chance, field, of) for field, of in fields)]
    blobs: list[bytes] = []
    if kind == "append_entries":
        blobs = [chance.randbytes(chance.choice((1, 2, 40))) for _ in range(chance.randrange(0, 4))]
        meta += [[chance.choice((0, 1, 2, 9, TERM_MAX, 1 << 32)) for _ in blobs], [len(blob) for blob in blobs]]
    elif kind == "snapshot_piece":
        blobs = [chance.randbytes(chance.choice((1, 100)))]
    if chance.random() < 0.03:
        meta = meta[:-1] if chance.random() < 0.5 else [*meta, 1]
    try:
        data = b"".join(encode_frame(meta, blobs))
    except OverflowError:  # msgpack has no form for the number
        return HEADER.pack(40, 20, 0) + bytes(28)
    if chance.random() < 0.02:
        place = chance.randrange(len(data))
        data = data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :]
    if chance.random() < 0.02:
        data = data[: chance.randrange(1, len(data))]
    return data * (2 if chance.random() < 0.05 else 1)


def hello(chance: random.Random, speaks_as: str, to: str, cluster_id: bytes | None, stores: dict[str, bytes]) -> bytes:
    """A hello, mostly a valid one, sometimes with a list of members. `stores`: the known store id by node id."""
    contacts = Contacts()
    if chance.random() < 0.2:
        listed = tuple(Contact(each, "127.0.0.1:1", "127.0.0.1:1") for each in chance.sample(sorted(stores), 2))
        contacts = Contacts(chance.choice((0, 1, 50, 1 << 20, 1 << 40, (1 << 40) + 1, INDEX_MAX)), listed)
    store = chance.choice((stores[speaks_as], chance.randbytes(16)))
    theirs = chance.randbytes(16) if cluster_id is None and chance.random() < 0.2 else cluster_id
    said = Hello(speaks_as, to, store, theirs, READS, contacts=contacts, level=chance.choice((1, 2)))
    data = b"".join(said.encode(chance.choice((1, 2))))
    return data[: chance.randrange(1, len(data))] if chance.random() < 0.02 else data
