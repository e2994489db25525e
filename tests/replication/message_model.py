"""What commands do to messages, in plain Python: dicts, one row after the other, nothing clever.

Positions are not modelled: where a new unit stands is learnt from the machine (`born`, `moved`), everything else is
predicted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.replication.applied_log import HOUR_MS

RETENTION_MS = 60_000


@dataclass
class Closed:
    """Why nothing more happens at a place."""

    kind: str  # forwarded | moved | delivered | cancelled | dead
    term: int
    attempt: int
    code: int
    at_ms: int


@dataclass
class Message:
    """One message by what is true of it now."""

    home: int
    place: int
    topic: str
    due_ms: int
    asked_due_ms: int
    newest: tuple[int, int] = (0, 0)  # (term, attempt) of the newest lease at its place
    lease_end_ms: int | None = None
    before: int = 0  # hand-overs at earlier places
    uncounted: int = 0
    revision: int = 1
    error: str | None = None
    doubtful: bool = False
    path: tuple[str, ...] = ()  # of a dead-letter copy: where the message died before
    ended: str | None = None

    @property
    def attempts(self) -> int:
        """All hand-overs."""
        return max(self.before, self.newest[1])


@dataclass
class MessageModel:
    """All messages. `moved(home, old)` gives the place that the machine moved a message to, `copied(random)` where a
    dead-letter copy was born."""

    moved: Callable[[int, int], int]
    copied: Callable[[int], int]
    dead_letter: dict[str, str]
    messages: dict[int, Message] = field(default_factory=dict)
    home_of: dict[int, int] = field(default_factory=dict)  # every place there is
    closed: dict[int, Closed] = field(default_factory=dict)
    left: list[int] = field(default_factory=list)  # places where something ended or left, in order
    floor_ms: int = 0
    now_ms: int = 0

    # looking

    def open_at(self, place: int) -> Message | None:
        """The message that lives here."""
        message = self.messages.get(self.home_of.get(place, -1))
        return message if message and message.place == place and message.ended is None else None

    def _accepts(self, place: int, claim: tuple[int, int]) -> Message | None:
        message = self.open_at(place)
        return message if message and claim >= message.newest else None

    def _same(self, place: int, claim: tuple[int, int], *kinds: str) -> bool:
        closed = self.closed.get(place)
        return closed is not None and closed.kind in kinds and (closed.term, closed.attempt) == claim

    # changing

    def born(self, home: int, topic: str, due_ms: int, asked_due_ms: int, path: tuple[str, ...] = ()) -> None:
        """A new message."""
        self.messages[home] = Message(home, home, topic, due_ms, asked_due_ms, path=path)
        self.home_of[home] = home

    def _end(self, message: Message, kind: str, claim: tuple[int, int], code: int) -> None:
        message.ended = kind
        self.left.append(message.place)
        for place in (message.place, message.home):
            self.closed[place] = Closed(kind, *claim, code, self.now_ms)

    def _move(self, message: Message, due_ms: int, claim: tuple[int, int], code: int, before: int) -> None:
        old, message.place = message.place, self.moved(message.home, message.place)
        self.left.append(old)
        if old in self.home_of:
            self.closed[old] = Closed("moved", *claim, code, self.now_ms)
        self.closed[message.home] = Closed("forwarded", *claim, code, self.now_ms)
        self.home_of[message.place] = message.home
        message.due_ms = max(due_ms, self.floor_ms)
        message.before, message.newest, message.lease_end_ms, message.ended = before, (0, 0), None, None

    def lease(self, place: int, term: int, attempt: int, end_ms: int) -> int:
        """1 where it took effect."""
        message = self.open_at(place)
        if message is None or (term, attempt) <= message.newest:
            return 0
        message.newest, message.lease_end_ms = (term, attempt), end_ms
        return 1

    def settle(self, place: int, claim: tuple[int, int]) -> str:
        """An ack."""
        if place not in self.home_of:
            return "invalid"
        if message := self._accepts(place, claim):
            self._end(message, "delivered", claim, 0)
            return "acked"
        return "acked" if self._same(place, claim, "delivered") else "stale"

    def extend(self, place: int, claim: tuple[int, int], end_ms: int) -> str:
        """A longer lease."""
        if place not in self.home_of:
            return "invalid"
        message = self._accepts(place, claim)
        if message is None:
            return "stale"
        message.newest, message.lease_end_ms = claim, end_ms
        return "acked"

    def fail(self, place: int, claim: tuple[int, int], code: int, due_ms: int | None, random: int, text: str) -> str:
        """A failed hand-over; `due_ms` None: dead."""
        if place not in self.home_of:
            return "invalid"
        message = self._accepts(place, claim)
        if message is None:
            again = self._same(place, claim, "dead", "moved", "forwarded") and self.closed[place].code < 2000
            return "acked" if again else "stale"
        attempts = max(message.attempts, claim[1])
        if due_ms is not None:
            self._move(message, due_ms, claim, code, attempts)
            message.error = text or None
            return "acked"
        self._end(message, "dead", claim, code)
        letter = self.dead_letter.get(message.topic)
        if letter and letter not in (message.topic, *message.path):
            due_ms = max(self.now_ms, self.floor_ms)
            self.born(self.copied(random), letter, due_ms, self.now_ms, (*message.path, message.topic))
        return "acked"

    def _verdict(self, home: int, revision: int) -> tuple[str, Message | None]:
        if self.home_of.get(home) != home:
            return "unknown", None
        message = self.messages[home]
        if message.ended:
            return "settled", message
        if revision and revision != message.revision:
            return "mismatch", message
        if message.lease_end_ms is not None and message.lease_end_ms > self.now_ms:
            return "leased", message
        return "free", message

    def cancel(self, home: int, doubtful: bool, revision: int) -> tuple[str, int, int | None]:
        """(result, attempts made, what is known of them), the last only for what is cancelled."""
        verdict, message = self._verdict(home, revision)
        if message is None:
            return verdict, 0, None
        if message.ended == "cancelled":
            return "free", self.closed[home].attempt, self.closed[home].code
        if verdict != "free":
            return verdict, self.closed[home].attempt if message.ended else message.attempts, None
        prior = 1 if message.attempts else 2 if doubtful or message.doubtful else 0
        self._end(message, "cancelled", (message.newest[0], message.attempts), prior)
        return "free", message.attempts, prior

    def reschedule(self, home: int, due_ms: int, revision: int, doubtful: bool) -> tuple[str, int, int, int]:
        """(result, due time, revision, place)."""
        verdict, message = self._verdict(home, revision)
        if message is None or message.ended:
            return verdict, 0, 0, 0
        if verdict != "free":
            return verdict, 0, message.revision, message.place
        message.doubtful |= doubtful and not message.attempts
        self._move(message, due_ms, (message.newest[0], message.attempts), 2000, message.attempts)
        message.asked_due_ms = due_ms
        message.revision += 1
        return "free", message.due_ms, message.revision, message.place

    def redrive(self, home: int, due_ms: int) -> int:
        """1 if it was dead."""
        _, message = self._verdict(home, 0)
        if message is None or message.ended != "dead":
            return 0
        if message.place not in self.home_of:  # its hour is gone; the record at home knows less
            message.place, message.revision, message.error, message.before = home, 1, None, 0
            message.doubtful, message.newest = False, (0, 0)
        end = self.closed[home]
        attempts = max(end.attempt, message.before)
        self._move(message, due_ms, (end.term, end.attempt), 2001, attempts)
        message.asked_due_ms, message.uncounted = due_ms, attempts
        return 1

    def unlink(self, hour: int, tick: int) -> bool:
        """Whether the hour is over: it is forgotten then."""
        places = [place for place in self.home_of if place >> 40 == hour]
        if tick < (hour + 1) * HOUR_MS // 1000 or self.unsettled(hour):
            return False
        if max([self.closed[place].at_ms for place in places], default=0) + RETENTION_MS >= self.now_ms:
            return False
        for place in places:
            if self.home_of.pop(place) == place:
                del self.messages[place]
        return True

    def unsettled(self, hour: int) -> int:
        """Units of an hour that are not settled for good: open ones, and homes of messages that live elsewhere."""
        return sum(
            1
            for place, home in self.home_of.items()
            if place >> 40 == hour and self.closed.get(place, Closed("forwarded", 0, 0, 0, 0)).kind == "forwarded"
        )
