"""The hour wheel: which hours are near. It turns once an hour and feeds the second wheel.

Near are two hours before now up to two hours after it. A near hour is mapped: its heads are in memory, its units are
written through, and its used seconds stand in the second wheel's queue. Far hours cost only their files.

An example, started at 10:59:58 with units at 12:30:00 and 13:10:00:

    10:59:58  turn   hour 10: maps 10, 11, 12; the second wheel learns of 12:30:00; wake_ms = 11:00:00
    11:00:00  turn   hour 11: maps 13 as well; the second wheel learns of 13:10:00
    13:00:00  turn   hour 13: maps 15, hour 10 is more than two hours past and is released

An hour is mapped two hours before its first second, so a turn that is late by minutes delays nothing. If the clock
leaps, the hours leaped over are mapped too, because their units are due. There may be thousands of them. So the
dispatcher asks `SecondWheel.leaps` before, and starts new wheels. If the clock goes back, the wheel does not turn back.
"""

from typing import Final, Protocol

import numpy as np

from storage.format.array import I64
from storage.format.position import HOUR_MS
from storage.wheel.second_wheel import SECONDS, SecondWheel

AHEAD: Final = 2
"""Hours after the present one that are mapped."""


class Hours(Protocol):
    """The part of the store that the hour wheel uses."""

    def turn(self, now_hour: int) -> None:
        """Map the hours from two before to two after this one, and release all others."""

    def hours(self, first: int, end: int) -> list[int]:
        """The hours first <= hour < end that hold units, rising."""

    def due_seconds(self, hour: int) -> I64:
        """The absolute seconds of an hour that have units."""


class HourWheel:
    """Maps the hours that become near, in the store and in the second wheel. Call `turn` before the second wheel's
    `loads`."""

    def __init__(self, store: Hours, wheel: SecondWheel, *, start_ms: int) -> None:
        self._store = store
        self._wheel = wheel
        self._now_hour = -1
        self._mapped = start_ms // HOUR_MS  # the second wheel has the hours from the start up to this one (exclusive)

    def turn(self, now_ms: int) -> bool:
        """Map the hours that became near since the last turn. Return True if the hour of `now_ms` is later than at the
        last turn. Otherwise a call does nothing and costs nearly nothing."""
        now_hour = now_ms // HOUR_MS
        if now_hour <= self._now_hour:
            return False
        self._now_hour = now_hour
        self._store.turn(now_hour)
        end = now_hour + AHEAD + 1
        used = [self._store.due_seconds(hour) for hour in self._store.hours(self._mapped, end)]
        self._wheel.use(np.concatenate(used) if used else np.empty(0, np.int64), end * SECONDS)
        self._mapped = max(self._mapped, end)
        return True

    def wake_ms(self, now_ms: int) -> int:
        """The time at which the hour after that of the last turn begins, or `now_ms` if that is past."""
        return max(now_ms, (self._now_hour + 1) * HOUR_MS)
