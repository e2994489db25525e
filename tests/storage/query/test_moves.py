"""Messages that live elsewhere than where they were born, told from both ends."""

from itertools import zip_longest
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.directory.verify_moves import move_faults
from storage.file.disk import Disk
from storage.format.batches import SettleBatch
from storage.format.checksum import checksum_rows
from storage.format.pieces import at_once
from storage.format.position import GONE, HOUR_MS
from storage.format.rows import HEADER_SIZE, UNIT_KEYED, UNIT_MOVED, Corrupt
from storage.format.states import DEAD, DELIVERED, FORWARDED, LEASED, MOVED, PENDING, RELEASED
from storage.hour.homes_elsewhere import HomesElsewhere
from storage.hour.hour import Hour
from storage.query.moves import HISTORY_MAX
from storage.record.record import HEADER, RECORD_HEADER_SIZE
from storage.store import Store
from tests.calls import calls_of
from tests.storage.workload import HOUR, batch_of, checkpoint, found, move

DUE = HOUR * HOUR_MS


@pytest.fixture
def store(quick_path: Path) -> Store:
    """A founded store with three messages in the first hour: their positions are BORN."""
    store = Store.open(quick_path, disk=Disk())
    found(store)
    assert store.append(batch_of([DUE, DUE + 1, DUE + 2])).tolist() == BORN
    return store


BORN = [HOUR << 40 | index for index in range(3)]


def _settle(store: Store, what: int, *positions: int, at_ms: int, attempt: int = 0) -> None:
    store.settle(SettleBatch.of(list(positions), what=what, at_ms=at_ms, when=at_ms + 50, attempt=attempt))


def _one(value: int) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    return np.array([value], np.uint64)


def test_the_whole_story(store: Store) -> None:
    """Retried twice, dead, redriven and delivered: one story in order of time, each event once, wherever it was."""
    home = BORN[1]
    _settle(store, LEASED, home, at_ms=10, attempt=1)
    (first,) = move(store, [home], [DUE + HOUR_MS], at_ms=20).tolist()
    _settle(store, LEASED, first, at_ms=30, attempt=2)
    (second,) = move(store, [home], [DUE + 2 * HOUR_MS], at_ms=40).tolist()
    assert store.locate(_one(home)).tolist() == [second] == [store.last_place(home)]
    _settle(store, LEASED, second, at_ms=50, attempt=3)
    _settle(store, DEAD, second, home, at_ms=60, attempt=3)
    assert (store.settled_at(home), store.unsettled(HOUR)) == (60, 2)
    assert (store.locate(_one(home)).tolist(), store.last_place(home)) == ([home], second)
    assert store.born_in_state(HOUR << 40, (HOUR + 1) << 40, DEAD).tolist() == [home]
    assert store.born_in_state((HOUR + 2) << 40, (HOUR + 3) << 40, DEAD).tolist() == []
    (third,) = move(store, [home], [DUE + 2 * HOUR_MS + 9], at_ms=70).tolist()
    assert (store.settled_at(home), store.unsettled(HOUR)) == (None, 3)
    _settle(store, RELEASED, third, at_ms=80)
    _settle(store, DELIVERED, third, home, at_ms=90, attempt=4)
    told = at_once(store.history(home))
    assert list(zip(told["at_ms"].tolist(), told["what"].tolist(), strict=True)) == [
        (10, LEASED), (20, FORWARDED), (30, LEASED), (40, FORWARDED), (50, LEASED), (60, DEAD), (70, FORWARDED),
        (80, RELEASED), (90, DELIVERED),
    ]  # fmt: skip
    places = [first, second, third]
    assert told["when"][told["what"] == FORWARDED].tolist() == places
    assert store.homes(np.array([*places, *BORN], np.uint64)).tolist() == [home] * 3 + BORN
    assert store.states(np.array(places, np.uint64)).state.tolist() == [MOVED, MOVED, DELIVERED]
    store.close()


