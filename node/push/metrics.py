"""Counts push attempts by outcome and duration. No id, URL or topic is a label, because there are too many of them, and
they may be confidential."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from node.port.failure_code import REASONS

#: Upper bounds of the histogram, 1 ms x 2^k up to past the longest timeout.
BUCKETS_S: Final = tuple(2**power / 1000 for power in range(20))


class PushMetrics(Collector):
    """The counts of one node since it started. `on_wire` and `staged` are called at each scrape."""

    def __init__(self, on_wire: Callable[[], int], staged: Callable[[], int]) -> None:
        self._on_wire = on_wire
        self._staged = staged
        self._codes: Counter[int] = Counter()
        self._buckets = [0] * (len(BUCKETS_S) + 1)
        self._sum_s = 0.0

    def count(self, code: int, took_s: float) -> None:
        """Count one attempt that has ended with this code. `took_s` is the time since it was given to the push wire, 0
        if it never was."""
        self._codes[code] += 1
        self._buckets[bisect_left(BUCKETS_S, took_s)] += 1
        self._sum_s += took_s

    def collect(self) -> Iterator[Metric]:
        """Yield the counts, for the registry."""
        attempts = CounterMetricFamily(
            "hourwheel_push_attempts", "Push attempts that ended, by HTTP class or reason", labels=["outcome"]
        )
        outcomes: Counter[str] = Counter()
        for code, count in self._codes.items():
            outcomes[outcome_of(code)] += count
        for outcome, count in sorted(outcomes.items()):
            attempts.add_metric([outcome], count)
        yield attempts
        yield GaugeMetricFamily("hourwheel_push_on_wire", "Push attempts under way", value=self._on_wire())
        yield GaugeMetricFamily("hourwheel_push_staged", "Ready units that wait for a receiver", value=self._staged())
        took = HistogramMetricFamily("hourwheel_push_seconds", "Hand-over to the end of the attempt")
        buckets, total = [], 0
        for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), self._buckets, strict=True):
            total += count
            buckets.append((bound, total))
        took.add_metric([], buckets=buckets, sum_value=self._sum_s)
        yield took


def outcome_of(code: int) -> str:
    """Return the label for a code: `2xx` to `5xx` for an HTTP status, otherwise the word of its reason."""
    return REASONS.get(code, f"{code // 100}xx" if 100 <= code <= 599 else "other")
