"""Passing a request on to the leader, once.

A request is sent at most once: where the connection broke after it may have been read, the outcome is not known and the
client is told so, because without a key a second sending could schedule a second message. While there is no leader the
request waits for one, a little longer than an election takes, since nothing has been proposed yet.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable

import aiohttp
from yarl import URL

from api.port import ForwardAnswer, ForwardRequest
from api.problem import Problem

#: How long a request waits for a leader to appear.
LEADER_WAIT_S = 2.0
#: Methods that change nothing, so that a lost answer is no unknown outcome.
SAFE = ("GET", "HEAD")
#: Longest answer: a pull that waits 30 s, and then some.
ANSWER_TIMEOUT_S = 45.0


class Forwarder:
    """One client session of this node; `leader_http` gives the leader's host:port, None while there is none."""

    def __init__(self, leader_http: Callable[[], str | None]) -> None:
        self._leader_http = leader_http
        self._changed = asyncio.Event()
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Open the session."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=15),
            timeout=aiohttp.ClientTimeout(total=ANSWER_TIMEOUT_S, sock_connect=1.0),
            auto_decompress=False,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def close(self) -> None:
        """Close the session; requests under way end."""
        if self._session is not None:
            await self._session.close()

    def leader_changed(self) -> None:
        """Wake the requests that wait for a leader."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def forward(self, request: ForwardRequest) -> ForwardAnswer:
        """Raises `no-leader` (nothing was sent) or `outcome-unknown`."""
        assert self._session is not None
        address = await self._leader()
        try:
            async with self._session.request(
                request.method,
                URL(f"http://{address}{request.target}", encoded=True),  # as it came: the leader decodes it
                headers=request.headers,
                data=io.BytesIO(request.body) if request.body else None,
                allow_redirects=False,
            ) as answer:
                return ForwardAnswer(answer.status, answer.headers, await answer.read())
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            raise Problem("no-leader", "the leader does not take connections; nothing was sent") from None
        except (aiohttp.ClientError, TimeoutError, OSError) as broken:
            if request.method in SAFE:
                raise Problem("no-leader", "the leader did not answer; nothing happened") from None
            raise Problem(
                "outcome-unknown",
                f"the leader's answer did not come ({type(broken).__name__}); send again with the same key",
            ) from None

    async def _leader(self) -> str:
        deadline = asyncio.get_running_loop().time() + LEADER_WAIT_S
        while (address := self._leader_http()) is None:
            left_s = deadline - asyncio.get_running_loop().time()
            try:
                await asyncio.wait_for(self._changed.wait(), left_s)
            except TimeoutError:
                raise Problem("no-leader", "no leader was elected yet; nothing was sent") from None
        return address
