"""The frames of a connection for calls: those of replication/wire/frame.py, each with pieces of calls and answers.

```
| size u32 | meta u32 | CRC32C u32 | meta: msgpack of a Head | the bytes of its pieces, one behind the other |
```

Everything that waits in a turn of the loop goes in one frame, or in a few. Frames are numbered, so a frame that is
repeated, left out or overtaken is refused. A large call or answer goes in several pieces, and small ones go between
them.
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
    """A piece of a call or of an answer. Or a word without bytes: CANCEL, about a call, and LEAVE, about the
    connection.

    - `number` is the number of the call. Each side counts its calls from 1.
    - `size`: its bytes, which stand behind the head of the frame.
    - `more`: further pieces of the same call or answer follow.
    - `name`: the name of the call, with the first piece.
    - `term`: the newest term that the answering node knows, with an answer.
    """

    kind: Annotated[int, Meta(ge=CALL, le=LEAVE)]
    number: Count
    size: Annotated[int, Meta(ge=0, le=PIECE_MAX)] = 0
    more: bool = False
    name: Annotated[str, Meta(max_length=NAME_MAX)] = ""
    term: U32 = 0


class Head(Plain, frozen=True):
    """The head of a frame. `number`: each side counts its frames from 1. `taken`: how many bytes of answers this side
    has read so far, which gives the other side credit to send more."""

    number: Count
    taken: Count
    pieces: Annotated[list[Piece], Meta(max_length=PIECES_MAX)]


def write_frame(number: int, taken: int, pieces: list[Piece], data: list[bytes]) -> list[bytes]:
    """Return the parts of a frame, to be written one behind the other. `data` has the bytes of each piece."""
    return seal(encode(Head(number, taken, pieces)), [b"".join(data)] if data else None)


def read_frame(meta: bytes, blob: memoryview, crc: int) -> tuple[Head, bytes]:
    """Return the head of a frame, and the bytes of all its pieces, one behind the other. Raises FrameRefused."""
    data = unseal(meta, blob, crc)
    try:
        head = decode(Head, meta)
    except BadFrame as bad:
        raise FrameRefused(str(bad)) from None
    size = sum([piece.size for piece in head.pieces])
    if size != len(data):
        raise FrameRefused(f"a frame with {len(data)} bytes, of pieces with {size}")
    return head, data