def test_a_long_story_is_told_from_its_end(store: Store) -> None:
    """Rescheduled 700 times, then a lease extended 700 times, and acked: the newest events, as many as are told, and
    what is asked for costs so many reads, not all there ever were."""
    home = BORN[1]
    for at in range(700):
        (place,) = move(store, [home], [DUE + at], at_ms=at).tolist()
    assert at_once(store.history(home))["at_ms"].tolist() == list(range(700 - HISTORY_MAX, 700))
    for at in range(700, 1400):
        _settle(store, LEASED, place, at_ms=at, attempt=1)
    _settle(store, DELIVERED, place, home, at_ms=1400, attempt=1)
    told = at_once(store.history(home))
    assert told["at_ms"].tolist() == list(range(1401 - HISTORY_MAX, 1401))
    assert int(told["what"][-1]) == DELIVERED


def test_what_a_move_keeps(store: Store) -> None:
    """Id, topic, creation time and body stay; the unit says that it was moved, beside what its flags said before."""
    units = batch_of([DUE + 77], bodies=[b"kept"])
    units.flags[:] = UNIT_KEYED
    (home,) = store.append(units).tolist()
    (before,) = store.records(_one(home))
    place = move(store, [home, BORN[0]], [DUE + 5 * HOUR_MS, DUE + 3 * HOUR_MS], at_ms=DUE)
    assert [position >> 40 for position in place.tolist()] == [HOUR + 5, HOUR + 3]
    assert store.units(place)["flags"].tolist() == [UNIT_KEYED | UNIT_MOVED, UNIT_MOVED]
    assert store.units(place)["attempt"].tolist() == [1, 1]
    after, other = store.records(place)
    kept = ("group", "position", "random", "topic", "created_ms", "asked_due_ms", "body")
    assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]
    assert (after.place, other.position, other.place) == (place[0], BORN[0], place[1])
    store.close()


def test_an_hour_of_forwards_is_not_open_and_not_settled(store: Store) -> None:
    """A home whose message lives elsewhere has nothing to hand over, and may not be unlinked."""
    move(store, BORN, [DUE + HOUR_MS] * 3, at_ms=1)
    assert (store.unsettled(HOUR), store.unsettled(HOUR + 1)) == (3, 3)
    assert store.open_hours() == [HOUR + 1]
    assert len(store.pending(HOUR)) == len(store.leased(HOUR).position) == len(store.second(HOUR * 3600)) == 0
    states = store.states(np.array(BORN, np.uint64))
    assert (states.state.tolist(), states.lease_end_ms.tolist()) == ([FORWARDED] * 3, [0] * 3)
    store.close()


@pytest.mark.parametrize("near", [True, False])
def test_homes_are_read_again(store: Store, quick_path: Path, near: bool) -> None:
    """After a restart, or when its hour was not used for long, a place knows its home from the files, part of which may
    still wait in memory."""
    store.turn(HOUR if near else HOUR + 50)
    first = move(store, BORN[:2], [DUE + HOUR_MS] * 2, at_ms=1)
    checkpoint(store, 1)
    store.close()
    again = Store.open(quick_path, disk=Disk())
    again.append(batch_of([DUE + HOUR_MS, DUE + HOUR_MS + 1]))
    second = move(again, BORN[2:], [DUE + HOUR_MS + 2], at_ms=2)
    places = np.concatenate([second, first, second + np.uint64(1)])  # the last one is unknown
    assert again.homes(places).tolist() == [BORN[2], *BORN[:2], int(second[0]) + 1]
    assert again.locate(np.array(BORN, np.uint64)).tolist() == [*first.tolist(), *second.tolist()]
    begin = (HOUR + 1) << 40
    assert again.born_in_state(begin, begin + 9, PENDING).tolist() == [begin + 2, begin + 3]
    again.close()


