"""Gives messages back that a passed-on pull brought after its client had gone.

The leader made the lease and wrote its answer, so it must take the messages for received. The node that passed the pull
on is the only way to the client, and knows that the client did not get them.

    client gone -> the leader is asked to end the wait -> its answer -> nothing: done
                                                           |
                                                           '-- messages: given back, uncounted, due at once

A node gives back only messages whose receipts it has read and that it has not passed to the client. If the connection
to the leader broke, an answer with messages may be lost. Their leases run until they end. The node sends a nack that
does not count, and no command Release. The receipts were in an answer, so the messages keep their attempt.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
import structlog

from api.port.forward import ForwardAnswer, ForwardRequest
from api.port.leadership import FORWARDED, WAIT
from api.port.problem import Problem

log = structlog.get_logger()

WAITS: Final = "/v1/cluster/waits"
_PULL: Final = "/pull"
#: How long the answer to a pull may take once its client has gone and the leader is asked to end it. After that the
#: connection closes, which ends the wait too.
ANSWER_S: Final = 1.0

Sending = asyncio.Task[ForwardAnswer | None]


class _Receipt(msgspec.Struct):
    receipt: str


class _Pulled(msgspec.Struct):
    """The parts of the answer to a pull that this file reads: the messages with their receipts."""

    messages: list[_Receipt] = []


def is_pull(request: ForwardRequest) -> bool:
    """True if the request is a consumer's pull."""
    return request.method == "POST" and _path(request).endswith(_PULL)


class GiveBack:
    """The pulls that one forwarder passed on. `forward` sends a request to the leader, `post` sends it to one
    address."""

    def __init__(
        self,
        forward: Callable[[ForwardRequest], Awaitable[ForwardAnswer]],
        post: Callable[[str, ForwardRequest], Awaitable[ForwardAnswer | None]],
    ) -> None:
        self._forward = forward
        self._post = post
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()

    def numbered(self, request: ForwardRequest) -> ForwardRequest:
        """Give the pull a number, by which the leader can be asked to end it."""
        return msgspec.structs.replace(request, headers={**request.headers, WAIT: str(next(self._numbers))})

    def left(self, address: str, request: ForwardRequest, sending: Sending) -> None:
        """End the pull that was sent to this address, and give back what it brings. Call it when the client has gone,
        or when it gets another answer."""
        self._spawn(self._take_back(address, request, sending))

    def unread(self, request: ForwardRequest, answer: ForwardAnswer) -> None:
        """Give back the messages of this answer, which came after the client had gone."""
        self._spawn(self._give_back(request, answer))

    async def close(self) -> None:
        """Cancel the tasks that give messages back, and wait for their end."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take_back(self, address: str, request: ForwardRequest, sending: Sending) -> None:
        answer = None
        try:
            async with asyncio.timeout(ANSWER_S):
                if sending.done() or await self._ended(address, request):
                    answer = await sending
        except (Problem, TimeoutError):
            return  # the answer may have been on the way: its leases run
        finally:
            sending.cancel()
        if answer is not None:
            await self._give_back(request, answer)

    async def _ended(self, address: str, request: ForwardRequest) -> bool:
        """Tell the leader that no client waits for this pull any more. Return true if the leader ended it. An older
        leader, which cannot end single waits, refuses."""
        waits = {"node": request.headers.get(FORWARDED), "wait": int(request.headers[WAIT])}
        asked = ForwardRequest("POST", WAITS, _headers(request), msgspec.json.encode(waits))
        answer = await self._post(address, asked)
        return answer is not None and answer.status == 200

    async def _give_back(self, request: ForwardRequest, answer: ForwardAnswer) -> None:
        receipts = _receipts(answer)
        if not receipts:
            return
        body = msgspec.json.encode({"receipts": receipts, "delay": 0, "counted": False})
        with contextlib.suppress(Problem):  # no node leads: the leases run
            target = f"{_path(request).removesuffix(_PULL)}/nack"
            given = await self._forward(ForwardRequest("POST", target, _headers(request), body))
            log.info("a pull's client had gone", given_back=len(receipts), status=given.status)


def _receipts(answer: ForwardAnswer) -> list[str]:
    """Return the receipts of the messages in this answer. Return no receipts if it cannot be read, as the answer of a
    later build may be."""
    if answer.status != 200:
        return []
    try:
        return [each.receipt for each in msgspec.json.decode(answer.body, type=_Pulled).messages]
    except msgspec.DecodeError:  # malformed, or of another shape
        return []


def _headers(request: ForwardRequest) -> dict[str, str]:
    """Return the headers of a request that this node itself makes about the pull `request`."""
    return {
        **{name: text for name, text in request.headers.items() if name != WAIT},
        "Content-Type": "application/json",
    }


def _path(request: ForwardRequest) -> str:
    return request.target.partition("?")[0]
