"""Calls a step of the leader's work at two times. One is the end of a loop iteration in which something changed. The
other is the time that the last step asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from node.runtime.clock import NodeClock

LOOK_S: Final = 0.5
"""No timer is set for longer than this; after it the timer is set again. Timers go by the loop's clock, and the node
clock may move away from that: it is slewed, or no longer held back, or the computer slept."""


class StepAlarm:
    """Calls `step`, which does all that is due and returns the time of the next step in milliseconds of the node clock.

    If `step` returns None, it is called again only after `poke` or `by`. An error of `step` goes to `failed`, which
    ends the node.
    """

    def __init__(self, clock: NodeClock, step: Callable[[], int | None], failed: Callable[[Exception], None]) -> None:
        self._clock = clock
        self._step = step
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._poked = False
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_s = 0.0  # when the timer goes off, in the loop's time
        self._at_ms = 0  # the millisecond of the node clock for which it was set
        self._over = False

    def poke(self) -> None:
        """Call `step` at the end of this loop iteration, because something changed. Many calls of `poke` before that
        make one step.
        """
        if not self._poked and not self._over:
            self._poked = True
            self._loop.call_soon(self._turn)

    def by(self, at_ms: int) -> None:
        """Call `step` when the node clock shows `at_ms`, or before."""
        if self._poked or self._over:
            return
        if self._alarm is not None:
            at_ms = min(at_ms, self._at_ms)
        # The clock is read anew. The time that the step read was rounded down, and is over by now.
        wait_s = self._clock.until_s(at_ms)
        if wait_s <= 0:
            self.poke()
            return
        alarm_s = self._loop.time() + min(wait_s, LOOK_S)
        self._at_ms = at_ms
        if self._alarm is None or alarm_s < self._alarm_s:
            self._silence()
            self._alarm, self._alarm_s = self._loop.call_at(alarm_s, self._ring), alarm_s

    def end(self) -> None:
        """Call `step` no more."""
        self._over = True
        self._silence()

    def _ring(self) -> None:
        """Called by the timer. Call `step` if its time has come, else set the timer again. The timer may ring a moment
        early, because some loops count whole milliseconds.
        """
        self._alarm = None
        if self._clock.until_s(self._at_ms) > 0:
            self.by(self._at_ms)
        else:
            self._turn()

    def _turn(self) -> None:
        self._poked = False
        if self._over:
            return
        self._silence()
        try:
            at_ms = self._step()
        except Exception as error:  # a callback's exception would only be logged
            self._failed(error)
            return
        if at_ms is not None:
            self.by(at_ms)

    def _silence(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
