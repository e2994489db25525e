"""Calls in both directions with one other node, on one connection.

    begin -> outbox -> one frame a turn of the loop -> the other node: serve -> its outbox -> the answer

The greeting of each side says how many calls, and how many bytes of calls, the other side may have under way. A call's
bytes count until it is answered. Bytes of answers count until they are read; each frame tells the other side how many
were. A side that goes beyond these bounds, or sends something invalid, loses the connection, and the error names the
reason. If a call was begun when the connection ends, it may have been carried out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from api.port.loop_turn import Crowd
from node.peer_wire.frame import (
    ANSWER,
    CALL,
    CANCEL,
    FRAME_MAX,
    LEAVE,
    PIECES_MAX,
    Piece,
    read_frame,
    write_frame,
)
from node.peer_wire.greeting import BYTES_MAX, CALLS_MAX, Greeting
from node.peer_wire.outbox import Outbox, Outgoing
from node.port.group_frames import answer_frame
from node.port.refusal import Refusal
from replication.wire.frame import FrameRefused
from replication.wire.link import Connection

#: When this many bytes of answers were read since the last frame, a frame goes out only to tell the other side.
TOLD_AT: Final = BYTES_MAX // 4
#: The most bytes of a refusal that may replace an answer right before it leaves.
REFUSAL_MAX: Final = 512


class Lost(Exception):
    """The answer to a call will not come. `begun`: the call may have been carried out."""

    def __init__(self, why: str, *, begun: bool) -> None:
        super().__init__(why)
        self.begun = begun


class Busy(Exception):
    """The other node takes no further call, because as many are under way as it allows."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer of another node, that node's id, and the newest term that it knew."""

    frame: bytes
    node: str
    term: int


@dataclass(frozen=True, slots=True)
class Reply:
    """This node's answer to a call. `leaves` is called right before it is sent, and returns the frame to send: the
    answer, or a refusal in its place. `dropped` is called if no byte of the answer was sent."""

    frame: bytes
    term: int = 0
    leaves: Callable[[], bytes] | None = None
    dropped: Callable[[], None] = lambda: None


Serve = Callable[[str, bytes, Callable[[], bool]], Awaitable[Reply]]
"""Carries out a call of the other node, by name and frame. Raises only cancellation. The last argument is a function
that returns true if no large answer can be sent now."""
_TOO_LARGE: Final = Reply(answer_frame(Refusal("over-limit", "the answer is larger than nodes take; ask for less")))
_ENDED: Final = Reply(answer_frame(Refusal("no-leader", "nobody waits for it any more; nothing was handed over")))


@dataclass(eq=False, slots=True)
class Call:
    """A call of this node under way. `answer` gets the other node's answer. If no request waits for that any more,
    `late` takes it."""

    outgoing: Outgoing
    answer: asyncio.Future[Answered]
    parts: list[bytes] = field(default_factory=list)
    size: int = 0  # bytes of the parts
    late: Callable[[Answered], None] = lambda answered: None


@dataclass(eq=False, slots=True)
class _Served:
    """A call of the other node under way. `runs`: its task has begun to run, or was cancelled before that."""

    name: str
    parts: list[bytes] = field(default_factory=list)
    size: int = 0
    task: asyncio.Task[None] | None = None
    runs: bool = False


