"""Finds ready units by reading the settle records. Units come into the windows only from here and from the wheel.

It serves five cases:

- a promotion: nothing is in memory, and every hour that is not settled is looked through
- hours that the clock leaped over
- units of too many topics that became due at once
- the backlog of topics whose windows overflowed
- leases that ended

In all five cases a range of positions is read with the same question. Which units are not claimed, and are due or had a
lease that has ended? The answer is exact at any moment. So nothing else has to be remembered about a range, and to read
it twice is harmless.

A range is read in pieces of a few milliseconds, one in each step of the dispatcher. So units due now do not wait for
hours of backlog, and the memory used is that of one piece. Within a piece units come in the order in which they became
ready.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from node.ready.claimed_units import ClaimedUnits
from node.ready.lease_timetable import LeaseTimetable, Span
from node.ready.record_check import held_by, leaving
from node.ready.rule import Rule
from node.ready.topic_window import LaneKind, Queued
from node.ready.windows import Ready
from storage.format.array import I64, U32, U64
from storage.format.position import HOUR_MS, INDEX_BITS, by_hour, hours_of
from storage.format.rows import Units
from storage.format.states import IS_OPEN, IS_PENDING, LEASED
from storage.query.lease_end import lease_ends_ms
from storage.store import Store
from storage.tables.topic import subscriptions_of
from storage.wheel.slot import DueUnits

LOOK_ROWS = 65_536
"""How many states of units a piece looks at. This is cheap, so that an hour with few open units is passed quickly."""

LEASED_LOOK_ROWS = 8 << 20
"""How many states a piece looks at where only leased units are wanted. That compares one byte for each unit, and reads
no more of those that are not leased."""

READ_ROWS = 16_384
"""A piece ends after so many units were read from the index with their checksums, at 0.4 microseconds each."""

TOPICS_A_PIECE = 512
"""Topics that a piece has units of. Each takes as long as ten units, and 16,384 in a piece held the loop for 0.2 s."""


class Found(NamedTuple):
    """Ready units of a piece, in the order in which they became ready, and where the next piece begins. Shape [n]
    each."""

    overdue: npt.NDArray[np.bool_]  # ready by the time this leader began
    subscription: U32
    units: Queued
    next: int  # the position at which the next piece begins: behind this one, or the start of the next hour


class BacklogReader:
    """The ranges that one leader still has to read. Units that were ready by `start_ms` go to the OVERDUE lane, others
    to CURRENT. `ends` is told of running leases that are found."""

    def __init__(
        self,
        store: Store,
        ready: Ready,
        claims: ClaimedUnits,
        ends: LeaseTimetable,
        rules: Sequence[Rule],
        *,
        start_ms: int,
        term: int,
    ) -> None:
        self._store = store
        self._ready = ready
        self._claims = claims
        self._ends = ends
        self._rules = rules
        self._start_ms = start_ms
        self._term = term
        self._due: deque[DueUnits] = deque()  # due units from the wheel, for which one step had too many topics
        self._ended: deque[Span] = deque()  # leases that ended under this leader
        self._found: deque[Span] = deque()  # from `promote` and `again`; `ends` does not know their running leases yet
        self._leaped: deque[Span] = deque()  # the clock leaped over them; `ends` does not know their leases either
        self._to_note: deque[Span] = deque()  # of hours ahead, read only to tell `ends` of their running leases
        self._last_hour = start_ms // HOUR_MS  # no ready unit is in a later hour
        self.wanted_from_ms = 0
        """Units due before this time are left alone. node/leader/restored_overdue.py gives them up."""

    def promote(self, last_hour: int) -> None:
        """Read every hour up to `last_hour` that still has open units."""
        self._last_hour = max(self._last_hour, last_hour)
        self._found += (self._hour_span(hour) for hour in self._store.open_hours(last=last_hour))

    @property
    def reads_due(self) -> bool:
        """True if units that became due under this leader are still to be read. They do not count as dispatched until
        then."""
        return bool(self._due or self._leaped)

    def leaped(self, first_hour: int, last_hour: int) -> None:
        """Read those hours from `first_hour` to `last_hour` that still have open units, because the clock leaped over
        them."""
        self._last_hour = max(self._last_hour, last_hour)
        self._leaped += (self._hour_span(hour) for hour in self._store.open_hours(first_hour, last_hour))

    def note(self, hours: list[int]) -> None:
        """Read these hours later only to learn when the leases in them end. None of their units needs to be due yet."""
        for hour in hours:
            self._to_note.append(Span(*self._store.span(hour)))
            self._last_hour = max(self._last_hour, hour)

    def again(self, positions: U64) -> None:
        """Read the units at these positions again, whatever their state is."""
        for hour, rows in by_hour(hours_of(positions)):
            there = positions[rows]
            self._found.append(Span(int(there.min()), int(there.max()) + 1))
            self._last_hour = max(self._last_hour, hour)

    def due(self, due: DueUnits) -> None:
        """Take due units that the wheel gave out and that are in no window, to push them into windows over several
        steps. The units themselves are kept here and not a range of their positions, because a range covers other units
        of the hour too. For the due units of 1,000 topics at a whole minute it once covered half an hour's units."""
        self._due.append(due)

    def ended(self, spans: list[Span]) -> None:
        """Read the leased units of these spans, in which leases have ended. Other units are not read: there are ten
        spans a second, and a span may cover a whole hour though few of its leases end."""
        self._ended += spans
        for span in spans:
            self._last_hour = max(self._last_hour, span.first >> INDEX_BITS)

    def piece(self, now_ms: int) -> bool:
        """Read the most urgent piece into the windows. Return False if nothing is left to read.

        Call it only when all units due by `now_ms` were dispatched. So a backlog that is read to its end has no more
        ready units.
        """
        self._last_hour = max(self._last_hour, now_ms // HOUR_MS)
        return (
            self._next_due()
            or self._span(self._ended, now_ms, leased_only=True, note_leases=False)
            or self._span(self._to_note, now_ms, leased_only=True, note_leases=True)
            or self._span(self._leaped, now_ms, leased_only=False, note_leases=True)
            or self._backlog(LaneKind.CURRENT, now_ms)
            or self._span(self._found, now_ms, leased_only=False, note_leases=True)
            or self._backlog(LaneKind.OVERDUE, now_ms)
        )

    def _next_due(self) -> bool:
        """Push into windows due units that `due` took, of up to TOPICS_A_PIECE topics. Units that were cancelled or
        handed over meanwhile are left out. Return False if there are none."""
        if not self._due:
            return False
        due = self._due.popleft()
        count = within_topics(due.topic)
        if count < len(due):
            self._due.appendleft(due.select(slice(count, None)))
        due = due.select(slice(count))
        due = due.select(IS_PENDING[self._store.states(due.position).state])
        units = Queued.of(due.position, due.tags, due.due_ms)
        self._ready.push_both(due.due_ms <= self._start_ms, subscriptions_of(due.topic), units, swept=False)
        return True

    def _span(self, spans: deque[Span], now_ms: int, *, leased_only: bool, note_leases: bool) -> bool:
        """Read one piece of the first of `spans`, and push its ready units of all topics into windows. Return False if
        `spans` is empty."""
        if not spans:
            return False
        span = spans.popleft()
        found = self._read(span, now_ms, leased_only=leased_only, note_leases=note_leases)
        if found.next < span.end:
            spans.appendleft(Span(found.next, span.end))
        self._ready.push_both(found.overdue, found.subscription, found.units, swept=True)
        return True

    def _backlog(self, kind: LaneKind, now_ms: int) -> bool:
        """Read one piece of the backlogs of this lane, for the subscriptions whose windows have room. Return False if
        there are none."""
        hungry = self._ready.hungry(kind)
        if not hungry:
            return False
        begins = self._ready.lanes[kind].begins
        span = self._span_from(min(begins[topic] for topic in hungry))
        if span is None:
            self._ready.swept(kind, hungry, None)
            return True
        found = self._read(span, now_ms, note_leases=False)
        self._ready.swept(kind, hungry, found.next)
        rows = (found.overdue == (kind is LaneKind.OVERDUE)) & np.isin(found.subscription, hungry)
        self._ready.push(kind, found.subscription[rows], found.units.select(rows), swept=True)
        return True

    def _span_from(self, position: int) -> Span | None:
        """The span from `position` to the end of its hour. If that hour has no open units, the span of the next hour
        that has some, None if there is none."""
        first_hour = position >> INDEX_BITS
        for hour in self._store.open_hours(first_hour, self._last_hour):
            span = self._hour_span(hour)
            return Span(max(position, span.first), span.end)
        return None

    def _read(self, span: Span, now_ms: int, *, note_leases: bool, leased_only: bool = False) -> Found:
        """Read the first piece of a span, or only its leased units if `leased_only`. Return those that are ready and
        not claimed, and that no rule leaves out. Tell `ends` of running leases: of all if `note_leases`, else of those
        from earlier terms."""
        positions, end = (leased_piece if leased_only else open_piece)(self._store, span)
        states = self._store.states(positions)
        leased = states.state == LEASED
        ends_ms = lease_ends_ms(states.lease_end_ms, states.term, self._term)
        ended = leased & (ends_ms <= now_ms)
        rows = np.flatnonzero((IS_PENDING[states.state] | ended) & ~self._claims.mask(positions))
        units = self._first_units(positions[rows])
        if len(units) < len(rows):
            rows = rows[: len(units)]
            end = int(positions[rows[-1]]) + 1
        # Leases of earlier terms that were extended in this one end later than `ends` knows.
        runs = leased & ~ended & (positions < end)
        running = np.flatnonzero(runs if note_leases else runs & (states.term < self._term))
        self._ends.add(positions[running], ends_ms[running], now_ms)
        since = np.where(ended[rows], ends_ms[rows], units["due_ms"])
        ready = np.flatnonzero((since <= now_ms) & (units["due_ms"] >= self.wanted_from_ms))
        ready = self._without_left_out(ready, positions[rows], units, since, now_ms)
        order = ready[np.argsort(since[ready], kind="stable")]
        queued = Queued.of(positions[rows[order]], units["tags"][order], units["due_ms"][order])
        return Found(since[order] <= self._start_ms, subscriptions_of(units["topic"][order]), queued, end)

    def _without_left_out(self, ready: I64, positions: U64, units: Units, since: I64, now_ms: int) -> I64:
        """The rows of `ready` without those that a rule leaves out. Those would be found again by each piece, and other
        units of their topic might never get into its window."""
        rules = leaving(self._rules, positions[ready])
        if not rules:
            return ready
        held = held_by(rules, positions[ready], units[ready], now_ms)
        out, overdue = ready[held], since[ready[held]] <= self._start_ms
        for kind, rows in ((LaneKind.CURRENT, out[~overdue]), (LaneKind.OVERDUE, out[overdue])):
            self._ready.pass_over(kind, subscriptions_of(units["topic"][rows]), positions[rows])
        return ready[~held]

    def _first_units(self, positions: U64) -> Units:
        """Read the first of these units, as many as a piece may have. If each is of another topic, few fit into a
        piece. So a small number is read first, and more only if all of those fit."""
        for most in (2 * TOPICS_A_PIECE, READ_ROWS):
            units = self._store.units(positions[:most])
            count = within_topics(units["topic"])
            if count < len(units) or len(positions) <= most:
                break
        return units[:count]

    def _hour_span(self, hour: int) -> Span:
        """All positions that an hour can have from its first unit on, also units that are still to come. The first
        unit's number is not 0 if the hour was unlinked and begun again."""
        return Span(self._store.span(hour)[0], (hour + 1) << INDEX_BITS)


def within_topics(topics: U32) -> int:
    """Count the rows, from the first on, that have at most TOPICS_A_PIECE different topics together."""
    if len(topics) <= TOPICS_A_PIECE or bool((topics == topics[0]).all()):
        return len(topics)
    for most in (2 * TOPICS_A_PIECE, READ_ROWS):  # if each row is of another topic, the first few rows decide
        _, first = np.unique(topics[:most], return_index=True)
        if len(first) > TOPICS_A_PIECE:
            return int(np.partition(first, TOPICS_A_PIECE)[TOPICS_A_PIECE])
        if len(topics) <= most:
            break
    return min(len(topics), most)


def leased_piece(store: Store, span: Span) -> tuple[U64, int]:
    """The positions of the leased units in the first piece of a span, and the position at which that piece ends."""
    positions, end = store.leased_piece(span.first, min(span.end, span.first + LEASED_LOOK_ROWS))
    if len(positions) <= LOOK_ROWS:
        return positions, end
    return positions[:LOOK_ROWS], int(positions[LOOK_ROWS - 1]) + 1


def open_piece(store: Store, span: Span) -> tuple[U64, int]:
    """The positions of the open units in the first piece of a span, and the position at which that piece ends. It is
    the start of the next hour if the piece has the hour's last unit."""
    hour = span.first >> INDEX_BITS
    last, end = store.span(hour)[1], min(span.end, span.first + LOOK_ROWS)
    positions = np.arange(span.first, max(span.first, min(last, end)), dtype=np.uint64)
    return positions[IS_OPEN[store.state_only(positions)]], (hour + 1) << INDEX_BITS if last < end else end
