"""`judge` against the model: any records whatever, however little sense they make together, judged alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from ledger.bucket import ABROAD, PLACE, RECEIPT, SPAN, TERM, Bucket, Context, Rows, Topic
from ledger.columns import DUPLICATES, LEDGER, Cause, Columns, Flag, LateCause, Lost, MessageClass
from ledger.judge import judge
from ledger.summary import Summary
from storage.format.position import EVER_MS, INDEX_BITS
from storage.format.rows import SETTLE, UNIT
from storage.record.delivery_record import DELIVERY
from storage.record.record import HEADER
from storage.tables.topic import NO_PAUSE, Pause
from tests.examples import examples
from tests.ledger.model import judge_slowly

HOUR = 490_000
HOUR_MS = HOUR * 3_600_000
FIRST = 7
ORIGIN = HOUR << INDEX_BITS | FIRST
CODES = (0, 200, 500, 1007, 1008, 2000, 2001, 2002)


def columns_as_rows(columns: Columns) -> list[dict[str, Any]]:
    """Rows of columns, as Python numbers."""
    lists = {name: column.tolist() for name, column in columns.items()}
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


class Maker:
    """Random records of a small bucket, from few values, so that they meet."""

    def __init__(self, seed: int) -> None:
        self.chance = np.random.default_rng(seed)
        self.count = int(self.chance.integers(1, 9))
        self.random = self.chance.integers(1, 1 << 50, self.count, dtype=np.uint64)
        self.busy = float(self.chance.choice([0.5, 2, 6]))

    def pick(self, rows: Rows, name: str, *values: int) -> None:
        """Fill a column with some of these values."""
        rows[name] = self.chance.choice(np.array(values), len(rows))

    def times(self, rows: Rows, name: str) -> None:
        """Fill a column with moments of a few seconds."""
        rows[name] = HOUR_MS + self.chance.choice(np.array([0, 50, 99, 100, 101, 600, 1500, 4000, 9000]), len(rows))

    def some(self, dtype: np.dtype[Any], most: float) -> Rows:
        """So many rows, at most."""
        return np.zeros(int(self.chance.integers(0, max(1, int(most * self.busy * self.count)) + 1)), dtype)

    def homes(self, count: int) -> npt.NDArray[np.uint64]:
        """Mostly messages of the bucket."""
        at: npt.NDArray[np.int64] = self.chance.integers(0, self.count, count)
        beyond = self.chance.random(count) < 0.03
        return np.uint64(ORIGIN) + (at + np.where(beyond, 10, 0)).astype(np.uint64)

    def randoms(self, homes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Of these messages, now and then another's."""
        at = (homes - np.uint64(ORIGIN)).astype(np.int64) % self.count
        wrong = self.chance.random(len(homes)) < 0.03
        return np.where(wrong, np.uint64(5), self.random[at])

    def names(self, rows: Rows) -> None:
        """Fill in hand-overs' names and nodes."""
        self.pick(rows, "term", 1, 1, 2, 3)
        self.pick(rows, "attempt", 1, 1, 2)
        self.pick(rows, "node", 1, 2, 3)

    def units(self) -> Rows:
        rows = np.zeros(self.count, UNIT)
        rows["global_index"] = FIRST + np.arange(self.count)
        self.times(rows, "due_ms")
        self.pick(rows, "topic", 1, 2)
        self.pick(rows, "local_index", 0, 3)
        self.pick(rows, "kind", 1, 1, 1, 1, 1, 1, 1, 1, 1, 0)
        self.pick(rows, "flags", 0, 0, 0, 0, 0, 0, 2)
        return rows

    def headers(self) -> Rows | None:
        if self.chance.random() < 0.2:
            return None
        rows = np.zeros(self.count, HEADER)
        self.pick(rows, "size", 96, 96, 96, 96, 0)
        rows["random"] = self.random
        self.times(rows, "asked_due_ms")
        rows["created_ms"] = HOUR_MS - 5_000
        late = self.chance.random(self.count) < 0.3
        rows["created_ms"][late] += 5_060
        return rows

    def settles(self, places: Rows) -> Rows:
        rows = self.some(SETTLE, 1.5)
        rows["global_index"] = self.homes(len(rows)) & np.uint64((1 << INDEX_BITS) - 1)
        self.pick(rows, "what", 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 4, 5, 6, 7, 8, 8)
        self.names(rows)
        self.times(rows, "at_ms")
        self.times(rows, "when")
        self.pick(rows, "code", *CODES)
        for row in np.flatnonzero(rows["what"] == 8).tolist():
            own = places["place"][places["home"] == np.uint64(HOUR << INDEX_BITS) + rows["global_index"][row]]
            rows["when"][row] = self.chance.choice([99, *own.tolist()])  # 99: one of which nothing was given
        return rows

    def deliveries(self) -> Rows:
        rows = self.some(DELIVERY, 2)
        rows["home"] = self.homes(len(rows))
        rows["random"] = self.randoms(rows["home"])
        self.names(rows)
        self.pick(rows, "kind", 1, 1, 1, 2, 2, 3, 4)
        self.pick(rows, "mode", 1, 2)
        self.pick(rows, "outcome", 1, 2, 3, 4)
        for name in ("at_ms", "asked_due_ms"):
            self.times(rows, name)
        self.pick(rows, "tick", *(HOUR_MS // 1000 + second for second in (-1, 0, 1, 4, 9)))
        self.pick(rows, "local_index", 0, 2, 9)
        return rows

    def abroad(self) -> tuple[Rows, Rows]:
        places = self.some(PLACE, 0.5)
        places["home"], places["place"] = self.homes(len(places)), 1 + np.arange(len(places))
        for name in ("due_ms", "asked_due_ms"):
            self.times(places, name)
        rows = self.some(ABROAD, 0.7)
        rows["home"], rows["order"] = self.homes(len(rows)), self.chance.permutation(len(rows))
        # A place is one message's: its records are, too.
        rows["place"] = 1 + self.chance.integers(0, max(1, len(places)), len(rows))
        if len(places):
            rows["home"] = places["home"][rows["place"].astype(np.int64) - 1]
        else:
            rows = rows[:0]
        self.names(rows)
        self.pick(rows, "what", 1, 1, 2, 4, 5, 7)
        for name in ("at_ms", "when"):
            self.times(rows, name)
        self.pick(rows, "code", *CODES)
        return places, rows

    def receipts(self) -> Rows:
        rows = self.some(RECEIPT, 0.4)
        rows["home"] = self.homes(len(rows))
        rows["random"] = self.randoms(rows["home"])
        return rows

    def spans(self, most: int) -> Rows:
        rows = np.zeros(int(self.chance.integers(0, most)), SPAN)
        self.pick(rows, "node", 1, 2, 3)
        for name in ("from_ms", "until_ms"):
            self.times(rows, name)
        return rows

    def gaps(self) -> Rows:
        """Also of nobody."""
        rows = self.spans(3)
        rows["node"][self.chance.random(len(rows)) < 0.3] = 0
        return rows if self.chance.random() < 0.7 else rows[:0]

    def terms(self) -> Rows:
        rows = np.zeros(int(self.chance.integers(0, 4)), TERM)
        rows["term"] = 1 + np.arange(len(rows))
        for name in ("begun_ms", "ended_ms", "seen_ms"):
            self.times(rows, name)
        rows["ended_ms"][self.chance.random(len(rows)) < 0.5] = 0
        rows["begun_ms"][self.chance.random(len(rows)) < 0.1] = 0
        return rows

    def pause(self) -> Pause:
        since_ms = HOUR_MS + int(self.chance.choice([-HOUR_MS, 0, 1_000, 5_000]))
        ends = [NO_PAUSE, Pause(since_ms, since_ms + 2_000), Pause(since_ms, EVER_MS)]
        return ends[int(self.chance.choice(3, p=[0.7, 0.2, 0.1]))]

    def context(self) -> Context:
        everywhere = np.array([(node, 0, 0, 0, 1 << 60) for node in (1, 2, 3)], SPAN)
        wide = self.chance.random() < 0.5
        return Context(
            from_ms=HOUR_MS + int(self.chance.choice([-1000, 100])),
            until_ms=HOUR_MS + int(self.chance.choice([4000, 9000, 60_000])),
            terms=self.terms(),
            nodes=() if self.chance.random() < 0.1 else (1, 2, 3),
            covered=everywhere if wide else self.spans(8),
            gaps=self.gaps(),
            topics={
                1: Topic("a", strict=True, pause=self.pause()),
                2: Topic("b", push=True, pause=self.pause()),
            },
            held_topics=frozenset([2]) if self.chance.random() < 0.2 else frozenset(),
            skew_ms=50,
            grace_ms=int(self.chance.choice([100, 5_000])),
            twins_ms=0,
            lost_after_ms=int(self.chance.choice([0, 1_000])),
            receipts_from_ms=HOUR_MS,
            receipts_until_ms=HOUR_MS + int(self.chance.choice([0, 60_000])),
            receipt_topics=None if self.chance.random() < 0.5 else frozenset([2]),
        )

    def bucket(self) -> Bucket:
        places, abroad = self.abroad()
        return Bucket(
            0,
            HOUR,
            FIRST,
            self.units(),
            self.settles(places),
            self.headers(),
            self.deliveries(),
            places=places,
            abroad=abroad,
            receipts=self.receipts(),
            disputed=self.chance.random(self.count) < 0.1 if self.chance.random() < 0.3 else None,
            restored=self.chance.random(self.count) < 0.3 if self.chance.random() < 0.3 else None,
        )


def check(seed: int) -> None:
    """Both judge the same; the counts add up."""
    maker = Maker(seed)
    bucket, context = maker.bucket(), maker.context()
    found = judge(bucket, context)
    rows, duplicates, foreign, beyond = judge_slowly(bucket, context)
    assert columns_as_rows(found.messages) == rows
    assert columns_as_rows(found.duplicates) == [{name: row[name] for name in DUPLICATES} for row in duplicates]
    assert (found.foreign, found.beyond) == (foreign, beyond)
    assert {name: column.dtype for name, column in found.messages.items()} == LEDGER
    assert {name: column.dtype for name, column in found.duplicates.items()} == DUPLICATES
    assert not Summary.of(found).wrong()


@examples(250)
@given(st.integers(0, 2**63))
def test_judges_as_the_model_does(seed: int) -> None:
    """Whatever is on record, the arrays and the plain rules give the same rows, in the same order."""
    check(seed)


def test_the_model_is_asked_everything() -> None:
    """Random records meet every class, flag, cause and reason; otherwise agreeing on them would say nothing."""
    seen: dict[str, set[int]] = {name: set() for name in ("class", "late_cause", "lost", "cause")}
    flags = 0
    for seed in range(300):
        maker = Maker(seed)
        found = judge(maker.bucket(), maker.context())
        for name in ("class", "late_cause", "lost"):
            seen[name] |= set(found.messages[name].tolist())
        seen["cause"] |= set(found.duplicates["cause"].tolist())
        flags |= int(np.bitwise_or.reduce(found.messages["flags"], initial=0))
    assert seen["class"] == set(MessageClass)
    assert seen["late_cause"] == set(LateCause)
    assert seen["lost"] == set(Lost) - {Lost.NOT_FOUND}  # those have no unit
    assert seen["cause"] == set(Cause) - {Cause.NONE, Cause.SCHEDULED_TWICE}  # tests/ledger/test_scheduled_twice.py
    assert Flag(flags) == ~Flag.SCHEDULED_TWICE


@examples(60)
@given(st.integers(0, 2**63), st.integers(0, 8))
def test_where_a_bucket_ends_does_not_matter(seed: int, cut: int) -> None:
    """An hour judged in two parts gives the rows of the hour judged as a whole."""
    maker = Maker(seed)
    whole, context = maker.bucket(), maker.context()
    cut = min(cut, maker.count)
    parts = [judge(part_of(whole, slice(0, cut)), context), judge(part_of(whole, slice(cut, None)), context)]
    found = judge(part_of(whole, slice(None)), context)
    for name in LEDGER:
        assert np.concatenate([part.messages[name] for part in parts]).tolist() == found.messages[name].tolist()
    for name in DUPLICATES:
        assert np.concatenate([part.duplicates[name] for part in parts]).tolist() == found.duplicates[name].tolist()
    assert sum(part.foreign for part in parts) == found.foreign


def part_of(bucket: Bucket, units: slice) -> Bucket:
    """Some consecutive units with all that names them, and nothing else."""
    first, end, _ = units.indices(len(bucket.units))

    def mine(rows: Rows) -> Rows:
        at = rows["global_index"] if "global_index" in (rows.dtype.names or ()) else rows["home"] - np.uint64(ORIGIN)
        at = at - np.uint64(FIRST) if "global_index" in (rows.dtype.names or ()) else at
        return rows[(at >= first) & (at < end)]

    return Bucket(
        bucket.group,
        bucket.hour,
        bucket.first + first,
        bucket.units[units],
        mine(bucket.settles),
        None if bucket.headers is None else bucket.headers[units],
        mine(bucket.deliveries),
        places=mine(bucket.places),
        abroad=mine(bucket.abroad),
        receipts=mine(bucket.receipts),
        disputed=None if bucket.disputed is None else bucket.disputed[units],
        restored=None if bucket.restored is None else bucket.restored[units],
    )
