"""Plans messages whose records tell a story, with the rows that a ledger must have of each.

A story uses the records that a node writes:
- a hand-over: a start in the node's account and a Lease in the settle file
- its end: an end in the account and a settle record
- a move: `forwarded` at home and `moved` at the place that the message left.

`Plan` gathers them for many messages at once, as columns. Places in files are assigned after all stories are planned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ledger.columns import Cause, Flag, LateCause, Lost, MessageClass
from storage.format.array import I64
from storage.format.states import DELIVERED, FORWARDED, LEASED, MOVED
from storage.record.delivery_record import DELIVERED as DONE
from storage.record.delivery_record import END, PULL, PUSH, START

LEASE_MS: Final = 10_000
STORY_MS: Final = 90_000
"""The longest time of a story, from its due time on."""
ORDERS, HOOKS, STRICT, AUDITED, PAUSED, RESUMED = 1, 2, 3, 4, 5, 6
"""Topics: pull; push; push, strict; pull, with consumers that keep receipts; pull, and paused; pull, and resumed at
Plan.resumed_ms."""

UNIT_PLAN: Final = np.dtype(
    [
        ("appended_ms", "<i8"),
        ("due_ms", "<i8"),
        ("asked_due_ms", "<i8"),
        ("created_ms", "<i8"),
        ("body", "<u8"),
        ("home", "<i8"),  # the planted unit that is its home; itself: not moved
        ("topic", "<u4"),
        ("attempt", "<u2"),
    ]
)
SETTLE_PLAN: Final = np.dtype(
    [
        ("unit", "<i8"),
        ("at_ms", "<i8"),
        ("when", "<i8"),
        ("to", "<i8"),  # the planted unit it was moved to; -1: `when` holds
        ("term", "<u4"),
        ("attempt", "<u2"),
        ("node", "<u2"),
        ("code", "<u2"),
        ("what", "u1"),
    ]
)
DELIVERY_PLAN: Final = np.dtype(
    [
        ("unit", "<i8"),  # -1: a record of a term
        ("at_ms", "<i8"),
        ("asked_due_ms", "<i8"),
        ("tick", "<i8"),
        ("term", "<u4"),
        ("topic", "<u4"),
        ("attempt", "<u2"),
        ("node", "<u2"),
        ("code", "<u2"),
        ("kind", "u1"),
        ("mode", "u1"),
        ("outcome", "u1"),
        ("lost", "?"),  # a power cut removed it: zeros stand in its place
    ]
)
EXPECTED: Final = np.dtype(
    [
        ("unit", "<i8"),
        ("case", "<u2"),
        ("class", "u1"),
        ("late_cause", "u1"),
        ("lost", "u1"),
        ("flags", "<u4"),
        ("hand_overs", "<u2"),
        ("retries", "<u2"),
        ("duplicates", "<u2"),
    ]
)
REPEAT: Final = np.dtype(
    [
        ("unit", "<i8"),
        ("other", "<i8"),
        ("cause", "u1"),
        ("term", "<u4"),
        ("attempt", "<u2"),
        ("before_term", "<u4"),
        ("before_attempt", "<u2"),
    ]
)


@dataclass(frozen=True, slots=True)
class Terms:
    """The leaders over time, [t] each: term `number[i]` began at `begun_ms[i]`, its leader was killed at
    `ended_ms[i]`."""

    number: I64
    node: I64
    begun_ms: I64
    ended_ms: I64

    def at(self, moment_ms: I64) -> I64:
        """Return the ordinal of the term of each moment."""
        return np.maximum(self.begun_ms.searchsorted(moment_ms, "right") - 1, 0)


@dataclass(frozen=True, slots=True)
class HandOver:
    """One hand-over of each message of a story, [k] each: when, in which term, which attempt, and by which node."""

    at_ms: I64
    term: I64
    attempt: int
    node: I64


@dataclass(slots=True)
class Messages:
    """The messages of one story, [k] each. `unit` is their home, `place` their present unit."""

    case: str
    unit: I64
    place: I64
    due_ms: I64
    topic: int
    appended_ms: I64
    created_ms: I64
    body: npt.NDArray[np.uint64]
    hand_overs: int = 0
    retries: int = 0
    duplicates: int = 0

    @property
    def mode(self) -> int:
        """The mode in which the topic hands over."""
        return PUSH if self.topic in (HOOKS, STRICT) else PULL


@dataclass(slots=True)
class Plan:
    """The records and expected rows of all stories, and the random generator that draws them. `calm_ms` has spans of
    time (from, to) in which the leader does not change."""

    chance: np.random.Generator
    terms: Terms
    calm_ms: Sequence[tuple[int, int]]
    created_ms: int  # about when messages are scheduled
    cases: list[str] = field(default_factory=list)
    units: list[npt.NDArray[Any]] = field(default_factory=list)
    settles: list[npt.NDArray[Any]] = field(default_factory=list)
    deliveries: list[npt.NDArray[Any]] = field(default_factory=list)
    expected: list[npt.NDArray[Any]] = field(default_factory=list)
    repeats: list[npt.NDArray[Any]] = field(default_factory=list)
    count: int = 0

    @property
    def resumed_ms(self) -> int:
        """When the topic RESUMED was resumed."""
        return self.calm_ms[0][0] + 4_000

    def calm(self, count: int) -> I64:
        """Return moments that are far from every change of leaders."""
        spans = np.array(self.calm_ms, np.int64)
        length = spans[:, 1] - spans[:, 0]
        drawn = self.chance.integers(0, int(length.sum()), count)
        span = length.cumsum().searchsorted(drawn, "right")
        moments: I64 = spans[span, 0] + drawn - np.concatenate([[0], length.cumsum()])[span]
        return moments

    def messages(
        self,
        case: str,
        due_ms: I64,
        topic: int = ORDERS,
        *,
        created_ms: I64 | None = None,
        body: npt.NDArray[np.uint64] | None = None,
    ) -> Messages:
        """Return messages that are due at these times. By default they are scheduled long before."""
        count = len(due_ms)
        if created_ms is None:
            created_ms = self.created_ms + self.chance.integers(0, 1_000_000, count)
        if body is None:
            body = np.uint64(1 << 62) + np.arange(self.count, self.count + count, dtype=np.uint64)
        unit = self._units(
            count, appended_ms=created_ms, due_ms=due_ms, asked_due_ms=due_ms, created_ms=created_ms, body=body,
            topic=topic, home=np.arange(self.count, self.count + count),
        )  # fmt: skip
        return Messages(case, unit, unit, due_ms, topic, created_ms, created_ms, body)

    def _units(self, count: int, **columns: Any) -> I64:
        rows = np.zeros(count, UNIT_PLAN)
        for name, values in columns.items():
            rows[name] = values
        self.units.append(rows)
        self.count += count
        return np.arange(self.count - count, self.count)

    # -- what happens to them

    def hand_over(
        self,
        messages: Messages,
        attempt: int,
        at_ms: I64,
        *,
        leased: bool = True,
        started: bool = True,
        lost: bool = False,
        tick: I64 | None = None,
        node: I64 | None = None,
    ) -> HandOver:
        """Hand the messages over at these times, by the leader of that time (or `node`). Add a start to that node's
        account if `started`, and a Lease to the settle records if `leased`."""
        led = self.terms.at(at_ms)
        by = self.terms.node[led] if node is None else node
        made = HandOver(at_ms, self.terms.number[led], attempt, by)
        if started:
            self.tell(messages, made, START, at_ms, tick=at_ms // 1000 if tick is None else tick, lost=lost)
            messages.hand_overs += not lost
        if leased:
            self.settle(messages.place, LEASED, at_ms, made, when=at_ms + LEASE_MS)
        return made

    def tell(
        self,
        messages: Messages,
        made: HandOver,
        kind: int,
        at_ms: I64,
        *,
        outcome: int = 0,
        code: int = 0,
        tick: I64 | int = 0,
        lost: bool = False,
    ) -> None:
        """Add a record of kind START or END to the account of the node that made this hand-over."""
        rows = np.zeros(len(at_ms), DELIVERY_PLAN)
        rows["unit"], rows["at_ms"], rows["tick"], rows["kind"] = messages.unit, at_ms, tick, kind
        rows["asked_due_ms"] = messages.due_ms if kind == START else 0
        rows["term"], rows["attempt"], rows["node"] = made.term, made.attempt, made.node
        rows["topic"], rows["mode"], rows["outcome"], rows["code"] = messages.topic, messages.mode, outcome, code
        rows["lost"] = lost
        self.deliveries.append(rows)

    def settle(
        self,
        unit: I64,
        what: int,
        at_ms: I64,
        made: HandOver | None = None,
        *,
        when: I64 | int = 0,
        to: I64 | int = -1,
        code: int = 0,
    ) -> None:
        """Add a settle record of these units. `made` is the hand-over that it is about, if there was one. `to` is the
        planted unit to which the unit was moved, -1 if it was not."""
        rows = np.zeros(len(unit), SETTLE_PLAN)
        rows["unit"], rows["what"], rows["at_ms"], rows["when"], rows["to"] = unit, what, at_ms, when, to
        rows["code"] = code
        rows["node"] = self.terms.node[self.terms.at(at_ms)]
        if made is not None:
            rows["term"], rows["attempt"] = made.term, made.attempt
        self.settles.append(rows)

    def end(self, messages: Messages, what: int, at_ms: I64, made: HandOver | None = None, *, code: int = 0) -> None:
        """End the messages: settle them as `what`, with a record at their place and another at their home."""
        self.settle(messages.place, what, at_ms, made, code=code)
        if (messages.place != messages.unit).any():
            self.settle(messages.unit, what, at_ms, made, code=code)

    def deliver(self, messages: Messages, made: HandOver, after_ms: int = 20) -> None:
        """End the messages as delivered: their consumer or receiver is done with them."""
        code = 200 if messages.mode == PUSH else 0
        self.end(messages, DELIVERED, made.at_ms + after_ms, made, code=code)
        self.tell(messages, made, END, made.at_ms + after_ms + 1, outcome=DONE, code=code)

    def move(self, messages: Messages, made: HandOver | None, at_ms: I64, due_ms: I64, code: int) -> None:
        """Move the messages to another due time, for a retry or by a client."""
        place = self._units(
            len(due_ms), appended_ms=at_ms, due_ms=due_ms, asked_due_ms=messages.due_ms, topic=messages.topic,
            created_ms=messages.created_ms, body=messages.body, home=messages.unit,
            attempt=0 if made is None else made.attempt,
        )  # fmt: skip
        self.settle(messages.unit, FORWARDED, at_ms, made, to=place, code=code)
        if (messages.place != messages.unit).any():
            self.settle(messages.place, MOVED, at_ms, made, to=place, code=code)
        messages.place = place

    # -- what a ledger must say

    def repeat(
        self, messages: Messages, cause: Cause, before: HandOver, later: HandOver, other: I64 | None = None
    ) -> None:
        """Expect the ledger to name the hand-over `later` as a duplicate of the hand-over `before`, with this cause.
        `other` is the home of the message of `before`, if that is another message."""
        rows = np.zeros(len(messages.unit), REPEAT)
        rows["unit"] = messages.unit
        rows["other"] = messages.unit if other is None else other
        rows["cause"], rows["term"], rows["attempt"] = cause, later.term, later.attempt
        rows["before_term"], rows["before_attempt"] = before.term, before.attempt
        self.repeats.append(rows)
        messages.duplicates += other is None

    def expect(
        self,
        messages: Messages,
        kind: MessageClass,
        flags: Flag | int = 0,
        late_cause: LateCause = LateCause.NONE,
        lost: Lost = Lost.NONE,
    ) -> None:
        """End the story: record the rows that the ledger must have of these messages."""
        rows = np.zeros(len(messages.unit), EXPECTED)
        if messages.case not in self.cases:
            self.cases.append(messages.case)
        rows["unit"], rows["case"], rows["class"] = messages.unit, self.cases.index(messages.case), kind
        rows["flags"], rows["late_cause"], rows["lost"] = int(flags), late_cause, lost
        for name in ("hand_overs", "retries", "duplicates"):
            rows[name] = getattr(messages, name)
        self.expected.append(rows)
