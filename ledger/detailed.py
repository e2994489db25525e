"""The detailed rules. They judge messages that were moved, leased, failed, handed over several times, or settled
without a hand-over on record.

Their records are sorted once by (message, term, attempt). All later steps work on arrays with one row for each
hand-over or for each message, however many records a message has.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ledger.bucket import Bucket, Context
from ledger.by_message import Newest, RecordsByMessage, lift
from ledger.columns import DUPLICATES, ENDED_CLASSES, Columns, Flag, Lost, MessageClass, empty_columns
from ledger.coverage import Coverage
from ledger.hand_overs import REDRIVEN, RESCHEDULED, RESENT, Keyed, Records, done, leases, read, records_of
from ledger.lateness import FirstHandOvers, late_causes
from ledger.repeats import Outcomes, Repeats, outcomes_of, repeats_of
from storage.catalog.doubt import CLOCKS_MS
from storage.format.array import I64, U8
from storage.format.rows import BY_RECEIPT
from storage.format.states import CANCELLED, FORWARDED, IS_HELD, LEASED

_COUNT_MAX = 0xFFFF
_Bools = npt.NDArray[np.bool_]


def judge_in_detail(
    bucket: Bucket,
    trail: RecordsByMessage,
    newest: Newest,
    at: I64,
    rows: Columns,
    context: Context,
    coverage: Coverage,
    held: _Bools,
) -> Columns:
    """Judge the units `at`, rising rows of the bucket, and return their DUPLICATES. Class, counts and flags of each
    message are written to `rows`. In `held` [n] the entries of units whose state allows no hand-over for now are set to
    True."""
    records = records_of(bucket, trail, newest, at)
    outcomes = outcomes_of(records)
    kind: U8 = ENDED_CLASSES[newest.what[at]]
    settled_ms = np.where(kind > 0, newest.at_ms[at], 0)
    repeats = repeats_of(records, outcomes, settled_ms, context)
    flags = np.zeros(len(at), np.uint32)
    _count(records, repeats, rows, flags)
    _place(records, rows)
    held[at] = IS_HELD[records.standing.what]
    running = _classify(records, outcomes, kind, context)
    kind[(kind == MessageClass.DELIVERED_ONCE) & (rows["duplicates"][at] > 0)] = MessageClass.DELIVERED_MORE
    _begin(bucket, records, rows, flags, context)
    _flag_hand_overs(records, outcomes, repeats, newest, running, flags)
    _flag_cancelled(records, newest, settled_ms, context, flags)
    _flag_moves(records, flags)
    _flag_unsettled(records, kind, rows, context, flags)
    _trace(records, newest, kind, settled_ms, rows, flags, context, coverage)
    rows["class"][at] = kind
    rows["settled_ms"][at] = settled_ms
    rows["code"][at] = np.where(settled_ms > 0, newest.code[at], 0)
    rows["flags"][at] |= flags
    return _duplicates(records, outcomes, repeats, rows)


def _any(message: I64, count: int) -> _Bools:
    """Return a boolean array [count], True for each message whose number is in `message`."""
    found = np.zeros(count, np.bool_)
    found[message] = True
    return found


def _count(records: Records, repeats: Repeats, rows: Columns, flags: npt.NDArray[np.uint32]) -> None:
    """Write to `rows` each message's number of hand-overs, of retries and of duplicates."""
    count, message = len(records.at), records.hand_overs.message
    again = message[repeats.later]
    for name, rows_of in (
        ("hand_overs", message),
        ("retries", again[repeats.cause == 0]),
        ("duplicates", again[repeats.cause > 0]),
    ):
        rows[name][records.at] = np.minimum(np.bincount(rows_of, minlength=count), _COUNT_MAX).astype(np.uint16)
    flags[_any(again[repeats.cause == 0], count)] |= np.uint32(Flag.RETRIED)


def _place(records: Records, rows: Columns) -> None:
    """Set the due times of moved messages, in `rows`, to those of the unit where each message stands at the end of the
    records."""
    standing = records.standing
    moved = np.flatnonzero(standing.placed)
    rows["due_ms"][records.at[moved]] = standing.due_ms[moved]
    rows["asked_due_ms"][records.at[moved]] = standing.asked_due_ms[moved]


def _classify(records: Records, outcomes: Outcomes, kind: U8, context: Context) -> _Bools:
    """Set the class of messages that have not ended, in `kind`. Return a boolean array [h], True for each hand-over
    whose lease may still run."""
    hand_overs, standing = records.hand_overs, records.standing
    open_ = kind == 0
    leased = open_ & (standing.what == LEASED) & (standing.when > context.until_ms)
    last = np.ones(len(hand_overs.message), np.bool_)
    last[:-1] = hand_overs.message[1:] != hand_overs.message[:-1]
    # A hand-over of a moment before the records end, whose Lease is not among them yet.
    fresh = last & ~outcomes.leased & ~outcomes.known & (hand_overs.at_ms > context.until_ms - context.grace_ms)
    leased |= open_ & _any(hand_overs.message[fresh], len(kind))
    kind[open_] = MessageClass.PENDING
    kind[leased] = MessageClass.IN_FLIGHT
    running: _Bools = last & leased[hand_overs.message]
    return running


