"""What one side of a connection has to send, in the order in which it goes, as far as its credit reaches.

Small calls and answers go first, then one piece of the oldest large one, and so on. Of those there is never more than
one under way in each direction, so whoever joins the pieces holds one of them at most.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from node.peer_wire.frame import PIECE_MAX, Piece


@dataclass(eq=False, slots=True)
class Outgoing:
    """A call or an answer on its way out. `begins` is told right before its first piece leaves, and gives its number
    and bytes: those that were meant, or others in their place. `dropped` is told if nothing of it was sent at all."""

    kind: int
    frame: bytes
    begins: Callable[[], tuple[int, bytes]]
    name: str = ""
    term: int = 0
    dropped: Callable[[], None] = lambda: None
    least: int = field(default=0, init=False)  # credit that it needs, though it be smaller
    number: int = field(default=0, init=False)  # 0: it has not begun
    at: int = field(default=0, init=False)


class Outbox:
    """One kind: calls, or answers. `credit`: bytes that may be sent; whoever owns it raises it again."""

    def __init__(self, credit: int) -> None:
        self.credit = credit
        self.bytes = 0
        """Of what waits."""
        self._small: deque[Outgoing] = deque()
        self._large: deque[Outgoing] = deque()

    def put(self, outgoing: Outgoing) -> None:
        """It goes as soon as it can."""
        self.bytes += len(outgoing.frame)
        (self._small if len(outgoing.frame) <= PIECE_MAX else self._large).append(outgoing)

    def remove(self, outgoing: Outgoing) -> None:
        """It goes no further. What was sent of it was sent."""
        self.bytes -= len(outgoing.frame) - outgoing.at
        (self._small if len(outgoing.frame) <= PIECE_MAX else self._large).remove(outgoing)

    def drop(self) -> None:
        """Nothing is sent any more."""
        for outgoing in (*self._large, *self._small):
            if not outgoing.number:
                outgoing.dropped()

    def take_small(self, pieces: list[Piece], data: list[bytes], room: int, most: int) -> int:
        """Move what may go now to the lists of a frame: small ones, so many bytes and pieces at most. Returns the room
        that is left."""
        small = self._small
        while small and len(pieces) < most and max(len(small[0].frame), small[0].least) <= min(room, self.credit):
            room -= self._piece(small.popleft(), pieces, data, PIECE_MAX)
        return room

    def take_large(self, pieces: list[Piece], data: list[bytes], room: int, most: int) -> int:
        """The same of pieces of large ones."""
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
