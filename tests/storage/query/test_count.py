"""Counting an hour's messages; tests/storage/store_model.py holds it against a model, whatever befell the store."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import storage.query.selection
from storage.format.array import I64, U8, U32
from storage.format.batches import SettleBatch
from storage.format.position import HOUR_MS
from storage.format.predicate import Predicate
from storage.format.rows import Corrupt
from storage.format.states import DEAD, DELIVERED, LEASED, PENDING, READY
from storage.query.count import DueTally, HourCount, TooManyBuckets, TopicTally, Total
from storage.query.selection import Selection
from storage.store import Store
from tests.storage.query.tagged import Tagged, tagged_batch
from tests.storage.store_model import ENDED, OPEN
from tests.storage.workload import HOUR, batch_of, checkpoint, move

DUE = HOUR * HOUR_MS


def _count(store: Store, which: Selection, *, hour: int = HOUR, now_ms: int = DUE) -> HourCount:
    source = store.selectable(hour, which)
    assert source is not None
    return HourCount(source, which, now_ms)


def _total(count: HourCount) -> int:
    total = Total()
    count.run(total)
    return total.count


@pytest.mark.parametrize("near", [True, False])
def test_a_count_keeps_its_moment(store: Store, near: bool) -> None:
    """What happens between the two steps (a move within the hour, ends, arrivals, a checkpoint, a turn of the wheel)
    does not show, whether the files or memory held the hour."""
    store.turn(HOUR if near else HOUR + 50)
    first = store.append(batch_of([DUE + ms for ms in range(6)]))
    store.settle(SettleBatch.of(first[:2], what=[LEASED, LEASED], at_ms=1, when=[DUE + 5, DUE]))
    counts = [
        _count(store, Selection(OPEN)),
        _count(store, Selection(frozenset((LEASED,)))),
        _count(store, Selection(ENDED | OPEN)),
    ]
    move(store, first[:3].tolist(), [DUE + 50, DUE + 51, DUE + HOUR_MS], at_ms=2)
    store.settle(SettleBatch.of(first[3:], what=DELIVERED, at_ms=3))
    store.append(batch_of([DUE + 7, DUE + 8]))
    checkpoint(store, 1)
    store.turn(HOUR + 50 if near else HOUR)
    assert [_total(count) for count in counts] == [6, 1, 6]
    assert _total(_count(store, Selection(OPEN))) == store.open_units(HOUR) == 4
    assert _total(_count(store, Selection(ENDED))) == 3
    assert store.selectable(HOUR + 2, Selection(OPEN)) is None
    store.close()


def test_what_needs_no_look_is_not_looked_at(store: Store) -> None:
    """Hours outside the window, and settled ones when open messages are counted; and all open ones are counted without
    reading a unit."""
    first = store.append(batch_of([DUE + 1, DUE + HOUR_MS]))
    store.settle(SettleBatch.of(first[:1], what=DEAD, at_ms=1))
    assert store.selectable(HOUR, Selection(OPEN)) is None
    assert store.selectable(HOUR, Selection(ENDED, Predicate(from_ms=DUE + HOUR_MS))) is None
    assert store.selectable(HOUR + 1, Selection(OPEN, Predicate(to_ms=DUE + HOUR_MS))) is None
    assert Selection(OPEN, Predicate(from_ms=DUE, to_ms=DUE + HOUR_MS)).all_open(HOUR)
    for other in (
        Selection(OPEN, Predicate(from_ms=DUE + 1)),
        Selection(OPEN, Predicate(to_ms=DUE + HOUR_MS - 1)),
        Selection(OPEN, Predicate(topics=frozenset((1,)))),
        Selection(OPEN | ENDED),
        Selection(frozenset((PENDING,))),
    ):
        assert not other.all_open(HOUR)
    store.close()


def test_an_hour_that_is_unlinked_meanwhile(store: Store) -> None:
    """Its files may be gone before they are opened: no damage, as the store says."""
    store.append(batch_of([DUE]))
    checkpoint(store, 1)
    count = _count(store, Selection(OPEN))
    assert store.is_linked(count.source)
    store.unlink(HOUR)
    checkpoint(store, 2)
    assert not store.is_linked(count.source)
    with pytest.raises(Corrupt, match="missing"):
        _total(count)
    store.append(batch_of([DUE]))
    assert not store.is_linked(count.source)
    store.close()


def test_a_count_that_is_stopped(store: Store) -> None:
    """Nothing more is read, and nothing is left open."""
    store.append(batch_of([DUE]))
    total = Total()
    _count(store, Selection(OPEN)).run(total, lambda: True)
    assert total.count == 0
    store.close()


@pytest.mark.parametrize("saved", [True, False])
@pytest.mark.parametrize("read_bytes", [1, 4 << 20])
def test_by_tag(store: Store, monkeypatch: pytest.MonkeyPatch, saved: bool, read_bytes: int) -> None:
    """Records are read only where the mask says that they may carry it, in pieces, and decide where masks collide."""
    monkeypatch.setattr(storage.query.selection, "_READ_BYTES", read_bytes)
    monkeypatch.setattr(storage.query.selection, "_READ_ROWS", 7)
    store.append(tagged_batch(["eu", "us", "else", "asia"] * 10))
    if saved:
        checkpoint(store, 1)
    wanted = Tagged("eu")
    assert _total(_count(store, Selection(OPEN, Predicate(tags=wanted)))) == 10
    assert wanted.asked == 20
    assert _total(_count(store, Selection(OPEN, Predicate(tags=Tagged("zone"))))) == 0
    assert _total(_count(store, Selection(frozenset((READY,)), Predicate(tags=Tagged("us"))), now_ms=DUE + 20)) == 5
    store.close()


ROWS = st.lists(
    st.tuples(st.integers(-50, 5_000), st.integers(1, 9_000), st.sampled_from(sorted(OPEN | ENDED))), min_size=1
)


@given(st.lists(ROWS, min_size=1, max_size=4), st.integers(1, 900), st.integers(-7, 7))
def test_tallies_against_plain_sums(pieces: list[list[tuple[int, int, int]]], step_ms: int, origin_ms: int) -> None:
    """By topic and standing, and by due time, however the rows come in pieces; too many buckets are refused."""
    by_topic, by_due, total = TopicTally(), DueTally(origin_ms, (step_ms,), 40), Total()
    rows = [row for piece in pieces for row in piece]
    buckets = [(due_ms - origin_ms) // step_ms for due_ms, _, _ in rows]
    refused = max(buckets) - min(buckets) >= 40
    try:
        for piece in pieces:
            due: I64 = np.array([row[0] for row in piece], np.int64)
            topic: U32 = np.array([row[1] for row in piece], np.uint32)
            standing: U8 = np.array([row[2] for row in piece], np.uint8)
            by_topic.add(due, topic, standing)
            total.add(due, topic, standing)
            by_due.add(due, topic, standing)
    except TooManyBuckets:
        assert refused
        return
    assert not refused
    assert by_due.counts == {bucket: buckets.count(bucket) for bucket in buckets}
    keys = [row[1:] for row in rows]
    assert by_topic.counts == {key: keys.count(key) for key in keys}
    assert total.count == len(rows)


STEPS = st.lists(st.integers(2, 6), min_size=1, max_size=4).map(
    lambda factors: [math.prod(factors[: n + 1]) for n in range(len(factors))]
)
#: The ends of a window, which all messages of ROWS are in.
ENDS = st.none() | st.integers(-60, -50), st.none() | st.integers(5_000, 5_100)


@given(st.lists(ROWS, max_size=4), STEPS, st.integers(-7, 7), *ENDS)
def test_a_step_is_chosen_as_if_all_were_known_before(
    pieces: list[list[tuple[int, int, int]]],
    steps: list[int],
    origin_ms: int,
    first_ms: int | None,
    last_ms: int | None,
) -> None:
    """The first step with few enough buckets, from the fixed ends or the messages found; none is lost on the way."""
    tally = DueTally(origin_ms, steps, 9, first_ms, last_ms)
    due = [row[0] for piece in pieces for row in piece]
    reach = [*due, *(end for end in (first_ms, last_ms) if end is not None)]
    known = bool(due) or None not in (first_ms, last_ms)

    def number(ms: int, step_ms: int) -> int:
        return (ms - origin_ms) // step_ms

    fits = [each for each in steps if not known or number(max(reach), each) - number(min(reach), each) < 9]
    try:
        for piece in pieces:
            rows = np.array(piece, np.int64)
            tally.add(rows[:, 0], rows[:, 1].astype(np.uint32), rows[:, 2].astype(np.uint8))
        buckets = tally.buckets()
    except TooManyBuckets:
        assert not fits
        return
    assert tally.step_ms == fits[0]
    if not known:
        assert buckets == []
        return
    numbers = [number(each, tally.step_ms) for each in due]
    span = range(number(min(reach), tally.step_ms), number(max(reach), tally.step_ms) + 1)
    assert buckets == [(origin_ms + each * tally.step_ms, numbers.count(each)) for each in span]


@pytest.mark.parametrize(
    ("origin_ms", "steps", "taken"),
    [(0, (HOUR_MS,), True), (0, (3 * HOUR_MS,), True), (0, (1_000, HOUR_MS), False), (1, (HOUR_MS,), False)],
)
def test_an_hour_is_taken_whole_where_a_bucket_holds_it(origin_ms: int, steps: tuple[int, ...], taken: bool) -> None:
    """By a step of whole hours that begins at one. An hour without messages does not widen the range."""
    tally = DueTally(origin_ms, steps, 50)
    assert [tally.add_hour(hour, count) for hour, count in ((9, 0), (2, 5), (4, 2), (40, 0))] == [taken] * 4
    assert sum(count for _, count in tally.buckets()) == (7 if taken else 0)
    if steps == (HOUR_MS,) and taken:
        assert tally.buckets() == [(2 * HOUR_MS, 5), (3 * HOUR_MS, 0), (4 * HOUR_MS, 2)]
        with pytest.raises(TooManyBuckets):
            tally.add_hour(52, 1)
    total = Total()
    assert total.add_hour(3, 4)
    assert total.count == 4
    assert not TopicTally().add_hour(3, 4)


def test_buckets_are_joined_when_the_step_grows() -> None:
    """What several short buckets counted is in the long one."""
    tally = DueTally(0, (10, 100), 5)
    for due_ms in ([1, 2, 11, 12, 49], [3], [401, 402]):
        due = np.array(due_ms, np.int64)
        tally.add(due, np.ones(len(due), np.uint32), np.zeros(len(due), np.uint8))
    assert tally.step_ms == 100
    assert tally.buckets() == [(0, 6), (100, 0), (200, 0), (300, 0), (400, 2)]
