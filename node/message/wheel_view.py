"""Shows the slots of an hour in the second wheel: which seconds have messages, and how many of them are open.

The leader answers from what it has applied. The hour is captured at one moment and read in a thread
(storage/query/seconds.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from api.port.queries import WheelHour, WheelQuery, WheelSecond
from node.handover.term import Leads
from node.message.topic_put import topic_named
from node.runtime.clock import NodeClock
from node.runtime.one_at_a_time import OneAtATime
from replication.snapshot.in_thread import in_thread_until
from storage.format.position import HOUR_MS
from storage.format.rows import Corrupt
from storage.query.seconds import HourSeconds, UsedSeconds
from storage.store import Store

#: At most so many requests look at the wheel or wait to, and at most so many of them take turns.
WAITING_MAX: Final = 64
TAKE_TURNS: Final = 16


class WheelView:
    """Shows hours of the wheel on one node. The caller has checked that the node leads."""

    def __init__(self, store: Store, clock: NodeClock, tick: Callable[[], int]) -> None:
        """`tick` returns the second, since 1970, that is being dispatched."""
        self._store, self._clock, self._tick = store, clock, tick
        self._turns = OneAtATime("looks at the wheel", WAITING_MAX, TAKE_TURNS)

    async def hour(self, query: WheelQuery, leads: Leads) -> WheelHour:
        """Return the used seconds of an hour. Raises `unknown-topic`, `over-limit`. `leads` raises a Problem unless the
        node may answer as leader at this moment."""
        topic = None if query.topic is None else topic_named(self._store, query.topic).number
        async with self._turns.shared() as turn, turn:
            now_ms = self._clock.now_ms()
            number = (now_ms if query.at_ms is None else query.at_ms) // HOUR_MS
            tick = self._tick()
            leads()
            found = await self._seconds(number, topic, now_ms)
        leads()
        rows: list[WheelSecond] = []
        if found is not None:
            second, opened, units = (
                (found.second + number * 3600).tolist(),
                found.open_units.tolist(),
                found.units.tolist(),
            )
            rows = list(map(WheelSecond, second, opened, units))
        return WheelHour(number * HOUR_MS, tick, rows)

    async def _seconds(self, number: int, topic: int | None, now_ms: int) -> UsedSeconds | None:
        """None if the hour has no units."""
        hour = self._store.hour(number)
        if hour is None:
            return None
        look, stop = HourSeconds(hour, topic, now_ms), threading.Event()
        try:
            return await in_thread_until(stop, look.run, stop.is_set)
        except Corrupt:
            if self._store.is_linked(hour):
                raise
            return None
