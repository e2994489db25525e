"""The rules by name: one life each, as the node writes it, with what the ledger must say and why."""

from __future__ import annotations

import numpy as np
import pytest

from ledger.bucket import SPAN, TERM, Rows, Topic
from ledger.columns import Cause, Flag, LateCause, Lost, MessageClass
from ledger.hand_overs import LEASE_ENDED, MAX_AGE, REDRIVEN, RESCHEDULED
from ledger.unrecorded import unrecorded
from node.port import failure_code
from storage.format import rows as settle_codes
from storage.format.position import EVER_MS
from storage.format.rows import BY_RECEIPT
from storage.format.states import CANCELLED, DEAD, DELIVERED, EXPIRED, FORWARDED, LEASED, RELEASED
from storage.record.delivery_record import DELIVERED as DONE
from storage.record.delivery_record import FAILED, GIVEN_BACK, LATE, PUSH
from storage.tables.topic import NO_PAUSE, Pause
from tests.ledger.life import AWAY, HOME, LEASE, Life, T, context_of, told

ONCE, MORE, PENDING = MessageClass.DELIVERED_ONCE, MessageClass.DELIVERED_MORE, MessageClass.PENDING
UNKNOWN = Flag.UNKNOWN_OUTCOME
NOTHING = Flag(0)


def test_codes_are_the_nodes() -> None:
    """The ledger may not import what gives these numbers their meaning, so this holds them together."""
    assert (LEASE_ENDED, MAX_AGE) == (failure_code.LEASE_ENDED, failure_code.MAX_AGE)
    assert (RESCHEDULED, REDRIVEN) == (settle_codes.CODE_RESCHEDULED, settle_codes.CODE_REDRIVEN)


