"""Ids are stable and never reassigned: a message has one id for ever."""

from collections import defaultdict

from chaos.history.bounds import Bounds
from chaos.history.event import Answered, Applied, DeadLettered, HandedOver
from chaos.history.history import History
from chaos.history.verdict import Verdict


def check_ids(history: History, bounds: Bounds) -> Verdict:
    """Check three things:

    - a message has one id in every answer and hand-over, and at most one dead letter for each time that it died;
    - an id names one message;
    - no position is given to two units, even after its hour is unlinked.
    """
    redriven = history.redriven()
    ids: dict[int, set[str]] = defaultdict(set)
    letters: dict[int, set[str]] = defaultdict(set)
    numbers: dict[str, set[int]] = defaultdict(set)
    for event in history.events:
        if isinstance(event, Answered | HandedOver | DeadLettered) and event.message_id:
            ids[event.number].add(event.message_id)
            numbers[event.message_id].add(event.number)
        if isinstance(event, DeadLettered):
            letters[event.number].add(event.letter_id)
    faults = [
        f"message {number} has the ids {', '.join(sorted(several))}"
        for number, several in ids.items()
        if len(several) > 1
    ]
    faults += [
        f"message {number} has the dead letters {', '.join(sorted(several))}"
        for number, several in letters.items()
        if len(several) > 1 + sum(redriven[name] for name in ids[number])
    ]
    faults += [
        f"id {name} is of the messages {sorted(several)}" for name, several in numbers.items() if len(several) > 1
    ]
    given: dict[int, int] = {}
    for applied in history.of(Applied):
        for position, _ in applied.units:
            if position in given:
                faults.append(f"place {position:#x}: given at index {given[position]} and again at {applied.index}")
            given.setdefault(position, applied.index)
    return Verdict("ids", {"ids": len(numbers), "places": len(given)}, faults)