def _begin(bucket: Bucket, records: Records, rows: Columns, flags: npt.NDArray[np.uint32], context: Context) -> None:
    """Write to `rows` when the first hand-over of each message began, how late it was, and why."""
    hand_overs = records.hand_overs
    first = np.flatnonzero(np.diff(hand_overs.message, prepend=-1))
    message = hand_overs.message[first]
    at = records.at[message]
    at_ms, asked_due_ms = hand_overs.at_ms[first], hand_overs.asked_due_ms[first]
    for name in ("term", "attempt", "node", "mode"):
        rows[name][at] = getattr(hand_overs, name)[first]
    rows["first_ms"][at] = at_ms
    rows["late_ms"][at] = at_ms - asked_due_ms
    late = np.flatnonzero(at_ms - asked_due_ms > context.late_ms)
    if not len(late):
        return
    flags[message[late]] |= np.uint32(Flag.LATE)
    tick, local_index = lift(bucket.deliveries, ["tick", "local_index"], hand_overs.row[first[late]])
    home_due_ms = bucket.units["due_ms"][at[late]]
    asked_ms = asked_due_ms[late]
    moved_ms = _rescheduled_ms(records, message[late], at_ms[late])
    slot_ms = np.where(moved_ms > 0, np.maximum(asked_ms, moved_ms), home_due_ms)
    rank = bucket.units["local_index"][at[late]].astype(np.int64)
    rows["late_cause"][at[late]] = late_causes(
        FirstHandOvers(
            at_ms=at_ms[late],
            asked_due_ms=asked_ms,
            since_ms=np.maximum(np.maximum(asked_ms, rows["created_ms"][at[late]]), moved_ms),
            slot=slot_ms // 1000,
            rank=np.where(moved_ms > 0, -1, rank),
            tick=tick,
            local_index=local_index,
            term=hand_overs.term[first[late]],
            mode=hand_overs.mode[first[late]],
            topic=rows["topic"][at[late]],
        ),
        context,
    )


def _rescheduled_ms(records: Records, message: I64, until_ms: I64) -> I64:
    """When each message was last rescheduled at or before its time in `until_ms`, 0 if it never was. No message comes
    twice."""
    settles = records.settles
    last_ms = np.zeros(len(records.at), np.int64)
    limit_ms = np.full(len(records.at), -1, np.int64)
    limit_ms[message] = until_ms
    its = np.flatnonzero((settles.what == FORWARDED) & (settles.code == RESCHEDULED))
    its = its[settles.at_ms[its] <= limit_ms[settles.message[its]]]
    np.maximum.at(last_ms, settles.message[its], settles.at_ms[its])
    return last_ms[message]


def _flag_hand_overs(
    records: Records,
    outcomes: Outcomes,
    repeats: Repeats,
    newest: Newest,
    running: _Bools,
    flags: npt.NDArray[np.uint32],
) -> None:
    """Flag messages with a hand-over that was early, with one whose outcome is unknown, or with one that two nodes
    recorded as theirs."""
    hand_overs, count = records.hand_overs, len(records.at)
    for which, flag in (
        (hand_overs.at_ms < hand_overs.asked_due_ms, Flag.EARLY),
        (~outcomes.known & ~running, Flag.UNKNOWN_OUTCOME),
    ):
        flags[_any(hand_overs.message[which], count)] |= np.uint32(flag)
    twice = repeats.later[hand_overs.key[repeats.later] == hand_overs.key[repeats.before]]
    claimed = twice[hand_overs.node[twice] != hand_overs.node[twice - 1]]
    flags[hand_overs.message[claimed]] |= np.uint32(Flag.NODES_DISAGREE)


def _flag_cancelled(
    records: Records, newest: Newest, settled_ms: I64, context: Context, flags: npt.NDArray[np.uint32]
) -> None:
    """Flag messages with a hand-over that began after their cancel. If another node's clock timed the cancel, the
    hand-over must be later by more than `Context.skew_ms`."""
    hand_overs = records.hand_overs
    message = hand_overs.message
    cancelled = newest.what[records.at] == CANCELLED
    skew_ms = np.where(hand_overs.node == newest.node[records.at][message], 0, context.skew_ms)
    after = cancelled[message] & (hand_overs.at_ms > settled_ms[message] + skew_ms)
    flags[message[after]] |= np.uint32(Flag.DELIVERED_AFTER_CANCEL)


def _flag_moves(records: Records, flags: npt.NDArray[np.uint32]) -> None:
    settles = records.settles
    for code, flag in ((RESCHEDULED, Flag.RESCHEDULED), (REDRIVEN, Flag.REDRIVEN), (RESENT, Flag.RESENT)):
        its = (settles.what == FORWARDED) & (settles.code == code)
        flags[settles.message[its]] |= np.uint32(flag)


