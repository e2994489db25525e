"""The record of a run: every event in the order it was seen, and the few views that all checkers share.

It stays in memory during the run, because a client that writes files measures its own disk. Afterwards it is written as
NDJSON.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from chaos.history.event import Answered, Cancelled, Event, Fault, Gone, HandedOver, Offered, Settled
from node.runtime.clock import NodeClock
from storage.format.rows import CODE_REDRIVEN

E = TypeVar("E", bound=Event)


class History:
    """The events of a run in the order of `mono_ms`. `record` appends one, and tells all listeners."""

    def __init__(self, events: Iterable[Event] = (), now: Callable[[], tuple[float, int]] | None = None) -> None:
        """`now` returns (mono_ms, wall_ms) of virtual time. Default: the machine's clocks."""
        self.events: list[Event] = list(events)
        self._listeners: list[Callable[[Event], None]] = []
        self._wall_ms = NodeClock().wall_ms
        self._now = now or self._machine_now

    def now(self) -> tuple[float, int]:
        """(mono_ms, wall_ms) of this moment, for the event about to be recorded."""
        return self._now()

    def _machine_now(self) -> tuple[float, int]:
        return time.monotonic() * 1000, self._wall_ms()

    def stamp(self) -> dict[str, Any]:
        """The fields of `Seen` for an event that happens now."""
        mono_ms, wall_ms = self._now()
        return {"mono_ms": mono_ms, "wall_ms": wall_ms}

    def record(self, event: Event) -> None:
        """Add an event and pass it to all listeners."""
        self.events.append(event)
        for listener in self._listeners:
            listener(event)

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Call `listener` with every later event."""
        self._listeners.append(listener)

    def of(self, kind: type[E]) -> list[E]:
        """All events of one kind, in order."""
        return [event for event in self.events if type(event) is kind]

    def flipped(self, node_id: str) -> bool:
        """True if a fault has flipped a bit of a file of this node. It stays True even if the node has not read the bit
        since."""
        return any(fault.kind == "flip" and fault.node == node_id for fault in self.of(Fault))

    def offered(self) -> dict[int, Offered]:
        """Offers by number."""
        return {event.number: event for event in self.of(Offered)}

    def answered(self) -> dict[int, Answered]:
        """Final outcomes by number."""
        return {event.number: event for event in self.of(Answered)}

    def acknowledged(self) -> dict[int, Answered]:
        """Acknowledged offers by number."""
        return {event.number: event for event in self.of(Answered) if event.outcome == "acknowledged"}

    def hand_overs(self) -> dict[int, list[HandedOver]]:
        """Hand-overs by number, each list ordered by (term, attempt), then by when it was seen."""
        by_number: dict[int, list[HandedOver]] = {}
        for event in self.of(HandedOver):
            by_number.setdefault(event.number, []).append(event)
        for several in by_number.values():
            several.sort(key=lambda event: (event.term, event.attempt, event.mono_ms))
        return by_number

    def all_cancels(self) -> list[Cancelled]:
        """All answers to cancels of single messages, and behind them one for each message that an operation cancelled.
        The latter says nothing of earlier hand-overs. Its outcome is `unknown` if the message may have been cancelled
        by a request of its own."""
        single = self.of(Cancelled)
        asked = {event.number for event in single if event.outcome != "refused"}
        return [*single, *(_of_operation(event, event.sure and event.number not in asked) for event in self.of(Gone))]

    def cancels(self) -> dict[int, Cancelled]:
        """One answer to a cancel for each message, by number. It is the first `cancelled`, else the last `unknown`,
        else the last `refused`."""
        found: dict[int, Cancelled] = {}
        for weight in ("refused", "unknown", "cancelled"):
            its = [event for event in self.all_cancels() if event.outcome == weight]
            found |= {event.number: event for event in (reversed(its) if weight == "cancelled" else its)}
        return found

    def redriven(self) -> Counter[str]:
        """By id: how often each dead message was made due again. Empty without events from inside nodes."""
        entries = {(event.message_id, event.index) for event in self.of(Settled) if event.code == CODE_REDRIVEN}
        return Counter(message_id for message_id, _ in entries)

    def faults(self) -> list[Fault]:
        """The begins of faults, in order."""
        return [event for event in self.of(Fault) if event.phase == "begin"]

    def write(self, path: Path) -> None:
        """Write each event as a JSON object on a line of its own."""
        path.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in self.events))

    @classmethod
    def read(cls, path: Path) -> "History":
        """Read the file of `write`."""
        return cls(msgspec.json.Decoder(Event).decode_lines(path.read_bytes()))


def _of_operation(event: Gone, sure: bool) -> Cancelled:
    return Cancelled(
        mono_ms=event.mono_ms,
        wall_ms=event.wall_ms,
        number=event.number,
        message_id=event.message_id,
        asked_wall_ms=event.asked_wall_ms,
        outcome="cancelled" if sure else "unknown",
        attempts_made=event.attempts_made,
    )
