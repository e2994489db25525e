"""The second wheel against a heap, and its promises one by one."""

import itertools
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from storage.format.array import I64, U8, U32, U64
from storage.format.position import HOUR_MS, INDEX_BITS, INDEX_MAX
from storage.wheel.hour_wheel import HourWheel
from storage.wheel.second_wheel import SecondWheel
from storage.wheel.slot import DueUnits
from tests.examples import examples

START_MS = 500 * HOUR_MS - 20_000
"""Twenty seconds before an hour ends: seconds, and hours, change under the test."""

Unit = tuple[int, int]
"""(due_ms, position): their order is the order of dispatch."""


def columns(units: list[Unit]) -> DueUnits:
    """Units as columns; topic, tags and priority follow from the position, so that a mix-up shows."""
    due_ms = np.array([due for due, _ in units], np.int64)
    position = np.array([position for _, position in units], np.uint64)
    return DueUnits(
        due_ms,
        position,
        (position & 0xFFFF).astype(np.uint32),
        position ^ np.uint64(0xABCDEF),
        (position % np.uint64(10)).astype(np.uint8),
    )


def listed(due: DueUnits) -> list[Unit]:
    """Columns as units; checks that the other columns still belong to them."""
    units = list(zip(due.due_ms.tolist(), due.position.tolist(), strict=True))
    again = columns(units)
    assert np.array_equal(due.topic, again.topic)
    assert np.array_equal(due.tags, again.tags)
    assert np.array_equal(due.priority, again.priority)
    return units


def slot(units: list[Unit]) -> DueUnits:
    """What the store would read: sorted."""
    return columns(sorted(units))


