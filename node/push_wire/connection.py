"""A connection to a receiver: a request goes out in one write, its answer comes in by callbacks, without a task.

    Exchange (request, callback) -- begin --> bytes out --> bytes in -- simple, whole ------------> Answer
                                                                 '-- anything else -> aiohttp's parser -> Answer

Bounds, per answer: 16 KiB of body, 128 headers of 8 KiB, a few interim (1xx) answers, and a small receive buffer
(api.port.address_guard). The event loop parses all bytes that have arrived in one go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler

from node.port.push_port import PushWork
from node.push_wire.answer import ANSWER_BYTES_MAX, Answer, failed, make_answer, read_simple

if TYPE_CHECKING:
    from aiohttp import StreamReader
    from aiohttp.connector import Connection
    from aiohttp.http_parser import RawResponseMessage

#: Interim answers (1xx) before the final one.
INTERIM_MAX: Final = 32
#: Bodies up to this size go out in one write with the head: copying them costs less than a second write.
JOINED_BYTES: Final = 16 * 1024
_SWITCHING: Final = 101
_NEXT_INTERIM: Final = b"\r\n\r\nHTTP/1.1 1"

Ended = Callable[[PushWork, Answer, float], None]
"""Called when an attempt has ended: with its work, its outcome, and the loop's second at which it began."""


class Exchange:
    """One attempt on its way: its request, its deadline, and the callback `ended`, which is called once with the
    outcome."""

    __slots__ = ("_ended", "begun_s", "due_s", "head", "second", "wire", "work")

    def __init__(self, work: PushWork, head: bytes, begun_s: float, ended: Ended) -> None:
        self.work, self.head, self.begun_s = work, head, begun_s
        self._ended: Ended | None = ended
        self.wire: Wire | None = None  # the one that its request went out on
        self.due_s = 0.0  # when it times out (node.push_wire.deadlines)
        self.second = False  # its deadline was put off once, after the process stood still

    @property
    def over(self) -> bool:
        """True if its outcome was reported, or is not wanted any more."""
        return self._ended is None

    def forget(self) -> None:
        """Drop the callback, so that no outcome is reported."""
        self._ended = None

    def end(self, answer: Answer) -> None:
        """Report the outcome."""
        assert self._ended is not None, "an attempt ends twice"
        ended, self._ended = self._ended, None
        ended(self.work, answer, self.begun_s)