CLASSES = {
    "delivered": (Life().made(3).settle(DELIVERED, 20).end(21, DONE), ONCE, NOTHING),
    "delivered, and the leader died before it wrote the end down": (
        Life().made(3).settle(DELIVERED, 20), ONCE, NOTHING,
    ),
    "delivered though its Lease was lost: an ack holds without": (
        Life().start(3).settle(DELIVERED, 900).end(901, DONE), ONCE, NOTHING,
    ),
    "delivered after its lease was extended": (
        Life().made(3).settle(LEASED, 3, when=90_000).settle(DELIVERED, 80_000), ONCE, NOTHING,
    ),
    "nobody pulled it": (Life(), PENDING, Flag.OVERDUE),
    "handed over, its lease over": (Life().made(3), PENDING, Flag.OVERDUE | UNKNOWN),
    "handed over, its lease running": (Life().start(3).lease(3, until=700_000), MessageClass.IN_FLIGHT, NOTHING),
    "handed over a moment before the records end": (Life().start(599_900), MessageClass.IN_FLIGHT, Flag.LATE),
    "leased ahead and released": (
        Life().lease(-50).settle(RELEASED, -20, 0, 0), PENDING, Flag.OVERDUE,
    ),
    "cancelled": (Life().settle(CANCELLED, -5, 0, 0), MessageClass.CANCELLED, NOTHING),
    "cancelled when its lease was over": (
        Life().made(3).settle(CANCELLED, 40_000), MessageClass.CANCELLED, UNKNOWN,
    ),
    "expired": (Life().settle(EXPIRED, 60_000, 0, 0), MessageClass.EXPIRED, NOTHING),
    "dead of its failure": (
        Life(mode=PUSH).made(3).end(30, FAILED).settle(DEAD, 31, code=500), MessageClass.DEAD, NOTHING,
    ),
    "dead of silence": (
        Life().made(3).settle(DEAD, 31_000, code=LEASE_ENDED), MessageClass.DEAD, UNKNOWN,
    ),
    "dead without a hand-over: a backup was restored without it": (
        Life().settle(DEAD, 5, 0, 0, code=1012), MessageClass.DEAD, NOTHING,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name: str) -> None:
    """Exactly one class; flags only for what is out of the ordinary."""
    life, kind, flags = CLASSES[name]
    judged = life.judged()
    assert (judged.kind, judged.flags, judged.causes) == (kind, flags, [])


def test_what_is_not_due_is_pending() -> None:
    """Nothing is said of it but that."""
    judged = Life().judged(until_ms=T - 1)
    assert (judged.kind, judged.flags) == (PENDING, NOTHING)


REPEATS = {
    "lease ended": (
        Life().made(3).made(30_100, attempt=2).settle(DELIVERED, 30_200, attempt=2),
        [Cause.LEASE_ENDED], UNKNOWN,
    ),
    "a push without an end": (
        Life(mode=PUSH).made(3).made(30_100, attempt=2).settle(DELIVERED, 30_200, attempt=2),
        [Cause.UNKNOWN_OUTCOME], UNKNOWN,
    ),
    "a push whose settle was lost with the leader": (
        Life(mode=PUSH).made(3).end(40, DONE).made(30_100, 6, 2).settle(DELIVERED, 30_200, 6, 2),
        [Cause.UNKNOWN_OUTCOME], NOTHING,
    ),
    "a late ack, refused": (
        Life().made(3).made(30_100, attempt=2).end(31_000, LATE).settle(DELIVERED, 32_000, attempt=2),
        [Cause.ACKED_LATE], NOTHING,
    ),
    "an ack that was on its way when the message went out again": (
        Life().made(3).start(30_005, attempt=2).settle(DELIVERED, 30_008).end(30_009, DONE),
        [Cause.ACKED_LATE], UNKNOWN,
    ),
    "failover": (
        Life().start(3).made(720, 6).settle(DELIVERED, 800, 6),
        [Cause.FAILOVER], UNKNOWN,
    ),
    "failover, and the consumer's first ack won": (
        Life().start(3).start(720, 6).settle(DELIVERED, 730).end(731, DONE),
        [Cause.FAILOVER], UNKNOWN,
    ),
    "failover, and the first consumer asked for more time after the second was served": (
        Life().start(3).start(720, 6).settle(LEASED, 740, when=60_000).settle(LEASED, 720, 6, when=30_720)
        .settle(DELIVERED, 800, 6),
        [Cause.FAILOVER], UNKNOWN,
    ),
    "failover seen by the deposed leader, which was a moment slow": (
        Life().start(790).made(720, 6).settle(DELIVERED, 800, 6),
        [Cause.FAILOVER], UNKNOWN | Flag.LATE,
    ),
    "three times": (
        Life().start(3).made(720, 6).made(31_000, 6, 2).settle(DELIVERED, 31_100, 6, 2),
        [Cause.FAILOVER, Cause.LEASE_ENDED], UNKNOWN,
    ),
    "rescheduled after a lease ran out: it was handed over before all the same": (
        Life().made(3).settle(FORWARDED, 31_000, when=AWAY, code=RESCHEDULED).stands_away(60_000, 60_000)
        .start(60_003, attempt=2, asked=60_000).away(LEASED, 60_003, attempt=2, when=90_000)
        .away(DELIVERED, 60_020, attempt=2).settle(DELIVERED, 60_020, attempt=2),
        [Cause.LEASE_ENDED], UNKNOWN | Flag.RESCHEDULED,
    ),
    "while the lease ran": (
        Life().made(3).made(1_000, attempt=2).settle(DELIVERED, 1_020, attempt=2),
        [Cause.UNEXPLAINED], UNKNOWN,
    ),
    "while the extended lease ran": (
        Life().made(3).settle(LEASED, 3, when=90_000).made(30_100, attempt=2).settle(DELIVERED, 30_200, attempt=2),
        [Cause.UNEXPLAINED], UNKNOWN,
    ),
    "in the same term, though the Lease never came": (
        Life().start(3).made(30_100, attempt=2).settle(DELIVERED, 30_200, attempt=2),
        [Cause.UNEXPLAINED], UNKNOWN,
    ),
    "after it had been settled": (
        Life().made(3).settle(DELIVERED, 20).start(60_000, attempt=2).end(60_001, LATE, attempt=2),
        [Cause.UNEXPLAINED], NOTHING,
    ),
    "twice under one name": (
        Life().made(3).start(9).settle(DELIVERED, 20), [Cause.UNEXPLAINED], NOTHING,
    ),
    "twice under one name, by two nodes": (
        Life().made(3).start(9, node=2).settle(DELIVERED, 20), [Cause.UNEXPLAINED], Flag.NODES_DISAGREE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REPEATS)
def test_duplicates_have_one_cause_each(name: str) -> None:
    """The cause that the node's records allow, and no other."""
    life, causes, flags = REPEATS[name]
    judged = life.judged()
    assert (judged.kind, judged.causes, judged.flags) == (MORE, causes, flags)
    assert judged.row["duplicates"] == len(causes)


RETRIES = {
    "refused": Life(mode=PUSH).made(3).end(30, FAILED).settle(FORWARDED, 31, when=AWAY, code=500),
    "refused, and nobody wrote the end down": Life(mode=PUSH).made(3).settle(FORWARDED, 31, when=AWAY, code=500),
    "refused, its Lease lost, told by the old leader": (
        Life(mode=PUSH).start(3).end(30, FAILED).settle(FORWARDED, 900, when=AWAY, code=503)
    ),
    "given back": Life().made(3).settle(FORWARDED, 31, when=AWAY, code=1006).end(33, GIVEN_BACK),
    "dead, and brought back": (
        Life(mode=PUSH)
        .made(3)
        .end(30, FAILED)
        .settle(DEAD, 31, code=500)
        .settle(FORWARDED, 900, when=AWAY, code=REDRIVEN)
    ),
}


@pytest.mark.parametrize("name", RETRIES)
def test_a_repeat_after_a_failure_on_record_is_a_retry(name: str) -> None:
    """It is no duplicate, at home or away."""
    life = RETRIES[name]
    life.stands_away(20_000).start(20_003, 6, 2).away(LEASED, 20_003, 6, 2, when=50_000)
    life.away(DELIVERED, 20_020, 6, 2).settle(DELIVERED, 20_020, 6, 2)
    judged = life.judged()
    redriven = Flag.REDRIVEN if "brought back" in name else NOTHING
    assert (judged.kind, judged.causes, judged.flags) == (ONCE, [], Flag.RETRIED | redriven)
    assert (judged.row["retries"], judged.row["due_ms"]) == (1, T + 20_000)


def test_a_failure_that_was_told_later_makes_no_retry() -> None:
    """When the message went out again nobody knew that it had failed: what is a retry is decided by then."""
    life = Life(mode=PUSH).made(3).made(30_100, attempt=2).end(40_000, FAILED).settle(DELIVERED, 41_000, attempt=2)
    assert life.judged().causes == [Cause.UNKNOWN_OUTCOME]


def test_what_stands_away_counts_by_its_records_there() -> None:
    """Moved to its next try: leased there, it is in flight; of a place of which nothing was given nothing is known."""
    life = Life(mode=PUSH).made(3).end(30, FAILED).settle(FORWARDED, 31, when=AWAY, code=500)
    assert life.judged().flags == Flag.RECORDS_MISSING | Flag.OVERDUE
    waiting = life.stands_away(900_000).judged()
    assert (waiting.kind, waiting.flags, waiting.row["due_ms"]) == (PENDING, NOTHING, T + 900_000)
    life.stands_away(20_000).start(20_003, attempt=2).away(LEASED, 20_003, attempt=2, when=700_000)
    assert life.judged().kind == MessageClass.IN_FLIGHT


def test_early_is_before_the_time_asked_for_then() -> None:
    """A millisecond too soon is early; a message that was rescheduled to sooner is not."""
    assert Life().made(-1).settle(DELIVERED, 20).judged().flags == Flag.EARLY
    life = Life().settle(FORWARDED, -9_000, 0, 0, when=AWAY, code=RESCHEDULED).stands_away(-5_000, -5_000)
    life.start(-4_999, asked=-5_000).away(LEASED, -4_999).away(DELIVERED, -4_900).settle(DELIVERED, -4_900)
    assert life.judged().flags == Flag.RESCHEDULED


LATENESS = {
    LateCause.SCHEDULED_LATE: Life(created=5_000).made(5_003).settle(DELIVERED, 5_020),
    LateCause.NO_LEADER: Life().made(710, 6).settle(DELIVERED, 800, 6),
    LateCause.WAITING_FOR_CONSUMER: Life().start(5_000, tick=5).lease(5_000).settle(DELIVERED, 5_020),
    LateCause.WAITING_FOR_RECEIVER: Life(mode=PUSH).start(5_000, tick=5).lease(5_000).settle(DELIVERED, 5_020),
    LateCause.DISPATCH: Life().start(300).lease(300).settle(DELIVERED, 320),
}


@pytest.mark.parametrize("cause", LATENESS)
def test_lateness_has_a_cause(cause: LateCause) -> None:
    """By when it was scheduled, who led, and what had been dispatched."""
    judged = LATENESS[cause].judged(terms=terms_with(seen=-100))
    assert (judged.kind, judged.flags, judged.late_cause) == (ONCE, Flag.LATE, cause)


@pytest.mark.parametrize(
    ("pause", "cause"),
    [
        (Pause(0, T + 4_000), LateCause.PAUSE),  # its begin is not known
        (Pause(T + 2_500, T + 5_000), LateCause.PAUSE),
        (Pause(T + 2_501, T + 5_000), LateCause.WAITING_FOR_CONSUMER),  # it was late before
        (Pause(0, T + 2_499), LateCause.WAITING_FOR_CONSUMER),  # and stayed long after
        (Pause(T + 5_001, EVER_MS), LateCause.WAITING_FOR_CONSUMER),
        (Pause(0, EVER_MS), LateCause.WAITING_FOR_CONSUMER),  # it began later: nothing goes out in a pause
        (Pause(0, T + 5_001), LateCause.WAITING_FOR_CONSUMER),
    ],
)
def test_a_pause_is_to_blame_for_what_it_held_longest(pause: Pause, cause: LateCause) -> None:
    """For half of the delay at least."""
    life = Life().start(5_000, tick=5).lease(5_000).settle(DELIVERED, 5_020)
    assert life.judged(topics={1: Topic("orders", pause=pause)}).late_cause == cause


def test_what_an_operation_may_have_is_not_lost() -> None:
    """As long as it runs on the topic. Of another topic a message is lost all the same."""
    judged = [Life().judged(held_topics=frozenset(held), lost_after_ms=10_000) for held in ((1,), (2,), (1, 2))]
    assert [each.kind for each in judged] == [MessageClass.PENDING, MessageClass.LOST, MessageClass.PENDING]


@pytest.mark.parametrize(
    ("pause", "kind", "cause"),
    [
        (NO_PAUSE, MessageClass.LOST, LateCause.NONE),
        (Pause(T - 5_000, EVER_MS), MessageClass.PENDING, LateCause.PAUSE),
        (Pause(T + 9_000, EVER_MS), MessageClass.PENDING, LateCause.PAUSE),
        (Pause(T + 300_000, EVER_MS), MessageClass.PENDING, LateCause.PAUSE),  # however long it waited before
        (Pause(0, T + 590_000), MessageClass.PENDING, LateCause.NONE),  # resumed a moment ago
        (Pause(0, T + 589_999), MessageClass.LOST, LateCause.NONE),
        (Pause(T + 5_000, T + 595_000), MessageClass.PENDING, LateCause.NONE),
        (Pause(T + 5_000, T + 594_999), MessageClass.LOST, LateCause.NONE),  # 5 s before the pause, and 5 s after it
        (Pause(T + 580_000, T + 590_000), MessageClass.LOST, LateCause.NONE),
    ],
)
def test_what_waits_for_a_paused_topic_is_not_lost(pause: Pause, kind: MessageClass, cause: LateCause) -> None:
    """Only the time counts in which the topic was not paused."""
    judged = Life().judged(topics={1: Topic("orders", pause=pause)}, lost_after_ms=10_000)
    assert (judged.kind, judged.flags & Flag.OVERDUE, judged.late_cause) == (kind, Flag.OVERDUE, cause)


def terms_with(seen: int) -> Rows:
    """The two terms, the first of which was last seen then."""
    terms = context_of().terms.copy()
    terms["seen_ms"][0] = T + seen
    return terms


def test_a_message_that_the_former_leader_had_time_for_did_not_wait_for_a_leader() -> None:
    """It was due long before that leader was last seen: it waited for a consumer."""
    life = Life().start(720, 6, tick=1).lease(720, 6).settle(DELIVERED, 800, 6)
    assert life.judged(terms=terms_with(seen=400)).late_cause == LateCause.WAITING_FOR_CONSUMER


def test_delivered_without_a_trace_is_lost_where_all_is_seen() -> None:
    """By the account of the node that leased it; without a Lease, by those of all. A hole makes it unknown, also one
    behind the Lease (seed 30045)."""
    life = Life().lease(3).settle(DELIVERED, 20)
    judged = life.judged()
    assert (judged.kind, judged.lost, judged.flags) == (MessageClass.LOST, Lost.NO_TRACE, Flag.UNTRACED)
    hole = np.array([(1, 0, 0, T - 50, T + 50)], SPAN)
    judged = life.judged(gaps=hole)
    assert (judged.kind, judged.lost, judged.flags) == (MessageClass.DELIVERED, Lost.NONE, Flag.RECORDS_MISSING)
    behind = np.array([(1, 0, 0, T + 10, T + 50)], SPAN)
    judged = life.judged(gaps=behind)
    assert (judged.kind, judged.flags) == (MessageClass.DELIVERED, Flag.RECORDS_MISSING), "a strict start comes later"
    elsewhere = hole.copy()
    elsewhere["node"] = 2
    assert life.judged(gaps=elsewhere).kind == MessageClass.LOST
    unleased = Life().settle(DELIVERED, 20)
    assert unleased.judged().kind == MessageClass.LOST
    assert unleased.judged(gaps=elsewhere).flags == Flag.RECORDS_MISSING
    assert unleased.judged(nodes=(1, 2, 3, 4)).flags == Flag.RECORDS_MISSING
    assert life.judged(from_ms=T + 1).kind == ONCE


def test_what_was_leased_in_a_term_that_no_account_tells_of_is_no_loss() -> None:
    """Its leader lost its disk, and with it all that it wrote of that term; the log that it began anew covers nothing
    of it, whichever of the leases were come across before."""
    terms = context_of().terms[1:]
    for life in (Life().lease(3).settle(DELIVERED, 20), Life().settle(DELIVERED, 20)):
        judged = life.judged(terms=terms)
        assert (judged.kind, judged.flags) == (MessageClass.DELIVERED, Flag.RECORDS_MISSING)
    assert Life().lease(3, until=40).judged(terms=terms).flags == Flag.RECORDS_MISSING | Flag.OVERDUE


def test_what_was_leased_after_an_account_breaks_off_is_no_loss() -> None:
    """A start is written before its Lease is proposed: a Lease behind the last that a term without an end tells of
    means that the log was cut, or read before; where the term's end is told, that all of it is there."""
    for life in (Life().lease(3).settle(DELIVERED, 20), Life().settle(DELIVERED, 20)):
        for seen in (2, 3):  # in the same millisecond, too: all of one pull bear one
            judged = life.judged(terms=terms_with(seen=seen))
            assert (judged.kind, judged.flags) == (MessageClass.DELIVERED, Flag.RECORDS_MISSING)
        ended = terms_with(seen=2)
        ended["ended_ms"][0] = T + 2
        assert life.judged(terms=ended).kind == MessageClass.LOST


def test_what_a_dead_leaders_consumer_extended_and_acked_with_the_next_one_is_no_loss() -> None:
    """The one that died was 450 ms ahead, and the next one is 450 ms behind. The record of the extension bears the time
    and the node of the next one; so does the ack."""
    terms = np.array([told(5, 1, T - 9_000, T + 440), told(6, 2, T + 10, T + 9_000, before=5)], TERM)
    gaps = unrecorded(terms, T - 30_000)
    for life in (Life().settle(LEASED, 15, when=LEASE, code=BY_RECEIPT), Life()):
        judged = life.settle(DELIVERED, 20, node=2).judged(terms=terms, gaps=gaps)
        assert (judged.kind, judged.flags) == (MessageClass.DELIVERED, Flag.RECORDS_MISSING)


def test_receipts_are_asked_where_they_cover() -> None:
    """What nobody got is lost, what somebody got and the records have open may come again."""
    covering = {"receipts_from_ms": T - 1, "receipts_until_ms": T + 60_000}
    life = Life().made(3).settle(DELIVERED, 20)
    judged = life.judged(**covering)
    assert (judged.kind, judged.lost, judged.flags) == (MessageClass.LOST, Lost.NEVER_RECEIVED, Flag.NOT_RECEIVED)
    assert life.judged(**covering, receipt_topics=frozenset([9])).kind == ONCE
    assert life.judged(receipts_from_ms=T + 4, receipts_until_ms=T + 60_000).kind == ONCE
    life.receipts = 1
    assert life.judged(**covering).kind == ONCE
    unsettled = Life(receipts=1).made(3)
    assert unsettled.judged().flags == Flag.DELIVERED_UNSETTLED | Flag.OVERDUE | UNKNOWN


def test_a_drained_run_has_nothing_overdue() -> None:
    """With `lost_after_ms` an open message that nobody was ever given is lost; one that was given is not."""
    assert Life().judged(lost_after_ms=60_000).lost == Lost.NEVER_HANDED_OVER
    assert Life().judged(lost_after_ms=700_000).kind == PENDING
    assert Life().made(3).judged(lost_after_ms=60_000).kind == PENDING


def test_delivered_after_cancel_allows_for_the_skew_of_another_node() -> None:
    """By the clock of the node that cancelled any hand-over after it is one; another's may be ahead."""
    life = Life().settle(CANCELLED, 0, 5, 0).start(3).end(40, LATE)
    after = Flag.DELIVERED_AFTER_CANCEL
    assert life.judged().flags & after
    other = Life().settle(CANCELLED, 0, 5, 0).start(300, 6).end(340, LATE, 6)
    assert not other.judged().flags & after
    assert other.judged(skew_ms=200).flags & after


def test_strict_topics_are_marked() -> None:
    """A failover duplicate there breaks a promise; the summary finds it by this flag."""
    judged = Life().made(3).settle(DELIVERED, 20).judged(topics={1: Topic("orders", strict=True)})
    assert judged.flags == Flag.STRICT


def test_what_is_told_of_after_the_end_is_not_judged() -> None:
    """A hand-over whose Lease cannot be among the records yet is counted, and makes no duplicate."""
    life = Life().made(3).made(30_100, attempt=2).settle(DELIVERED, 30_200, attempt=2).end(30_201, DONE, attempt=2)
    judged = life.judged(until_ms=T + 30_000)
    assert (judged.causes, judged.beyond) == ([], 2)


def test_rows_name_both_hand_overs() -> None:
    """A duplicate's row has the later and the earlier one, and the lease that was between them."""
    life = Life().made(3).made(30_100, 6, 2).settle(DELIVERED, 30_200, 6, 2)
    found = {name: int(column[0]) for name, column in life.judged().duplicates.items()}
    assert (found["term"], found["attempt"], found["node"], found["at_ms"]) == (6, 2, 2, T + 30_100)
    assert (found["before_term"], found["before_attempt"], found["before_node"], found["before_ms"]) == (5, 1, 1, T + 3)
    assert (found["home"], found["other"], found["lease_end_ms"]) == (HOME, HOME, T + 3 + LEASE)
