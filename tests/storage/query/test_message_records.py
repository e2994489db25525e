"""What an hour's records say of some units, and which messages fell due in a window: held against a look at every one,
whatever befell the store and whether its caches hold the hour or not."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.file.disk import Disk
from storage.format.batches import SettleBatch
from storage.format.position import HOUR_MS, INDEX_MAX
from storage.format.rows import SETTLE, UNIT_MOVED, Settles, join_rows
from storage.format.states import DELIVERED, LEASED, RELEASED
from storage.hour.hour import Hour
from storage.query.due_in_window import MessageWindow, TooMany
from storage.query.message_records import MessageRecordsRead
from storage.store import Store
from tests.examples import examples
from tests.storage.quick_directory import quick_directory
from tests.storage.workload import HOUR, batch_of, checkpoint, found, move

DUE = HOUR * HOUR_MS

Step = tuple[str, list[int]]

step: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("append"), st.lists(st.integers(0, HOUR_MS - 1), min_size=1, max_size=8)),
    st.tuples(st.sampled_from(["lease", "settle", "release", "move"]), st.lists(st.integers(0, 40), max_size=6)),
    st.tuples(st.sampled_from(["checkpoint", "near", "far", "cool"]), st.just([])),
)


def hour_of(store: Store) -> Hour:
    """The one hour all this is about."""
    hour = store.hour(HOUR)
    assert hour is not None
    return hour


def all_settles(hour: Hour) -> Settles:
    """Every settle record of the hour, by reading them in order."""
    saved = [rows for _, rows in hour.files.settle.blocks(hour.saved_settles)]
    return join_rows([*saved, *hour.staged_settles.arrays], SETTLE)


def play(store: Store, steps: list[Step]) -> None:
    """Carry out the steps; numbers name units, those that are not there are passed over."""
    for number, (what, numbers) in enumerate(steps, 1):
        hour = store.hour(HOUR)
        units = 0 if hour is None else hour.units
        at = sorted({each for each in numbers if each < units})
        home = np.array([HOUR << 40 | each for each in at], np.uint64)
        if what == "append":
            store.append(batch_of([DUE + ms for ms in numbers]))
        elif what == "checkpoint":
            checkpoint(store, number)
        elif what in ("near", "far"):
            store.turn(HOUR + (0 if what == "near" else 50))
        elif what == "cool" and hour is not None and not hour.near:
            hour.cool()
        elif what == "move":
            born = [each for each in home.tolist() if store.homes(np.array([each], np.uint64))[0] == each]
            if born:
                move(store, born, [DUE + (each & INDEX_MAX) * 7 for each in born], at_ms=number)
        elif at and what in ("lease", "settle", "release"):
            word = {"lease": LEASED, "settle": DELIVERED, "release": RELEASED}[what]
            store.settle(SettleBatch.of(home, what=word, at_ms=number, when=number + 9, term=1, attempt=1))


@examples(80)
@given(
    steps=st.lists(step, max_size=25),
    asked=st.sets(st.integers(0, 60)),
    window=st.tuples(st.integers(0, HOUR_MS), st.integers(0, HOUR_MS)),
)
def test_they_tell_what_a_look_at_every_record_tells(
    steps: list[Step], asked: set[int], window: tuple[int, int]
) -> None:
    """Units, headers and settle records of those asked for, in the order of the file with their ordinals; and the
    messages born in the hour and due in the window, by due time and number."""
    with quick_directory() as path:
        store = Store.open(path, disk=Disk())
        found(store)
        store.turn(HOUR)
        store.append(batch_of([DUE, DUE + 5, DUE + 1_000]))
        play(store, steps)
        hour = hour_of(store)
        at = np.array(sorted(each for each in asked if each < hour.units), np.int64)
        trail = MessageRecordsRead(hour, at).run()
        settles = all_settles(hour)
        its = np.flatnonzero(np.isin(settles["global_index"].astype(np.int64), at))
        assert trail.ordinals.tolist() == its.tolist()
        assert trail.settles.tobytes() == settles[its].tobytes()
        assert trail.units["global_index"].tolist() == at.tolist()
        records = store.records(at.astype(np.uint64) | np.uint64(HOUR << 40))
        assert trail.headers["random"].tolist() == [record.random for record in records]
        assert trail.headers["asked_due_ms"].tolist() == [record.asked_due_ms for record in records]
        units = hour.unit_rows(np.arange(hour.units))
        from_ms, to_ms = DUE + window[0], DUE + window[1]
        born = MessageWindow(hour, from_ms, to_ms, None, 1_000).run()
        wanted = (units["due_ms"] >= from_ms) & (units["due_ms"] < to_ms) & (units["flags"] & UNIT_MOVED == 0)
        rows = sorted(zip(units["due_ms"][wanted].tolist(), np.flatnonzero(wanted).tolist(), strict=True))
        assert list(zip(born.due_ms.tolist(), born.at.tolist(), strict=True)) == rows
        store.close()


@pytest.fixture
def store(quick_path: Path) -> Store:
    """A founded store in an empty directory, its wheel at the hour."""
    store = Store.open(quick_path, disk=Disk())
    found(store)
    store.turn(HOUR)
    return store


def test_a_few_seconds_of_a_near_hour_are_read_by_their_chains(store: Store) -> None:
    """And not the whole index; a topic is told apart either way, and too many are refused."""
    store.append(batch_of([DUE + ms for ms in range(0, 3_000_000, 3_000)]))
    store.append(batch_of([DUE + 3_001, DUE + 3_002], topic=8))
    hour, few = hour_of(store), (DUE + 3_000, DUE + 4_000)
    assert MessageWindow(hour, *few, None, 10).quick
    assert not MessageWindow(hour, DUE, DUE + HOUR_MS, None, 10).quick
    for window in (few, (DUE, DUE + HOUR_MS)):
        assert MessageWindow(hour, *window, 8, 2).run().due_ms.tolist() == [DUE + 3_001, DUE + 3_002]
    assert MessageWindow(hour, *few, 7, 2).run().at.tolist() == [1]
    with pytest.raises(TooMany):
        MessageWindow(hour, *few, None, 2).run()
    store.close()


def test_both_keep_their_moment(store: Store) -> None:
    """What happens between making them and running them does not show."""
    first = store.append(batch_of([DUE, DUE + 1]))
    hour, at = hour_of(store), np.arange(2)
    store.settle(SettleBatch.of(first[:1], what=LEASED, at_ms=1, when=9))
    trail, window = MessageRecordsRead(hour, at), MessageWindow(hour, DUE, DUE + 1_000, None, 10)
    assert trail.quick
    store.settle(SettleBatch.of(first, what=DELIVERED, at_ms=2))
    store.append(batch_of([DUE + 2]))
    assert trail.run().settles["what"].tolist() == [LEASED]
    assert born_at(window) == [0, 1]
    store.close()


def born_at(window: MessageWindow) -> list[int]:
    """Their numbers."""
    at: list[int] = window.run().at.tolist()
    return at
