"""The calls or answers that one side has to send, in their order, as far as its credit reaches.

Small calls and answers go first, then one piece of the oldest large one, and so on. A large one is sent to its end
before the next begins. So the side that joins the pieces holds only one of them at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from node.peer_wire.frame import PIECE_MAX, Piece


@dataclass(eq=False, slots=True)
class Outgoing:
    """A call or an answer on its way out. `begins` is called right before its first piece leaves. It returns the number
    of the call and the bytes to send, which may be other bytes than `frame`. `dropped` is called if no byte of it was
    sent."""

    kind: int
    frame: bytes
    begins: Callable[[], tuple[int, bytes]]
    name: str = ""
    term: int = 0
    dropped: Callable[[], None] = lambda: None
    least: int = field(default=0, init=False)  # it begins only with this much credit, in bytes
    number: int = field(default=0, init=False)  # 0: it has not begun
    at: int = field(default=0, init=False)


class Outbox:
    """Calls, or answers, that wait to be sent. `credit`: bytes that may still be sent. The connection raises it when
    the other side has read more."""

    def __init__(self, credit: int) -> None:
        self.credit = credit
        self.bytes = 0
        """Bytes that wait."""
        self._small: deque[Outgoing] = deque()
        self._large: deque[Outgoing] = deque()

    def put(self, outgoing: Outgoing) -> None:
        """Queue a call or an answer. It goes as soon as order and credit allow."""
        self.bytes += len(outgoing.frame)
        (self._small if len(outgoing.frame) <= PIECE_MAX else self._large).append(outgoing)

    def remove(self, outgoing: Outgoing) -> None:
        """Send no more pieces of this call or answer. Pieces that were sent are not taken back."""
        self.bytes -= len(outgoing.frame) - outgoing.at
        (self._small if len(outgoing.frame) <= PIECE_MAX else self._large).remove(outgoing)

    def drop(self) -> None:
        """Send nothing any more, because the connection has ended. `dropped` is called for each call or answer of which
        no byte was sent."""
        for outgoing in (*self._large, *self._small):
            if not outgoing.number:
                outgoing.dropped()

    def take_small(self, pieces: list[Piece], data: list[bytes], room: int, most: int) -> int:
        """Move small calls or answers that may go now to the lists of a frame, up to `room` bytes and `most` pieces.
        Return the bytes that still fit into the frame."""
        small = self._small
        while small and len(pieces) < most and max(len(small[0].frame), small[0].least) <= min(room, self.credit):
            room -= self._piece(small.popleft(), pieces, data, PIECE_MAX)
        return room

    def take_large(self, pieces: list[Piece], data: list[bytes], room: int, most: int) -> int:
        """Move pieces of large calls or answers that may go now to the lists of a frame, up to `room` bytes and `most`
        pieces. Return the bytes that still fit into the frame."""
        while self._large and len(pieces) < most:
            first = self._large[0]
            if min(room, self.credit) < min(PIECE_MAX, len(first.frame) - first.at):
                break
            room -= self._piece(first, pieces, data, PIECE_MAX)
            if first.at == len(first.frame):
                self._large.popleft()
        return room

    def _piece(self, one: Outgoing, pieces: list[Piece], data: list[bytes], most: int) -> int:
        name = ""
        if not one.number:
            before, name = len(one.frame), one.name
            one.number, one.frame = one.begins()
            self.bytes += len(one.frame) - before
        part = one.frame if len(one.frame) <= most else one.frame[one.at : one.at + most]
        one.at += len(part)
        pieces.append(Piece(one.kind, one.number, len(part), one.at < len(one.frame), name, one.term))
        data.append(part)
        self.credit -= len(part)
        self.bytes -= len(part)
        return len(part)
