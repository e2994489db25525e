"""The set of an operation that moves is exact. Messages that surely were in it are due at the new time, and those that
surely were not are due as before.

A message was surely of the set if it was acknowledged before the operation was asked for, and is due in its window. It
also was never handed over, given back, moved or cancelled alone. As in operations.py no lease may have come first.
After the end each message was looked at (Standing). No due time is before the operation's: then it is the leader's
time, which right clocks bound.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from chaos.check.message.operations import NEVER, is_far
from chaos.history.bounds import Bounds
from chaos.history.event import MANY, Answered, Begun, HandedOver, ManyMoved, Nacked, Rescheduled, Standing
from chaos.history.history import History
from chaos.history.verdict import Verdict

#: Right clocks differ by less than this.
CLOCKS_MS: Final = 3_000
OPEN = ("scheduled", "ready")


def check_many_moves(history: History, bounds: Bounds) -> Verdict:
    """Check each operation by the messages that were looked at after its end."""
    offered, acknowledged = history.offered(), history.acknowledged()
    begun_ms = {event.message_id: event.mono_ms for event in reversed(history.of(Begun))}
    touched = _touched(history)
    looked: dict[int, list[Standing]] = defaultdict(list)
    for standing in history.of(Standing):
        looked[standing.asked_wall_ms].append(standing)
    faults: list[str] = []
    inside = outside = 0
    operations = history.of(ManyMoved)
    for operation in operations:
        if operation.outcome != "begun" or operation.changed < 0:
            continue
        name = f"{operation.kind} {operation.operation} on {operation.topic} at {operation.wall_ms}"
        moved = 0
        for standing in looked[operation.asked_wall_ms]:
            answer = acknowledged.get(standing.number)
            if answer is None or standing.state not in OPEN or standing.attempts:
                continue
            if any(at_ms <= standing.mono_ms for at_ms in _others(touched[standing.number], operation)):
                continue
            strict = offered[standing.number].strict
            idle = bool(begun_ms) and begun_ms.get(answer.message_id, NEVER) > operation.mono_ms and not strict
            far = is_far(answer, operation, bounds)
            later = answer.written_after_ms(offered[standing.number]) > operation.mono_ms
            if answer.due_ms not in range(operation.from_ms, operation.to_ms) or later:
                outside += 1
                if standing.due_ms != answer.due_ms:
                    faults.append(f"{name}: message {standing.number} of no set moved to {standing.due_ms}")
            elif answer.wall_ms < operation.asked_wall_ms and (far or idle):
                inside += 1
                moved += 1
                wrong = _wrong(operation, answer, standing, bounds)
                faults += [f"{name}: message {standing.number} {why}" for why in wrong]
        if moved > operation.changed:
            faults.append(f"{name}: said {operation.changed} moved, and {moved} are")
    figure = {
        "operations": len(operations),
        "begun": sum(each.outcome == "begun" for each in operations),
        "inside": inside,
        "outside": outside,
        "wrong": len(faults),
    }
    return Verdict("many_moves", figure, faults)


def _wrong(operation: ManyMoved, answer: Answered, standing: Standing, bounds: Bounds) -> Iterator[str]:
    """Tell why the new due time of a message that was surely of the set is wrong."""
    wanted_ms = answer.due_ms + operation.by_ms if operation.kind == "shift" else 0
    told = f"was due {answer.due_ms}, is due {standing.due_ms}"
    if standing.due_ms < wanted_ms or (operation.kind == "release" and standing.due_ms == answer.due_ms):
        yield told
    elif bounds.clocks_right and standing.due_ms != wanted_ms:
        from_ms, until_ms = operation.asked_wall_ms - CLOCKS_MS, standing.wall_ms + CLOCKS_MS
        if not from_ms <= standing.due_ms <= until_ms:
            yield f"{told}, which is neither the wanted time nor that of the operation"


Touch = tuple[float, int]
"""The first moment at which a message may have been touched, and the time of asking of the operation that did it, 0 for
none."""


def _touched(history: History) -> dict[int, list[Touch]]:
    found: dict[int, list[Touch]] = defaultdict(list)
    for event in history.events:
        if isinstance(event, HandedOver):
            found[event.number].append((event.mono_ms - max(0, event.wall_ms - event.began_ms), 0))
        elif isinstance(event, Nacked | Rescheduled):
            many = isinstance(event, Rescheduled) and event.detail == MANY
            at_ms = event.mono_ms - (event.wall_ms - event.asked_wall_ms) - 1
            found[event.number].append((at_ms, event.asked_wall_ms if many else 0))
    return found


def _others(touches: Iterable[Touch], operation: ManyMoved) -> Iterator[float]:
    """The moments of all touches but those of this operation."""
    return (at_ms for at_ms, asked_ms in touches if asked_ms != operation.asked_wall_ms)
