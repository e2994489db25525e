"""The ledger's smaller parts: what accounts cover, which terms there were, what stands abroad, and the sums."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.bucket import SPAN, TERM, Bucket, Context, Rows
from ledger.columns import (
    DUPLICATES,
    LEDGER,
    Cause,
    Columns,
    Flag,
    Lost,
    MessageClass,
    empty_columns,
    flag_words,
    join_columns,
    take_columns,
    words_of,
)
from ledger.coverage import Coverage
from ledger.judge import Ledger
from ledger.moved import abroad_of
from ledger.summary import Summary
from ledger.terms import merge_terms, rival_terms, terms_of
from storage.format.position import INDEX_BITS
from storage.format.rows import SETTLE, UNIT, UNIT_MOVED
from storage.format.states import LEASED
from storage.record.delivery_record import DELIVERY, END, START, TERM_BEGUN, TERM_ENDED
from storage.record.record import HEADER
from tests.examples import examples

SPANS = st.lists(st.tuples(st.integers(1, 2), st.integers(0, 20), st.integers(0, 20)), max_size=5)


@examples(200)
@given(SPANS, SPANS, st.lists(st.tuples(st.integers(1, 3), st.integers(0, 20), st.integers(0, 20)), max_size=8))
def test_a_stretch_is_seen_if_every_moment_of_it_is(
    covered: list[tuple[int, int, int]], gaps: list[tuple[int, int, int]], asked: list[tuple[int, int, int]]
) -> None:
    """Spans may overlap and touch; gaps take away; a node that is not named sees nothing."""

    def rows(spans: list[tuple[int, int, int]]) -> Rows:
        return np.array([(node, 0, 0, begin, end) for node, begin, end in spans], SPAN)

    sight = Coverage(Context(0, 99, nodes=(1, 2), covered=rows(covered), gaps=rows(gaps)))

    def at(node: int, moment: int) -> bool:
        inside = [begin <= moment < end for its, begin, end in covered if its == node]
        return any(inside) and not any(begin <= moment < end for its, begin, end in gaps if its == node)

    node, from_ms, until_ms = (
        (np.array(column, np.int64) for column in zip(*asked, strict=True)) if asked else (np.zeros(0, np.int64),) * 3
    )
    until_ms = np.maximum(from_ms, until_ms)
    each = [
        [all(at(of, moment) for moment in range(begin, end + 1)) for of in (number, 1, 2)]
        for number, begin, end in zip(node.tolist(), from_ms.tolist(), until_ms.tolist(), strict=True)
    ]
    assert sight.of_node(node.astype(np.uint16), from_ms, until_ms).tolist() == [row[0] for row in each]
    assert sight.of_all(from_ms, until_ms).tolist() == [row[1] and row[2] for row in each]


def test_of_no_nodes_nothing_is_seen() -> None:
    """Who names no nodes knows nothing of who else could have handed something over."""
    assert not Coverage(Context(0, 99)).of_all(np.array([5]), np.array([6])).any()


def term_rows(*rows: tuple[int, int, int, int, int]) -> Rows:
    """DELIVERY rows of (kind, term, node, at_ms, code)."""
    found = np.zeros(len(rows), DELIVERY)
    for name, column in zip(("kind", "term", "node", "at_ms", "code"), zip(*rows, strict=True), strict=True):
        found[name] = column
    return found


def test_terms_are_put_together_from_parts() -> None:
    """Begun, ended, last seen: whichever file tells; what an end record bears may be of a term long over."""
    one = terms_of(term_rows((TERM_BEGUN, 5, 1, 100, 0), (START, 5, 1, 150, 0), (END, 5, 1, 900, 0)))
    two = terms_of(term_rows((START, 5, 1, 180, 0), (TERM_ENDED, 5, 1, 190, 2), (START, 7, 3, 800, 0)))
    three = terms_of(term_rows((TERM_BEGUN, 6, 2, 300, 0)))
    merged = merge_terms([three, two, one])
    assert merged.dtype == TERM
    assert merged[["term", "node", "how", "begun_ms", "ended_ms", "seen_ms", "acted_ms"]].tolist() == [
        (5, 1, 2, 100, 190, 180, 180),
        (6, 2, 0, 300, 0, 300, 0),
        (7, 3, 0, 0, 0, 800, 800),
    ]
    assert rival_terms([one, two, three]) == []
    assert len(merge_terms([])) == 0


def test_a_term_of_two_nodes_is_told() -> None:
    """The one that began it counts as its leader."""
    parts = [terms_of(term_rows((START, 5, 2, 140, 0))), terms_of(term_rows((TERM_BEGUN, 5, 1, 100, 0)))]
    assert rival_terms(parts) == [5]
    assert merge_terms(parts)[["term", "node"]].tolist() == [(5, 1)]


def test_what_stands_abroad_is_lifted_out_with_its_home() -> None:
    """Units born elsewhere and their records, in file order; those of others stay."""
    units, headers, settles = np.zeros(3, UNIT), np.zeros(3, HEADER), np.zeros(4, SETTLE)
    units["flags"][1:], units["due_ms"], units["attempt"] = UNIT_MOVED, [10, 11, 12], [0, 2, 3]
    headers["id_hour"], headers["id_global_index"], headers["asked_due_ms"] = [7, 5, 6], [100, 3, 4], [1, 2, 3]
    settles["global_index"], settles["what"], settles["at_ms"] = [102, 100, 101, 102], LEASED, [1, 2, 3, 4]
    bucket = Bucket(0, 7, 100, units, settles, headers, np.zeros(0, DELIVERY))
    found = abroad_of(bucket, first_settle=50)
    homes = [5 << INDEX_BITS | 3, 6 << INDEX_BITS | 4]
    at = 7 << INDEX_BITS
    assert found.places[["home", "place", "due_ms", "asked_due_ms", "attempt"]].tolist() == [
        (homes[0], at | 101, 11, 2, 2),
        (homes[1], at | 102, 12, 3, 3),
    ]
    assert found.settles[["home", "place", "at_ms", "order"]].tolist() == [
        (homes[1], at | 102, 1, 50),
        (homes[0], at | 101, 3, 52),
        (homes[1], at | 102, 4, 53),
    ]
    only = abroad_of(Bucket(0, 7, 100, units, settles, None, np.zeros(0, DELIVERY)), headers[1:])
    assert (only.places == found.places).all()


def ledger_of(count: int, seed: int) -> Ledger:
    """Any rows that add up, with failover duplicates of some."""
    chance = np.random.default_rng(seed)
    messages, extra = empty_columns(LEDGER, count), empty_columns(DUPLICATES, count)
    messages["home"][:] = np.arange(count) + 1000 * seed
    messages["class"][:] = chance.integers(1, 8, count)
    messages["topic"][:] = chance.choice([1, 2, 90_000], count)
    messages["flags"][:] = chance.choice([0, Flag.STRICT, Flag.EARLY | Flag.RETRIED], count)
    messages["duplicates"][:] = 1
    extra["home"][:] = messages["home"]
    extra["cause"][:] = chance.choice([Cause.FAILOVER, Cause.LEASE_ENDED], count)
    extra["before_term"][:], extra["term"][:] = chance.integers(1, 3, count), 3
    extra["before_ms"][:] = chance.integers(0, 90, count)
    return Ledger(messages, extra, foreign=1, beyond=2)


@examples(30)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=5))
def test_sums_do_not_depend_on_how_they_are_taken(sizes: list[int]) -> None:
    """The summary of all is the sum of the parts' summaries; all of it adds up."""
    parts = [ledger_of(count, seed) for seed, count in enumerate(sizes)]
    summed = reduce(add, map(Summary.of, parts), Summary())
    whole = Ledger(
        join_columns([part.messages for part in parts], LEDGER),
        join_columns([part.duplicates for part in parts], DUPLICATES),
        len(parts),
        2 * len(parts),
    )
    assert summed == Summary.of(whole)
    assert summed.wrong() == []
    document = summed.document()
    assert document["scheduled"] == sum(document["classes"].values()) == sum(sizes)
    assert sum(sum(counts.values()) for counts in summed.topics.values()) == sum(sizes)
    failover = whole.duplicates["cause"] == Cause.FAILOVER
    assert sum(change["duplicates"] for change in document["term_changes"]) == int(failover.sum())
    strict = whole.messages["flags"] & np.uint32(Flag.STRICT) > 0
    assert summed.strict_failover == int((failover & strict).sum())


