"""The node clock. Every part of a process takes the time from here.

Wall clocks step. A leader that follows a step back hands over twice, and one that follows a step forward hands over
early. So the node clock is monotonic time plus an offset. The offset is slewed towards the wall clock at 500 ppm at
most (NTP daemons use that), and never stepped while the node leads. If the wall clock steps by more than 500 ms, the
caller is told. The leader then yields rather than lead on a clock that it knows is wrong. While the node does not lead,
the clock may step at once.

A clock can also be wrong from the start. Echoes of heartbeats carry the clocks of the peers. A leader's stamps stay at
most 500 ms ahead of the median of all nodes. So one node with a fast clock does not hand over early for the whole
cluster.

Invariant: while `leading`, the time between two readings differs from the monotonic clock's by at most 500 ppm.
"""

from __future__ import annotations

import time
from collections.abc import Callable

SLEW_PPM = 500
STEP_MS = 500
_ROUNDING_S = 1e-5  # a float has seconds since the epoch to 0.24 us, so this much after a time it has surely come
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # on other systems CLOCK_MONOTONIC goes on in sleep


def since_boot() -> float:
    """Seconds that never go back, and that count also while the computer sleeps.

    `time.monotonic` stands still while it sleeps. With the time of this function a leader that slept has no trust when
    it wakes.
    """
    return time.clock_gettime(_CLOCK)


class NodeClock:
    """The time in milliseconds since the epoch, which never jumps while the node leads. `wall` and `monotonic` return
    seconds. Tests give their own.
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = since_boot) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._offset_s = wall() - monotonic()
        self._slewed_at_s = monotonic()
        self._held_back_s = 0.0
        self.leading = False

    def monotonic(self) -> float:
        """Seconds that never go back, for timeouts and trust."""
        return self._monotonic()

    def now_ms(self) -> int:
        """The node clock, rounded down: a unit that is due at this millisecond is due now. While the clock is too far
        ahead of the peers' clocks, this is less than `own_ms` (see `bound`).
        """
        return int((self._monotonic() + self._offset_s - self._held_back_s) * 1000)

    def ahead_s(self) -> float:
        """The difference between the node clock and the monotonic clock, in seconds."""
        return self._offset_s - self._held_back_s

    def until_s(self, at_ms: int) -> float:
        """Seconds until `now_ms` has reached this millisecond, negative if it has passed."""
        return at_ms / 1000 + _ROUNDING_S - (self._monotonic() + self._offset_s - self._held_back_s)

    def own_ms(self) -> int:
        """The node clock without what `bound` takes off. Peers compare their own clocks with it."""
        return int((self._monotonic() + self._offset_s) * 1000)

    def bound(self, median_ms: float) -> None:
        """Keep `now_ms` at most 500 ms ahead of the median of the nodes' clocks. `median_ms` is how far the median is
        ahead of `own_ms`, in ms.
        """
        self._held_back_s = max(0.0, -median_ms - STEP_MS) / 1000

    def wall_ms(self) -> int:
        """The operating system's wall clock, for times that are only shown."""
        return int(self._wall() * 1000)

    def error_ms(self) -> float:
        """How far the wall clock is ahead of `own_ms`, in ms."""
        return (self._wall() - self._monotonic() - self._offset_s) * 1000

    def slew(self) -> bool:
        """Move towards the wall clock by as much as 500 ppm allow since the last call. Call it about once a second.

        Returns True if the wall clock is more than 500 ms off, so that a leader must yield. If the node does not lead,
        the clock then steps to the wall clock at once.
        """
        now_s = self._monotonic()
        allowed_s = (now_s - self._slewed_at_s) * SLEW_PPM / 1e6
        self._slewed_at_s = now_s
        error_s = self._wall() - now_s - self._offset_s
        stepped = abs(error_s) * 1000 > STEP_MS
        if stepped and not self.leading:
            self._offset_s += error_s
        else:
            self._offset_s += max(-allowed_s, min(allowed_s, error_s))
        return stepped


class ProcessClock:
    """The clock of the parts that serve all groups of a process. It shows the time of the node clock `clock` until a
    group calls `follow`, and then that group's time.
    """

    def __init__(self, clock: NodeClock) -> None:
        self.monotonic = clock.monotonic
        self._ahead_s = clock.ahead_s()

    def follow(self, ahead_s: float) -> None:
        """Follow a group's clock, which is `ahead_s` seconds ahead of the monotonic clock."""
        self._ahead_s = ahead_s

    def now_ms(self) -> int:
        """The time in ms since the epoch, rounded down, as in NodeClock."""
        return int((self.monotonic() + self._ahead_s) * 1000)
