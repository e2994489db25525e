"""Decides what each hand-over after the first of its message is: a retry, or a duplicate with its cause.

Hand-overs of a message are ordered by (term, attempt), as the fence orders them. Each is compared with the one before.
The first line that fits counts:

    the one before                                            the later one      verdict
    of the same (term, attempt)                               any                unexplained
    before an operation made the message due again            after that         resent
    failed on record, before the later one began              any                a retry
    its Lease not on record                                   of a later term    failover: the Lease was lost with
                                                                                 the leader
    its Lease not on record                                   of the same term   unexplained
    its lease ran, by the record                              any                unexplained
    its lease was over; it settled the message, and the       any                acked late
    later one began no later than the grace after that
    its lease was over; it settled the message earlier        any                unexplained
    its lease was over; an end record says that it was        any                acked late
    acknowledged too late, or after the later one began
    its lease was over, without outcome on record             pull               lease ended
    its lease was over, without outcome on record             push               unknown outcome

A leader that another one has replaced may still hand over for a moment. Such a hand-over has the lower term, so it
stands before those of the next leader, whenever it was made. A Lease counts as on record only if its hand-over was
recorded for a time up to the begin of the later one. An extension may write a Lease later, for a hand-over that the log
did not know.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ledger.bucket import Context
from ledger.columns import Cause
from ledger.hand_overs import (
    RESENT,
    Keyed,
    Records,
    answered,
    done,
    failures,
    leases,
    read,
    refused,
)
from storage.format.array import I64, U8
from storage.format.states import DELIVERED, FORWARDED
from storage.record.delivery_record import LATE, PUSH

_Bools = npt.NDArray[np.bool_]
_NEVER = np.iinfo(np.int64).max
_SIDES: Final[tuple[Literal["left"], Literal["right"]]] = ("left", "right")


class Outcomes(NamedTuple):
    """The recorded facts about each of the h hand-overs, [h] each."""

    leased: _Bools  # its Lease is on record, at any time
    leased_ms: I64  # the earliest time in a Lease of it, _NEVER without one
    lease_end_ms: I64  # by its newest record, 0 without one
    lease_end_least_ms: I64  # by the record with the earliest end
    failed: _Bools  # by a settle record
    failed_ms: I64
    refused_ms: I64  # when it failed or was given back, by an end record; _NEVER without one
    settled: _Bools  # it ended the message as delivered
    done: _Bools  # an end record says that it was acknowledged
    done_ms: I64
    done_late: _Bools  # an end record says that this was too late
    known: _Bools  # the outcome is known, by any record


class Repeats(NamedTuple):
    """The judgement on each of the r hand-overs after the first of its message, [r] each. `later` is the ordinal of
    that hand-over among all hand-overs, `before` the ordinal of the hand-over before it."""

    before: I64
    later: I64
    cause: U8  # Cause; NONE: a retry


def outcomes_of(records: Records) -> Outcomes:
    """Find the outcome of each hand-over."""
    key = records.hand_overs.key
    settles, ends = records.settles, records.ends

    its = leases(settles)
    lease = Keyed(settles.key[its])
    leased = lease.find(key)
    its_fail = failures(settles)
    failure = Keyed(settles.key[its_fail])
    failed = failure.find(key)
    refusal = Keyed(ends.key[refused(ends)])
    ack = Keyed(ends.key[done(ends)])
    acked = ack.find(key)
    return Outcomes(
        leased=leased.there,
        leased_ms=read(lease.least(settles.at_ms[its]), leased, _NEVER),
        lease_end_ms=read(lease.last(settles.when[its]), leased, 0),
        lease_end_least_ms=read(lease.least(settles.when[its]), leased, 0),
        failed=failed.there,
        failed_ms=read(failure.least(settles.at_ms[its_fail]), failed, _NEVER),
        refused_ms=read(refusal.least(ends.at_ms[refused(ends)]), refusal.find(key), _NEVER),
        settled=Keyed(settles.key[settles.what == DELIVERED]).find(key).there,
        done=acked.there,
        done_ms=read(ack.least(ends.at_ms[done(ends)]), acked, _NEVER),
        done_late=Keyed(ends.key[ends.outcome == LATE]).find(key).there,
        known=Keyed(settles.key[answered(settles)]).find(key).there | Keyed(ends.key).find(key).there,
    )


def repeats_of(records: Records, outcomes: Outcomes, settled_ms: I64, context: Context) -> Repeats:
    """Compare each hand-over with the one before it of the same message, and say if it is a retry or a duplicate.
    `settled_ms` [k] is when each message ended, 0 while it is open."""
    hand_overs = records.hand_overs
    later = np.flatnonzero(hand_overs.message[1:] == hand_overs.message[:-1]) + 1
    before = later - 1
    at_ms = hand_overs.at_ms[later]
    known_later = outcomes.leased[later]
    failed = outcomes.failed[before] & (known_later | (outcomes.failed_ms[before] <= at_ms + context.skew_ms))
    failed |= outcomes.refused_ms[before] <= at_ms
    same = hand_overs.key[later] == hand_overs.key[before]
    on_record = outcomes.leased[before] & (outcomes.leased_ms[before] <= at_ms)
    # A Lease of the later hand-over stands behind all Leases of the earlier one. Without it, an extension of the
    # earlier one may have been written after the later one began, so the earliest end counts.
    ended_ms = np.where(known_later, outcomes.lease_end_ms[before], outcomes.lease_end_least_ms[before])
    over = ended_ms <= at_ms
    settled = outcomes.settled[before]
    just = at_ms <= settled_ms[hand_overs.message[later]] + context.grace_ms
    acked = outcomes.done_late[before] | (outcomes.done[before] & (outcomes.done_ms[before] >= at_ms))
    push = hand_overs.mode[before] == PUSH
    higher = hand_overs.term[later] > hand_overs.term[before]
    until_ms = at_ms + context.skew_ms
    resent = _resends(records, later, until_ms) > _resends(records, before, hand_overs.at_ms[before])
    cause = np.select(
        [same, resent, failed, ~on_record & higher, ~on_record | ~over, settled & just, settled, acked, push],
        [
            Cause.UNEXPLAINED,
            Cause.RESENT,
            Cause.NONE,
            Cause.FAILOVER,
            Cause.UNEXPLAINED,
            Cause.ACKED_LATE,
            Cause.UNEXPLAINED,
            Cause.ACKED_LATE,
            Cause.UNKNOWN_OUTCOME,
        ],
        Cause.LEASE_ENDED,
    )
    return Repeats(before, later, cause.astype(np.uint8))


def _resends(records: Records, rows: I64, until_ms: I64) -> I64:
    """How often an operation had made the message of each of these hand-overs due again by a time, shape of `rows`."""
    settles = records.settles
    its = np.flatnonzero((settles.what == FORWARDED) & (settles.code == RESENT))
    count = np.zeros(len(rows), np.int64)
    if not len(its) or not len(rows):
        return count
    its = its[np.lexsort((settles.at_ms[its], settles.message[its]))]
    message, at_ms = settles.message[its], settles.at_ms[its]
    first, end = (message.searchsorted(records.hand_overs.message[rows], side) for side in _SIDES)
    for more in range(int((end - first).max())):
        at = first + more
        count += (at < end) & (at_ms[np.minimum(at, len(its) - 1)] <= until_ms)
    return count
