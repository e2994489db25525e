"""The push wire of one process: takes attempts of its groups, and reports the outcome of each.

    PushWork -> head.py: the request's head -> client.py: a connection -- may it leave? --> receiver
    PushDone <------------------------------------ answer.py: what was answered <-------------'

Of a group it knows only the number, the TrustWindow and the callback for outcomes. It reads no store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from node.port.failure_code import BAD_URL, error_text
from node.port.push_port import PushDone, PushWork
from node.port.trust_window import TrustWindow
from node.push_wire.answer import Answer
from node.push_wire.connection import Ended
from node.push_wire.head import make_head


class Client(Protocol):
    """Connections to receivers, as node.push_wire.client makes them."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def send(self, work: PushWork, head: bytes) -> None: ...


MakeClient = Callable[[Callable[[PushWork], bool], Ended], Client]
"""Makes a client. It calls the first function right before a request leaves, and the second with each outcome."""


@dataclass(frozen=True, slots=True, eq=False)
class _Attached:
    """A group, from `attach` to `detach`."""

    window: TrustWindow
    done: Callable[[PushDone], None]


class PushWire:
    """The push wire of one process. Implements Receivers. `monotonic` returns the seconds in which TrustWindows are
    measured."""

    def __init__(self, make_client: MakeClient, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._client = make_client(self._may_send, self._ended)
        self._groups: dict[int, _Attached] = {}
        self._under_way: dict[PushWork, _Attached] = {}  # work -> the group that gave it

    async def start(self) -> None:
        """Start the client. Call it before the first `send`."""
        self._loop = asyncio.get_running_loop()
        await self._client.start()

    async def close(self) -> None:
        """Close all connections. Attempts under way are not reported."""
        self._under_way.clear()
        await self._client.close()

    def attach(self, group: int, window: TrustWindow, done: Callable[[PushDone], None]) -> None:
        """See Receivers."""
        assert group not in self._groups, f"group {group} is attached"
        self._groups[group] = _Attached(window, done)

    def detach(self, group: int) -> None:
        """See Receivers."""
        self._groups.pop(group, None)  # a node that could not start attached none

    def send(self, work: PushWork) -> None:
        """See Receivers."""
        attached = self._groups.get(work.group)
        if attached is None:
            return
        self._under_way[work] = attached
        try:
            head = make_head(work)
        except ValueError as wrong:
            self._ended(work, Answer(BAD_URL, str(wrong)), self._loop.time())
            return
        self._client.send(work, head)

    def _may_send(self, work: PushWork) -> bool:
        """True if the request may leave now: its group is attached, its term and its lease go on. It may not leave if
        the connection took so long that the lease ended: then the message may be due again, or cancelled."""
        attached = self._under_way.get(work)
        if attached is None or self._groups.get(work.group) is not attached:
            return False
        return attached.window.covers(work.term, work.lease_end_ms, self._monotonic())

    def _ended(self, work: PushWork, answer: Answer, begun_s: float) -> None:
        """Report the outcome of an attempt to its group. A group that was attached anew since hears nothing, because it
        numbers its work from 1 again."""
        attached = self._under_way.pop(work, None)
        if attached is None or self._groups.get(work.group) is not attached:
            return
        took_us = round((self._loop.time() - begun_s) * 1e6)
        text = error_text(answer.error).decode() if answer.error else ""
        attached.done(PushDone(work.number, answer.code, text, answer.retry_after_ms, took_us))
