"""An operation's set is exact: what surely was in it is cancelled, and what surely was not is not, by it.

That nothing of a set is delivered after the answer is judged like any cancel (unscheduled.py, linear.py). Messages that
were never delivered, moved or cancelled alone have one due time. So it is sure if they match, unless a lease may have
come first. The simulator sees each hand-over that a node begins. Elsewhere a message is not leased if it is due later
than the answer by more than `lease_ahead_ms` (history/bounds.py). Strict pushes are leased ahead, and then they are not
sure.
"""

from typing import Final

from chaos.history.bounds import Bounds
from chaos.history.event import (
    Answered,
    Begun,
    Cancelled,
    Gone,
    HandedOver,
    ManyCancelled,
    ManyMoved,
    Nacked,
    Rescheduled,
)
from chaos.history.history import History
from chaos.history.verdict import Verdict

NEVER: Final = float("inf")


def check_operations(history: History, bounds: Bounds) -> Verdict:
    """Check each operation against the messages that were acknowledged before it was asked for, and after."""
    offered, acknowledged, touched_ms = history.offered(), history.acknowledged(), _touched_ms(history)
    begun_ms = {event.message_id: event.mono_ms for event in reversed(history.of(Begun))}
    cancelled = {number for number, event in history.cancels().items() if event.outcome != "refused"}
    singly = {event.number for event in history.of(Cancelled) if event.outcome != "refused"}
    gone = {event.number: event for event in history.of(Gone) if event.sure and event.number not in singly}
    by_topic: dict[str, list[Answered]] = {}
    for number, answer in acknowledged.items():
        by_topic.setdefault(offered[number].topic, []).append(answer)
    faults: list[str] = []
    matched = 0
    operations = history.of(ManyCancelled)
    for operation in operations:
        name = f"{operation.operation or 'operation'} on {operation.topic} at {operation.wall_ms}"
        ours = [event for event in gone.values() if event.asked_wall_ms == operation.asked_wall_ms]
        if 0 <= operation.changed < len(ours):
            faults.append(f"{name}: said {operation.changed} cancelled, and {len(ours)} are")
        window = range(operation.from_ms, operation.to_ms)
        for event in ours:
            told = acknowledged[event.number]
            if event.number not in touched_ms and told.due_ms not in window:
                faults.append(f"{name}: message {event.number} is cancelled, due {told.due_ms}, not in its window")
            later = told.written_after_ms(offered[event.number]) > operation.mono_ms
            if later and operation.outcome == "begun":
                faults.append(f"{name}: message {event.number} is cancelled, and was sent after its answer")
        if operation.outcome != "begun" or operation.changed < 0:
            continue
        for answer in by_topic.get(operation.topic, ()):
            far = is_far(answer, operation, bounds)
            idle = begun_ms.get(answer.message_id, NEVER) > operation.mono_ms and not offered[answer.number].strict
            there = answer.wall_ms < operation.asked_wall_ms and answer.due_ms in window
            still = touched_ms.get(answer.number, NEVER) > operation.mono_ms
            if there and still and (far or (idle and begun_ms)):
                matched += 1
                if answer.number not in cancelled:
                    faults.append(f"{name}: message {answer.number}, due {answer.due_ms}, was left out")
    figure = {
        "operations": len(operations),
        "begun": sum(each.outcome == "begun" for each in operations),
        "cancelled": len(gone),
        "sure": matched,
        "wrong": len(faults),
    }
    return Verdict("operations", figure, faults)


def is_far(answer: Answered, operation: ManyCancelled | ManyMoved, bounds: Bounds) -> bool:
    """True if a message was due too late to have been leased before the answer to the operation."""
    return bounds.lease_ahead_ms is not None and answer.due_ms >= operation.wall_ms + bounds.lease_ahead_ms


def _touched_ms(history: History) -> dict[int, float]:
    """By number: the first moment at which a message may have been handed over or moved."""
    found: dict[int, float] = {}
    for event in history.events:
        if isinstance(event, HandedOver):
            at_ms = event.mono_ms - max(0, event.wall_ms - event.began_ms)
        elif isinstance(event, Nacked | Rescheduled):
            at_ms = event.mono_ms - (event.wall_ms - event.asked_wall_ms) - 1
        else:
            continue
        found[event.number] = min(at_ms, found.get(event.number, at_ms))
    return found
