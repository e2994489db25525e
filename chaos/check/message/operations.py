"""An operation's set is exact: what surely was in it is cancelled, and what surely was not is not, by it.

That nothing of a set is delivered after the answer is judged like any cancel (unscheduled.py, linear.py). Messages that
were never delivered, moved or cancelled alone have one due time. So it is sure if they match, unless the operation's
window begins so soon that a lease may have come first.
"""

from typing import Final

from chaos.history.bounds import Bounds
from chaos.history.event import Answered, Cancelled, Gone, HandedOver, ManyCancelled, Nacked, Rescheduled
from chaos.history.history import History
from chaos.history.verdict import Verdict

#: A message that is due later than this after the answer cannot have been leased before it. Right clocks differ
#: by less, and strict pushes are leased ahead by less.
SURE_MS: Final = 3_000


def check_operations(history: History, bounds: Bounds) -> Verdict:
    """Check each operation against the messages that were acknowledged before it was asked for, and after."""
    offered, acknowledged = history.offered(), history.acknowledged()
    touched = {event.number for event in history.events if isinstance(event, HandedOver | Nacked | Rescheduled)}
    cancelled = {number for number, event in history.cancels().items() if event.outcome != "refused"}
    singly = {event.number for event in history.of(Cancelled) if event.outcome != "refused"}
    gone = {event.number: event for event in history.of(Gone) if event.sure and event.number not in singly}
    still = {number: answer for number, answer in acknowledged.items() if number not in touched}
    by_topic: dict[str, list[Answered]] = {}
    for number, answer in still.items():
        by_topic.setdefault(offered[number].topic, []).append(answer)
    faults: list[str] = []
    matched = 0
    operations = history.of(ManyCancelled)
    for operation in operations:
        name = f"{operation.operation or 'operation'} on {operation.topic} at {operation.wall_ms}"
        ours = [event for event in gone.values() if event.asked_wall_ms == operation.asked_wall_ms]
        if 0 <= operation.changed < len(ours):
            faults.append(f"{name}: said {operation.changed} cancelled, and {len(ours)} are")
        for event in ours:
            alone = still.get(event.number)
            if alone is not None and not operation.from_ms <= alone.due_ms < operation.to_ms:
                faults.append(f"{name}: message {event.number} is cancelled, due {alone.due_ms}, not in its window")
            if alone is not None and alone.sent_mono_ms > operation.mono_ms and operation.outcome == "begun":
                faults.append(f"{name}: message {event.number} is cancelled, and was sent after its answer")
        if operation.outcome != "begun" or operation.changed < 0 or not bounds.clocks_right:
            continue
        for answer in by_topic.get(operation.topic, ()):
            sure_ms = max(operation.from_ms, operation.wall_ms + SURE_MS)
            before = answer.wall_ms < operation.asked_wall_ms
            if before and sure_ms <= answer.due_ms < operation.to_ms:
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
