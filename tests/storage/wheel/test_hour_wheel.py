"""The hour wheel: what is near is mapped in time, once; and how the wheels say that the clock has leaped."""

from pathlib import Path

import numpy as np

from storage.file.disk import Disk
from storage.format.position import HOUR_MS
from storage.store import Store
from storage.wheel.hour_wheel import HourWheel
from storage.wheel.second_wheel import LEAP_SECONDS, SecondWheel
from tests.storage.wheel.test_second_wheel import Shelf, arrive, listed, run_idle, slot, wheel_at
from tests.storage.workload import HOUR, batch_of, found

START_MS = 10 * HOUR_MS + 3_598_000


def rig(dues: list[int]) -> tuple[Shelf, SecondWheel, HourWheel]:
    """Wheels at 10:59:58 over a store that holds units at these times."""
    shelf = Shelf()
    shelf.append(dues)
    wheel = SecondWheel(start_ms=START_MS)
    return shelf, wheel, HourWheel(shelf, wheel, start_ms=START_MS)


def test_the_example_of_the_header() -> None:
    """12:30:00 is known at the start, 13:10:00 an hour later; the wheel turns once an hour."""
    half_past, ten_past = 12 * HOUR_MS + 1_800_000, 13 * HOUR_MS + 600_000
    shelf, wheel, hours = rig([half_past, ten_past])
    assert hours.turn(START_MS)
    assert wheel.wake_ms(START_MS) == half_past - 10_000
    assert not hours.turn(START_MS + 1999)
    assert hours.wake_ms(START_MS) == 11 * HOUR_MS
    assert hours.turn(11 * HOUR_MS)
    assert shelf.turns == [10, 11]
    wakes, taken = run_idle(wheel, shelf, 11 * HOUR_MS, 14 * HOUR_MS)
    assert wakes == [half_past - 10_000, half_past, ten_past - 10_000, ten_past]
    assert [due for due, _ in taken] == [half_past, ten_past]


def test_units_of_far_hours_cost_the_wheel_nothing() -> None:
    """An arrival for an hour that is not near leaves no trace in the wheel; the turn that maps its hour brings it."""
    shelf, wheel, hours = rig([])
    hours.turn(START_MS)
    far = shelf.append([13 * HOUR_MS])
    arrive(wheel, far)
    assert wheel.wake_ms(START_MS) is None
    hours.turn(11 * HOUR_MS)
    assert wheel.wake_ms(11 * HOUR_MS) == 13 * HOUR_MS - 10_000


def test_hours_leaped_over_are_due() -> None:
    """After a leap of ten hours the units of all hours between are loaded and given, in order."""
    dues = [hour * HOUR_MS + 5 for hour in range(11, 22)]
    shelf, wheel, hours = rig(dues)
    hours.turn(START_MS)
    now_ms = 21 * HOUR_MS + 10
    hours.turn(now_ms)
    for tick in wheel.loads(now_ms):
        wheel.load(tick, slot(shelf.units[tick]))
    assert [due for due, _ in listed(wheel.take(now_ms))] == dues


def test_nothing_turns_back() -> None:
    """A clock that goes back across the hour turns nothing, and the hour is not mapped a second time afterwards."""
    shelf, wheel, hours = rig([12 * HOUR_MS])
    hours.turn(11 * HOUR_MS)
    assert not hours.turn(11 * HOUR_MS - 1)
    assert not hours.turn(11 * HOUR_MS + 1)
    assert shelf.turns == [11]
    assert hours.wake_ms(11 * HOUR_MS - 1) == 12 * HOUR_MS
    assert wheel.loads(12 * HOUR_MS) == [12 * 3600]


def test_seconds_before_the_start_are_not_used() -> None:
    """Of the hour of the start only the seconds from the start on are the wheel's: the rest is the promotion's."""
    shelf, wheel, hours = rig([START_MS - 1000, START_MS, START_MS + 1000])
    hours.turn(START_MS)
    assert wheel.loads(START_MS) == [START_MS // 1000, START_MS // 1000 + 1]
    assert np.array_equal(shelf.due_seconds(10), np.arange(-1, 2) + START_MS // 1000)


def test_over_a_real_store(quick_path: Path) -> None:
    """With units on disk, staged for far hours and arriving live, a day of alarms hands out every unit of the store
    once, at its millisecond, in order."""
    store = Store.open(quick_path, disk=Disk())
    found(store)
    start_ms = HOUR * HOUR_MS
    random = np.random.default_rng(3)
    store.append(batch_of(start_ms + random.integers(0, 24 * HOUR_MS, 300)))
    wheel = SecondWheel(start_ms=start_ms - 1)
    hours = HourWheel(store, wheel, start_ms=start_ms - 1)
    now_ms, given, added = start_ms, [], 0
    while now_ms < start_ms + 30 * HOUR_MS:
        hours.turn(now_ms)
        for tick in wheel.loads(now_ms):
            wheel.load(tick, store.second(tick))
        due = wheel.take(now_ms)
        assert (due.due_ms == now_ms).all()
        given += due.position.tolist()
        if added < 300:
            batch = batch_of(now_ms + random.choice([1, 700, 15_000, HOUR_MS, 5 * HOUR_MS], 3))
            wheel.arrive(batch.due_ms, store.append(batch), batch.topic, batch.tags, batch.priority)
            added += 3
        wake_ms = wheel.wake_ms(now_ms)
        now_ms = min(hours.wake_ms(now_ms), now_ms + HOUR_MS if wake_ms is None else wake_ms)
    held = np.concatenate([store.pending(hour).position for hour in store.hours()])
    assert len(held) == 600
    assert given == held.tolist()
    store.close()


def test_a_clock_that_leaps_is_told() -> None:
    """Over more used seconds than one step may read, or into an hour that is not mapped; not over empty ones."""
    wheel = wheel_at(100_000, *range(200, 200 + LEAP_SECONDS), 1_000)
    assert not wheel.leaps(99_000)
    assert not wheel.leaps(1_000_999)
    assert wheel.leaps(1_001_000)
    assert not wheel_at(100_000).leaps(3 * HOUR_MS - 1)
    assert wheel_at(100_000).leaps(3 * HOUR_MS)


def test_what_another_wheel_asked_for_is_left_out() -> None:
    """A wheel that takes the place of another after a leap may get its answers: what is in them the sweep has found."""
    wheel, shelf = wheel_at(300_000, 305), Shelf()
    (before, unit) = shelf.append([105_300, 305_300])
    wheel.load(105, slot([before]))
    assert wheel.loads(300_000) == [305]
    wheel.load(305, slot([unit]))
    wheel.load(305, slot([unit]))
    assert listed(wheel.take(305_999)) == [unit]
