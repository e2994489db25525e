"""Answers the requests of a connection, one behind the other.

aiohttp makes a task, a writer and an idle timer for each request, and looks after responses of its own. Our stages have
deadlines (`api.http.stage`), and an answer is one write (`api.http.answer`). So one task per connection calls the
handler for each request. That saves 6 us of the 85 us that a message costs.
"""

import asyncio
import logging
import os
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import Final, cast

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage
from aiohttp.web_protocol import RequestHandler

from api.http.answer import Answer
from api.http.stage import LINGER_PAUSE_S, LINGER_S
from api.port.problem import Problem
from api.port.traceback import let_go

_log = logging.getLogger("api")

#: Makes the answer to bytes that are no HTTP request. The problem says what is wrong with them.
Refuse = Callable[[Problem], Answer]
_Handler = Callable[[web.BaseRequest], Awaitable[Answer]]
#: Answers write to the transport, so no writer is needed. A cancelled task would refer to its request, and the request
#: to the task.
_NO_WRITER: Final = cast(AbstractStreamWriter, None)
_NO_TASK: Final = cast("asyncio.Task[None]", None)
#: Unwanted bytes are read into this.
_DROPPED: Final = bytearray(256 * 1024)
_UNREAD: Final = RuntimeError("the request is answered: nobody reads its body any more")


class Answering(RequestHandler):
    """aiohttp's protocol of one connection, without a task for each request. `Connection` adds the stages.

    `refuse` makes the answers to bytes that are not HTTP. `more` is true if the newest read filled its buffer, so that
    more bytes may wait in the socket.
    """

    __slots__ = ("_last", "_refuse", "more")

    def __init__(self, listener: web.Server, refuse: Refuse) -> None:
        super().__init__(
            listener,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # aiohttp takes None for "no access log"
            keepalive_timeout=0,  # the stage IDLE has its deadline
            auto_decompress=False,  # a compressed body is refused by name, not inflated
        )
        self._refuse = refuse
        self._last = False  # the connection closes after the answer under way
        self.more = False  # the newest piece was full, so more bytes wait behind it

    async def start(self) -> None:
        """Answer requests until the connection is closed, or its client wants no further answer."""
        try:
            goes_on = True
            while goes_on and not self._force_close:
                if not self._messages:
                    await self._come()
                goes_on = await self._answer_next()
                if goes_on and self._messages:  # what one client sends ahead does not hold the loop
                    await asyncio.sleep(0)
        except BaseException as error:
            self.force_close()  # nobody would answer on it any more
            let_go(error)  # it leads to the request, and that to its connection
            raise
        if not self._force_close:
            self._task_handler = None
            if self.transport is not None:
                self.transport.close()

    async def _come(self) -> None:
        """Wait until a request has come. Raises CancelledError if the connection is closed meanwhile."""
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    async def _answer_next(self) -> bool:
        """Answer the first request that is here. True if another may follow it."""
        message, body = self._messages.popleft()
        if self._parser is not None and body.is_eof():
            self._parser.message_consumed()
        if self._buffer_paused and len(self._messages) <= self._msg_queue_resume_size:
            self._resume_reading_if_drained()
        try:
            self._request_in_progress = True
            try:
                if isinstance(message, RawRequestMessage):
                    answer = await self._answer(message, body)
                else:
                    reason = " ".join(message.message.split())[:200]
                    answer = self._refuse(Problem("malformed-request", f"the request is not HTTP/1.1: {reason}"))
                answer.send(self.transport)
                if self.writing_paused:
                    await self.taken()
                if not answer.keep_alive and body.is_eof():
                    await self.drop_rest()
                self.answered(body)
            finally:
                self._request_in_progress = False
                if self._handler_waiter is not None and not self._handler_waiter.done():  # the server ends
                    self._handler_waiter.set_result(None)
            if not body.is_eof():
                await (self.drop_rest() if self._force_close else self._linger(body))
            body.set_exception(_UNREAD)  # resumes reading, if the unread body held it back
        except ConnectionError:  # the client is gone
            return False
        return answer.keep_alive and not self._close

    async def _answer(self, message: RawRequestMessage, body: StreamReader) -> Answer:
        """Return the answer of the server's handler. The handler should raise nothing. If it does, log it and return
        500."""
        request = self._current_request = web.BaseRequest(message, body, self, _NO_WRITER, _NO_TASK, self._loop)
        try:
            return await cast(_Handler, self._request_handler)(request)
        except Exception as error:
            _log.error("an answer could not be made", exc_info=error)
            return self._refuse(Problem("internal", "see the node's log"))
        finally:
            self._current_request = None

    @abstractmethod
    async def taken(self) -> None:
        """Wait until the socket has taken all written bytes. Raises ConnectionResetError when the client has gone."""

    @abstractmethod
    def answered(self, body: StreamReader) -> None:
        """Note that an answer was written and the socket has taken it. `body` is the body of the answered request, of
        which a part may be unread."""

    async def _linger(self, body: StreamReader) -> None:
        """Read and drop the rest of a refused body for LINGER_S, so that its client reads the answer. If the body has
        not ended by then, close the connection."""
        try:
            async with asyncio.timeout(LINGER_S):
                while not body.is_eof():
                    await body.readany()
        except (TimeoutError, RuntimeError, web.RequestPayloadError) as error:  # late, closed, or the bytes are no body
            let_go(error)
            self._messages.clear()
            self.close()

    async def drop_rest(self) -> None:
        """Read the bytes behind the last request before the connection closes. Otherwise the kernel resets the
        connection, and the client sees the reset instead of the answer."""
        if not (self.more or self.drop_unread()):
            return
        self._last = True
        self._pause_transport_reading()
        until_s, paused = self._loop.time() + LINGER_S, False
        while (self.drop_unread() or not paused) and self._loop.time() < until_s:
            await asyncio.sleep(LINGER_PAUSE_S)
            paused = True

    def drop_unread(self) -> int:
        """Read what waits in the socket, 256 KB at most, and drop it. Return the number of bytes: 0 if none wait or the
        connection is closed."""
        if self.transport is None or self.transport.is_closing():
            return 0
        try:
            return os.readv(self.transport.get_extra_info("socket").fileno(), [_DROPPED])
        except OSError:
            return 0