class Wire(ResponseHandler):
    """A connection that stands. aiohttp's connector made it, and counts it as in use until `drop`. It carries one
    exchange at a time.

    `done(wire, exchange, answer)` is called when an answer is whole or has failed, after the wire is free or dropped.
    `gone(wire)` is called when the receiver closed an idle one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.connection: Connection | None = None
        self.idle_since_s = 0.0
        self._now_ms: Callable[[], int] | None = None
        self._done: Callable[[Wire, Exchange, Answer], None] | None = None
        self._gone: Callable[[Wire], None] | None = None
        self._exchange: Exchange | None = None
        self._clear()

    def _clear(self) -> None:
        self._parsed = False  # the answer is not simple: aiohttp's parser has it
        self._message: RawResponseMessage | None = None  # the head of the final answer
        self._content: StreamReader | None = None  # the body of that answer
        self._text = bytearray()
        self._interim = 0
        self._surplus = False  # more than one final answer came
        self._looking = False

    def open(
        self,
        connection: Connection,
        now_ms: Callable[[], int],
        done: Callable[[Wire, Exchange, Answer], None],
        gone: Callable[[Wire], None],
    ) -> None:
        """Take over a connection that stands, with the callbacks that it is to use."""
        self.connection, self._now_ms, self._done, self._gone = connection, now_ms, done, gone

    def begin(self, exchange: Exchange) -> None:
        """Send the request of this exchange. The wire must be idle and connected."""
        assert self._exchange is None, "a request on a connection that waits for an answer"
        assert self.transport is not None, "a request on a connection that is closed"
        self._exchange, exchange.wire = exchange, self
        head, body = exchange.head, exchange.work.body
        if len(body) <= JOINED_BYTES:
            self.transport.write(head + body)
        else:
            self.transport.writelines((head, body))

    def drop(self, *, abort: bool = True) -> None:
        """Close the connection: at once, or without `abort` after the bytes that were written. Its exchange is
        forgotten, without a callback."""
        self._exchange = None
        if abort:
            self.abort()
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()

    # -- callbacks of the transport

    def data_received(self, data: bytes) -> None:
        """Take bytes of an answer. Bytes that come while no request waits for an answer end the connection."""
        exchange = self._exchange
        if exchange is None:
            if data and self.connection is not None:
                self._lost()
            return
        if not self._parsed:
            simple = read_simple(data)
            if simple is not None:
                assert self._now_ms is not None
                self._free()
                self._tell(exchange, make_answer(simple.status, simple.body, simple.retry_after, self._now_ms()))
                return
            self._parsed = True
            self.set_response_params(read_until_eof=True, auto_decompress=False, read_bufsize=ANSWER_BYTES_MAX)
        if self._message is None and data.count(_NEXT_INTERIM) > INTERIM_MAX:
            self._fail(_too_many_interim())  # unread: the parser would first make an object of each, a thousand a read
            return
        super().data_received(data)
        self._look()

    def feed_data(self, data: Any, size: int = 0) -> None:
        """Take a head that the parser has read. Up to INTERIM_MAX interim heads are ignored."""
        message, content = data
        if 100 <= message.code < 200 and message.code != _SWITCHING:
            self._interim += 1
            if self._interim > INTERIM_MAX:
                if self.transport is not None:
                    self.transport.abort()
                self.set_exception(_too_many_interim())
        elif self._message is None:
            self._message, self._content = message, content
        else:
            self._surplus = True

    def connection_lost(self, exc: BaseException | None) -> None:
        """Called when the connection is closed. An answer without a length is then whole. Any other answer under way
        has failed."""
        super().connection_lost(exc)
        self._look()
        if self._exchange is not None:
            self._fail(self.exception() or aiohttp.ServerDisconnectedError())
        elif self.connection is not None:
            self._lost()

    # -- an answer that is not simple

    def _look(self) -> None:
        """Finish the answer if it is whole by now, or fail if it cannot be read. Reading the body lets a paused parser
        go on, and the parser then calls this function again."""
        if self._looking or self._exchange is None:
            return
        self._looking = True
        try:
            whole = self._read()
        except Exception as failure:  # no error that a receiver makes aiohttp raise may end the node
            self._fail(failure)
            return
        finally:
            self._looking = False
        if whole:
            self._finish()

    def _read(self) -> bool:
        """Take the bytes of the body that have come. Return true if the body is whole or enough of it is read. Raises
        errors of the parser."""
        content, text = self._content, self._text
        if content is None:
            failure = self.exception()
            if failure is not None:
                raise failure
            return False
        while len(text) < ANSWER_BYTES_MAX and (more := content.read_nowait(ANSWER_BYTES_MAX - len(text))):
            text += more
        return len(text) >= ANSWER_BYTES_MAX or content.at_eof()

    def _finish(self) -> None:
        exchange, message, content = self._exchange, self._message, self._content
        assert exchange is not None
        assert message is not None
        assert content is not None
        assert self._now_ms is not None
        answer = make_answer(message.code, bytes(self._text), message.headers.get("Retry-After"), self._now_ms())
        if content.at_eof() and not self._surplus and not self.should_close and self.is_connected():
            self._free()
        else:
            self.drop()
        self._tell(exchange, answer)

    def _fail(self, failure: BaseException) -> None:
        exchange = self._exchange
        assert exchange is not None
        self.drop()
        self._tell(exchange, failed(failure))

    def _free(self) -> None:
        """Make the wire ready for the next request."""
        self._exchange = None
        if self._parsed:
            self._clear()

    def _tell(self, exchange: Exchange, answer: Answer) -> None:
        assert self._done is not None
        self._done(self, exchange, answer)

    def _lost(self) -> None:
        self.drop()
        if self._gone is not None:
            self._gone(self)


def _too_many_interim() -> aiohttp.ClientPayloadError:
    return aiohttp.ClientPayloadError(f"more than {INTERIM_MAX} interim answers")
