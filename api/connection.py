"""One client connection: aiohttp's, plus two things it does not do.

A client that sends its header drop by drop, or none at all, holds a connection and a task until the keep-alive timer
ends it, which is meant for polite idlers and long. So a connection that waits for the rest of a header (or for the
first byte after connecting) notes since when, and the server's watchdog closes it after `HEADER_MAX_S`. Idle time
between requests does not count; a slow body is timed where it is read.

What is not HTTP at all is answered in the same shape as every other error.
"""

from collections.abc import Callable
from typing import Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from api.answer import Answer
from api.problem import Problem

#: A request's header has to be complete this long after its first byte (or after connecting).
HEADER_MAX_S: Final = 10.0
#: An idle connection is kept this long; longer than the idle time of common clients and proxies.
KEEPALIVE_S: Final = 75.0
#: After an early refusal (413, 415), how long the rest of the body is read and dropped so the client sees the answer.
LINGER_S: Final = 2.0

Refuse = Callable[[Problem], Answer]


class Connection(RequestHandler):
    """aiohttp's protocol with a header deadline and our error shape."""

    __slots__ = ("_header_since", "_refuse")

    def __init__(self, listener: "Listener", refuse: Refuse) -> None:
        super().__init__(
            listener,
            loop=listener.loop,
            access_log=None,  # type: ignore[arg-type]  # aiohttp takes None for "no access log"
            keepalive_timeout=KEEPALIVE_S,
            lingering_time=LINGER_S,
            auto_decompress=False,  # a compressed body is refused by name, not inflated
        )
        self._refuse = refuse
        #: Loop time at which the wait for a header began; 0 while none is awaited.
        self._header_since = listener.loop.time()

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and note whether a header is begun and not complete."""
        before = self._request_count
        super().data_received(data)
        if self._request_count != before:
            self._header_since = 0.0
        elif not self._header_since and self._waiter is not None:
            self._header_since = self._loop.time()

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Go on reading, if it was paused. aiohttp asks for it after every body it hands out and then runs its parser
        over nothing (4 us of every request); not paused means that there is nothing left to parse."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def header_overdue(self, now: float) -> bool:
        """Whether the client has had `HEADER_MAX_S` for a header and has not finished it."""
        return bool(self._header_since) and now - self._header_since > HEADER_MAX_S

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to bytes that are not HTTP (the server's handler answers every other error itself)."""
        reason = " ".join((message or "").split())[:200]
        return self._refuse(Problem("malformed-request", f"the request is not HTTP/1.1: {reason}"))


class Listener(web.Server):
    """Makes a `Connection` for each client. `handler_cancellation`: a closed connection ends the wait behind it."""

    def __init__(self, handler: Callable[..., object], refuse: Refuse) -> None:
        super().__init__(handler, handler_cancellation=True)  # type: ignore[arg-type]
        self.loop = self._loop
        self._refuse = refuse

    def __call__(self) -> RequestHandler:
        return Connection(self, self._refuse)

    def close_overdue(self, now: float) -> int:
        """Close connections whose header does not come; how many."""
        overdue = [each for each in self.connections if isinstance(each, Connection) and each.header_overdue(now)]
        for connection in overdue:
            connection.force_close()
        return len(overdue)
