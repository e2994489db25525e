"""Why a first hand-over was late.

    late = begin of the first hand-over - due time asked for > Context.late_ms

The causes are tried in this order, and the first that fits is taken:

1. scheduled_late: counted from when it was scheduled, or rescheduled, it is not late.
2. no_leader: it fell due between two terms. The term before had ended by its own record, or, if its leader was killed,
   by the last that was seen of it. The term that handed it over had not begun, and did so within the grace.
3. waiting: the start record holds the dispatch state of that moment. Units that the state names were dispatched some
   time before, and waited for a consumer or for their receiver.
4. dispatch: all others. They went out as soon as they were dispatched, which was late.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ledger.bucket import Context
from ledger.columns import LateCause
from storage.format.array import I64, U8, U32
from storage.record.delivery_record import PUSH

_LONG_AGO = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class FirstHandOvers:
    """Late first hand-overs, [n] each."""

    at_ms: I64
    asked_due_ms: I64
    since_ms: I64  # the later of its due time and of when it was scheduled or rescheduled
    slot: I64  # the second in which the wheel had it
    rank: I64  # its ordinal in that second, -1: not known
    tick: I64
    local_index: U32
    term: U32
    mode: U8


def late_causes(first: FirstHandOvers, context: Context) -> U8:
    """A LateCause for each, [n]."""
    dispatched = (first.tick > first.slot) | (
        (first.tick == first.slot) & (first.rank >= 0) & (first.local_index > first.rank)
    )
    waiting = np.where(first.mode == PUSH, LateCause.WAITING_FOR_RECEIVER, LateCause.WAITING_FOR_CONSUMER)
    cause = np.where(dispatched, waiting, LateCause.DISPATCH)
    cause[_leaderless(first, context)] = LateCause.NO_LEADER
    cause[first.at_ms - first.since_ms <= context.late_ms] = LateCause.SCHEDULED_LATE
    return cause.astype(np.uint8)


def _leaderless(first: FirstHandOvers, context: Context) -> npt.NDArray[np.bool_]:
    terms = context.terms
    if not len(terms):
        return np.zeros(len(first.term), np.bool_)
    numbers = terms["term"].copy()
    row = np.minimum(numbers.searchsorted(first.term), len(numbers) - 1)
    known = numbers[row] == first.term
    begun_ms = terms["begun_ms"][row]
    ends_ms = np.where(terms["ended_ms"] > 0, terms["ended_ms"], terms["seen_ms"])
    before_ms = np.concatenate([[_LONG_AGO], ends_ms[:-1]])[row]
    fell_between = (first.since_ms < begun_ms) & (first.since_ms >= before_ms)
    found: npt.NDArray[np.bool_] = known & (begun_ms > 0) & fell_between & (first.at_ms <= begun_ms + context.grace_ms)
    return found
