"""What a store must answer, as plainly as Python can say it: a list of units, each with the list of what befell it."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from storage.format.array import U64
from storage.format.batches import SettleBatch, UnitBatch
from storage.format.pieces import at_once
from storage.format.position import GONE, HOUR_MS
from storage.format.predicate import Predicate
from storage.format.states import (
    CANCELLED,
    DEAD,
    DELIVERED,
    EXPIRED,
    FORWARDED,
    LEASED,
    MOVED,
    PENDING,
    READY,
    RELEASED,
    UNKNOWN,
)
from storage.query.count import DueTally, HourCount, Tally, TopicTally
from storage.query.selection import Selection
from storage.store import Store
from storage.wheel.slot import DueUnits

OPEN = frozenset((PENDING, READY, LEASED))
ENDED = frozenset((DELIVERED, CANCELLED, DEAD, EXPIRED))
SETTLED = ENDED | {MOVED}

Event = tuple[int, int, int, int, int]
"""(what, at_ms, when, term, attempt)"""


@dataclass
class Unit:
    """One unit, of the message born at `home`."""

    position: int
    home: int
    due_ms: int
    topic: int
    body: bytes
    history: list[Event] = field(default_factory=list)

    @property
    def state(self) -> int:
        """As the last record says."""
        what = self.history[-1][0] if self.history else PENDING
        return PENDING if what == RELEASED else what

    @property
    def moved(self) -> bool:
        """Whether it was born elsewhere."""
        return self.home != self.position

    @property
    def stayed(self) -> bool:
        """Whether its message was never moved."""
        return not self.moved and not self.forwards

    @property
    def forwards(self) -> list[int]:
        """The places it was forwarded to."""
        return [event[2] for event in self.history if event[0] == FORWARDED]


class Model:
    """The units in order of arrival."""

    def __init__(self) -> None:
        self.units: dict[int, Unit] = {}
        self.gone: set[int] = set()
        self.given: Counter[int] = Counter()  # positions of each hour ever given, those of unlinked ones too
        self.buried: set[int] = set()  # those of unlinked ones

    def append(self, batch: UnitBatch, bodies: list[bytes]) -> list[int]:
        """The positions that a store must give."""
        return [
            self._add(due_ms, topic, body)
            for due_ms, topic, body in zip(batch.due_ms.tolist(), batch.topic.tolist(), bodies, strict=True)
        ]

    def _add(self, due_ms: int, topic: int, body: bytes, home: int | None = None) -> int:
        hour = due_ms // HOUR_MS
        position = hour << 40 | self.given[hour]
        self.given[hour] += 1
        self.units[position] = Unit(position, position if home is None else home, due_ms, topic, body)
        self.gone.discard(hour)
        return position

    def movable(self) -> list[int]:
        """Homes of messages that are open somewhere, or dead and not gone with their place."""
        homes = [unit.position for unit in self.units.values() if not unit.moved]
        there = [home for home in homes if self.last_place(home) != GONE]
        return [home for home in there if self.units[home].state in (PENDING, LEASED, DEAD, FORWARDED)]

    def move(self, homes: list[int], due_ms: list[int], at_ms: int) -> list[int]:
        """Move messages; the positions that a store must give."""
        old = [self.units[self.last_place(home)] for home in homes]
        rows = zip(homes, due_ms, old, strict=True)
        positions = [self._add(due, unit.topic, unit.body, home) for home, due, unit in rows]
        for home, unit, position in zip(homes, old, positions, strict=True):
            self.units[home].history.append((FORWARDED, at_ms, position, 0, 0))
            if unit.moved:
                unit.history.append((MOVED, at_ms, position, 0, 0))
        return positions

    def locate(self, home: int) -> int:
        """Where a message lives."""
        unit = self.units[home]
        return unit.forwards[-1] if unit.state == FORWARDED else home

    def last_place(self, home: int) -> int:
        """Where it stands; GONE if that is not there any more."""
        forwards = self.units[home].forwards
        if not forwards:
            return home
        return forwards[-1] if self._is_at(home, forwards[-1]) else GONE

    def _is_at(self, home: int, place: int) -> bool:
        return place in self.units and self.units[place].home == home

    def story(self, home: int) -> list[Event]:
        """What befell a message: at home, and after each forward what happened there, if that is still there."""
        story: list[Event] = []
        history = self.units[home].history
        for row, event in enumerate(history):
            story.append(event)
            again = event[2] in [later[2] for later in history[row + 1 :] if later[0] == FORWARDED]
            if event[0] == FORWARDED and not again and self._is_at(home, event[2]):
                story += [each for each in self.units[event[2]].history if each[0] in (LEASED, RELEASED)]
        return story

    def settle(self, batch: SettleBatch) -> None:
        """Add to the history of each unit."""
        columns = (batch.position, batch.what, batch.at_ms, batch.when, batch.term, batch.attempt)
        for position, *event in zip(*(column.tolist() for column in columns), strict=True):
            self.units[position].history.append((event[0], event[1], event[2], event[3], event[4]))

    def unlink(self, hour: int) -> None:
        """Forget an hour's units; their positions are nobody's for good."""
        self.buried |= {position for position in self.units if position >> 40 == hour}
        self.units = {position: unit for position, unit in self.units.items() if position >> 40 != hour}
        self.gone.add(hour)

    def pending(self, hour: int) -> list[Unit]:
        """Pending units of an hour by (due_ms, arrival)."""
        units = [unit for unit in self.units.values() if unit.position >> 40 == hour and unit.state == PENDING]
        return sorted(units, key=lambda unit: (unit.due_ms, unit.position))

    def check(self, store: Store) -> None:
        """The store gives the same answers to everything."""
        positions = np.array(list(self.units), np.uint64)
        units = list(self.units.values())
        for hour in store.hours():  # before anything brings the states into memory
            self._check_counts(store, hour, [unit for unit in units if unit.position >> 40 == hour])
        self._check_states(store, positions, units)
        buried = np.array(sorted(self.buried), np.uint64)
        assert set(store.states(buried).state.tolist()) | set(store.state_only(buried).tolist()) <= {UNKNOWN}
        assert store.homes(buried).tolist() == buried.tolist()
        rows = store.units(positions)
        assert rows["due_ms"].tolist() == [unit.due_ms for unit in units]
        assert rows["topic"].tolist() == [unit.topic for unit in units]
        assert rows["global_index"].tolist() == [unit.position & (1 << 40) - 1 for unit in units]
        records = store.records(positions[::-1])
        found = [(record.place, record.position, record.flags, record.body) for record in records]
        assert found == [(unit.position, unit.home, unit.moved, unit.body) for unit in units[::-1]]
        self._check_moves(store, positions, units)
        hours = sorted({unit.position >> 40 for unit in units})
        assert store.hours() == hours
        assert store.unit_count == len(units)
        for hour in hours:
            self._check_hour(store, hour)
        for hour in self.gone:
            first = np.array([hour << 40], np.uint64)
            assert store.states(first).state.tolist() == [255]
            assert store.locate(first).tolist() == store.homes(first).tolist() == first.tolist()
            assert (store.last_place(hour << 40), store.settled_at(hour << 40)) == (hour << 40, 0)
            assert len(store.born_in_state(hour << 40, (hour + 1) << 40, PENDING)) == 0
            assert len(store.pending(hour)) == len(store.second(hour * 3600)) == len(store.due_seconds(hour)) == 0

    def _check_moves(self, store: Store, positions: U64, units: list[Unit]) -> None:
        assert store.homes(positions).tolist() == [unit.home for unit in units]
        homes = [unit.position for unit in units if not unit.moved]
        assert store.locate(np.array(homes, np.uint64)).tolist() == [self.locate(home) for home in homes]
        assert store.last_places(np.array(homes, np.uint64)).tolist() == [self.last_place(home) for home in homes]
        for home in homes[::3]:
            found = at_once(store.history(home))
            columns = [found[name].tolist() for name in ("what", "at_ms", "when", "term", "attempt")]
            assert list(zip(*columns, strict=True)) == self.story(home)
            unit = self.units[home]
            assert store.settled_at(home) == (unit.history[-1][1] if unit.state in SETTLED else None)

    def _check_states(self, store: Store, positions: U64, units: list[Unit]) -> None:
        assert store.state_only(positions).tolist() == [unit.state for unit in units]
        states = store.states(positions)
        assert states.state.tolist() == [unit.state for unit in units]
        last = [unit.history[-1] if unit.history else (PENDING, 0, 0, 0, 0) for unit in units]
        assert states.term.tolist() == [event[3] for event in last]
        assert states.attempt.tolist() == [event[4] for event in last]
        assert states.lease_end_ms.tolist() == [event[2] if event[0] == LEASED else 0 for event in last]
        assert store.newest(positions)["what"].tolist() == [event[0] for event in last]

    def _check_hour(self, store: Store, hour: int) -> None:
        units = [unit for unit in self.units.values() if unit.position >> 40 == hour]
        assert store.unsettled(hour) == sum(unit.state not in SETTLED for unit in units)
        assert (hour in store.open_hours()) == any(unit.state <= LEASED for unit in units)
        assert (hour in store.ended_hours()) == any(unit.state in SETTLED for unit in units)
        assert (hour in store.hours(hour - 1, hour + 1)) == bool(units)
        assert hour not in store.hours(hour + 1) + store.hours(0, hour) + store.ended_hours(hour + 1)
        for state in range(FORWARDED + 1):
            born = sorted(unit.position for unit in units if not unit.moved and unit.state == state)
            assert store.born_in_state(hour << 40, (hour + 1) << 40, state).tolist() == born
            middle = born[len(born) // 2] if born else hour << 40
            assert store.born_in_state(middle, middle + 3, state).tolist() == [
                each for each in born if middle <= each < middle + 3
            ]
        leased = store.leased(hour)
        expected = sorted(unit.position for unit in units if unit.state == LEASED)
        assert leased.position.tolist() == expected
        assert leased.lease_end_ms.tolist() == [self.units[position].history[-1][2] for position in expected]
        pending = self.pending(hour)
        self._check_counts(store, hour, units)
        self._check_slots(store.pending(hour), pending, units)
        self._check_slots(store.pending(hour, limit=2), pending[:2], units)
        middle = hour * HOUR_MS + 30_500
        self._check_slots(store.pending(hour, middle), [unit for unit in pending if unit.due_ms < middle], units)
        self._check_slots(store.pending(hour, topic=8), [unit for unit in pending if unit.topic == 8], units)
        seconds = sorted({unit.due_ms // 1000 for unit in units})
        assert store.due_seconds(hour).tolist() == seconds
        for tick in [*seconds[:4], hour * 3600 + 3599]:
            self._check_slots(store.second(tick), [unit for unit in pending if unit.due_ms // 1000 == tick], units)

    def _check_counts(self, store: Store, hour: int, units: list[Unit]) -> None:
        """Counted by topic and standing, once as of the hour's middle; and by due time, of some standings."""
        now_ms = hour * HOUR_MS + 30_500
        standing = {unit.position: _standing(unit, now_ms) for unit in units}
        assert store.open_units(hour) == sum(each in OPEN for each in standing.values())
        tally = TopicTally()
        _count(store, hour, Selection(OPEN | ENDED), now_ms, tally)
        counted = [(unit.topic, each) for unit in units if (each := standing[unit.position]) in OPEN | ENDED]
        assert tally.counts == Counter(counted)
        for which in (
            Selection(OPEN),
            Selection(frozenset((PENDING, DEAD)), Predicate(topics=frozenset((8,)))),
            Selection(frozenset((READY,)), Predicate(from_ms=now_ms - 30_000, to_ms=now_ms - 1)),
            Selection(ENDED, Predicate(from_ms=now_ms)),
        ):
            due = DueTally(hour * HOUR_MS, (700,), 1 << 40)
            _count(store, hour, which, now_ms, due)
            low, high = which.which.from_ms or 0, which.which.to_ms or 1 << 60
            wanted = [
                unit.due_ms
                for unit in units
                if standing[unit.position] in which.standings
                and (which.which.topics is None or unit.topic in which.which.topics)
                and low <= unit.due_ms < high
            ]
            assert due.counts == Counter((due_ms - hour * HOUR_MS) // 700 for due_ms in wanted)

    @staticmethod
    def _check_slots(found: DueUnits, expected: list[Unit], units: list[Unit]) -> None:
        assert found.position.tolist() == [unit.position for unit in expected]
        assert found.due_ms.tolist() == [unit.due_ms for unit in expected]
        assert found.topic.tolist() == [unit.topic for unit in expected]


def _standing(unit: Unit, now_ms: int) -> int | None:
    """How a unit stands for its message, if it does."""
    if unit.state in (MOVED, FORWARDED) or unit.forwards:
        return None
    if unit.state == LEASED and unit.history[-1][2] > now_ms:
        return LEASED
    if unit.state in OPEN:
        return READY if unit.due_ms <= now_ms else PENDING
    return unit.state


def _count(store: Store, hour: int, which: Selection, now_ms: int, tally: Tally) -> None:
    source = store.selectable(hour, which)
    count = None if source is None else HourCount(source, which, now_ms)
    if count is not None:
        assert store.is_linked(count.source)
        count.run(tally)