def test_a_place_that_is_another_ones_now(store: Store) -> None:
    """A place may be unlinked before the home is, and its hour begun again: for a message born there, for another one
    that moved there, for the same one. What happened there before is no longer told, and nothing is told twice; no
    place is another one's. The message is gone with where it ended."""
    (place,) = move(store, BORN[:1], [DUE + HOUR_MS], at_ms=1).tolist()
    for what, at_ms in ((LEASED, 2), (DEAD, 3)):
        _settle(store, what, place, at_ms=at_ms)
    _settle(store, DEAD, BORN[0], at_ms=3)
    assert at_once(store.history(BORN[0]))["at_ms"].tolist() == [1, 2, 3]
    store.unlink(HOUR + 1)
    assert (store.last_place(BORN[0]), at_once(store.history(BORN[0]))["at_ms"].tolist()) == (GONE, [1, 3])
    assert store.append(batch_of([DUE + HOUR_MS])).tolist() == [place + 1]
    _settle(store, LEASED, place + 1, at_ms=4)
    assert (store.last_place(BORN[0]), at_once(store.history(BORN[0]))["at_ms"].tolist()) == (GONE, [1, 3])
    store.unlink(HOUR + 1)
    assert move(store, BORN[1:2], [DUE + HOUR_MS], at_ms=5).tolist() == [place + 2]
    _settle(store, LEASED, place + 2, at_ms=6)
    assert (store.last_place(BORN[0]), at_once(store.history(BORN[0]))["at_ms"].tolist()) == (GONE, [1, 3])
    assert at_once(store.history(BORN[1]))["at_ms"].tolist() == [5, 6]
    store.unlink(HOUR + 1)
    assert move(store, BORN[:1], [DUE + HOUR_MS], at_ms=7).tolist() == [place + 3]
    _settle(store, LEASED, place + 3, at_ms=8)
    assert (store.last_place(BORN[0]), at_once(store.history(BORN[0]))["at_ms"].tolist()) == (place + 3, [1, 3, 7, 8])
    store.close()


@pytest.mark.parametrize(("field", "value"), [("place", 5), ("flags", 0)])
def test_a_record_that_is_not_its_units(store: Store, quick_path: Path, field: str, value: int) -> None:
    """A unit that was moved, over a record that says otherwise: whoever asks for its home or reads it is stopped."""
    place = move(store, BORN[:1], [DUE + HOUR_MS], at_ms=1)
    checkpoint(store, 1)
    store.close()
    path = quick_path / "hours" / str(HOUR + 1) / "log"
    data = bytearray(path.read_bytes())
    header = np.frombuffer(data, HEADER, 1, HEADER_SIZE)
    header[field] = value
    if field == "flags":
        header["place"] = 0
    words = np.frombuffer(data, np.uint64, RECORD_HEADER_SIZE // 8, HEADER_SIZE)
    header["header_checksum"] = 0
    header["header_checksum"] = checksum_rows(words.reshape(1, -1))
    path.write_bytes(data)
    again = Store.open(quick_path, disk=Disk())
    with pytest.raises(Corrupt, match=f"{HOUR + 1}/log at byte 64: record's position"):
        again.homes(place)
    with pytest.raises(Corrupt, match=f"{HOUR + 1}/log at byte 64: record's position"):
        again.records(place)
    again.close()


@given(st.lists(st.sets(st.integers(0, 50)), max_size=6), st.lists(st.integers(0, 60), max_size=6))
def test_homes_against_a_dict(batches: list[set[int]], forgotten: list[int]) -> None:
    """Added in any number of batches, each moved unit held leads to its home and every other one to itself."""
    homes, expected, start = HomesElsewhere(0), {}, 0
    for batch, behind in zip_longest(batches, forgotten, fillvalue=None):
        at = np.array(sorted(batch or ()), np.int64) + start
        homes.add(at, at.astype(np.uint64) * np.uint64(1000))
        expected.update({index: index * 1000 for index in at.tolist()})
        start += 51
        if behind is not None:
            homes.forget(start - behind)
            assert homes.begin >= start - behind
    held = {index: home for index, home in expected.items() if index >= homes.begin}
    assert homes.count == len(held)
    asked = np.arange(start + 3)
    places = asked.astype(np.uint64)
    assert homes.find(asked, places).tolist() == [held.get(index, index) for index in range(start + 3)]


def test_many_messages_gone_astray_are_counted() -> None:
    """Past a hundred lines verify counts."""
    pairs = np.arange(300, dtype=np.uint64).reshape(-1, 2)
    assert move_faults([pairs], [pairs[::-1]]) == []
    faults = move_faults([pairs], [])
    assert len(faults) == 101
    assert "50 more messages" in faults[-1]


def test_a_last_place_is_found_in_two_steps(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that was leased 10,000 times and never moved was followed to its birth, 0.4 s, once another one of its
    hour had moved."""
    move(store, BORN[:1], [DUE + HOUR_MS], at_ms=1)
    for attempt in range(20):
        _settle(store, LEASED, BORN[1], at_ms=attempt)
    steps = calls_of(monkeypatch, Hour, "settle_rows")
    assert store.last_place(BORN[1]) == BORN[1]
    assert len(steps) <= 2
    store.close()