def test_the_span_is_that_of_the_hand_overs_that_were_repeated() -> None:
    """Of each change of terms by itself, in time of the earlier hand-overs."""
    extra = empty_columns(DUPLICATES, 4)
    extra["cause"][:] = Cause.FAILOVER
    extra["before_term"][:], extra["term"][:] = [5, 5, 6, 5], [6, 6, 7, 6]
    extra["before_ms"][:], extra["at_ms"][:] = [100, 145, 900, 130], [700, 9_000, 2_000, 800]
    messages = empty_columns(LEDGER, 4)
    messages["class"][:] = MessageClass.DELIVERED_MORE
    messages["duplicates"][:] = 1
    summary = Summary.of(Ledger(messages, extra))
    assert {terms: (change.duplicates, change.span_ms) for terms, change in summary.changes.items()} == {
        (5, 6): (3, 45),
        (6, 7): (1, 0),
    }
    assert summary.broken() == []
    assert len(summary.broken(duplicate_span_ms=44)) == 1


def _of_one(kind: MessageClass, flags: int = 0, lost: Lost = Lost.NONE, cause: Cause = Cause.NONE) -> Summary:
    messages, extra = empty_columns(LEDGER, 1), empty_columns(DUPLICATES, int(cause > 0))
    messages["class"][:], messages["flags"][:], messages["lost"][:] = kind, flags, lost
    messages["duplicates"][:] = len(extra["cause"])
    extra["cause"][:] = cause
    return Summary.of(Ledger(messages, extra))


