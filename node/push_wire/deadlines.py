"""The timeouts of attempts. One timer serves all of them. Deadlines are rounded up to a grid of times, which is enough,
because nearly every attempt ends long before its deadline."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Callable
from typing import Final

from node.push_wire.connection import Exchange

#: Deadlines are rounded up to this.
GRID_S: Final = 0.01
#: If a deadline is noticed this late, the whole process stood still. Bytes in sockets are then read before attempts
#: end.
STOOD_STILL_S: Final = 0.2


class Deadlines:
    """The deadlines of all attempts under way. `passed` is called for each attempt that did not end in time."""

    def __init__(self, passed: Callable[[Exchange], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._passed = passed
        self._slots: dict[int, set[Exchange]] = {}
        self._order: list[int] = []  # a heap of the keys
        self._timer: asyncio.TimerHandle | None = None
        self._timer_slot = 0

    def add(self, exchange: Exchange, seconds: float) -> None:
        """Set the deadline of an attempt to `seconds` from now."""
        exchange.due_s = self._loop.time() + seconds
        slot = math.ceil(exchange.due_s / GRID_S)
        there = self._slots.get(slot)
        if there is None:
            there = self._slots[slot] = set()
            heapq.heappush(self._order, slot)
            self._wake_at(slot)
        there.add(exchange)

    def remove(self, exchange: Exchange) -> None:
        """Remove an attempt that has ended."""
        there = self._slots.get(math.ceil(exchange.due_s / GRID_S))
        if there is not None:
            there.discard(exchange)

    def clear(self) -> None:
        """Forget all deadlines: nothing times out any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._slots.clear()
        self._order.clear()

    def _wake_at(self, slot: int) -> None:
        if self._timer is not None:
            if self._timer_slot <= slot:
                return
            self._timer.cancel()
        self._timer, self._timer_slot = self._loop.call_at(slot * GRID_S, self._come), slot

    def _come(self) -> None:
        """End attempts whose time is over. If the process stood still at that time, and comes here more than
        STOOD_STILL_S late, the answer may wait unread in the socket. Then the attempt gets STOOD_STILL_S more to read
        it. It gets that only once."""
        self._timer = None
        now_s = self._loop.time()
        while self._order and (self._order[0] * GRID_S <= now_s or not self._slots[self._order[0]]):
            slot = heapq.heappop(self._order)
            for exchange in self._slots.pop(slot):
                if exchange.over:
                    continue
                if now_s - slot * GRID_S > STOOD_STILL_S and not exchange.second:
                    exchange.second = True
                    self.add(exchange, STOOD_STILL_S)
                else:
                    self._passed(exchange)
        if self._order:
            self._wake_at(self._order[0])
