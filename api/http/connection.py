"""A client's connection: aiohttp's, and what aiohttp leaves out.

The connection knows its stage (`api.http.stage`), so no stage lasts longer than its deadline. A client that sends its
header, or reads its answer, drop by drop holds it no longer than others. Answers wait until the socket has taken them.
A client that has closed its side (it sends nothing more) still gets its answers. Bytes that are not HTTP get an answer
in the shape of every error. Here the request "at work" is the one that is being answered.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, cast

from aiohttp import StreamReader, web, web_protocol
from aiohttp.http import RawRequestMessage

from api.http.answering import Answering, Refuse
from api.http.connection_keeper import ConnectionKeeper
from api.http.framing import Framing, behind, header_too_large, is_alone, is_too_large
from api.http.stage import (
    ANSWER_BYTES_PER_S,
    ANSWER_MAX_S,
    ANSWERING,
    HALF_CLOSED_MAX_S,
    HEADER,
    HEADER_MAX_S,
    IDLE,
    KEEPALIVE_S,
    LINGER_PAUSE_S,
    LINGER_S,
    LINGERING,
    READING,
    WORKING,
    Stage,
)
from api.http.watch import descriptor_of
from api.port.budget import UNCOUNTED_BYTES
from api.port.problem import Problem
from api.port.traceback import let_go

#: Stages that await a request.
_AWAITING: Final = (HEADER, IDLE)
#: Stages in which the whole request has come, and its answer has not left.
_AT_WORK: Final = (WORKING, ANSWERING)
_NEVER_S: Final = float("inf")
#: Requests parsed ahead on one connection, 3 KB each. The budget does not count them. aiohttp has no argument for it.
AHEAD_MAX: Final = 8
web_protocol.MAX_MSG_QUEUE_SIZE = AHEAD_MAX


class Connection(Answering):
    """One client's connection: its stage, and the bytes of its next requests. `host` is the keeper of all
    connections."""

    __slots__ = (
        *("_ahead_s", "_cut_off", "_framing", "_held", "_host", "_is_upgrade", "_leaves", "_newest"),
        *("_unparsed", "_unparsed_ahead", "_until_s"),
        *("ended", "half_closed", "is_ascii", "oversized", "since_s", "stage"),
    )

    def __init__(self, host: ConnectionKeeper, refuse: Refuse) -> None:
        super().__init__(cast(web.Server, host), refuse)
        self._host = host
        self.stage = HEADER
        self.since_s = 0.0  # loop time at which the stage began, or the wait in it
        self._until_s = _NEVER_S  # loop time at which the stage has lasted too long
        self._newest: StreamReader | None = None  # the newest request's body, until all of it has come
        self._ahead_s = 0.0  # since when a part of the next request is here, behind one at work; 0: no part
        self._framing = Framing()
        self.is_ascii = True  # all bytes so far
        self.oversized = False  # a request came whose header is too large
        self.half_closed = False
        self._unparsed = b""  # the newest piece, if the parser may have stopped in it
        self._unparsed_ahead = 0  # bytes behind the last parsed request: a part of a header, or whole requests
        self._cut_off = False  # the bytes behind the newest request are no request, or one too large
        self._is_upgrade = False  # the newest request offers another protocol
        self._held = False  # other connections read first
        self._leaves = False  # the client closed its side while its request waited
        #: Ends the wait of the request at work: its client may be gone, or the connection has to end. None: no wait.
        self.ended: Callable[[], None] | None = None

    # -- what comes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve an admitted client (`api.http.client_protocol`) that has sent its first bytes."""
        cast(asyncio.Transport, transport).set_write_buffer_limits(0)  # so that `taken` sees every byte left
        super().connection_made(transport)
        self._enter(HEADER, HEADER_MAX_S)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Called when the connection is closed, by either side. Its work ends soon, a few connections at a time."""
        self._host.closings.add(partial(self._end, exc))

    def _end(self, exc: BaseException | None) -> None:
        """Cancel the task that answers the connection's requests, and drop its parser."""
        if self._task_handler is not None and not self._task_handler.done():
            self._task_handler.cancel()
        super().connection_lost(exc)
        self._newest = None  # it refers back to this connection, and only the collector of cycles would free both

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and note which requests have begun and ended."""
        before, body, awaited = self._request_count, self._newest, self.stage in _AWAITING
        if not data.isascii():
            self.is_ascii = False
        if body is None:
            super().data_received(data)
        elif not self._feed(body, data):
            return
        if self._request_count != before:
            self._requests_begin(data, self._request_count - before, awaited)
        elif body is None:
            self._header_goes_on(data, awaited)
        if self.ended is not None:
            self._host.watch.again(self)

    def _feed(self, body: StreamReader, data: bytes) -> bool:
        """Take a piece that continues the newest body. True if the body ended in it."""
        before, come, is_taken = self._request_count, body.total_bytes, not self._messages
        super().data_received(data)
        if not body.is_eof():
            if self._request_count == before:
                self._body_goes_on(body, data)
            else:  # the new message is a failure of the parser
                let_go(getattr(self._messages[-1][0], "exc", None))
                body.set_exception(web.RequestPayloadError("its chunks cannot be read"))
            return False
        self._newest = None
        if self.stage is READING:
            self._enter(WORKING)
        if is_taken and self._parser is not None:
            self._parser.message_consumed()  # it was taken before the parser had counted it among those parsed ahead
            if len(self._messages) >= AHEAD_MAX - 1:
                super().data_received(b"")
        if self._request_count == before:
            self._ends_in(data, self._framing.behind(data, come))
        return True

    def _requests_begin(self, data: bytes, count: int, awaited: bool) -> None:
        """Note that `count` headers are complete with this piece. `awaited`: no request was at work before it."""
        (message, body), piece = self._messages[-1], data or self._unparsed
        self._newest = None if (is_whole := body.is_eof()) else body
        if isinstance(message, RawRequestMessage):
            if self._framing.begins(message, len(piece), body):
                self.oversized |= any(is_too_large(getattr(each, "raw_headers", ())) for each, _ in self._messages)
            self._is_upgrade = message.upgrade
            if message.upgrade:  # nothing says how much the parser drops behind chunks
                self._cut_off |= message.chunked or (is_whole and not is_alone(piece, body.total_bytes))
            self._ends_in(piece, behind(piece, 0 if message.chunked else body.total_bytes) if is_whole else 0)
        else:
            let_go(message.exc)  # it refers to all bytes that were read
        if awaited:
            self._enter(WORKING if is_whole or count > 1 else READING)
        elif self._holds_uncounted():
            self._end_wait()

    def _ends_in(self, piece: bytes, ahead: int) -> None:
        """Note that a request ended in this piece, or that its body goes on behind it (`ahead` is 0). `ahead` bytes of
        the piece stand behind the request: a part of the next header. But if AHEAD_MAX requests wait, the parser has
        stopped and reads them later. If the request offers another protocol (Upgrade), it drops them."""
        self._cut_off |= self._is_upgrade and (ahead > 0 or self._upgraded)
        stopped = len(self._messages) >= AHEAD_MAX
        self._unparsed, self._unparsed_ahead = (piece, ahead) if stopped else (b"", 0)
        self._ahead_s = 0.0
        if ahead > 0 and not stopped:
            self._ahead_s = self._loop.time()
            if self._framing.header(ahead):
                self._cut()

    def _cut(self) -> None:
        """Stop reading, because the next header is too large. The requests before it are the last that are answered."""
        self._cut_off = True
        self._pause_transport_reading()
        self._end_wait()

    def needs_no_body(self) -> None:
        """Treat the request at work as whole, even if its body has not come, because its route reads no body."""
        if self.stage is READING:
            self._enter(WORKING)

    def _body_goes_on(self, body: StreamReader, data: bytes) -> None:
        """Take a piece of the newest body that is not its last."""
        if data and self.stage is LINGERING:
            self.pause_reading()
            self._loop.call_later(LINGER_PAUSE_S, self._drop_more)
        if self._framing.chunks(len(data), body.total_bytes):
            if self.stage is READING:
                detail = "the chunks of a body hold more beside the body than it has; send larger ones"
                self._say(Problem("malformed-request", detail))
            self.force_close()

    def refuse_body(self) -> None:
        """Let the handler that waits for the newest body get an error, because the server ends."""
        if self._newest is not None:
            self._newest.set_exception(web.RequestPayloadError("the server ends"))

    def _header_goes_on(self, data: bytes, awaited: bool) -> None:
        """Take a piece of a header that is not complete, perhaps behind a request at work. An empty piece means that
        the parser may have gone on where it stopped, and found no further request."""
        size = len(data)
        if len(self._messages) < AHEAD_MAX:
            size += self._unparsed_ahead
            self._unparsed, self._unparsed_ahead = b"", 0
        if self._framing.header(size):
            if awaited:
                self._say(header_too_large())
                self.force_close()
            else:
                self._cut()
        elif not awaited:
            self._ahead_s = self._ahead_s or (self._loop.time() if size else 0.0)
        elif size and self.stage is not HEADER:
            self._enter(HEADER, HEADER_MAX_S)

    def only_kept(self, most: int) -> int:
        """Return how many of the next bytes, up to `most`, surely belong to a body: they are stored, not parsed."""
        return 0 if self._newest is None else self._framing.only_kept(self._newest.total_bytes, most)

    def hold_reading(self) -> bool:
        """Stop reading until `read_on` is called. True if reading was on before this call."""
        was_read, self._held = not self._held, True
        if was_read:
            self._pause_transport_reading()
        return was_read

    def read_on(self) -> None:
        """Resume reading after `hold_reading`. Called at the connection's turn, or when its wait is no longer
        watched."""
        self._held = False
        if not (self._reading_paused or self._buffer_paused):
            self._resume_transport_reading()

    def _resume_transport_reading(self) -> None:
        if not (self._held or self._last or (self._cut_off and self._newest is None)):
            super()._resume_transport_reading()

    def eof_received(self) -> bool:  # type: ignore[override]  # what asyncio asks for
        """Called when the client has sent its last byte. The connection stays open while a request is at work. Without
        one it is closed soon, a few at a time, because 3,000 may end at once. A wait for messages ends at once, because
        the client may be gone."""
        self.half_closed = self.stage in _AT_WORK
        if self.half_closed and self.ended is not None:
            self._leaves = True
            self.end_wait_soon()
        if self.half_closed and self.stage is WORKING:
            self._until_s = self._loop.time() + HALF_CLOSED_MAX_S
        if not self.half_closed:
            self._host.closings.add(self.force_close)
        return True

    def force_close(self) -> None:
        """Close the connection. Unsent bytes have LINGER_S to leave, then it is aborted. Otherwise aiohttp forgets the
        transport, and a client that reads nothing would keep it for ever."""
        if self.transport is not None and self.transport.get_write_buffer_size():
            self._loop.call_later(LINGER_S, self.transport.abort)
        super().force_close()

    def end_wait_soon(self) -> None:
        """End the wait of the request at work, if it still waits when its turn to end comes."""
        if self.ended is not None:
            self._host.endings.add(self.ended)

    def _end_wait(self) -> None:
        if self.ended is not None:
            self.ended()

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Resume reading, if it was paused. aiohttp calls this after every body and then runs its parser over nothing
        (4 us of every request). If reading was not paused, nothing is left to parse."""
        if self._reading_paused and self.stage is not LINGERING:
            super().resume_reading(resume_parser)

    def _drop_more(self) -> None:
        """Read more of a body that no handler wants. Without that the client may not read the answer."""
        if self._reading_paused and self.transport is not None:
            super().resume_reading()

    def _pause_reading_for_buffer(self) -> None:
        """Pause reading, since AHEAD_MAX requests wait. The client's end cannot be seen behind them, so a wait ends."""
        super()._pause_reading_for_buffer()
        self._end_wait()

    def goes_on(self) -> bool:
        """True if another request may be answered on this connection after the one at work."""
        if self._last or (self.half_closed and not self._is_next_here()):
            return False
        return not (self.oversized or self._cut_off) or bool(self._messages)

    def _is_next_here(self) -> bool:
        """True if another whole request has come behind the one at work."""
        return len(self._messages) > 1 or (bool(self._messages) and self._newest is None)

    def wait(self, ended: Callable[[], None]) -> None:
        """Called when the request at work begins a wait that may be long. The connection calls `ended` to end it."""
        self.ended, self._leaves = ended, False
        self.since_s = self._loop.time()
        self._host.watch.begin(self)

    def waited(self) -> None:
        """Called when the request at work waits no more."""
        self.ended = None
        self._host.watch.end(self)

    def awaits_its_end(self) -> int | None:
        """Return the socket's descriptor if a request waits and only its client's end should come. None otherwise."""
        transport = self.transport
        if self.ended is None or self.half_closed or self._held or self._newest is not None or transport is None:
            return None
        return None if transport.is_closing() else descriptor_of(transport)

    def has_left(self) -> bool:
        """True if a request waits whose client has gone or has closed its side, even if that end is not read yet."""
        return self.ended is not None and (self._leaves or self._host.watch.has_left(self))

    def asks_nothing(self) -> bool:
        """True if no byte of another request has come since the last answer."""
        return self.stage is IDLE

    def may_go(self) -> bool:
        """True if it may be closed to admit another: the node waits for the client, or the request at work waits."""
        waits = self.stage is not WORKING or self.ended is not None
        return waits and not self._last and self.transport is not None and not self.transport.is_closing()

    def make_room(self) -> None:
        """End the connection to admit another client. A wait is answered as one that found nothing. A request of which
        only a part has come is refused with `busy`. An unread answer is dropped."""
        if self.ended is not None:
            self._last = True
            self.ended()
            return
        if self.stage in (HEADER, READING):
            self._say(self._host.budget.full())
        elif self.transport is not None and self.stage is ANSWERING:
            self.transport.abort()
        self.force_close()

    def _say(self, problem: Problem) -> None:
        """Write a problem that answers no whole request. The caller closes the connection."""
        if self.transport is not None:
            self.transport.write(self._refuse(problem).whole())
            self.drop_unread()

    def unwatched(self) -> bool:
        """True if no wait may begin: this node would not see the client leave, or would hold uncounted bytes."""
        return self.half_closed or self._buffer_paused or self._cut_off or self._holds_uncounted()

    def _holds_uncounted(self) -> bool:
        """True if a body behind the request at work is here or on its way. The budget does not count it before its
        turn."""
        return any(not body.is_eof() or body.total_bytes > UNCOUNTED_BYTES for _, body in self._messages)

    # -- what goes

    async def taken(self) -> None:
        """Wait until the socket has taken all written bytes. If that takes too long, the connection is aborted. Raises
        ConnectionResetError when the client has gone."""
        transport = self.transport
        if transport is None:
            return
        size = transport.get_write_buffer_size()
        self._enter(ANSWERING, ANSWER_MAX_S + size / ANSWER_BYTES_PER_S)
        with self._host.budget.unread(size):
            self._host.unburden(self)
            await self._drain_helper()

    def answered(self, body: StreamReader) -> None:
        """Note that the answer to the request of this body is written, and taken."""
        if not body.is_eof():
            self._enter(LINGERING, LINGER_S + 1)
            if self._reading_paused:
                self._loop.call_later(LINGER_PAUSE_S, self._drop_more)
        elif self._is_next_here():
            self._enter(WORKING)
        elif self.half_closed:
            self.force_close()
        elif self._messages:
            self._enter(READING)
        elif self._ahead_s:
            self._enter(HEADER, self._ahead_s + HEADER_MAX_S - self._loop.time())
        else:
            self._enter(IDLE, KEEPALIVE_S)

    # -- the stage

    def _enter(self, stage: Stage, within_s: float | None = None) -> None:
        """Enter this stage, which may last `within_s`. None: the connection sets no deadline, but the route may."""
        self.stage = stage
        self.since_s = self._loop.time()
        if self.half_closed and stage is WORKING:
            within_s = HALF_CLOSED_MAX_S
        self._until_s = _NEVER_S if within_s is None else self.since_s + within_s

    def close_overdue(self, now_s: float) -> None:
        """Close the connection if it has stood at its stage for longer than the stage may last."""
        if now_s <= self._until_s:
            return
        if self.stage is ANSWERING and self.transport is not None:
            self.transport.abort()
        self.force_close()
