"""Counts messages, hour by hour, in a thread that reads frozen views of the store.

The leader counts what it has applied (storage/query/count.py does the work). Each hour is counted as of one moment, and
the next hour a little later. So a message that moves to another hour during a count may be counted twice or not at all.
A hand-over shows in the counts once its Lease is applied. A running cancel shows where its chunks are applied. Until
then its messages are counted, and again as `settling`. So the hours that it has to pass are read, even if a counter has
the number of their messages.

Counts take turns, one piece of each. So counting takes one core at most, and the count of a single hour need not wait
until all hours were counted for another client. A few counts may be under way, and further ones are refused. If a count
asks for all open messages of an hour, a counter has the answer, and nothing is read.

For the list of topics one pass counts all of them. Its result serves every request for a second, or for ten times as
long as the pass took if that is longer. So these counts take a tenth of a core, however often the list is asked for.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from api.port.duration import render_duration
from api.port.problem import FieldFault, Problem
from api.port.queries import (
    HISTOGRAM_BUCKETS_MAX,
    HISTOGRAM_CHOSEN_MAX,
    CountQuery,
    Histogram,
    HistogramBucket,
    MessageCount,
)
from api.port.timestamp import FIRST_MS
from node.handover.term import Leads
from node.message.selection_of import selection_of
from node.message.topic import TopicCounts
from node.runtime.clock import NodeClock
from node.runtime.one_at_a_time import OneAtATime
from replication.snapshot.in_thread import in_thread_until
from storage.format.position import HOUR_MAX, HOUR_MS
from storage.format.predicate import Predicate
from storage.format.rows import Corrupt
from storage.format.states import LIVE_STANDINGS, STANDINGS
from storage.hour.hour_table import Extents
from storage.query.count import DueTally, HourCount, Members, Tally, TooManyBuckets, TopicTally, Total
from storage.query.selection import Selection
from storage.store import Store
from storage.tables.operation_row import PAUSED
from storage.tables.registry import OPERATIONS
from storage.tables.running_set import RunningSet

#: A piece has so many hours, or as many as have so many units. Between two pieces the node checks that it still leads.
PIECE_HOURS: Final = 64
PIECE_UNITS: Final = 1 << 20
#: So many hours of which only counters are needed are looked at before the loop does other work.
LOOK_HOURS: Final = 1_024
#: At most so many requests count or wait to count, and at most so many of them take turns.
WAITING_MAX: Final = 64
TAKE_TURNS: Final = 16
#: The steps that a histogram may choose, from a second on, in ms. By the longest one 60 buckets hold every due time.
STEPS_MS: Final = (
    1_000, 5_000, 15_000, 60_000, 300_000, 900_000, 3_600_000, 10_800_000, 21_600_000, 43_200_000,
    *(days * 86_400_000 for days in (1, 7, 28, 364, 3_640, 36_400, 364_000)),
)  # fmt: skip
#: The counts of all topics serve for this time, or for so many times as long as they took if that is longer.
TOPICS_FRESH_S: Final = 1.0
TOPICS_FRESH_TIMES: Final = 10


class _MembersOf(NamedTuple):
    """Which operations' messages are counted again, and the tally for them."""

    wanted: Callable[[RunningSet], bool]
    tally: Tally


