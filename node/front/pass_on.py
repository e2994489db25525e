"""Passes a request on to a leader whose build knows no calls between nodes: once, as it came. The next release removes
this file.

A request is sent at most once. If the connection broke after the request may have been read, the outcome is not known.
The client is told so, because without a key a second sending could schedule a second message. While there is no leader
the request waits for one, a little longer than an election takes: nothing has been proposed yet.

When another node leads, the requests that still wait for the former leader's answer end a moment later. The former
leader may be paused, and would answer when it wakes, or never. An answer from before it stepped down is already on its
way, and has that moment to arrive.

A leader that gives its leadership away, or loses it, refuses with `no-leader` or `draining`, which say that nothing was
done. Such a request is sent to the next leader, as long as LEADER_WAIT_S have not passed since it began.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp
import msgspec
from yarl import URL

from api.port.forward import ForwardAnswer, ForwardRequest
from api.port.problem import NO_LEADER_CAME, Problem
from api.routes.pull import NO_MESSAGES
from node.front.give_back import GiveBack, Sending, is_pull
from node.port.peer_port import AGAIN_S, FAREWELL_S, LEADER_WAIT_S
from node.port.refusal import NOTHING_DONE

#: Methods that change nothing. If the answer to one is lost, the client may ask again, so it is no `outcome-unknown`.
SAFE = ("GET", "HEAD")
#: The former leader answers this request even when another node leads, because it is about its own leadership.
TRANSFER = "/v1/cluster/transfer"
#: The former leader also answers a request to remove it from the cluster.
MEMBERS = "/v1/cluster/members/"
#: The longest wait for an answer: a pull waits 30 s, and the rest is margin.
ANSWER_TIMEOUT_S = 45.0


class _Refusal(msgspec.Struct):
    """The one member of a problem document that is read here."""

    code: str = ""


@dataclass(eq=False, slots=True)
class _UnderWay:
    """A request that was sent to a leader: the task that sends it, and the leader's address. `ended` is true once this
    node ended it."""

    task: Sending
    address: str
    ended: bool = False


class Forwarder:
    """The HTTP client with which this node passes requests on. `leader_http` returns the leader's host:port, None while
    there is no leader."""

    def __init__(self, leader_http: Callable[[], str | None]) -> None:
        self._leader_http = leader_http
        self._changed = asyncio.Event()
        self._under_way: dict[_UnderWay, None] = {}  # in order of arrival
        self._session: aiohttp.ClientSession | None = None
        self._give_back = GiveBack(self.forward, self._send)

    async def start(self) -> None:
        """Open the session."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=15),
            timeout=aiohttp.ClientTimeout(total=ANSWER_TIMEOUT_S, sock_connect=1.0),
            auto_decompress=False,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        # aiohttp sends DELETE, PUT and GET again by itself when a kept connection breaks. The second try then says that
        # nothing was sent. There is no public switch; aiohttp's own test client sets this one.
        assert self._session._retry_connection is True, "aiohttp has moved its switch"
        self._session._retry_connection = False

    async def close(self) -> None:
        """Close the session. Requests that still wait for an answer end without one."""
        await self._give_back.close()
        if self._session is not None:
            await self._session.close()

    def leader_changed(self) -> None:
        """Wake the requests that wait for a leader. End, after FAREWELL_S, those that were sent to another node."""
        self._changed.set()
        self._changed = asyncio.Event()
        address = self._leader_http()
        former = [under_way for under_way in self._under_way if under_way.address != address]
        if former:
            asyncio.get_running_loop().call_later(FAREWELL_S, self._end, former)

    def _end(self, former: list[_UnderWay]) -> None:
        for under_way in former:
            if under_way in self._under_way and under_way.address != self._leader_http():
                under_way.ended = True
                under_way.task.cancel()

    async def ask(self, address: str, request: ForwardRequest, within_s: float) -> ForwardAnswer | None:
        """Send the request to the node at this host:port, and return its answer. None if no answer comes within
        `within_s`. The request must be safe to lose."""
        try:
            async with asyncio.timeout(within_s):
                return await self._send(address, request)
        except (Problem, TimeoutError, ValueError):  # a host that no URL can hold is a ValueError
            return None

    async def forward(self, request: ForwardRequest) -> ForwardAnswer:
        """Send the request to the leader. Raises `no-leader` (nothing was sent, or nothing changed) or
        `outcome-unknown`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LEADER_WAIT_S
        while True:
            address = await self._leader(deadline)
            answer = await self._send_once(address, request)
            if answer is None:
                # Nothing was sent. A leader that is gone is given up a moment later. Wait for that, and for the next
                # one.
                if self._leader_http() == address:
                    await self._change(deadline, "the leader does not take connections; nothing was sent")
            elif loop.time() + AGAIN_S >= deadline or not _nothing_done(answer):
                return answer
            elif self._leader_http() == address:
                with contextlib.suppress(Problem):
                    await self._change(loop.time() + AGAIN_S, "")

    async def _send_once(self, address: str, request: ForwardRequest) -> ForwardAnswer | None:
        """Send the request to this address. Return the answer, or None if there was no connection."""
        task = asyncio.current_task()
        assert task is not None
        pulls = is_pull(request)
        if pulls:
            request = self._give_back.numbered(request)
        sending = asyncio.ensure_future(self._send(address, request))
        under_way = _UnderWay(sending, address)
        path = request.target.partition("?")[0]
        if path != TRANSFER and not path.startswith(MEMBERS):
            self._under_way[under_way] = None
        try:
            answer = await asyncio.shield(sending)
        except asyncio.CancelledError:
            if under_way.ended and not task.cancelling():
                raise lost_answer(request, "another node leads now") from None
            if pulls:
                self._give_back.left(address, request, sending)
            else:
                sending.cancel()
            raise
        finally:
            self._under_way.pop(under_way, None)
        if pulls and answer is not None and request.gone():
            self._give_back.unread(request, answer)
            if answer.status == 200:  # a client that only closed its side still reads: send it no messages
                return ForwardAnswer(answer.status, answer.headers, NO_MESSAGES)
        return answer

    async def _send(self, address: str, request: ForwardRequest) -> ForwardAnswer | None:
        assert self._session is not None
        try:
            async with self._session.request(
                request.method,
                URL(f"http://{address}{request.target}", encoded=True),  # as it came: the leader decodes it
                headers=request.headers,
                data=io.BytesIO(request.body) if request.body else None,
                allow_redirects=False,
                skip_auto_headers=("Content-Type",),  # it came without one: the leader knows what is meant
            ) as answer:
                return ForwardAnswer(answer.status, answer.headers, await answer.read())
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            return None
        except (aiohttp.ClientError, TimeoutError, OSError) as broken:
            raise lost_answer(request, f"the leader's answer did not come ({type(broken).__name__})") from None

    async def _leader(self, deadline: float) -> str:
        while (address := self._leader_http()) is None:
            await self._change(deadline, NO_LEADER_CAME)
        return address

    async def _change(self, deadline: float, refusal: str) -> None:
        """Wait until the leader changes. If it has not changed by the loop's second `deadline`, raise `no-leader` with
        the detail `refusal`."""
        try:
            await asyncio.wait_for(self._changed.wait(), deadline - asyncio.get_running_loop().time())
        except TimeoutError:
            raise Problem("no-leader", refusal) from None


def _nothing_done(answer: ForwardAnswer) -> bool:
    """True if the answer of a former leader, or of one that is not yet established, says that nothing was done."""
    if answer.status != 503:
        return False
    try:
        return msgspec.json.decode(answer.body, type=_Refusal).code in NOTHING_DONE
    except msgspec.DecodeError:
        return False


def lost_answer(request: ForwardRequest, why: str) -> Problem:
    """Return the refusal for a request whose answer will not come. A safe method changed nothing, so it may be sent
    again. A pull may have leased messages."""
    if request.method in SAFE:
        return Problem("no-leader", f"{why}; ask again")
    if is_pull(request):
        return Problem("outcome-unknown", f"{why}; what it handed over comes again when its lease has ended")
    return Problem("outcome-unknown", f"{why}; send again with the same key")
