"""The times at which a loop of the leader takes its steps. One is at the end of an iteration in which something
changed. The other is the time that the step before it named."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from node.runtime.clock import NodeClock

LOOK_S: Final = 0.5
"""No alarm is set for later than this. Then it is set again, because alarms go by the loop's clock. The node clock may
leave that one: it is slewed, or held back no more, or the machine sleeps."""


class StepAlarm:
    """Calls `step`, which does all that is due and returns the time of the next one, in milliseconds of the node clock.
    None means that the next step comes when something is told. An error of `step` goes to `failed`, which ends the
    node."""

    def __init__(self, clock: NodeClock, step: Callable[[], int | None], failed: Callable[[Exception], None]) -> None:
        self._clock = clock
        self._step = step
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._poked = False
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_s = 0.0  # when it rings, in the loop's time
        self._at_ms = 0  # for which millisecond it was set
        self._over = False

    def poke(self) -> None:
        """Step at the end of this loop iteration, because something changed. Many pokes before it are one step."""
        if not self._poked and not self._over:
            self._poked = True
            self._loop.call_soon(self._turn)

    def by(self, at_ms: int) -> None:
        """Step no later than this."""
        if self._poked or self._over:
            return
        if self._alarm is not None:
            at_ms = min(at_ms, self._at_ms)
        # The clock as of now, not that of the step. The step's clock is rounded down, and the step took its time.
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
        """Take no step any more."""
        self._over = True
        self._silence()

    def _ring(self) -> None:
        """Step if the time has come, else set the alarm again. A loop that counts whole milliseconds rings a moment
        early."""
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