class PeerConnection:
    """A connection with another node, after both greetings. It sends this node's calls, and gives the other node's
    calls to `serve`. `ended` is called once when the connection is gone."""

    def __init__(
        self, line: Connection, theirs: Greeting, serve: Serve, ended: Callable[[PeerConnection], None]
    ) -> None:
        self.peer = theirs.node
        self._line, self._serve, self._ended = line, serve, ended
        self._theirs = theirs
        self._loop = asyncio.get_running_loop()
        self.used_s = self._loop.time()
        """When the newest call began, in either direction."""
        self._leaving = self._parted = False  # this side said LEAVE; the other side did
        self._crowd = Crowd(self._loop)
        self._flushing = False
        self._frames_sent = self._frames_read = 0
        # Calls of this node.
        self._calls_out = Outbox(theirs.bytes_max)
        self._open: dict[Call, None] = {}
        self._begun: dict[int, Call] = {}
        self._joins: Call | None = None  # the only call whose answer has come in part
        self._number = 0  # of the newest call that has begun
        self._words: list[Piece] = []  # pieces without bytes
        self._taken = self._told = 0  # bytes of answers that were read, and that the other side was told of
        # Calls of the other node.
        self._answers_out = Outbox(theirs.bytes_max)
        self._credited = 0  # bytes of answers that the other side has read
        self._served: dict[int, _Served] = {}
        self._newest = 0
        self._held = 0  # bytes of the other side's calls that are not answered
        line.carry(self._frame)
        line.trust()
        line.on_writable = self._soon
        line.closed.add_done_callback(lambda _: self._lost())

    @property
    def alive(self) -> bool:
        """True until the connection is closed."""
        return self._line.alive

    @property
    def usable(self) -> bool:
        """True if this side may begin calls: the connection stands, and neither side leaves it."""
        return self._line.alive and not (self._leaving or self._parted)

    @property
    def at_rest(self) -> bool:
        """True if no call is under way, in either direction, and no answer waits to be sent."""
        return not (self._open or self._served or self._answers_out.bytes)

    @property
    def gone(self) -> asyncio.Future[None]:
        """A future that is done when the connection has ended."""
        return self._line.closed

    @property
    def heard_s(self) -> float:
        """The time at which the last bytes came, in seconds of the loop."""
        return self._line.heard_s

    # -- calls of this node

    def begin(self, name: str, frame: bytes) -> Call:
        """Begin a call, and return it. Raises Busy, or Lost if the connection is not usable."""
        if not self.usable:
            raise Lost(f"there is no connection with {self.peer}", begun=False)
        if len(self._open) >= self._theirs.calls_max:
            raise Busy(f"{len(self._open)} requests are under way to {self.peer}, which takes no more")
        if len(frame) > self._theirs.bytes_max:
            raise Busy(f"a request of {len(frame)} bytes; {self.peer} takes {self._theirs.bytes_max}")
        call = Call(Outgoing(CALL, frame, lambda: self._begins(call), name), self._loop.create_future())
        self._open[call] = None
        self._calls_out.put(call.outgoing)
        self._soon()
        return call

    def end(self, call: Call) -> None:
        """End the wait for a call: the other node is asked to cancel it. An answer that comes nevertheless goes to
        `late`."""
        if call not in self._open or not self.alive:
            return
        outgoing = call.outgoing
        if not outgoing.number:
            self._calls_out.remove(outgoing)
            self._fail(call, Lost("it was ended before it began", begun=False))
        elif outgoing.at == len(outgoing.frame):
            self._words.append(Piece(CANCEL, outgoing.number))
            self._soon()

    def give_up(self, call: Call, why: str) -> None:
        """End the wait for a call. The request that waited for it gets Lost, with the reason `why`."""
        self.end(call)
        if not call.answer.done():
            call.answer.set_exception(Lost(why, begun=True))

    def _begins(self, call: Call) -> tuple[int, bytes]:
        self._number += 1
        self._begun[self._number] = call
        return self._number, call.outgoing.frame

    def _fail(self, call: Call, why: Lost) -> None:
        del self._open[call]
        if not call.answer.done():
            call.answer.set_exception(why)

    # -- sending

    def ping(self) -> None:
        """Send an empty frame, so that the other node hears from this side."""
        if self.alive:
            self._write([], [])

    def leave(self) -> None:
        """Begin no more calls, and let the other side close the connection when no call is under way."""
        if self.usable:
            self._leaving = True
            self._words.append(Piece(LEAVE, 0))
            self._soon()

    def abort(self) -> None:
        """Close the connection at once."""
        self._line.abort()

    def _soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self.used_s = self._loop.time()
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Send all calls, answers and words that wait, as far as credit allows, in as few frames as possible."""
        self._flushing = False
        while self._line.alive and self._line.writable:
            pieces, self._words = self._words[:PIECES_MAX], self._words[PIECES_MAX:]
            data: list[bytes] = []
            room = self._answers_out.take_small(pieces, data, FRAME_MAX, PIECES_MAX)
            room = self._calls_out.take_small(pieces, data, room, PIECES_MAX)
            room = self._answers_out.take_large(pieces, data, room, PIECES_MAX)
            self._calls_out.take_large(pieces, data, room, PIECES_MAX)
            if not pieces and self._taken - self._told < TOLD_AT:
                break
            self._write(pieces, data)
        if self._parted and self.at_rest:
            self._line.end()

    def _write(self, pieces: list[Piece], data: list[bytes]) -> None:
        self._frames_sent += 1
        self._told = self._taken
        self._line.write(write_frame(self._frames_sent, self._taken, pieces, data))

    # -- receiving

    def _frame(self, meta: bytes, blob: memoryview, crc: int) -> None:
        head, data = read_frame(meta, blob, crc)
        self._frames_read += 1
        if head.number != self._frames_read:
            raise FrameRefused(f"frame {head.number} comes where {self._frames_read} is next")
        self._credit(head.taken)
        at = 0
        for piece in head.pieces:
            part = data if piece.size == len(data) else data[at : at + piece.size]
            at += piece.size
            if piece.kind == ANSWER:
                self._answered(piece, part)
            elif piece.kind == CALL:
                self._called(piece, part)
            elif piece.kind == CANCEL:
                self._cancelled(piece)
            else:
                self._parted = True
        if self._parted or self._taken - self._told >= TOLD_AT:
            self._soon()

    def _credit(self, taken: int) -> None:
        more = taken - self._credited
        if more < 0 or self._answers_out.credit + more > self._theirs.bytes_max:
            raise FrameRefused(f"{taken} bytes of answers are said to be read, after {self._credited}")
        self._credited = taken
        self._answers_out.credit += more
        if more and self._answers_out.bytes:
            self._soon()

    def _answered(self, piece: Piece, part: bytes) -> None:
        call = self._begun.get(piece.number)
        if call is None or call.outgoing.at < len(call.outgoing.frame):
            raise FrameRefused(f"an answer to call {piece.number}, which does not wait for one")
        self._taken += len(part)
        if self._taken - self._told > BYTES_MAX:
            raise FrameRefused(f"answers of {self._taken - self._told} bytes, without credit for them")
        if piece.more or call.parts:
            if self._joins not in (None, call) or call.size + len(part) > BYTES_MAX or not part:
                raise FrameRefused(f"the answer to call {piece.number} is beyond what is kept of answers in pieces")
            self._joins = call if piece.more else None
            call.size += len(part)
            call.parts.append(part)
        if piece.more:
            return
        del self._begun[piece.number], self._open[call]
        self._calls_out.credit += len(call.outgoing.frame)
        if self._calls_out.bytes:
            self._soon()
        answered = Answered(b"".join(call.parts) if call.parts else part, self.peer, piece.term)
        if call.answer.done():
            call.late(answered)
        else:
            call.answer.set_result(answered)

    def _called(self, piece: Piece, part: bytes) -> None:
        served = self._served.get(piece.number)
        if served is None:
            if piece.number != self._newest + 1 or not piece.name:
                raise FrameRefused(f"a piece of call {piece.number}, where {self._newest + 1} is next")
            self._newest = piece.number
            served = self._served[piece.number] = _Served(piece.name)
        elif served.task is not None or piece.name:
            raise FrameRefused(f"call {piece.number} is made twice")
        if piece.more and not part:
            raise FrameRefused(f"an empty piece of call {piece.number}")
        served.parts.append(part)
        served.size += len(part)
        self._held += len(part)
        if self._held > BYTES_MAX or len(self._served) > CALLS_MAX:
            raise FrameRefused(f"{len(self._served)} calls of {self._held} bytes, without credit for them")
        if not piece.more:
            served.task = self._loop.create_task(self._carry_out(piece.number, served))

    def _cancelled(self, piece: Piece) -> None:
        if piece.number > self._newest:
            raise FrameRefused(f"call {piece.number} is cancelled, which was never made")
        served = self._served.get(piece.number)  # None: its answer is on its way
        if served is not None and served.task is not None:
            if served.runs:
                self._crowd.add(served.task.cancel)
                return
            served.task.cancel()  # before the task's first step: it does not begin
            served.runs = True
            self._reply(piece.number, served, _ENDED)

    async def _carry_out(self, number: int, served: _Served) -> None:
        served.runs = True
        frame = served.parts[0] if len(served.parts) == 1 else b"".join(served.parts)
        served.parts.clear()
        try:
            reply = await self._serve(served.name, frame, self._is_full)
        except asyncio.CancelledError:
            reply = _ENDED
        self._reply(number, served, reply)

    def _reply(self, number: int, served: _Served, reply: Reply) -> None:
        if len(reply.frame) > self._theirs.bytes_max:
            reply.dropped()
            reply = _TOO_LARGE

        def begins() -> tuple[int, bytes]:
            del self._served[number]
            self._held -= served.size
            return number, reply.frame if reply.leaves is None else reply.leaves()

        if self.alive:
            outgoing = Outgoing(ANSWER, reply.frame, begins, term=reply.term, dropped=reply.dropped)
            outgoing.least = 0 if reply.leaves is None else min(REFUSAL_MAX, self._theirs.bytes_max)
            self._answers_out.put(outgoing)
            if reply.leaves is None:
                self._soon()
            else:
                self._flush()  # in the step of the hand-over: in the next one the term may have ended
        else:
            reply.dropped()

    def _is_full(self) -> bool:
        return self._answers_out.bytes >= self._theirs.bytes_max or not self.alive

    def _lost(self) -> None:
        """Called when the connection has ended. The requests that wait for answers fail with Lost, a few at a time,
        because there may be thousands. Calls of the other node are cancelled."""
        for call in self._open:
            why = Lost(f"the connection with {self.peer} ended", begun=bool(call.outgoing.number))
            self._crowd.add(partial(self._fail, call, why))
        for served in self._served.values():
            if served.task is not None:
                self._crowd.add(served.task.cancel)
        self._answers_out.drop()
        self._ended(self)
