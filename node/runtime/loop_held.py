"""The histogram `hourwheel_loop_held_seconds`: how long single steps held the event loop, by cause.

- `work`: the loop's thread ran, by its processor time. Our code does too much in one step.
- `blocked`: it waited for a disk or for Python's interpreter lock. Our code waits in a step.
- `unscheduled`: it waited for a processor, or the process was stopped. The computer has too few processors.

The time of one hold is split by these causes. Each part of at least LEAST_MS is an observation of its own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

BUCKETS_MS: Final = (5, 10, 20, 50, 100, 250, 400, 1_000, 2_500, 10_000)
#: Shorter parts are not counted, because the timers are not more exact than this.
LEAST_MS: Final = 5.0

KINDS: Final = ("work", "blocked", "unscheduled")


@dataclass(frozen=True, slots=True)
class Hold:
    """A time for which the loop answered no client, split by cause. `doing` are calls that the loop's thread was in,
    the newest first.
    """

    work_ms: float
    blocked_ms: float
    unscheduled_ms: float
    doing: tuple[str, ...] = ()
    seen: int = 0  # how many of the samples showed `doing`
    samples: int = 0

    @property
    def held_ms(self) -> float:
        """The length of the hold in ms."""
        return self.work_ms + self.blocked_ms + self.unscheduled_ms

    @property
    def own_ms(self) -> float:
        """The part of the hold that our code caused, in ms."""
        return self.work_ms + self.blocked_ms


class LoopHeld(Collector):
    """Collects holds and gives them to Prometheus as a histogram."""

    def __init__(self) -> None:
        self._counts = {kind: [0] * (len(BUCKETS_MS) + 1) for kind in KINDS}
        self._sums_ms = dict.fromkeys(KINDS, 0.0)

    def observe(self, hold: Hold) -> None:
        """Count one hold."""
        for kind, part_ms in zip(KINDS, (hold.work_ms, hold.blocked_ms, hold.unscheduled_ms), strict=True):
            if part_ms >= LEAST_MS:
                self._counts[kind][bisect_left(BUCKETS_MS, part_ms)] += 1
                self._sums_ms[kind] += part_ms

    def collect(self) -> Iterator[Metric]:
        """Yield the histogram, for the registry of Prometheus."""
        family = HistogramMetricFamily(
            "hourwheel_loop_held_seconds", "How long a step of the event loop kept everybody waiting", labels=["by"]
        )
        names = [*(f"{ms / 1000:g}" for ms in BUCKETS_MS), "+Inf"]
        for kind in KINDS:
            total, buckets = 0, []
            for name, count in zip(names, self._counts[kind], strict=True):
                total += count
                buckets.append((name, total))
            family.add_metric([kind], buckets=buckets, sum_value=self._sums_ms[kind] / 1000)
        yield family
