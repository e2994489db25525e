"""Draws calls between nodes as an attacker sends them: greetings that are valid or not, and frames that are cut,
repeated, or out of order.

No drawn call changes anything. A change would prove nothing: an attacker with the cluster id can make any call, as any
client can over HTTP.
"""

from __future__ import annotations

import random
from typing import Any, Final

from chaos.plan.draw_frames import NUMBERS, OTHERS
from replication.wire.frame import encode_frame
from replication.wire.handshake import CALLS

CALL, ANSWER, CANCEL, LEAVE = 1, 2, 3, 4
NAMES: Final = (
    "message",
    "topics",
    "pull",
    "ack",
    "records",
    "cluster",
    "count",
    "no_such_call",
    "",
    "x" * 64,
    "x" * 65,
)
_BYTES_MAX: Final = 32 * 1024 * 1024


def greeting(chance: random.Random, speaks_as: str, to: str, cluster_id: bytes | None) -> bytes:
    """A greeting, mostly a valid one if the attacker knows the cluster id. `cluster_id` None: it does not."""
    cluster = cluster_id if cluster_id is not None and chance.random() < 0.95 else chance.randbytes(16)
    said: list[Any] = [CALLS, 1, 1, cluster, speaks_as, to, 0, 16_384, _BYTES_MAX, {}]
    if chance.random() < 0.1:
        said[chance.randrange(1, len(said))] = chance.choice((*OTHERS, *NUMBERS[:8], "n9"))
    data = b"".join(encode_frame(said))
    return data[: chance.randrange(1, len(data))] if chance.random() < 0.02 else data


def frames(chance: random.Random, count: int) -> bytes:
    """`count` frames of one connection. Most are valid, so that nodes meet the wrong ones behind them."""
    data, calls = b"", 0
    for number in range(1, count + 1):
        pieces, blobs = [], []
        for _ in range(chance.randrange(0, 4)):
            kind = chance.choice((CALL, CALL, CALL, CALL, CANCEL, ANSWER if chance.random() < 0.1 else CALL))
            calls += kind == CALL
            blob = chance.randbytes(chance.choice((0, 1, 40, 4_000))) if kind == CALL else b""
            named = chance.choice(NAMES[:8]) if kind == CALL else ""
            piece: list[Any] = [kind, calls, len(blob), chance.random() < 0.02, named, 0]
            if chance.random() < 0.02:
                piece[chance.randrange(len(piece))] = chance.choice((*OTHERS, *NUMBERS[:10], *NAMES))
            pieces.append(piece)
            blobs.append(blob)
        if chance.random() < 0.01:
            pieces.append([LEAVE, 0, 0, False, "", 0])
            blobs.append(b"")
        head = [number, 0, pieces]
        if chance.random() < 0.02:
            head[chance.randrange(2)] = chance.choice(NUMBERS[:10])
        one = b"".join(encode_frame(head, blobs))
        if chance.random() < 0.01:
            place = chance.randrange(len(one))
            one = one[:place] + bytes([one[place] ^ 1 << chance.randrange(8)]) + one[place + 1 :]
        data += one * (2 if chance.random() < 0.01 else 1)
    return data
