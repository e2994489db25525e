"""A good history written by hand: two terms, a leader killed between them, one repeat of each honest kind, one cancel.

Tests take it, plant one fault by changing one event, and see exactly the promise that it breaks turn red.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from chaos.history.event import Acked, Answered, Cancelled, Event, Fault, HandedOver, Led, Offered
from chaos.history.history import History

EPOCH_MS = 1_800_000_000_000
COUNT = 400
KILL_MS = 1_000
DUPLICATES = (95, 96, 97)
RELEASED = 50
CANCELLED = 300
LEASE_MS = 5_000


def at(ms: float) -> dict[str, Any]:
    """Times of an event `ms` after the start; both clocks run alike."""
    return {"mono_ms": float(ms), "wall_ms": EPOCH_MS + int(ms)}


def hand_over(number: int, ms: int, term: int, attempt: int = 1, **other: object) -> HandedOver:
    """Message `number` handed over at `ms` and received 2 ms later; it was due then or earlier."""
    due_ms = EPOCH_MS + 10 * number + 10
    fields: dict[str, object] = {
        "number": number,
        "message_id": f"id{number}",
        "term": term,
        "attempt": attempt,
        "due_ms": due_ms,
        "asked_due_ms": due_ms,
        "handed_over_ms": EPOCH_MS + ms,
        "leased_until_ms": EPOCH_MS + ms + LEASE_MS,
        "node": "n3",
        "connection": "n3/0",
        "response": number,
    }
    return msgspec.convert(fields | at(ms + 2) | other | {"type": "HandedOver"}, HandedOver)


def good() -> list[Event]:
    """One message due every 10 ms; the leader n1 is killed at 1,000 ms and n2 leads from 1,500 ms on."""
    events: list[Event] = [Led(term=1, leader="n1", **at(0)), Led(term=2, leader="n2", **at(1_500))]
    kill = {"kind": "kill", "node": "n1", "role": "leader", "phase": "begin"} | at(KILL_MS)
    events.append(msgspec.convert(kill | {"type": "Fault"}, Fault))
    for number in range(COUNT):
        due_ms = 10 * number + 10
        offered = {"number": number, "keyed": True, "asked_due_ms": EPOCH_MS + due_ms} | at(due_ms - 9)
        answered = {"number": number, "node": "n2", "outcome": "acknowledged", "sent_mono_ms": float(due_ms - 9)}
        answered |= {"message_id": f"id{number}", "due_ms": EPOCH_MS + due_ms} | at(due_ms - 5)
        events.append(msgspec.convert(offered | {"type": "Offered"}, Offered))
        events.append(msgspec.convert(answered | {"type": "Answered"}, Answered))
        if number == CANCELLED:
            cancel = {"number": number, "message_id": f"id{number}", "outcome": "cancelled", "prior": "none"}
            cancel |= {"asked_wall_ms": EPOCH_MS + due_ms - 2} | at(due_ms + 5)
            events.append(msgspec.convert(cancel | {"type": "Cancelled"}, Cancelled))
            continue
        term = 1 if due_ms < KILL_MS else 2
        event = hand_over(number, due_ms if term == 1 else max(due_ms, 1_500), term)
        events.append(event)
        result = "unknown" if number in (*DUPLICATES, RELEASED) else "acked"  # those answers died with the leader
        acked = {"number": number, "message_id": f"id{number}", "term": term, "attempt": 1, "result": result}
        events.append(msgspec.convert(acked | at(event.mono_ms + 3) | {"type": "Acked"}, Acked))
    events += repeats()
    events.append(hand_over(RELEASED, 10 * RELEASED + 10 + LEASE_MS, 2, 2))
    return sorted(events, key=lambda event: event.mono_ms)


def repeats() -> list[HandedOver]:
    """The second hand-overs, by the new leader, of the dead leader's last messages."""
    return [hand_over(number, 1_501, 2, 2) for number in DUPLICATES]


def changed(choose: Callable[[Event], bool], change: Callable[[Event], Event | None]) -> History:
    """The good history with the first event that `choose` accepts replaced, or dropped for None."""
    events = good()
    place = next(place for place, event in enumerate(events) if choose(event))
    replacement = change(events[place])
    return History(events[:place] + ([] if replacement is None else [replacement]) + events[place + 1 :])


def added(*events: Event) -> History:
    """The good history with these events in their places."""
    return History(sorted([*good(), *events], key=lambda event: event.mono_ms))
