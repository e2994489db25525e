"""The figures of the report add up over buckets, whatever is added to whatever, and are those of a plain count."""

import json
import pickle
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ledger.bucket import TERM
from ledger.columns import DUPLICATES, LEDGER, Cause, empty_columns
from ledger.judge import Ledger
from reconcile.report.bins import BASE_MS, COUNT_MAX, STEPS_MS, Bins
from reconcile.report.figures import LATE_EDGES_MS, Figures
from tests.examples import examples

EPOCH_MS = 1_800_000_000_000
Seen = tuple[int, int, int]  # first_ms after the epoch, lateness, term
Again = tuple[int, int, int, int]  # before_ms and at_ms after the epoch, cause, term

messages = st.lists(st.tuples(st.integers(0, 9_000_000), st.integers(-3, 90_000_000), st.integers(1, 3)), max_size=30)
duplicates = st.lists(
    st.tuples(st.integers(0, 60_000), st.integers(0, 60_000), st.integers(1, 6), st.integers(2, 3)), max_size=10
)


def ledger(seen: list[Seen], again: list[Again], never: int = 2) -> Ledger:
    """Messages handed over, `never` that were not, and duplicates."""
    rows = empty_columns(LEDGER, len(seen) + never)
    for place, (first_ms, late_ms, term) in enumerate(seen):
        rows["first_ms"][place], rows["late_ms"][place] = EPOCH_MS + first_ms, late_ms
        rows["term"][place] = term
    more = empty_columns(DUPLICATES, len(again))
    for place, (before_ms, at_ms, cause, term) in enumerate(again):
        more["before_ms"][place], more["at_ms"][place] = EPOCH_MS + before_ms, EPOCH_MS + at_ms
        more["cause"][place], more["term"][place] = cause, term
    return Ledger(rows, more)


TERMS = ((1, 1, 0), (2, 2, 30_000), (3, 1, 40_000))


def terms() -> Any:
    """Three terms; the second begins 30 s after the epoch, the third 10 s later."""
    return np.array([(term, node, 0, EPOCH_MS + at_ms, 0, 0, 0, 0, 0, 0, 0) for term, node, at_ms in TERMS], TERM)


def figures(seen: list[Seen], again: list[Again]) -> Figures:
    """Of one bucket with these."""
    return Figures.of(ledger(seen, again), terms())


@examples(60)
@given(messages, messages, messages, duplicates, duplicates)
def test_sum_does_not_depend_on_how_it_is_taken(
    one: list[Seen], two: list[Seen], three: list[Seen], again: list[Again], more: list[Again]
) -> None:
    """Any order and grouping of buckets gives the same document; so does one bucket with all of it."""
    a, b, c = figures(one, again), figures(two, more), figures(three, [])
    whole = (a + b + c).document()
    assert (c + (b + a)).document() == whole
    assert (Figures() + a + (c + b) + Figures()).document() == whole
    if one and two:  # a bucket without a hand-over has no duplicates either
        assert figures(one + two + three, again + more).document() == whole
    assert json.loads(json.dumps(whole, allow_nan=False)) == whole
    assert pickle.loads(pickle.dumps(a)).document() == a.document()


@examples(60)
@given(messages, duplicates)
def test_nothing_is_left_out(seen: list[Seen], again: list[Again]) -> None:
    """Every first hand-over is in one class of lateness and in one bin, every duplicate under its cause."""
    found = figures(seen, again)
    document = found.document()
    assert document["handed_over"] == len(seen)
    assert document["early"] + sum(count for _, count in document["late_classes"]) == len(seen)
    assert sum(document["over_time"]["handed_over"]) == len(seen)
    if seen:
        by_cause = {cause: sum(column) for cause, column in document["over_time"]["duplicates"].items()}
        assert by_cause == {
            cause.name.lower(): sum(row[2] == cause for row in again) for cause in Cause if cause is not Cause.NONE
        }
        assert document["lateness_ms"]["max"] == max(late_ms for _, late_ms, _ in seen)


@examples(60)
@given(st.lists(st.integers(0, 10_000_000), min_size=1, max_size=200))
def test_percentiles_are_those_of_the_values(late_ms: list[int]) -> None:
    """Each percentile is the value of its rank, exact below 200 ms, at most 1 % too small above."""
    found = figures([(0, value, 1) for value in late_ms], []).lateness()
    ranked = sorted(late_ms)
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)):
        exact = ranked[int(np.ceil(share * len(ranked))) - 1]
        value = found[name]
        assert value is not None
        assert value == exact if exact < 200 else 0.989 * exact <= value <= exact


def test_classes_rise() -> None:
    """Lower edges are strictly rising, so that a lateness is in exactly one class."""
    assert (np.diff(LATE_EDGES_MS) > 0).all()
    assert (np.diff(STEPS_MS) > 0).all()


def test_bins_stay_few_however_long_the_time() -> None:
    """A month of hand-overs is kept in at most so many bins, of a width that is a power of two of the narrowest."""
    whole = Bins()
    for day in (3, 29, 0, 15):
        times_ms = EPOCH_MS + day * 86_400_000 + np.arange(0, 3_600_000, 1_000)
        none = np.zeros(0, np.int64)
        whole += Bins.of(times_ms, np.full(len(times_ms), day), none, none)
    assert len(whole.late) <= COUNT_MAX
    assert whole.late.sum() == 4 * 3_600
    assert (whole.width_ms // BASE_MS).bit_count() == 1
    assert len(whole.at_most(100).late) <= 100
    assert whole.at_most(100).late.sum() == whole.late.sum()
    assert whole.latest_ms.max() == 29


def test_change_of_terms_is_seen_with_its_gap_and_its_duplicates() -> None:
    """Who handed over before and after, how long nobody did, and each failover duplicate as made and made again."""
    seen = [(29_000, 0, 1), (29_480, 1, 1), (30_130, 600, 2), (30_131, 5, 2), (70_000, 0, 3)]
    again: list[Again] = [(29_478, 30_120, Cause.FAILOVER, 2), (29_000, 34_000, Cause.LEASE_ENDED, 2)]
    (second,) = (each for each in figures(seen, again).document()["around"] if each["term"] == 2)
    assert second["gap_ms"] == 650
    assert (sum(second["earlier"]), sum(second["later"])) == (2, 2)
    assert second["pairs_ms"] == [[-522, 120]]
    assert second["failover"] == 1
    place = (-520 - second["from_ms"]) // second["step_ms"]
    assert second["earlier"][place] == 1


def test_gap_is_the_same_however_far_the_buckets_are_apart() -> None:
    """Found by Hypothesis: a bucket whose hand-overs were not near enough to be drawn was not asked for its last one,
    so that the gap depended on how messages fell into buckets."""
    parts = [figures([(first_ms, 0, term)], []) for first_ms, term in ((0, 1), (0, 1), (30_000, 2))]
    whole = figures([(0, 0, 1), (0, 0, 1), (30_000, 0, 2)], [])
    assert (parts[0] + parts[1] + parts[2]).document() == whole.document()
    assert whole.document()["around"][0]["gap_ms"] == 30_000
