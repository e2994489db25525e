"""The node clock: the one home of time in a process.

Wall clocks step. A scheduler that follows a step back hands over twice, and one that follows a step forward hands over
early. So the node clock is monotonic time plus an offset. The offset is slewed towards the wall clock at 500 ppm at
most (NTP daemons use that), and never stepped while leading. A wall clock that steps by more than 500 ms is reported.
The leader then yields rather than lead on a clock that it knows is wrong. While not leading the clock may step at once.

A clock can also be wrong from the start. Echoes of heartbeats carry the clocks of the peers. A leader's stamps stay
within 500 ms of the median of all nodes. So one node with a fast clock does not hand over early for the whole cluster.

Invariant: while `leading`, two readings never differ from the monotonic clock's difference by more than 500 ppm.
"""

from __future__ import annotations

import time
from collections.abc import Callable

SLEW_PPM = 500
STEP_MS = 500
_ROUNDING_S = 1e-5  # seconds since the epoch are exact to 0.24 us in a float: this much later a time has surely come
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # Linux has the first; elsewhere the second counts sleep


def since_boot() -> float:
    """Seconds that only ever grow, and grow while the machine sleeps too. So a leader that slept is not trusted when it
    wakes. `time.monotonic` stands still meanwhile."""
    return time.clock_gettime(_CLOCK)


class NodeClock:
    """Milliseconds since the epoch that never jump. `wall` and `monotonic` (seconds) come from outside for tests."""

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = since_boot) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._offset_s = wall() - monotonic()
        self._slewed_at_s = monotonic()
        self._held_back_s = 0.0
        self.leading = False

    def monotonic(self) -> float:
        """Seconds that only ever grow, for timeouts and trust."""
        return self._monotonic()

    def now_ms(self) -> int:
        """The node clock, rounded down: a unit that is due at this millisecond is due. Held back where the peers'
        clocks say that it is too far ahead (`bound`)."""
        return int((self._monotonic() + self._offset_s - self._held_back_s) * 1000)

    def ahead_s(self) -> float:
        """The node clock less the monotonic one."""
        return self._offset_s - self._held_back_s

    def until_s(self, at_ms: int) -> float:
        """Seconds until `now_ms` is this millisecond, negative when it is past."""
        return at_ms / 1000 + _ROUNDING_S - (self._monotonic() + self._offset_s - self._held_back_s)

    def own_ms(self) -> int:
        """The node clock before it is held back. Peers compare theirs with it."""
        return int((self._monotonic() + self._offset_s) * 1000)

    def bound(self, median_ms: float) -> None:
        """Stay within 500 ms of the median of the nodes' clocks, which is so far ahead of ours (behind if negative)."""
        self._held_back_s = max(0.0, -median_ms - STEP_MS) / 1000

    def wall_ms(self) -> int:
        """The operating system's wall clock, for stamps that only inform."""
        return int(self._wall() * 1000)

    def error_ms(self) -> float:
        """How far the wall clock is ahead of the node clock."""
        return (self._wall() - self._monotonic() - self._offset_s) * 1000

    def slew(self) -> bool:
        """Move towards the wall clock by what 500 ppm allow since the last call. Call it about once a second.

        Return True when the wall clock has stepped past 500 ms, so that a leader must yield. When not leading, the
        clock then steps to the wall clock at once.
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
    """The time of the parts that serve groups in a process. A group tells it. Until then it is a node clock of its
    own."""

    def __init__(self, clock: NodeClock) -> None:
        self.monotonic = clock.monotonic
        self._ahead_s = clock.ahead_s()

    def follow(self, ahead_s: float) -> None:
        """Follow a group's clock, which is so far ahead of the monotonic one."""
        self._ahead_s = ahead_s

    def now_ms(self) -> int:
        """See NodeClock.now_ms."""
        return int((self.monotonic() + self._ahead_s) * 1000)
