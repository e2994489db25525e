"""The median of the nodes' clocks, as a follower learns it from heartbeats. Heartbeats that were held up do not count.

A heartbeat says what the median was when it was sent. It may wait in the socket of a stopped process, or in a network
that stood still. Then this node's clock seems ahead by that wait. The leader's stamp, its time of sending, shows the
wait:

    arrival - stamp     an unknown constant + the time on the way
    the least of them   the constant + the shortest time on the way
    beyond the least    how long this heartbeat waited, at least

So a heartbeat counts if it waited less than half a heartbeat period longer than the quickest one. Heartbeats that
waited together arrive together, and each waited one period less than the one before. So the first heartbeat of a new
leader does not count. A heartbeat counts if it is not much quicker than the quickest one before it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

DRIFT: Final = 1e-3
"""The rates of two monotonic clocks differ by at most this share: 500 ppm each."""
SLOW_S: Final = 10.0
"""If no heartbeat was quick for this time, all of them take longer now, and the quickest one is found anew."""


class Median(NamedTuple):
    """The median of the nodes' clocks, `ms`, at the monotonic second `at_s` of this node.

    The true median may be lower by up to `slack_ms`. A leader assumes that an echo takes half of the round trip, but
    one direction may be slower than the other.
    """

    ms: float
    at_s: float
    slack_ms: float = 0.0


class MedianHeard:
    """The medians that one follower heard. `told` is the newest one from a heartbeat that counted, None before the
    first. `beat_s` is the heartbeat period in seconds.
    """

    def __init__(self, beat_s: float) -> None:
        self.told: Median | None = None
        self._slack_s = beat_s / 2
        self._leader: tuple[str, int] = ("", 0)
        self._least: tuple[float, float] = (0.0, 0.0)  # of this leader: arrival - stamp, and the arrival
        self._quick_s = 0.0  # arrival of the newest that was not slow

    def hear(self, leader: tuple[str, int], stamp_s: float, median_ms: int, now_s: float, slack_ms: int = 0) -> bool:
        """Take a heartbeat of this leader (node id, term). True if it counts.

        `stamp_s`: the time of sending by the leader's monotonic clock. `now_s`: the time of arrival by this node's.
        """
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
