"""A part of `answers`: compares counts of open messages, and the ledger's sums, with the numbers that are possible."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from chaos.history.event import (
    Acked,
    Applied,
    Cancelled,
    Counted,
    HandedOver,
    Nacked,
    Offered,
    Promoted,
    Rescheduled,
    Settled,
    Summed,
)
from chaos.history.truth import Truth
from storage.format.states import CANCELLED, DEAD, DELIVERED, EXPIRED

#: A count reads one hour after the other. A message that moves meanwhile may be counted twice or not at all.
MOVES_MS: Final = 2_000
#: The states of a message that has ended, in the log.
ENDED: Final = (DELIVERED, CANCELLED, DEAD, EXPIRED)


def counts(truth: Truth) -> Iterable[str]:
    """Check each count of open messages. It has to be at least the number of messages that were surely open from its
    request to its answer. It may be at most the number that may have been open at some moment of that time."""
    history = truth.history
    counted = history.of(Counted)
    if not counted:
        return
    acknowledged = history.acknowledged()
    may_end, ended = _ends(truth)
    moves = _moves(truth)
    by_topic: dict[str, list[Offered]] = defaultdict(list)
    for offered in history.of(Offered):
        by_topic[offered.topic].append(offered)
    refused = {number for number, answer in history.answered().items() if answer.outcome == "refused"}
    never = float("inf")
    for count in counted:
        least = most = 0
        for offered in by_topic[count.topic]:
            number, answer = offered.number, acknowledged.get(offered.number)
            moved = any(count.asked_mono_ms - MOVES_MS <= at_ms <= count.mono_ms for at_ms in moves.get(number, ()))
            if offered.mono_ms <= count.mono_ms and number not in refused:
                most += (1 + moved) * (ended.get(number, never) > count.asked_mono_ms)
            if answer is not None and answer.mono_ms < count.asked_mono_ms and not moved:
                least += may_end.get(number, never) > count.mono_ms
        if not least <= count.count <= most:
            yield (
                f"count of {count.topic} at {count.asked_mono_ms:.0f} ms said {count.count}, "
                f"at least {least} and at most {most} were open"
            )


def sums(truth: Truth) -> Iterable[str]:
    """Check the ledger's sums: no message is lost, and no failover repeated a strict one. If the ledger is complete, it
    counts at least as many hand-overs as were received."""
    for told in truth.history.of(Summed):
        received = sum(len(truth.received_before(number, told.asked_mono_ms)) for number in truth.hand_overs)
        if told.lost or told.strict_failover:
            yield f"the ledger sums up {told.lost} lost, {told.strict_failover} strict repeated by a failover"
        if told.complete and told.hand_overs < received:
            yield f"the ledger sums up {told.hand_overs} hand-overs, complete, {received} received"


def _ends(truth: Truth) -> tuple[dict[int, float], dict[int, float]]:
    """By number: the moment from which a message may have ended, and the moment by which it had surely ended."""
    may_end: dict[int, float] = {}
    ended: dict[int, float] = {}
    numbers = truth.number_of | {event.message_id: event.number for event in truth.received}
    applied_ms = _applied_ms(truth)
    many = truth.history.all_cancels()[len(truth.history.of(Cancelled)) :]
    for event in [*truth.history.events, *many]:
        if isinstance(event, HandedOver) and event.pushed:
            may_end.setdefault(event.number, event.mono_ms)
        elif isinstance(event, Acked | Nacked | Cancelled):
            # When the request was sent. The wall clock of a history is true, so it gives the time from request to
            # answer.
            asked_ms = event.mono_ms - (event.wall_ms - event.asked_wall_ms) - 1
            may_end[event.number] = min(asked_ms, may_end.get(event.number, asked_ms))
            if getattr(event, "result", "") == "acked" or getattr(event, "outcome", "") == "cancelled":
                ended.setdefault(event.number, event.mono_ms)
        elif isinstance(event, Settled) and event.what in ENDED and event.message_id in numbers:
            number, at_ms = numbers[event.message_id], applied_ms.get(event.index, float("inf"))
            ended[number] = min(at_ms, ended.get(number, at_ms))
    return may_end, ended


def _applied_ms(truth: Truth) -> dict[int, float]:
    """By index of an entry: the moment from which every node that leads has applied it. The leader of the entry's term
    has applied it when that was seen. Each later leader has applied it when its own term begins. A follower may apply
    an entry before a leader whose disk is slow."""
    promoted = truth.history.of(Promoted)
    leaders = {event.term: event.node for event in promoted}
    found: dict[int, float] = {}
    for event in truth.history.of(Applied):
        if leaders.get(event.term) == event.node:
            at_ms = event.mono_ms
        else:
            at_ms = next((later.mono_ms for later in promoted if later.term > event.term), float("inf"))
        found[event.index] = min(at_ms, found.get(event.index, at_ms))
    return found


def _moves(truth: Truth) -> dict[int, list[float]]:
    """By number: the moments at which a message may have moved to another position."""
    moves: dict[int, list[float]] = defaultdict(list)
    for event in truth.history.events:
        if isinstance(event, Rescheduled | Nacked | HandedOver):
            moves[event.number].append(event.mono_ms)
    return moves
