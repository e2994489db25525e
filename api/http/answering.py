"""How a connection answers its requests, one behind the other.

aiohttp makes a task for each request, a writer, a timer for idle connections, and looks after responses of its own. Our
stages have deadlines (`api.http.stage`), and an answer is one write (`api.http.answer`): here a request is a call,
which takes 6 us less of the 85 that a message costs.
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

#: Makes the answer to what is no HTTP request from its problem.
Refuse = Callable[[Problem], Answer]
_Handler = Callable[[web.BaseRequest], Awaitable[Answer]]
#: Answers write to the transport; and a task that was cancelled would lead to its request, and that back to the task.
_NO_WRITER: Final = cast(AbstractStreamWriter, None)
_NO_TASK: Final = cast("asyncio.Task[None]", None)
#: Where bytes go that nobody wants.
_DROPPED: Final = bytearray(256 * 1024)
_UNREAD: Final = RuntimeError("the request is answered: nobody reads its body any more")


class Answering(RequestHandler):
    """aiohttp's protocol without a task a request."""

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
        self._last = False  # it is closed behind the answer under way
        self.more = False  # the newest piece was full: more stands behind it

    async def start(self) -> None:
        """Until the connection is closed, or its client wants no further answer."""
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
        """Wait for a request. Cancelled where the connection is closed meanwhile."""
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    async def _answer_next(self) -> bool:
        """The first request that is here. Whether another may follow it."""
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
            body.set_exception(_UNREAD)  # it goes on reading, if what nobody read held it back
        except ConnectionError:  # the client is gone
            return False
        return answer.keep_alive and not self._close

    async def _answer(self, message: RawRequestMessage, body: StreamReader) -> Answer:
        """Of the server's handler, which raises nothing."""
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
        """Wait until the socket has taken what was written. ConnectionResetError when the client has gone."""

    @abstractmethod
    def answered(self, body: StreamReader) -> None:
        """The answer to the request of this body is written, and taken."""

    async def _linger(self, body: StreamReader) -> None:
        """Drop the rest of a body that was refused, so that its client comes to the answer."""
        try:
            async with asyncio.timeout(LINGER_S):
                while not body.is_eof():
                    await body.readany()
        except (TimeoutError, RuntimeError, web.RequestPayloadError) as error:  # late, closed, or what comes is no body
            let_go(error)
            self._messages.clear()
            self.close()

    async def drop_rest(self) -> None:
        """Read what comes behind the last request, before the connection is closed: else the kernel resets it, and its
        client sees that in place of the answer."""
        if not (self.more or self.drop_unread()):
            return
        self._last = True
        self._pause_transport_reading()
        until_s, paused = self._loop.time() + LINGER_S, False
        while (self.drop_unread() or not paused) and self._loop.time() < until_s:
            await asyncio.sleep(LINGER_PAUSE_S)
            paused = True

    def drop_unread(self) -> int:
        """Bytes that were here."""
        if self.transport is None or self.transport.is_closing():
            return 0
        try:
            return os.readv(self.transport.get_extra_info("socket").fileno(), [_DROPPED])
        except OSError:
            return 0