def _flag_unsettled(records: Records, kind: U8, rows: Columns, context: Context, flags: npt.NDArray[np.uint32]) -> None:
    """Flag messages that a consumer got, by a node's account or by its receipt, and that are not settled as delivered.
    An end record within `Context.grace_ms` before the end of the records does not count, because its settle record may
    come later."""
    ends = records.ends
    said = done(ends) & (ends.at_ms <= context.until_ms - context.grace_ms)
    had = _any(ends.message[said], len(kind)) | (rows["received"][records.at] > 0)
    otherwise = (kind != MessageClass.DELIVERED_ONCE) & (kind != MessageClass.DELIVERED_MORE)
    flags[had & otherwise] |= np.uint32(Flag.DELIVERED_UNSETTLED)


def _trace(
    records: Records,
    newest: Newest,
    kind: U8,
    settled_ms: I64,
    rows: Columns,
    flags: npt.NDArray[np.uint32],
    context: Context,
    coverage: Coverage,
) -> None:
    """Flag messages with a hand-over that settle records name and no node's account has.

    If the accounts have a gap at that time, the message is flagged because records are missing. If they have none, the
    hand-over that ended the message is flagged as untraced. A message that was settled as delivered is lost if no
    hand-over and no receipt of it is on record.
    """
    settles, at = records.settles, records.at
    flags[records.standing.astray] |= np.uint32(Flag.RECORDS_MISSING)
    told = Keyed(records.hand_overs.key)
    its = np.flatnonzero(leases(settles))
    its = its[~told.find(settles.key[its]).there]
    leased_ms = settles.at_ms[its]
    seen = coverage.of_node(settles.node[its], leased_ms, leased_ms) & coverage.of_term(settles.term[its], leased_ms)
    by_receipt = settles.code[its] & np.uint16(BY_RECEIPT) > 0  # node and time are those of the extension
    blind = its[~seen | by_receipt]
    flags[settles.message[blind]] |= np.uint32(Flag.RECORDS_MISSING)
    delivered = (kind == MessageClass.DELIVERED_ONCE) | (kind == MessageClass.DELIVERED_MORE)
    untold = np.flatnonzero(delivered & ~told.find(records.ended_by).there)
    if not len(untold):
        return
    its = np.flatnonzero(leases(settles) & (settles.code & np.uint16(BY_RECEIPT) == 0))
    leased = Keyed(settles.key[its])
    ended_by = leased.find(records.ended_by[untold])
    node = read(leased.first(settles.node[its]), ended_by, 0).astype(np.uint16)
    leased_ms = read(leased.first(settles.at_ms[its]), ended_by, 0)
    from_ms = np.minimum(rows["asked_due_ms"][at[untold]], settled_ms[untold]) - context.skew_ms
    term = records.ended_term[untold]
    # Another leader, whose clock was behind, may have settled it.
    seen_ms = settled_ms[untold] + np.where(newest.node[at[untold]] == coverage.leader_of(term), 0, CLOCKS_MS)
    until_ms = seen_ms + context.skew_ms  # a strict start is written when its Lease is in the log
    seen = np.where(
        leased_ms > 0,
        coverage.of_node(node, leased_ms, np.maximum(leased_ms, until_ms)),
        coverage.of_all(from_ms, until_ms),
    )
    seen &= coverage.of_term(term, np.maximum(leased_ms, seen_ms))
    flags[untold[~seen]] |= np.uint32(Flag.RECORDS_MISSING)
    flags[untold[seen]] |= np.uint32(Flag.UNTRACED)
    inside = rows["flags"][at[untold]] & np.uint32(Flag.OUTSIDE_WINDOW) == 0
    gone = untold[seen & inside & (rows["hand_overs"][at[untold]] == 0) & (rows["received"][at[untold]] == 0)]
    kind[gone] = MessageClass.LOST
    rows["lost"][at[gone]] = Lost.NO_TRACE


def _duplicates(records: Records, outcomes: Outcomes, repeats: Repeats, rows: Columns) -> Columns:
    extra = np.flatnonzero(repeats.cause)
    hand_overs = records.hand_overs
    later, before = repeats.later[extra], repeats.before[extra]
    at = records.at[hand_overs.message[later]]
    found = empty_columns(DUPLICATES, len(extra))
    found["home"] = found["other"] = rows["home"][at]
    found["random"], found["topic"] = rows["random"][at], rows["topic"][at]
    found["cause"] = repeats.cause[extra]
    for name in ("mode", "term", "attempt", "node", "at_ms"):
        found[name] = getattr(hand_overs, name)[later]
    for name, of in (
        ("before_term", "term"), ("before_attempt", "attempt"), ("before_node", "node"), ("before_ms", "at_ms")
    ):  # fmt: skip
        found[name] = getattr(hand_overs, of)[before]
    found["lease_end_ms"] = outcomes.lease_end_ms[before]
    return found
