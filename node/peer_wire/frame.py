"""The frames of a connection for calls: those of replication/wire/frame.py, each with pieces of calls and answers.

```
| size u32 | meta u32 | CRC32C u32 | meta: msgpack of a Head | the bytes of its pieces, one behind the other |
```

Everything that waits in a turn of the loop goes in one frame, or in a few. Frames are numbered, so one that is
repeated, left out or overtaken is refused. A large call or answer goes in pieces, and others come between them.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from node.port.codec import BadFrame, decode, encode
from node.port.plain import U32, Count, Plain
from replication.wire.frame import FrameRefused, seal, unseal

CALL: Final = 1
ANSWER: Final = 2
CANCEL: Final = 3
"""No request waits for the answer to this call any more. It is answered all the same."""
LEAVE: Final = 4
"""This side makes no more calls here, and wants none. The other side closes the connection when nothing is left."""

PIECE_MAX: Final = 64 * 1024
"""Bytes of a piece. A larger call or answer has several."""
FRAME_MAX: Final = 256 * 1024
"""Bytes of pieces at which a frame is full."""
PIECES_MAX: Final = 4096
NAME_MAX: Final = 64


class Piece(Plain, frozen=True, gc=False):
    """A piece of one call or answer.

    - `number` is the call's: 1, and one more with each call of a side.
    - `more`: this is not the last piece.
    - `name`: the name of the call, with the first piece.
    - `term`: the term of the node that answers.
    """

    kind: Annotated[int, Meta(ge=CALL, le=LEAVE)]
    number: Count
    size: Annotated[int, Meta(ge=0, le=PIECE_MAX)] = 0
    more: bool = False
    name: Annotated[str, Meta(max_length=NAME_MAX)] = ""
    term: U32 = 0


class Head(Plain, frozen=True):
    """The head of a frame. `number`: 1, and one more with each frame of a side. `taken`: bytes of answers that this
    side has read so far, which is the other side's credit for more."""

    number: Count
    taken: Count
    pieces: Annotated[list[Piece], Meta(max_length=PIECES_MAX)]


def write_frame(number: int, taken: int, pieces: list[Piece], data: list[bytes]) -> list[bytes]:
    """The frame as bytes, to be written one behind the other."""
    return seal(encode(Head(number, taken, pieces)), [b"".join(data)] if data else None)


def read_frame(meta: bytes, blob: memoryview, crc: int) -> tuple[Head, bytes]:
    """Return the head, and the bytes of all pieces. Raises FrameRefused."""
    data = unseal(meta, blob, crc)
    try:
        head = decode(Head, meta)
    except BadFrame as bad:
        raise FrameRefused(str(bad)) from None
    size = sum([piece.size for piece in head.pieces])
    if size != len(data):
        raise FrameRefused(f"a frame with {len(data)} bytes, of pieces with {size}")
    return head, data
