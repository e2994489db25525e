"""Why a first hand-over was late.

    late = begin of the first hand-over - due time asked for > Context.late_ms

The causes are tried in this order, and the first that fits is taken:

1. scheduled_late: counted from the moment when it was scheduled or rescheduled, the hand-over is not late.
2. no_leader: the message fell due between two terms. The earlier term had ended by the record of its end. If its leader
   was killed, the latest of the term's records counts as the end. The later term handed the message over, at most
   `Context.grace_ms` after it began.
3. pause: the topic was paused for the longer part of the delay. Only the newest pause of a topic is known.
4. waiting_for_consumer, waiting_for_receiver: the start record has the dispatch state of its moment. By that state the
   unit had been dispatched before. So it waited for a pull, or for its webhook receiver.
5. dispatch: in all other cases the unit was handed over as soon as it was dispatched, but it was dispatched late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ledger.bucket import Context
from ledger.columns import LateCause
from storage.format.array import I64, U8, U32
from storage.record.delivery_record import PUSH
from storage.tables.topic import NO_PAUSE

_LONG_AGO = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class FirstHandOvers:
    """Late first hand-overs of n messages, [n] each, with the facts from which their cause is found."""

    at_ms: I64
    asked_due_ms: I64
    since_ms: I64  # its due time, or when it was scheduled or rescheduled if that is later
    slot: I64  # the second, counted as ticks are, in whose slot the wheel had the unit
    rank: I64  # the unit's ordinal in that second, -1: not known
    tick: I64
    local_index: U32
    term: U32
    mode: U8
    topic: U32


class Pauses(NamedTuple):
    """The newest pause of the topic of each of n messages, [n] each: see storage.tables.topic.Pause."""

    since_ms: I64
    until_ms: I64

    @classmethod
    def of(cls, topic: U32, context: Context) -> Pauses:
        """Return the pauses of these topics, by their numbers."""
        numbers, at = np.unique(topic, return_inverse=True)
        known = [context.topics.get(number) for number in numbers.tolist()]
        pauses = np.array([NO_PAUSE if each is None else each.pause for each in known], np.int64).reshape(-1, 2)
        return cls(pauses[at, 0], pauses[at, 1])

    def held_ms(self, from_ms: I64, to_ms: I64 | int) -> I64:
        """How long each message was held between these times, [n]."""
        held: I64 = np.minimum(self.until_ms, to_ms) - np.maximum(self.since_ms, from_ms)
        return np.maximum(held, 0)


def late_causes(first: FirstHandOvers, context: Context) -> U8:
    """Return the LateCause of each of these hand-overs, [n]."""
    dispatched = (first.tick > first.slot) | (
        (first.tick == first.slot) & (first.rank >= 0) & (first.local_index > first.rank)
    )
    waiting = np.where(first.mode == PUSH, LateCause.WAITING_FOR_RECEIVER, LateCause.WAITING_FOR_CONSUMER)
    cause = np.where(dispatched, waiting, LateCause.DISPATCH)
    pauses = Pauses.of(first.topic, context)
    # While a topic is paused nothing is handed over. So a hand-over before the end of a pause was before its begin.
    paused_ms = np.where(first.at_ms >= pauses.until_ms, pauses.held_ms(first.since_ms, first.at_ms), 0)
    cause[(paused_ms > 0) & (2 * paused_ms >= first.at_ms - first.since_ms)] = LateCause.PAUSE
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
