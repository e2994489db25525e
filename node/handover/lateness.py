"""The lateness of every first hand-over, counted in numpy so that no message costs work in Python.

Buckets are powers of 2 in ms and a few long ones, because readers look at the largest values. The last values are kept
as well, so that the status page can show quantiles of recent hand-overs and not of all time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

BUCKETS_MS: Final = np.array(
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 120_000, 300_000, 900_000,
     3_600_000],
    np.int64,
)  # fmt: skip
RECENT: Final = 16_384


class Lateness(Collector):
    """A histogram of hand-over time minus due time, in ms, and the last `RECENT` values."""

    def __init__(self) -> None:
        self._counts = np.zeros(len(BUCKETS_MS) + 1, np.int64)
        self._sum_ms = 0
        self._recent = np.zeros(RECENT, np.int64)
        self._seen = 0

    def observe(self, lateness_ms: npt.NDArray[np.int64]) -> int:
        """Count hand-overs by their lateness, int64[n] in ms. Return the sum of the n values."""
        self._counts += np.bincount(np.searchsorted(BUCKETS_MS, lateness_ms), minlength=len(self._counts))
        sum_ms = int(lateness_ms.sum())
        self._sum_ms += sum_ms
        newest = lateness_ms[-RECENT:]
        self._recent[(self._seen + np.arange(len(newest))) % RECENT] = newest
        self._seen += len(newest)
        return sum_ms

    def quantiles(self) -> dict[str, int]:
        """p50, p99, p99.9 and maximum of the last `RECENT` hand-overs, in ms. Empty before the first hand-over."""
        recent = self._recent[: min(self._seen, RECENT)]
        if not len(recent):
            return {}
        p50, p99, p999, largest = np.quantile(recent, [0.5, 0.99, 0.999, 1.0], method="higher").tolist()
        return {"p50": p50, "p99": p99, "p99_9": p999, "max": largest}

    def collect(self) -> Iterator[Metric]:
        """The histogram, for the registry."""
        family = HistogramMetricFamily("hourwheel_lateness_seconds", "Asked due time to the first hand-over")
        names = [*(f"{ms / 1000:g}" for ms in BUCKETS_MS.tolist()), "+Inf"]
        totals = np.cumsum(self._counts).tolist()
        family.add_metric([], buckets=list(zip(names, totals, strict=True)), sum_value=self._sum_ms / 1000)
        yield family
