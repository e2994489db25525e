"""What the pictures show, counted where a bucket is judged: small, and it adds up.

A picture of a hundred million messages needs a few thousand numbers. `Figures.of` takes them from one bucket's ledger,
`+` joins two of them, in any order and grouping with the same result; so the ledger is read once, where it is made.

Time is cut into bins of 100 ms, doubled as often as it takes to keep at most 1,024 of them: nobody has to say before
which time the records span. Lateness is counted in classes of 1 % above 200 ms, of 1 ms below.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from ledger.bucket import Rows
from ledger.columns import CAUSE_WORDS, Cause
from ledger.judge import Ledger
from reconcile.report.bins import Bins
from storage.format.array import I64

#: Around a change of terms: from so long before the new term began to so long after it, and how finely.
AROUND_FROM_MS, AROUND_UNTIL_MS, AROUND_STEP_MS = -2_000, 4_000, 20
AROUND_COUNT: Final = (AROUND_UNTIL_MS - AROUND_FROM_MS) // AROUND_STEP_MS
#: So far from the change the last hand-over before it and the first after it are looked for.
GAP_WITHIN_MS: Final = 60_000
#: Duplicates drawn one by one around one change.
PAIRS_MAX: Final = 400
_NEVER_MS: Final = np.iinfo(np.int64).max


def _late_edges() -> I64:
    """Lower edges of the classes of lateness, ms: below zero (early), then up to a day and more."""
    coarse = np.geomspace(200, 86_400_000, 1_305)
    return np.unique(np.concatenate(([-(2**62)], np.arange(200), coarse.round()))).astype(np.int64)


LATE_EDGES_MS: Final = _late_edges()
PERCENTILES: Final = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9}


@dataclass(frozen=True)
class Around:
    """Hand-overs around the begin of term `term` at `begun_ms`: first ones in steps of AROUND_STEP_MS by whether an
    earlier term made them, and its failover duplicates as pairs (made first, made again), times relative to the begin.
    """

    term: int
    begun_ms: int
    earlier: I64  # [AROUND_COUNT]
    later: I64
    last_before_ms: int = -_NEVER_MS
    """Of the hand-overs before the begin, the last; relative to it, as all times here."""
    first_after_ms: int = _NEVER_MS
    pairs: tuple[tuple[int, int], ...] = ()
    """Sorted; at most PAIRS_MAX of `pair_count`."""
    pair_count: int = 0

    def __add__(self, other: Around) -> Around:
        return replace(
            self,
            earlier=self.earlier + other.earlier,
            later=self.later + other.later,
            last_before_ms=max(self.last_before_ms, other.last_before_ms),
            first_after_ms=min(self.first_after_ms, other.first_after_ms),
            pairs=tuple(sorted(self.pairs + other.pairs)[:PAIRS_MAX]),
            pair_count=self.pair_count + other.pair_count,
        )

    @property
    def gap_ms(self) -> int | None:
        """Without any first hand-over, across the change; None where there is none within GAP_WITHIN_MS on one side."""
        seen = self.last_before_ms > -_NEVER_MS and self.first_after_ms < _NEVER_MS
        return self.first_after_ms - self.last_before_ms if seen else None

    def document(self) -> dict[str, Any]:
        """For report.json."""
        return {
            "term": self.term,
            "begun_ms": self.begun_ms,
            "gap_ms": self.gap_ms,
            "from_ms": AROUND_FROM_MS,
            "step_ms": AROUND_STEP_MS,
            "earlier": self.earlier.tolist(),
            "later": self.later.tolist(),
            "failover": self.pair_count,
            "pairs_ms": [list(pair) for pair in self.pairs],
        }


@dataclass(frozen=True)
class Figures:
    """Counts that the report draws; `Figures()` is of no messages."""

    late: I64 = field(default_factory=lambda: np.zeros(len(LATE_EDGES_MS), np.int64))
    """First hand-overs by class of lateness."""
    late_max_ms: int | None = None
    bins: Bins = field(default_factory=Bins)
    around: dict[int, Around] = field(default_factory=dict)
    """By the term that began."""

    @classmethod
    def of(cls, ledger: Ledger, terms: Rows) -> Figures:
        """Of one bucket; `terms` are TERM rows of the whole reckoning."""
        handed_over = ledger.messages["first_ms"] > 0
        first_ms = ledger.messages["first_ms"][handed_over].astype(np.int64)
        late_ms = ledger.messages["late_ms"][handed_over].astype(np.int64)
        if not len(first_ms):
            return cls()
        again = ledger.duplicates
        return cls(
            late=np.bincount(np.searchsorted(LATE_EDGES_MS, late_ms, "right") - 1, minlength=len(LATE_EDGES_MS)),
            late_max_ms=int(late_ms.max()),
            bins=Bins.of(first_ms, late_ms, again["at_ms"].astype(np.int64), again["cause"]),
            around={each.term: each for each in _around(ledger, handed_over, first_ms, terms)},
        )

    def __add__(self, other: Figures) -> Figures:
        around = dict(self.around)
        for term, each in other.around.items():
            around[term] = around[term] + each if term in around else each
        latest = [value for value in (self.late_max_ms, other.late_max_ms) if value is not None]
        return Figures(self.late + other.late, max(latest, default=None), self.bins + other.bins, around)

    def lateness(self) -> dict[str, float | int | None]:
        """Percentiles and maximum in ms, None without a hand-over. A percentile is the lower edge of its class: right
        below 200 ms, at most 1 % too small above."""
        count = int(self.late.sum())
        if not count:
            return {**dict.fromkeys(PERCENTILES), "max": None}
        ranks = np.ceil(np.array(list(PERCENTILES.values())) / 100 * count)
        places = np.searchsorted(np.cumsum(self.late), ranks)
        values = [int(LATE_EDGES_MS[place]) if place else -1 for place in places.tolist()]
        return {**dict(zip(PERCENTILES, values, strict=True)), "max": self.late_max_ms}

    def document(self) -> dict[str, Any]:
        """For report.json: plain numbers, every list in order of time or of lateness. `early`: below zero; a class of
        `classes` is [lower edge in ms, first hand-overs]."""
        used = np.flatnonzero(self.late[1:]) + 1
        return {
            "handed_over": int(self.late.sum()),
            "lateness_ms": self.lateness(),
            "early": int(self.late[0]),
            "late_classes": [[int(LATE_EDGES_MS[place]), int(self.late[place])] for place in used],
            "over_time": self.bins.document(),
            "causes": [word for word in CAUSE_WORDS if word and word != "none"],
            "around": [self.around[term].document() for term in sorted(self.around)],
        }


def _around(ledger: Ledger, handed_over: Any, first_ms: I64, terms: Rows) -> Iterator[Around]:
    """One for each change of terms that a hand-over of this bucket is near."""
    changes = terms[terms["begun_ms"] > 0][1:]
    near = changes["begun_ms"] + GAP_WITHIN_MS > first_ms.min()
    near &= changes["begun_ms"] - GAP_WITHIN_MS <= first_ms.max()
    failover = ledger.duplicates["cause"] == Cause.FAILOVER
    near |= np.isin(changes["term"], ledger.duplicates["term"][failover])
    if not near.any():
        return
    order = np.argsort(first_ms, kind="stable")
    times_ms, made_in = first_ms[order], ledger.messages["term"][handed_over][order]
    for change in changes[near]:
        term, begun_ms = int(change["term"]), int(change["begun_ms"])
        wide_ms, drawn_ms = (-GAP_WITHIN_MS, 0, GAP_WITHIN_MS), (AROUND_FROM_MS, AROUND_UNTIL_MS)
        first, middle, last = np.searchsorted(times_ms, begun_ms + np.array(wide_ms)).tolist()
        low, high = np.searchsorted(times_ms, begun_ms + np.array(drawn_ms)).tolist()
        inside, earlier = times_ms[low:high] - (begun_ms + AROUND_FROM_MS), made_in[low:high] < term
        its = failover & (ledger.duplicates["term"] == term)
        made_ms = ledger.duplicates["before_ms"][its].astype(np.int64) - begun_ms
        again_ms = ledger.duplicates["at_ms"][its].astype(np.int64) - begun_ms
        pairs = sorted(zip(made_ms.tolist(), again_ms.tolist(), strict=True))
        yield Around(
            term,
            begun_ms,
            earlier=np.bincount(inside[earlier] // AROUND_STEP_MS, minlength=AROUND_COUNT),
            later=np.bincount(inside[~earlier] // AROUND_STEP_MS, minlength=AROUND_COUNT),
            last_before_ms=int(times_ms[middle - 1]) - begun_ms if first < middle else -_NEVER_MS,
            first_after_ms=int(times_ms[middle]) - begun_ms if middle < last else _NEVER_MS,
            pairs=tuple(pairs[:PAIRS_MAX]),
            pair_count=len(pairs),
        )
