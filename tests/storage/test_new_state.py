"""A new state is a row: the store, the wheel, counts, states files and verify do as it says."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

import tests.storage.hour_history
from storage.directory.verify import verify
from storage.file.disk import Disk
from storage.format.array import U64
from storage.format.batches import SettleBatch
from storage.format.pieces import at_once
from storage.format.position import HOUR_MS
from storage.format.states import (
    ENDED_STANDINGS,
    LIVE_STANDINGS,
    OPEN_STANDINGS,
    PENDING,
    READY,
    STANDINGS,
)
from storage.query.count import HourCount, TopicTally, Total
from storage.query.selection import Selection
from storage.store import Store
from tests.storage.hour_history import WHAT, HourHistory
from tests.storage.new_state import COMMITTED, HALF, RESUMED, added
from tests.storage.small_pages import small_pages
from tests.storage.workload import HOUR, batch_of, checkpoint, found, move

DUE = HOUR * HOUR_MS


@pytest.fixture(autouse=True)
def rows() -> Iterator[None]:
    """All three are there."""
    with added(HALF, COMMITTED, RESUMED):
        yield


@pytest.fixture(params=[True, False], ids=["near", "far"])
def store(request: pytest.FixtureRequest, quick_path: Path) -> Iterator[Store]:
    """Of ten units, due one second after the other, the first four of which are half."""
    store = Store.open(quick_path, disk=Disk())
    found(store)
    store.turn(HOUR if request.param else HOUR + 100)
    positions = store.append(batch_of([DUE + 1_000 * n for n in range(10)]))
    store.settle(SettleBatch.of(positions[:4], what=HALF.number, at_ms=1, when=77))
    yield store
    store.close()


POSITIONS: U64 = np.arange(HOUR << 40, (HOUR << 40) + 10, dtype=np.uint64)


def _count(store: Store, *standings: int, now_ms: int = DUE) -> int:
    total = Total()
    selection = Selection(frozenset(standings))
    if (hour := store.selectable(HOUR, selection)) is not None:
        count = HourCount(hour, selection, now_ms)
        count.run(total)
    return total.count


def test_it_is_the_units_state(store: Store) -> None:
    """With what its record says; a lease end is none of it."""
    assert store.states(POSITIONS).state.tolist() == [HALF.number] * 4 + [PENDING] * 6
    assert store.state_only(POSITIONS).tolist() == [HALF.number] * 4 + [PENDING] * 6
    assert not store.states(POSITIONS).lease_end_ms.any()
    assert store.newest(POSITIONS[:1])["when"].tolist() == [77]
    assert not len(store.leased(HOUR).position)


def test_the_wheel_does_not_take_it(store: Store) -> None:
    """Neither second by second nor from the hour as a whole; once it is committed it does, as after a release."""
    assert store.pending(HOUR).position.tolist() == POSITIONS[4:].tolist()
    assert [len(store.second(DUE // 1000 + n)) for n in range(10)] == [0] * 4 + [1] * 6
    store.settle(SettleBatch.of(POSITIONS[:2], what=COMMITTED.number, at_ms=2, when=DUE))
    assert store.pending(HOUR).position.tolist() == np.delete(POSITIONS, [2, 3]).tolist()
    assert store.states(POSITIONS).state.tolist() == [0, 0] + [HALF.number] * 2 + [PENDING] * 6


def test_the_wheel_takes_what_is_pending_in_a_state_of_its_own(store: Store) -> None:
    """Which people know as pending, and counts as well."""
    store.settle(SettleBatch.of(POSITIONS[:4], what=RESUMED.number, at_ms=2))
    assert store.pending(HOUR).position.tolist() == POSITIONS.tolist()
    assert [len(store.second(DUE // 1000 + n)) for n in range(10)] == [1] * 10
    assert store.states(POSITIONS[:1]).state.tolist() == [RESUMED.number]
    assert (store.open_units(HOUR), store.unsettled(HOUR)) == (10, 10)
    assert _by_topic(store) == {(7, "ready"): 6, (7, "scheduled"): 4}
    assert _count(store, READY, now_ms=DUE) == 1


def test_it_is_not_open_and_keeps_its_hour(store: Store) -> None:
    """Counters say so, also once nothing else is left; a message with a key in such a state holds it."""
    assert (store.open_units(HOUR), store.unsettled(HOUR)) == (6, 10)
    store.settle(SettleBatch.of(POSITIONS[4:], what=2, at_ms=3))
    assert (store.open_units(HOUR), store.unsettled(HOUR)) == (0, 4)
    assert (store.open_hours(), store.ended_hours()) == ([], [HOUR])
    assert store.settled_at(int(POSITIONS[0])) is None
    store.settle(SettleBatch.of(POSITIONS[:4], what=3, at_ms=4))
    assert (store.open_units(HOUR), store.unsettled(HOUR)) == (0, 0)
    assert store.settled_at(int(POSITIONS[0])) == 4


def _by_topic(store: Store) -> dict[tuple[int, str], int]:
    tally = TopicTally()
    selection = Selection(frozenset().union(*STANDINGS.values()))
    hour = store.selectable(HOUR, selection)
    count = None if hour is None else HourCount(hour, selection, DUE + 5_000)
    assert count is not None
    count.run(tally)
    words = {number: word for word, numbers in STANDINGS.items() for number in numbers}
    return {(topic, words[standing]): counted for (topic, standing), counted in tally.counts.items()}


def test_it_has_a_word_of_its_own_in_counts(store: Store, quick_path: Path) -> None:
    """It is live and not open; the next topic's numbers are its own."""
    assert STANDINGS["half"] == {HALF.number}
    assert "committed" not in STANDINGS
    for topic, what in ((8, HALF.number), (9, 5)):
        more = store.append(batch_of([DUE + 60_000], topic=topic))
        store.settle(SettleBatch.of(more, what=what, at_ms=1))
    assert (_count(store, *OPEN_STANDINGS), _count(store, *LIVE_STANDINGS)) == (6, 11)
    assert _count(store, HALF.number) == 5
    assert _count(store, *ENDED_STANDINGS) == 1
    store.settle(SettleBatch.of(POSITIONS[:2], what=COMMITTED.number, at_ms=2))
    expected = {(7, "half"): 2, (7, "ready"): 4, (7, "scheduled"): 4, (8, "half"): 1, (9, "dead"): 1}
    assert _by_topic(store) == expected
    checkpoint(store, 1)
    store.close()
    again = Store.open(quick_path, disk=Disk())  # with nothing in memory
    assert _by_topic(again) == expected
    again.close()