class Counting:
    """Counts messages on one node. The caller has checked that the node leads. `leads` returns the term, and raises a
    Problem unless the node may answer as leader at this moment."""

    def __init__(self, store: Store, clock: NodeClock, term: Callable[[], int]) -> None:
        """`term` returns the newest term that this node knows of."""
        self._store, self._clock, self._term = store, clock, term
        self._turns = OneAtATime("counts", WAITING_MAX, TAKE_TURNS)
        self._listing = asyncio.Lock()  # one pass over all topics at a time: its result serves all that wait
        self._topics: Mapping[int, TopicCounts] = {}
        self._topics_until_s = 0.0
        self._topics_term = -1

    async def count(self, query: CountQuery, leads: Leads) -> MessageCount:
        """Count the messages that match. Raises `unknown-topic`, `over-limit`."""
        selection, total, settling = selection_of(self._store, query), Total(), Total()
        await self._pass(selection, total, leads, members=_MembersOf(_cancels, settling))
        return MessageCount(total.count, settling.count)

    async def histogram(self, query: CountQuery, step_ms: int | None, leads: Leads) -> Histogram:
        """Count the messages that match, in buckets of `step_ms` by their due times. None: a step of STEPS_MS, by which
        there are few buckets. Raises `unknown-topic`, `over-limit`, and `invalid-field` for too many buckets."""
        selection = selection_of(self._store, query)
        last_ms = None if query.to_ms is None else query.to_ms - 1
        if step_ms is None:
            tally = DueTally(0, self._steps(selection), HISTOGRAM_CHOSEN_MAX, query.from_ms, last_ms)
        else:
            tally = DueTally(query.from_ms or 0, (step_ms,), HISTOGRAM_BUCKETS_MAX, query.from_ms, last_ms)
        try:
            settling = Total()
            await self._pass(selection, tally, leads, members=_MembersOf(_cancels, settling))
            # A bucket that begins at a multiple of its step may begin before the first time there is.
            buckets = [HistogramBucket(max(from_ms, FIRST_MS), count) for from_ms, count in tally.buckets()]
        except TooManyBuckets:
            raise _too_many(tally.step_ms) from None
        return Histogram(tally.step_ms, buckets, settling.count)

    def _steps(self, selection: Selection) -> Sequence[int]:
        """The steps from which the histogram of a selection chooses. Of all open messages it is known beforehand which
        hours have some. Steps that are too short for these are left out. By a step of whole hours nothing is read."""
        first = -(-(selection.which.from_ms or 0) // HOUR_MS)
        last = HOUR_MAX if selection.which.to_ms is None else selection.which.to_ms // HOUR_MS - 1
        if not selection.all_open(first) or not (hours := self._store.open_hours(first, last)):
            return STEPS_MS
        low_ms = (hours[0] + 1) * HOUR_MS - 1 if selection.which.from_ms is None else selection.which.from_ms
        high_ms = hours[-1] * HOUR_MS if selection.which.to_ms is None else selection.which.to_ms - 1
        return [step for step in STEPS_MS if high_ms // step - low_ms // step < HISTOGRAM_CHOSEN_MAX]

    async def living(self, topic: int, leads: Leads) -> tuple[int, Extents]:
        """Count the messages of a topic that have not ended. Also return how many units each hour had when it was
        counted."""
        total, counted = Total(), list[Extents]()
        await self._pass(Selection(frozenset(LIVE_STANDINGS), Predicate(frozenset((topic,)))), total, leads, counted)
        return total.count, Extents.join(counted)

    async def by_topic(self, leads: Leads) -> Mapping[int, TopicCounts]:
        """Count messages by topic number and state, with every state for each topic. The counts may be a second old, or
        ten times as old as their pass took. A topic that is missing has no message. Raises `over-limit`."""
        if self._is_fresh():
            return self._topics
        async with self._listing:
            if self._is_fresh():  # counted while this call waited
                return self._topics
            tally, paused, term = TopicTally(), TopicTally(), leads().term
            everything = Selection(frozenset().union(*STANDINGS.values()))
            took_s = await self._pass(everything, tally, leads, members=_MembersOf(_is_paused, paused))
            counts: defaultdict[int, dict[str, int]] = defaultdict(lambda: dict.fromkeys(STANDINGS, 0))
            held: Counter[int] = Counter()
            words = {standing: word for word, standings in STANDINGS.items() for standing in standings}
            for (topic, standing), count in tally.counts.items():
                counts[topic][words[standing]] += count
            for (topic, _), count in paused.counts.items():
                held[topic] += count
            found = {topic: TopicCounts(by_state, held[topic]) for topic, by_state in counts.items()}
            self._topics, self._topics_term = found, term
            fresh_s = max(TOPICS_FRESH_S, TOPICS_FRESH_TIMES * took_s)
            self._topics_until_s = self._clock.monotonic() + fresh_s
            return found

    async def topics_anew(self, leads: Leads) -> None:
        """Count the topics again, though the last counts may still be used. Raises what `by_topic` raises."""
        self._topics_until_s = 0.0
        await self.by_topic(leads)

    def values(self) -> Mapping[str, float]:
        """The metrics: the messages that paused operations held when the topics were counted last. 0 if none is paused
        now, or if nothing was counted in this term."""
        paused = any(map(_is_paused, self._store.catalog.of(OPERATIONS).of_open))
        known = paused and self._term() == self._topics_term
        return {"hourwheel_operations_held": sum(each.held for each in self._topics.values()) if known else 0}

    def _is_fresh(self) -> bool:
        """True while the last counts of all topics may be used again. Counts from another term may not, because this
        node may have known of fewer messages then."""
        return self._clock.monotonic() < self._topics_until_s and self._term() == self._topics_term

    async def _pass(
        self,
        selection: Selection,
        tally: Tally,
        leads: Leads,
        counted: list[Extents] | None = None,
        members: _MembersOf | None = None,
    ) -> float:
        """Count the messages that match into `tally`, hour by hour. Return the seconds that this pass worked. Append to
        `counted` how many units each hour had when it was counted. `members` says which messages are counted again."""
        clock, took_s = self._clock, 0.0
        now_ms, selection = clock.now_ms(), replace(selection, term=leads().term)
        pieces = self._pieces(selection, tally, now_ms, counted, members)
        async with self._turns.shared() as turn:
            while True:
                async with turn:
                    began_s = clock.monotonic()
                    piece = next(pieces, None)
                    if piece is None:
                        return took_s
                    await self._read(piece, tally)
                    took_s += clock.monotonic() - began_s
                leads()

    def _pieces(
        self,
        selection: Selection,
        tally: Tally,
        now_ms: int,
        counted: list[Extents] | None,
        of: _MembersOf | None,
    ) -> Iterator[list[HourCount]]:
        """Yield the pieces (counts of some hours) to be read, each made when it is asked for. A piece may be empty.
        Counts that need no reading are added to `tally` at once."""
        store = self._store
        piece: list[HourCount] = []
        units, looked = 0, list[int]()
        for hour in store.hours():
            looked.append(hour)
            members = None if of is None else self._members(hour, of)
            known = members is None and selection.all_open(hour)
            counted_whole = known and tally.add_hour(hour, store.open_units(hour))
            if not counted_whole and (found := store.selectable(hour, selection)) is not None:
                piece.append(HourCount(found, selection, now_ms, members))
                units += found.units
            if len(piece) >= PIECE_HOURS or units >= PIECE_UNITS or len(looked) >= LOOK_HOURS:
                if counted is not None:
                    counted.append(store.extents(looked))
                yield piece
                piece, units, looked = [], 0, []
        if counted is not None:
            counted.append(store.extents(looked))
        yield piece

    def _members(self, hour: int, of: _MembersOf) -> Members | None:
        """The wanted operations that may still have messages of an hour. None if there are none."""
        sets = self._store.catalog.of(OPERATIONS).of_open
        wanted = [each.frozen() for each in sets if of.wanted(each) and each.may_meet(hour)]
        return Members(wanted, of.tally) if wanted else None

    async def _read(self, piece: list[HourCount], tally: Tally) -> None:
        """Read a piece in a thread. If the caller is cancelled, the thread is stopped before the next caller has its
        turn."""
        if not piece:
            await asyncio.sleep(0)
            return
        stop = threading.Event()
        damaged = await in_thread_until(stop, _read_all, piece, tally, stop.is_set)
        for count, error in damaged:
            if self._store.is_linked(count.source):
                raise error


def _cancels(each: RunningSet) -> bool:
    return not each.rule.moves


def _is_paused(each: RunningSet) -> bool:
    return each.operation.progress.state == PAUSED


def _read_all(piece: list[HourCount], tally: Tally, stopped: Callable[[], bool]) -> list[tuple[HourCount, Corrupt]]:
    """Read a piece into `tally`, and return the counts that found damaged data, with their errors. It is no damage if
    the hour was unlinked meanwhile."""
    damaged = []
    for count in piece:
        try:
            count.run(tally, stopped)
        except Corrupt as error:
            damaged.append((count, error))
    return damaged


def _too_many(step_ms: int) -> Problem:
    detail = (
        f"these messages take more than {HISTOGRAM_BUCKETS_MAX} buckets of {render_duration(step_ms)}; take a longer "
        "step, or a narrower window with from and to"
    )
    return Problem("invalid-field", f"step: {detail}", errors=[FieldFault("", detail, parameter="step")])