@dataclass
class Shelf:
    """A store in a dict: units by second, positions counted by hour."""

    units: dict[int, list[Unit]] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    turns: list[int] = field(default_factory=list)

    def append(self, dues: list[int]) -> list[Unit]:
        """Give positions as the store does: the next global_index of the hour."""
        added = []
        for due in dues:
            hour = due // HOUR_MS
            index = self.counts.get(hour, 0)
            self.counts[hour] = index + 1
            unit = (due, hour << INDEX_BITS | index)
            self.units.setdefault(due // 1000, []).append(unit)
            added.append(unit)
        return added

    def turn(self, now_hour: int) -> None:
        """Note the turn."""
        self.turns.append(now_hour)

    def hours(self, first: int, end: int) -> list[int]:
        """The hours first <= hour < end that hold units."""
        return sorted(hour for hour in self.counts if first <= hour < end)

    def due_seconds(self, hour: int) -> I64:
        """The seconds of an hour that have units."""
        return np.array(sorted(tick for tick in self.units if tick // 3600 == hour), np.int64)


def arrive(wheel: SecondWheel, units: list[Unit]) -> None:
    """Give live units to the wheel."""
    due = columns(units)
    wheel.arrive(due.due_ms, due.position, due.topic, due.tags, due.priority)


class Rig:
    """Wheels over a shelf, beside a plain list of what waits."""

    def __init__(self, before: list[int]) -> None:
        self.now_ms = self.latest_ms = START_MS
        self.shelf = Shelf()
        self.before = {unit for unit in self.shelf.append(before) if unit[0] <= START_MS}
        """What the promotion takes."""
        self.waiting = {unit for units in self.shelf.units.values() for unit in units} - self.before
        self.taken: set[Unit] = set()
        self.reads: dict[int, list[Unit] | None] = {}
        """Seconds being read: None until the read has looked."""
        self.wheel = SecondWheel(start_ms=START_MS)
        self.hour_wheel = HourWheel(self.shelf, self.wheel, start_ms=START_MS)
        self.step()

    def arrive(self, offsets: list[int]) -> None:
        """Units are applied: `offsets` are milliseconds from now."""
        units = self.shelf.append([max(self.now_ms + offset, START_MS - 3000) for offset in offsets])
        self.waiting |= set(units)
        arrive(self.wheel, units)

    def look(self) -> None:
        """The reads under way see what is there now; what arrives later they do not have."""
        for tick in self.reads:
            self.reads[tick] = list(self.shelf.units.get(tick, []))

    def deliver(self, count: int) -> None:
        """The first reads come back."""
        for tick in list(self.reads)[:count]:
            seen = self.reads.pop(tick)
            self.wheel.load(tick, slot(self.shelf.units.get(tick, []) if seen is None else seen))

    def step(self) -> None:
        """One step of the dispatcher; what it takes must be what the list says, in order, none twice."""
        self.hour_wheel.turn(self.now_ms)
        for tick in self.wheel.loads(self.now_ms):
            assert tick not in self.reads
            self.reads[tick] = None
        taken = listed(self.wheel.take(self.now_ms))
        due = {unit for unit in self.waiting if unit[0] <= self.now_ms and unit[0] // 1000 not in self.reads}
        assert taken == sorted(due)
        assert not self.taken & set(taken)
        self.taken |= due
        self.waiting -= due
        self.check_state()
        self.check_wake()

    def check_state(self) -> None:
        """What the state names was dispatched; it speaks only while the clock has not gone back."""
        assert self.wheel.exact == (self.now_ms >= self.latest_ms)
        self.latest_ms = max(self.latest_ms, self.now_ms)
        if not self.wheel.exact:
            return
        tick, local_index = self.wheel.state
        through = self.taken | self.before
        assert all(unit in through for second, units in self.shelf.units.items() if second < tick for unit in units)
        assert set(sorted(self.shelf.units.get(tick, []))[:local_index]) <= through
        if not self.reads:
            assert tick == self.now_ms // 1000

    def check_wake(self) -> None:
        """The wheel sleeps no longer than until the first unit that waits in a near hour."""
        near = self.hour_wheel.wake_ms(self.now_ms) + 2 * HOUR_MS
        first = min((due for due, _ in self.waiting if due < near and due // 1000 not in self.reads), default=None)
        wake_ms = self.wheel.wake_ms(self.now_ms)
        assert wake_ms is None or wake_ms >= self.now_ms
        if first is not None:
            assert wake_ms is not None
            assert wake_ms <= max(first, self.now_ms)


OFFSETS = st.lists(
    st.one_of(st.integers(-2500, 2500), st.integers(-100, 30_000), st.integers(0, 5 * HOUR_MS)), min_size=1, max_size=12
)
STEP = st.one_of(
    st.integers(0, 30),
    st.integers(0, 1500),
    st.integers(-1500, 0),
    st.integers(5_000, 40_000),
    st.integers(0, 4 * HOUR_MS),
)
ACTION = st.one_of(
    st.tuples(st.just("arrive"), OFFSETS),
    st.tuples(st.just("clock"), STEP),
    st.tuples(st.just("look"), st.just(0)),
    st.tuples(st.just("deliver"), st.integers(1, 3)),
)


@examples(500)
@given(
    before=st.lists(st.integers(START_MS - 5000, START_MS + 60_000), max_size=20),
    actions=st.lists(ACTION, max_size=40),
)
def test_wheel_gives_what_a_heap_gives(before: list[int], actions: list[tuple[str, list[int] | int]]) -> None:
    """Over random arrivals, late loads and clock steps both ways, the wheel gives each unit once, in order, never
    early, and never late unless its second is still being read; its state and its alarm never claim too much."""
    rig = Rig(before)
    for name, value in actions:
        if name == "arrive":
            assert isinstance(value, list)
            rig.arrive(value)
        elif name == "clock":
            assert isinstance(value, int)
            rig.now_ms = max(START_MS - 2000, rig.now_ms + value)
        elif name == "look":
            rig.look()
        else:
            assert isinstance(value, int)
            rig.deliver(value)
        rig.step()
    rig.now_ms = max([rig.latest_ms, *(due for due, _ in rig.waiting)])
    rig.step()
    rig.deliver(len(rig.reads))
    rig.step()
    assert not rig.waiting
    assert rig.wheel.waiting == 0


def wheel_at(start_ms: int, *used: int) -> SecondWheel:
    """A wheel with the hours around the start mapped and these seconds used."""
    wheel = SecondWheel(start_ms=start_ms)
    wheel.use(np.array(used, np.int64), (start_ms // HOUR_MS + 3) * 3600)
    return wheel


def run_idle(wheel: SecondWheel, shelf: Shelf, now_ms: int, until_ms: int) -> tuple[list[int], list[Unit]]:
    """Sleep from alarm to alarm; the times of waking, and what was taken."""
    wakes: list[int] = []
    taken: list[Unit] = []
    while (wake_ms := wheel.wake_ms(now_ms)) is not None and wake_ms <= until_ms:
        now_ms = wake_ms
        wakes.append(now_ms)
        for tick in wheel.loads(now_ms):
            wheel.load(tick, slot(shelf.units.get(tick, [])))
        taken += listed(wheel.take(now_ms))
    return wakes, taken


def test_idle_wheel_wakes_to_load_and_to_hand_over() -> None:
    """A message due in 500 s wakes the wheel twice in 500 s: to read its slot, and at its millisecond."""
    wheel, shelf = wheel_at(100_000), Shelf()
    assert wheel.wake_ms(100_000) is None
    units = shelf.append([600_250])
    arrive(wheel, units)
    assert run_idle(wheel, shelf, 100_000, 700_000) == ([590_000, 600_250], units)
    assert wheel.wake_ms(600_250) is None


def test_an_earlier_unit_wakes_the_wheel_earlier() -> None:
    """While the wheel sleeps for a far message, an earlier one moves the alarm, and the far one keeps its own."""
    wheel, shelf = wheel_at(100_000), Shelf()
    arrive(wheel, shelf.append([600_250]))
    arrive(wheel, shelf.append([300_100]))
    wakes, taken = run_idle(wheel, shelf, 100_000, 700_000)
    assert wakes == [290_000, 300_100, 590_000, 600_250]
    assert [due for due, _ in taken] == [300_100, 600_250]


def test_a_unit_due_at_once_needs_no_read() -> None:
    """What arrives for a second within the preload goes in from memory: nothing is asked of the store."""
    wheel, shelf = wheel_at(100_000), Shelf()
    assert wheel.loads(100_000) == []
    units = shelf.append([100_500, 100_000, 109_999])
    arrive(wheel, units)
    assert wheel.loads(100_001) == []
    assert listed(wheel.take(100_500)) == sorted(units)[:2]
    assert listed(wheel.take(109_998)) == []
    assert listed(wheel.take(109_999)) == [units[2]]


def test_a_unit_read_and_arrived_is_given_once() -> None:
    """A read that saw units which arrive beside it, before or after it comes back, gives none of them twice."""
    wheel, shelf = wheel_at(100_000, 105), Shelf()
    first, second, third = shelf.append([105_300, 105_100, 105_300])
    assert wheel.loads(100_000) == [105]
    arrive(wheel, [second])
    wheel.load(105, slot([first, second, third]))
    arrive(wheel, [third])
    assert wheel.waiting == 3
    assert listed(wheel.take(105_999)) == [second, first, third]


def test_a_unit_that_comes_back_is_given_again_and_counted_once() -> None:
    """A released unit arrives a second time after it was taken: it is given again, and the state does not count it as
    another one."""
    wheel, shelf = wheel_at(100_000), Shelf()
    wheel.loads(100_000)
    units = shelf.append([101_100, 101_900])
    arrive(wheel, units)
    assert listed(wheel.take(101_100)) == units[:1]
    arrive(wheel, units[:1])
    assert listed(wheel.take(101_200)) == units[:1]
    assert wheel.state == (101, 1)


def test_a_late_read_holds_up_its_own_second_only() -> None:
    """While second 105 is being read, later seconds go on; the state stays before 105 until it is through."""
    wheel, shelf = wheel_at(100_000, 105), Shelf()
    late, later = shelf.append([105_000, 106_000])
    assert wheel.loads(100_000) == [105]
    arrive(wheel, [later])
    assert listed(wheel.take(106_500)) == [later]
    assert wheel.state == (105, 0)
    wheel.load(105, slot([late]))
    assert wheel.wake_ms(106_500) == 106_500
    assert listed(wheel.take(106_501)) == [late]
    assert wheel.state == (106, 1)


def test_what_was_due_at_the_start_is_the_promotions() -> None:
    """Of the second in which the wheel starts it gives only what is due later; the rest the promotion puts back."""
    shelf = Shelf()
    shelf.append([100_100, 100_400, 100_401])
    wheel = wheel_at(100_400, 99, 100)
    assert wheel.loads(100_400) == [100]
    wheel.load(100, slot(shelf.units[100]))
    assert [due for due, _ in listed(wheel.take(100_999))] == [100_401]


def test_late_arrival_for_the_second_of_the_start() -> None:
    """A unit clamped into the second of the start, due before it, is given at once although that second is unread."""
    shelf = Shelf()
    wheel = wheel_at(100_400, 100)
    units = shelf.append([100_000])
    arrive(wheel, units)
    assert listed(wheel.take(100_400)) == units
    assert wheel.loads(100_400) == [100]
    wheel.load(100, slot(shelf.units[100]))
    assert listed(wheel.take(100_999)) == []


def test_a_clock_that_goes_back() -> None:
    """After a step back nothing is given before its time by the new clock, and the state keeps still."""
    wheel, shelf = wheel_at(100_000), Shelf()
    wheel.loads(100_000)
    arrive(wheel, shelf.append([105_000]))
    assert len(wheel.take(105_000)) == 1
    state = wheel.state
    arrive(wheel, shelf.append([104_500]))
    assert len(wheel.take(104_499)) == 0
    assert (wheel.exact, wheel.state) == (False, state)
    assert len(wheel.take(104_500)) == 1
    assert len(wheel.take(105_000)) == 0
    assert (wheel.exact, wheel.state) == (True, (105, 1))


def test_a_million_units_of_one_second() -> None:
    """A slot of a million units with arrivals merged while it drains comes out whole and in order."""
    n = 1_000_000
    random = np.random.default_rng(7)
    due_ms = np.sort(random.integers(105_000, 106_000, n))
    late = random.integers(105_000, 106_000, 50_000)
    zeros = np.zeros(n, np.uint32)
    tags, priority = np.zeros(n, np.uint64), np.zeros(n, np.uint8)
    wheel = wheel_at(100_000, 105)
    assert wheel.loads(100_000) == [105]
    wheel.load(105, DueUnits(due_ms, np.arange(n, dtype=np.uint64), zeros, tags, priority))
    taken: list[DueUnits] = []
    for step, start in zip(itertools.count(), range(0, len(late), 1000)):
        part = late[start : start + 1000]
        position = np.arange(n + start, n + start + 1000, dtype=np.uint64)
        wheel.arrive(part, position, zeros[:1000], tags[:1000], priority[:1000])
        taken.append(wheel.take(105_000 + step * 20))
    taken.append(wheel.take(106_000))
    positions = np.concatenate([due.position for due in taken])
    assert np.array_equal(np.sort(positions), np.arange(n + len(late), dtype=np.uint64))
    for due in taken:
        order = np.lexsort((due.position & np.uint64(INDEX_MAX), due.due_ms))
        assert np.array_equal(order, np.arange(len(due)))


@given(st.lists(st.integers(1, 3_000), max_size=40), st.lists(st.integers(0, 500), max_size=8))
def test_looking_ahead_takes_nothing_out(arrivals: list[int], steps: list[int]) -> None:
    """What is ahead is what waits in memory up to that time, in order; it is given at its time all the same."""
    wheel = SecondWheel(start_ms=START_MS)
    wheel.use(np.empty(0, np.int64), START_MS // 1000 + 3600)
    wheel.loads(START_MS)
    hour = START_MS // HOUR_MS << INDEX_BITS
    units = [(START_MS + due, hour + index) for index, due in enumerate(arrivals)]
    now_ms, given = START_MS, list[Unit]()
    wheel.arrive(*_arguments(columns(sorted(units, key=lambda unit: unit[1]))))
    for step in steps:
        now_ms += step
        given += listed(wheel.take(now_ms))
        until_ms = now_ms + 700
        assert listed(wheel.ahead(until_ms)) == sorted(unit for unit in units if now_ms < unit[0] <= until_ms)
        later = [due_ms for due_ms, _ in units if due_ms > until_ms]
        assert wheel.after_ms(until_ms) == min(later, default=None)
    assert given == sorted(unit for unit in units if unit[0] <= now_ms)


def _arguments(due: DueUnits) -> tuple[I64, U64, U32, U64, U8]:
    return due.due_ms, due.position, due.topic, due.tags, due.priority