@pytest.mark.parametrize(
    "summary",
    [
        _of_one(MessageClass.LOST, lost=Lost.NO_TRACE),
        _of_one(MessageClass.DELIVERED_ONCE, Flag.EARLY),
        _of_one(MessageClass.CANCELLED, Flag.DELIVERED_AFTER_CANCEL),
        _of_one(MessageClass.DELIVERED_ONCE, Flag.NODES_DISAGREE),
        _of_one(MessageClass.DELIVERED_MORE, cause=Cause.UNEXPLAINED),
        _of_one(MessageClass.DELIVERED_MORE, Flag.STRICT, cause=Cause.FAILOVER),
    ],
)
def test_broken_promises_are_said(summary: Summary) -> None:
    """One sentence each; what is in order says none."""
    assert len(summary.broken()) == 1
    assert summary.wrong() == []
    assert _of_one(MessageClass.DELIVERED_MORE, Flag.RETRIED, cause=Cause.LEASE_ENDED).broken() == []


def test_what_does_not_add_up_is_said() -> None:
    """Every check can fail."""
    good = ledger_of(10, 1)
    assert len(Summary.of(Ledger(good.messages, take_columns(good.duplicates, slice(1, None)))).wrong()) == 1
    spoilt: Columns = {name: column.copy() for name, column in good.messages.items()}
    spoilt["class"][0] = 0
    assert len(Summary.of(Ledger(spoilt, good.duplicates)).wrong()) == 1
    spoilt["class"][0] = MessageClass.LOST
    assert len(Summary.of(Ledger(spoilt, good.duplicates)).wrong()) == 1
    spoilt["lost"][0], spoilt["flags"][0] = Lost.NO_TRACE, Flag.LATE
    assert len(Summary.of(Ledger(spoilt, good.duplicates)).wrong()) == 1


def test_words_are_those_of_the_numbers() -> None:
    """Stable: files and answers are read by them."""
    assert words_of(MessageClass) == (
        "", "delivered_once", "delivered_more", "dead", "cancelled", "expired", "pending", "in_flight", "lost",
        "delivered",
    )  # fmt: skip
    assert words_of(Cause)[1:] == (
        "failover", "lease_ended", "unknown_outcome", "acked_late", "scheduled_twice", "unexplained", "resent"
    )  # fmt: skip
    assert flag_words(Flag.LATE | Flag.EARLY) == ["early", "late"]
