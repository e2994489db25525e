"""Hours that were used lately stay in memory, up to a bound of units."""

from pathlib import Path

import numpy as np
import pytest

import storage.checkpoint.states_due
import storage.checkpoint.warm_hours
import storage.state.files
from storage.format.array import U64
from storage.format.batches import SettleBatch
from storage.format.position import INDEX_BITS
from storage.format.states import LEASED
from storage.store import Store
from tests.storage.hour.test_many_hours import OpeningDisk, due, open_store
from tests.storage.workload import batch_of, checkpoint


def test_hours_that_were_cooled_do_not_count_any_more(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty hours are used one after the other, then two in turn. Both stay warm: their units are within the bound."""
    monkeypatch.setattr(storage.checkpoint.warm_hours, "_WARM_UNITS_MAX", 8 * 1024)
    store = open_store(quick_path)
    positions = store.append(batch_of(due(20)))
    store.settle(SettleBatch.of(positions, what=LEASED, at_ms=1, when=2, term=1, attempt=1))
    checkpoint(store, 1)
    store.close()
    disk = OpeningDisk()
    store = Store.open(quick_path, disk=disk)
    for place in range(20):
        store.states(positions[place : place + 1])
    for place in (0, 1):
        store.states(positions[place : place + 1])
    disk.calls.clear()
    for place in (0, 1) * 5:
        store.states(np.array([positions[place]], np.uint64))
    assert disk.calls["bytes"] == 0
    store.close()


def test_46788_an_hour_that_states_files_do_not_stand_for_goes_last(
    quick_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start without a checkpoint replayed a million settle records of an hour, and used many others: each look at the
    hour read them all again, on the loop. Behind a checkpoint it goes as the others do."""
    monkeypatch.setattr(storage.checkpoint.warm_hours, "_WARM_HOURS_MAX", 4)
    for module in (storage.state.files, storage.checkpoint.states_due, storage.checkpoint.warm_hours):
        monkeypatch.setattr(module, "TAIL_MIN", 2)
    store = open_store(quick_path)
    positions = store.append(batch_of(due(20)))
    long, others = positions[0], positions[1:]

    def use(rows: U64) -> None:
        for place in rows:
            at = np.array([place], np.uint64)
            store.settle(SettleBatch.of(at, what=LEASED, at_ms=1, when=2, term=1, attempt=1))

    def is_warm() -> bool:
        hour = store.hour(int(long) >> INDEX_BITS)
        return hour is not None and hour.states_held is not None

    use(np.array([long, long], np.uint64))
    use(others)
    assert is_warm()
    checkpoint(store, 1)
    use(others)
    assert not is_warm()
    store.close()
