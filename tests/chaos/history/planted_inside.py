"""The good history of planted.py as the simulator sees it: with the insides of three nodes.

Begun hand-overs, who was sure of leading, what each node applied (with its dispatch states and the places it gave), one
promotion, and the digests at the end.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from chaos.history.event import Acked, Applied, Begun, Digest, Event, HandedOver, Promoted, Sure
from chaos.history.history import History
from tests.chaos.history.planted import COUNT, DUPLICATES, EPOCH_MS, RELEASED, at, good

NODES = ("n1", "n2", "n3")
LEADERS = {1: "n1", 2: "n2"}
E = TypeVar("E", bound=Event)


def _begun(event: HandedOver) -> Begun:
    ms = event.handed_over_ms - EPOCH_MS
    return Begun(
        **at(ms),
        node=LEADERS[event.term],
        message_id=event.message_id,
        term=event.term,
        attempt=event.attempt,
        at_ms=event.handed_over_ms,
        asked_due_ms=event.asked_due_ms,
        pushed=False,
    )


def _applied(number: int) -> list[Applied]:
    """Entry number + 1 on each node: it schedules one message, and says what was dispatched when it was stamped."""
    due_ms = 10 * number + 10
    stamp_ms = due_ms - 6
    tick = (EPOCH_MS + stamp_ms) // 1000
    first = max(0, -(-(stamp_ms // 1000 * 1000) // 10) - 1)  # the first message of that second
    dispatched = max(0, min(number, (stamp_ms - 10) // 10 + 1) - first)
    entries = []
    for place, node in enumerate(NODES):
        told = not place
        entries.append(
            Applied(
                **at(stamp_ms + place),
                node=node,
                index=number + 1,
                term=1 if due_ms < 1_000 else 2,
                crc=number * 7,
                rolling=f"hash{number}",
                stamp_ms=EPOCH_MS + stamp_ms if told else 0,
                state=(tick, dispatched, number) if told else None,
                units=((number, EPOCH_MS + due_ms),) if told else (),
            )
        )
    return entries


def _comes_again(event: Event) -> bool:
    """An ack of what is handed over again afterwards: it never arrived."""
    return isinstance(event, Acked) and event.number in (RELEASED, *DUPLICATES)


def good_inside() -> list[Event]:
    """The good history with its insides, in order."""
    events: list[Event] = [event for event in good() if not _comes_again(event)]
    events += [_begun(event) for event in events if isinstance(event, HandedOver)]
    events += [Sure(**at(ms), node="n1", term=1) for ms in range(5, 1_000, 50)]
    events += [Sure(**at(ms), node="n2", term=2) for ms in range(1_496, 4_100, 50)]
    for number in range(COUNT):
        events += _applied(number)
    open_ids = tuple(f"id{number}" for number in range(99, 149))
    events.append(Promoted(**at(1_495), node="n2", term=2, open_ids=open_ids))
    events += [Digest(**at(9_000), node=node, applied_index=COUNT, digest="same") for node in NODES]
    return sorted(events, key=lambda event: event.mono_ms)


def altered(kind: type[E], choose: Callable[[E], bool], **fields: object) -> History:
    """The good history with the first event of a kind that `choose` accepts changed in these fields."""
    events = good_inside()
    place = next(place for place, event in enumerate(events) if isinstance(event, kind) and choose(event))
    events[place] = msgspec.structs.replace(events[place], **fields)
    return History(sorted(events, key=lambda event: event.mono_ms))


def without(choose: Callable[[Event], bool]) -> History:
    """The good history without the events that `choose` accepts."""
    return History(event for event in good_inside() if not choose(event))


def with_more(*events: Event) -> History:
    """The good history with these events in their places."""
    return History(sorted([*good_inside(), *events], key=lambda event: event.mono_ms))
