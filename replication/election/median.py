"""The median of the nodes' clocks as heartbeats tell it to a follower, of those that did not wait on the way.

A heartbeat says what the median showed when it was sent. One that waited, in the socket of a process that was stopped
or in a network that stood still, makes the own clock seem ahead by as long. It shows by the leader's stamp:

    arrival - stamp     a constant nobody knows + the way
    the least of them   the constant + the shortest way
    beyond the least    how long this one waited, at least

So a heartbeat counts if it waited for less than half a beat longer than the quickest one. Those that waited together
arrive together, and each is quicker by a beat than the one before: of a leader that is new the first one that is not
beaten by the next counts.
"""

from __future__ import annotations

from typing import Final, NamedTuple

DRIFT: Final = 1e-3
"""Two monotonic clocks differ in rate by no more: 500 ppm each."""
SLOW_S: Final = 10.0
"""The way has grown longer for good once every heartbeat of so long a time took longer."""


class Median(NamedTuple):
    """Where the median of the nodes' clocks stood, ms, at a monotonic second. It may have been so much less: a leader
    takes half of both ways for the way of an echo, and one may be slower than the other."""

    ms: float
    at_s: float
    slack_ms: float = 0.0


class MedianHeard:
    """What one follower was told. `told`: the median at the moment when that came; None before."""

    def __init__(self, beat_s: float) -> None:
        self.told: Median | None = None
        self._slack_s = beat_s / 2
        self._leader: tuple[str, int] = ("", 0)
        self._least: tuple[float, float] = (0.0, 0.0)  # of this leader: arrival less stamp, and when it came
        self._quick_s = 0.0  # when the newest came that was not slow

    def hear(self, leader: tuple[str, int], stamp_s: float, median_ms: int, now_s: float, slack_ms: int = 0) -> bool:
        """A heartbeat of this leader (node id, term) came; whether it counts. `stamp_s`: when it was sent, by the
        leader's monotonic clock."""
        way_s, (least_s, since_s) = now_s - stamp_s, self._least
        waited_s = way_s - least_s - DRIFT * (now_s - since_s)
        unknown = leader != self._leader or (waited_s > self._slack_s and now_s - self._quick_s > SLOW_S)
        if not unknown and waited_s > self._slack_s:
            return False
        counts = not unknown and waited_s >= -self._slack_s
        self._leader, self._quick_s = leader, now_s
        if unknown or waited_s < 0:
            self._least = way_s, now_s
        if counts:
            self.told = Median(median_ms, now_s, slack_ms)
        return counts
