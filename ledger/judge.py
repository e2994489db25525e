"""Judges one bucket: gives every message a class, and every duplicate a cause.

Two facts decide nearly all messages: the newest settle record of their unit, and the one hand-over that a node wrote
down. The quick rules (`_quick`) judge these messages in arrays by global_index, without a sort:

    delivered                       by the hand-over that is the only one on record
    cancelled, expired, pending     without any hand-over

All other messages (moved, several hand-overs, a lease, a failure, no hand-over on record) go through the detailed rules
(detailed.py), which sort. Those rules tell a retry from a duplicate and one cause from another.

The last step looks at the gaps of the accounts. If no gap touches the time in which a message could be handed over, its
one hand-over on record was the only one. Otherwise there may have been more. Then the class of the message is
`delivered`, not `delivered_once`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ledger.bucket import BUCKET_UNITS, Bucket, Context
from ledger.by_message import Newest, RecordsByMessage, lift, name_of, newest_of, storied, trail_of
from ledger.columns import (
    DELIVERED_CLASSES,
    DUPLICATES,
    LEDGER,
    Cause,
    Columns,
    Flag,
    LateCause,
    Lost,
    MessageClass,
    empty_columns,
    ended_class,
    join_columns,
    take_columns,
)
from ledger.coverage import Coverage
from ledger.detailed import judge_in_detail
from ledger.lateness import FirstHandOvers, Pauses, late_causes
from ledger.scheduled_twice import find_twins, twin_rows
from ledger.unrecorded import unseen
from storage.format.array import I64, U8
from storage.format.position import EVER_MS
from storage.format.states import CANCELLED, DELIVERED, EXPIRED, IS_SETTLED, PENDING, table

_ATTEMPT_BITS = np.uint64(0xFFFF)
_COUNT_MAX = 0xFFFF


@dataclass(frozen=True, slots=True)
class Ledger:
    """The result of `judge`. `messages` has a row for each message born in the bucket, in order of home. `duplicates`
    has a row for each hand-over that repeats another one and is no retry."""

    messages: Columns  # ledger.columns.LEDGER
    duplicates: Columns  # ledger.columns.DUPLICATES
    foreign: int = 0
    """The number of hand-overs, settle records and receipts that name no message of the bucket, or one with other
    random bits."""
    beyond: int = 0
    """The number of starts and ends of hand-overs after Context.until_ms, which are not judged."""
    gaps: tuple[int, ...] = ()
    """The gaps in which a message of the bucket may have been handed over, as ordinals in Context.gaps."""
    restored: bool = False
    """True if some of the messages were in the backup that the cluster was made from."""


def judge(bucket: Bucket, context: Context) -> Ledger:
    """Make the ledger of one bucket. Pure: no clock, no file. The same records give the same rows, in the same
    order."""
    count = len(bucket.units)
    assert count <= BUCKET_UNITS, f"{count} units in a bucket, {BUCKET_UNITS} at most"
    trail = trail_of(bucket, context.until_ms)
    newest = newest_of(bucket, trail)
    rows = _known(bucket, trail, context)
    quick = _quick(bucket, trail, newest, rows, context)
    long = np.flatnonzero(trail.born & ~quick)
    coverage = Coverage(context)
    held = np.zeros(count, np.bool_)
    duplicates = (
        judge_in_detail(bucket, trail, newest, long, rows, context, coverage, held)
        if len(long)
        else empty_columns(DUPLICATES)
    )
    gaps, restored = _doubt(bucket, rows, trail, context)
    _flag_all(rows, context, coverage, held)
    if bucket.headers is not None and context.twins_ms:
        duplicates = _with_twins(bucket, rows, duplicates, context)
    if not trail.born.all():
        rows = take_columns(rows, trail.born)
    return Ledger(rows, duplicates, trail.foreign, trail.beyond, gaps, restored)


def _doubt(bucket: Bucket, rows: Columns, trail: RecordsByMessage, context: Context) -> tuple[tuple[int, ...], bool]:
    """Flag messages of which a hand-over may be missing from the records. It may have happened in a gap, or before the
    backup that the cluster was made from.

    Return the ordinals of those gaps, and True if a message was in the backup.
    """
    hidden, gaps = unseen(bucket, rows, trail.born, context)
    restored = np.zeros_like(hidden) if bucket.restored is None else bucket.restored & trail.born
    hidden |= restored
    rows["flags"][hidden] |= np.uint32(Flag.RECORDS_MISSING)
    missing = rows["flags"] & np.uint32(Flag.RECORDS_MISSING) > 0
    rows["class"][missing & (rows["class"] == MessageClass.DELIVERED_ONCE)] = MessageClass.DELIVERED
    return gaps, bool(restored.any())


def _known(bucket: Bucket, trail: RecordsByMessage, context: Context) -> Columns:
    """Rows with all fields that do not depend on hand-overs and settle records."""
    count = len(bucket.units)
    rows = empty_columns(LEDGER, count)
    rows["home"][:] = np.arange(count, dtype=np.uint64) + np.uint64(trail.origin)
    rows["topic"], rows["due_ms"] = lift(bucket.units, ["topic", "due_ms"])
    rows["asked_due_ms"] = rows["due_ms"].copy()
    if bucket.headers is not None:
        rows["random"], rows["created_ms"], asked_due_ms, size = lift(
            bucket.headers, ["random", "created_ms", "asked_due_ms", "size"]
        )
        rows["asked_due_ms"] = np.where(size > 0, asked_due_ms, rows["due_ms"]) if (size == 0).any() else asked_due_ms
    rows["flags"][rows["due_ms"] < context.from_ms] = Flag.OUTSIDE_WINDOW
    if bucket.disputed is not None:
        rows["flags"][bucket.disputed] |= np.uint32(Flag.NODES_DISAGREE)
    rows["received"] = np.minimum(trail.received, _COUNT_MAX).astype(np.uint16)
    return rows


def _quick(
    bucket: Bucket, trail: RecordsByMessage, newest: Newest, rows: Columns, context: Context
) -> npt.NDArray[np.bool_]:
    """Judge the messages that the quick rules decide, and write their fields to `rows`. Return a boolean array [n],
    True for these messages."""
    more, several = storied(bucket, trail, newest)
    once = (trail.start_count == 1) & ~more
    its = once[trail.start_at]
    start_rows, at = (trail.starts, trail.start_at) if its.all() else (trail.starts[its], trail.start_at[its])
    term, attempt, at_ms, asked_due_ms, node, mode = lift(
        bucket.deliveries, ["term", "attempt", "at_ms", "asked_due_ms", "node", "mode"], start_rows
    )
    ended_by_it = (newest.what[at] == DELIVERED) & (newest.name[at] == name_of(term, attempt))
    if not ended_by_it.all():
        start_rows, at, term, attempt, at_ms, asked_due_ms, node, mode = (
            column[ended_by_it] for column in (start_rows, at, term, attempt, at_ms, asked_due_ms, node, mode)
        )
    delivered = np.zeros(len(bucket.units), np.bool_)
    delivered[at] = True
    rows["term"][at], rows["node"][at], rows["mode"][at] = term, node, mode
    rows["attempt"][at], rows["hand_overs"][at] = attempt, 1
    late_ms = at_ms - asked_due_ms
    rows["first_ms"][at], rows["late_ms"][at] = at_ms, late_ms
    rows["flags"][at[late_ms < 0]] |= np.uint32(Flag.EARLY)
    late = np.flatnonzero(late_ms > context.late_ms)
    if len(late):
        _blame(bucket, rows, at[late], start_rows[late], context)
    untouched = (trail.start_count == 0) & (trail.received == 0) & ~several
    untouched[trail.end_at] = False
    untouched &= (newest.what == PENDING) | (newest.what == CANCELLED) | (newest.what == EXPIRED)
    judged: npt.NDArray[np.bool_] = (delivered | untouched) & trail.born
    rows["class"][:] = np.where(judged, _CLASSES[newest.what], 0)
    ended = judged & IS_SETTLED[newest.what]
    rows["settled_ms"][:] = np.where(ended, newest.at_ms, 0)
    rows["code"][:] = np.where(ended, newest.code, 0)
    return judged


_CLASSES: U8 = table(lambda row: ended_class(row) or MessageClass.PENDING, np.uint8(0))


def _blame(bucket: Bucket, rows: Columns, at: I64, starts: I64, context: Context) -> None:
    """Flag the messages of the units `at` as late, and set the cause. `starts`, as long as `at`, has the row of each
    one's first hand-over in the bucket's deliveries."""
    at_ms, asked_due_ms, tick, local_index, term, mode = lift(
        bucket.deliveries, ["at_ms", "asked_due_ms", "tick", "local_index", "term", "mode"], starts
    )
    rows["flags"][at] |= np.uint32(Flag.LATE)
    first = FirstHandOvers(
        at_ms=at_ms,
        asked_due_ms=asked_due_ms,
        since_ms=np.maximum(asked_due_ms, rows["created_ms"][at]),
        slot=rows["due_ms"][at] // 1000,
        rank=bucket.units["local_index"][at].astype(np.int64),
        tick=tick,
        local_index=local_index,
        term=term,
        mode=mode,
        topic=rows["topic"][at],
    )
    rows["late_cause"][at] = late_causes(first, context)


def _flag_all(rows: Columns, context: Context, coverage: Coverage, held: npt.NDArray[np.bool_]) -> None:
    """Set the flags that hold for any message: strict, overdue, not received, lost."""
    flags, kind = rows["flags"], rows["class"]
    strict = [number for number, topic in context.topics.items() if topic.strict]
    if strict:
        flags[np.isin(rows["topic"], np.array(strict, np.uint32))] |= np.uint32(Flag.STRICT)
    waits = (kind == MessageClass.PENDING) & ~held
    overdue = np.flatnonzero(waits & (rows["due_ms"] < context.until_ms - context.grace_ms))
    if len(overdue):
        flags[overdue] |= np.uint32(Flag.OVERDUE)
        pauses = Pauses.of(rows["topic"][overdue], context)
        waits_first = (pauses.until_ms == EVER_MS) & (rows["hand_overs"][overdue] == 0)
        rows["late_cause"][overdue[waits_first]] = LateCause.PAUSE
        if context.lost_after_ms:
            _lose_overdue(rows, overdue, pauses, context, coverage)
    if context.receipts_until_ms > context.receipts_from_ms:
        _ask_receivers(rows, context)


def _lose_overdue(rows: Columns, overdue: I64, pauses: Pauses, context: Context, coverage: Coverage) -> None:
    """Set the class of overdue messages to lost if they were never handed over and are due for longer than
    `Context.lost_after_ms`. The pause of their topic does not count. While the topic is paused, or an operation on it
    runs, none is lost. All accounts must cover the time since they were due."""
    due_ms = rows["due_ms"][overdue]
    waited_ms = context.until_ms - due_ms - pauses.held_ms(due_ms, context.until_ms)
    gone = (waited_ms > context.lost_after_ms) & (pauses.until_ms != EVER_MS) & (rows["hand_overs"][overdue] == 0)
    if context.held_topics:
        gone &= ~np.isin(rows["topic"][overdue], np.array(sorted(context.held_topics), np.uint32))
    gone &= (rows["flags"][overdue] & np.uint32(Flag.OUTSIDE_WINDOW | Flag.RECORDS_MISSING)) == 0
    gone &= coverage.of_all(due_ms, np.full(len(due_ms), context.until_ms - context.grace_ms))
    lost = overdue[gone]
    rows["class"][lost] = MessageClass.LOST
    rows["lost"][lost] = Lost.NEVER_HANDED_OVER


def _ask_receivers(rows: Columns, context: Context) -> None:
    """Flag messages that were handed over in the time that the receipts cover, and that no receipt names. Of these,
    messages that were settled as delivered are lost."""
    first_ms, settled_ms = rows["first_ms"], rows["settled_ms"]
    last_ms = np.maximum(first_ms, settled_ms)
    asked = (first_ms >= context.receipts_from_ms) & (last_ms + context.grace_ms < context.receipts_until_ms)
    asked &= (rows["received"] == 0) & (first_ms > 0)
    if context.receipt_topics is not None:
        asked &= np.isin(rows["topic"], np.array(sorted(context.receipt_topics), np.uint32))
    rows["flags"][asked] |= np.uint32(Flag.NOT_RECEIVED)
    settled = np.isin(rows["class"], DELIVERED_CLASSES)
    lost = asked & settled & ((rows["flags"] & np.uint32(Flag.OUTSIDE_WINDOW)) == 0)
    rows["class"][lost] = MessageClass.LOST
    rows["lost"][lost] = Lost.NEVER_RECEIVED


def _with_twins(bucket: Bucket, rows: Columns, duplicates: Columns, context: Context) -> Columns:
    """Flag messages that were scheduled twice. If both equal messages were handed over, the first hand-over of the
    later one is a duplicate. Return it among `duplicates`, in order."""
    assert bucket.headers is not None
    likes = twin_rows(bucket.hour, bucket.first, bucket.units, bucket.headers)
    likes["first_ms"] = rows["first_ms"]
    twins = find_twins(bucket.before, likes, context.twins_ms)
    if not len(twins.home):
        return duplicates
    origin = rows["home"][0]
    at, names, before_ms = (twins.home - origin).view(np.int64), twins.other, twins.other_ms
    here = names >= origin
    other = np.where(here, names - origin, np.uint64(0)).view(np.int64)
    # A client that cancels a message and schedules it again repeats nothing.
    repeated = ~(here & (rows["class"][other] == MessageClass.CANCELLED) & (before_ms == 0))
    rows["flags"][at[repeated]] |= np.uint32(Flag.SCHEDULED_TWICE)
    both = repeated & (rows["first_ms"][at] > 0) & (before_ms > 0)
    at, names, before_ms, here, other = at[both], names[both], before_ms[both], here[both], other[both]
    found = empty_columns(DUPLICATES, len(at))
    for name in ("home", "random", "topic", "mode", "term", "attempt", "node"):
        found[name] = rows[name][at]
    found["at_ms"], found["cause"][:], found["other"] = rows["first_ms"][at], Cause.SCHEDULED_TWICE, names
    for name, of in (("before_term", "term"), ("before_attempt", "attempt"), ("before_node", "node")):
        found[name] = np.where(here, rows[of][other], 0).astype(DUPLICATES[name])
    found["before_ms"] = before_ms
    joined = join_columns([duplicates, found], DUPLICATES)
    return take_columns(joined, np.lexsort((joined["attempt"], joined["term"], joined["home"])))