def test_an_hour_of_nothing_else_is_counted_by_who_asks_for_it(store: Store) -> None:
    """For open messages it is not looked at."""
    store.settle(SettleBatch.of(POSITIONS[4:], what=2, at_ms=3))
    assert store.selectable(HOUR, Selection(frozenset(OPEN_STANDINGS))) is None
    assert _count(store, HALF.number) == _count(store, *LIVE_STANDINGS) == 4


def test_it_outlives_a_restart_and_verify_finds_nothing(store: Store, quick_path: Path) -> None:
    """Which without the row would not know what such a record says."""
    checkpoint(store, 1)
    store.settle(SettleBatch.of(POSITIONS[:1], what=COMMITTED.number, at_ms=2))
    checkpoint(store, 2)
    store.close()
    assert verify(quick_path).faults == []
    again = Store.open(quick_path, disk=Disk())
    assert again.states(POSITIONS).state.tolist() == [PENDING] + [HALF.number] * 3 + [PENDING] * 6
    assert (again.open_units(HOUR), again.unsettled(HOUR)) == (7, 10)
    again.close()
    with added(replace(HALF, number=30, name="other", word="other")):
        assert verify(quick_path).faults == []


def test_verify_knows_no_such_record_without_the_row(quick_path: Path) -> None:
    """Nor does it where only another state was added."""
    store = Store.open(quick_path, disk=Disk())
    found(store)
    positions = store.append(batch_of([DUE]))
    store.settle(SettleBatch.of(positions, what=19, at_ms=1))
    checkpoint(store, 1)
    store.close()
    assert any("what is 19, expected one there is" in fault for fault in verify(quick_path).faults)


def test_a_message_that_moved_may_be_in_it(store: Store, quick_path: Path) -> None:
    """Its home leads to it, its story tells of it, and verify follows it there."""
    (home,) = POSITIONS[5:6].tolist()
    (place,) = move(store, [home], [DUE + 90_000], at_ms=5).tolist()
    store.settle(SettleBatch.of([place], what=HALF.number, at_ms=6))
    assert store.locate(POSITIONS[5:6]).tolist() == [place]
    assert [int(row["what"]) for row in at_once(store.history(home))] == [8, HALF.number]
    checkpoint(store, 1)
    store.close()
    assert verify(quick_path).faults == []


@pytest.mark.parametrize("number", [16, 30, 31, 253])
@pytest.mark.parametrize("seed", range(4))
def test_pages_of_states_have_it(number: int, seed: int, quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever number it has: a page has bits for sixteen."""
    with added(replace(HALF, number=number, name="any", word="any")) if number > 18 else added():
        monkeypatch.setattr(tests.storage.hour_history, "WHAT", (*WHAT, number, number, COMMITTED.number))
        random = Random(seed)
        with small_pages():
            hour = HourHistory(quick_path, random, again=seed % 2 == 0)
            steps = [hour.settle] * 5 + [hour.look] * 3 + [hour.end, hour.save, hour.save, hour.reopen, hour.cool]
            for _ in range(40):
                random.choice([*steps, hour.turn, hour.check])()
            hour.save()
            hour.reopen()  # pages are read by their bits
            found = hour.store.born_in_state(HOUR << 40, (HOUR + 1) << 40, number)
            assert found.tolist() == hour.positions[hour.store.states(hour.positions).state == number].tolist()
            hour.check()
            hour.store.close()
