"""Hand-overs over time in bins whose width follows from what is counted; two of them add up.

A bin is `t // width_ms`, so bins of one width lie on one another, and a bin of twice the width is two of them: whatever
is added to whatever, in any order, the counts are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ledger.columns import CAUSE_WORDS
from storage.format.array import I64

BASE_MS: Final = 100
COUNT_MAX: Final = 1_024
#: Lower edges of the classes of lateness that are kept over time, ms; the first is of what was early.
STEPS_MS: Final = np.array(
    [-(2**62), 0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70]
    + [100, 150, 200, 300, 500, 700, 1_000, 1_500, 2_000, 3_000, 5_000, 7_000]
    + [10_000, 20_000, 30_000, 60_000, 300_000, 3_600_000, 86_400_000],
    np.int64,
)
_CAUSES: Final = len(CAUSE_WORDS)


def _none(width: int) -> I64:
    return np.zeros((0, width), np.int64)


@dataclass(frozen=True)
class Bins:
    """Row i is of the time from (first + i) * width_ms, UTC ms, on; no rows: nothing counted."""

    width_ms: int = BASE_MS
    first: int = 0
    late: I64 = field(default_factory=lambda: _none(len(STEPS_MS)))  # [n, len(STEPS_MS)] first hand-overs by lateness
    latest_ms: I64 = field(default_factory=lambda: np.zeros(0, np.int64))  # [n] the largest lateness; 0 without any
    again: I64 = field(default_factory=lambda: _none(_CAUSES))  # [n, causes] duplicates by number of the cause

    @classmethod
    def of(cls, first_ms: I64, late_ms: I64, again_ms: I64, causes: np.ndarray[Any, Any]) -> Bins:
        """First hand-overs at `first_ms`, `late_ms` late each, [m]; duplicates at `again_ms` by cause, [k]."""
        times_ms = np.concatenate((first_ms, again_ms))
        if not len(times_ms):
            return cls()
        low_ms, high_ms = int(times_ms.min()), int(times_ms.max())
        width_ms = BASE_MS
        while high_ms // width_ms - low_ms // width_ms >= COUNT_MAX:
            width_ms *= 2
        first = low_ms // width_ms
        count = high_ms // width_ms - first + 1
        places = first_ms // width_ms - first
        classes = np.searchsorted(STEPS_MS, late_ms, "right") - 1
        latest_ms = np.zeros(count, np.int64)
        np.maximum.at(latest_ms, places, late_ms)
        again_places = (again_ms // width_ms - first) * _CAUSES + causes
        return cls(
            width_ms=width_ms,
            first=first,
            late=np.bincount(places * len(STEPS_MS) + classes, minlength=count * len(STEPS_MS)).reshape(count, -1),
            latest_ms=latest_ms,
            again=np.bincount(again_places, minlength=count * _CAUSES).reshape(count, -1),
        )

    def __add__(self, other: Bins) -> Bins:
        if not len(self.late) or not len(other.late):
            return self if len(self.late) else other
        width_ms = max(self.width_ms, other.width_ms)
        one, two = self.wider(width_ms), other.wider(width_ms)
        first = min(one.first, two.first)
        end = max(one.first + len(one.late), two.first + len(two.late))
        while end - first > COUNT_MAX:
            width_ms *= 2
            one, two = one.wider(width_ms), two.wider(width_ms)
            first = min(one.first, two.first)
            end = max(one.first + len(one.late), two.first + len(two.late))
        one, two = one._spread(first, end), two._spread(first, end)
        latest_ms = np.maximum(one.latest_ms, two.latest_ms)
        return Bins(width_ms, first, one.late + two.late, latest_ms, one.again + two.again)

    def wider(self, width_ms: int) -> Bins:
        """The same counts in bins of this width, a multiple of theirs."""
        factor = width_ms // self.width_ms
        if factor == 1 or not len(self.late):
            return Bins(width_ms, self.first // factor, self.late, self.latest_ms, self.again)
        first = self.first // factor
        end = -(-(self.first + len(self.late)) // factor)
        spread = self._spread(first * factor, end * factor)
        return Bins(
            width_ms,
            first,
            spread.late.reshape(end - first, factor, -1).sum(1),
            spread.latest_ms.reshape(end - first, factor).max(1),
            spread.again.reshape(end - first, factor, -1).sum(1),
        )

    def at_most(self, count: int) -> Bins:
        """The same counts in at most so many bins."""
        found = self
        while len(found.late) > count:
            found = found.wider(found.width_ms * 2)
        return found

    def _spread(self, first: int, end: int) -> Bins:
        """With empty rows before and after, from `first` up to `end`."""
        before, after = self.first - first, end - self.first - len(self.late)
        return Bins(
            self.width_ms,
            first,
            np.pad(self.late, ((before, after), (0, 0))),
            np.pad(self.latest_ms, (before, after)),
            np.pad(self.again, ((before, after), (0, 0))),
        )

    def percentile_ms(self, share: float) -> list[float | None]:
        """Of each bin, by straight lines within the classes; None without hand-overs. Below zero counts as -1."""
        found: list[float | None] = []
        edges = STEPS_MS.tolist()
        for counts, latest_ms in zip(self.late, self.latest_ms.tolist(), strict=True):
            sums = np.cumsum(counts)
            if not sums[-1]:
                found.append(None)
                continue
            rank = share * sums[-1]
            place = int(np.searchsorted(sums, rank))
            if place == 0:
                found.append(-1.0)
                continue
            upper = min(edges[place + 1] if place + 1 < len(edges) else latest_ms, max(latest_ms, edges[place]))
            inside = (rank - sums[place - 1]) / counts[place]
            found.append(round(edges[place] + inside * max(0, upper - edges[place]), 1))
        return found

    def document(self, count_max: int = 300) -> dict[str, Any]:
        """For report.json, columns of one length."""
        bins = self.at_most(count_max)
        return {
            "from_ms": bins.first * bins.width_ms,
            "step_ms": bins.width_ms,
            "handed_over": bins.late.sum(1).tolist(),
            "late_p50_ms": bins.percentile_ms(0.5),
            "late_p99_ms": bins.percentile_ms(0.99),
            "late_max_ms": bins.latest_ms.tolist(),
            "duplicates": {
                word: bins.again[:, number].tolist() for number, word in enumerate(CAUSE_WORDS) if word and number
            },
        }
