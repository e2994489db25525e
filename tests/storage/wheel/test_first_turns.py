"""The first turns of the hour wheel after a start, before any checkpoint: what they read from disk."""

from pathlib import Path

import numpy as np

from storage.directory.verify import verify
from storage.format.position import HOUR_MS
from storage.store import Store
from tests.storage.hour.test_many_hours import OpeningDisk, open_store
from tests.storage.workload import HOUR, batch_of, checkpoint


def test_the_first_turns_after_a_start_read_no_index(quick_path: Path) -> None:
    """A start reads the heads of the hours that come next. Before, the turn to an hour of ten million units read its
    whole index on the loop: 640 MB."""
    store = open_store(quick_path)
    count = 20_000
    for hour in (HOUR + 3, HOUR + 4):
        store.append(batch_of(np.full(count, hour * HOUR_MS) + np.arange(count) % 3_600_000))
    checkpoint(store, 1)
    store.close()
    disk = OpeningDisk()
    store = Store.open(quick_path, disk=disk)
    store.begin_at(HOUR)
    store.append(batch_of([(HOUR + 4) * HOUR_MS + 7]))  # staged, and written by the turn
    disk.calls.clear()
    store.turn(HOUR + 1)
    store.turn(HOUR + 2)
    assert disk.calls["bytes"] <= 8 * 64
    assert store.due_seconds(HOUR + 4).tolist() == [(HOUR + 4) * 3600 + second for second in range(20)]
    checkpoint(store, 2)
    store.close()
    assert verify(quick_path).sound


def test_a_turn_back_reads_no_index_of_what_the_last_one_let_go(quick_path: Path) -> None:
    """Seed 5434: a node's clock leaped, it turned, and began to lead with its clock where the others' were: an hour of
    two million units that it had let go a moment before was read whole, 107 ms."""
    store = open_store(quick_path)
    store.turn(HOUR)
    count = 20_000
    store.append(batch_of(HOUR * HOUR_MS + np.arange(count) % 3_600_000))
    store.append(batch_of([(HOUR + 1) * HOUR_MS]))
    checkpoint(store, 1)
    store.close()
    disk = OpeningDisk()
    store = Store.open(quick_path, disk=disk)
    store.begin_at(HOUR)
    disk.calls.clear()
    store.turn(HOUR + 1_000)
    store.append(batch_of([(HOUR + 1) * HOUR_MS + 5]))  # an hour that grew meanwhile is read
    store.turn(HOUR + 1_000)
    store.turn(HOUR)
    assert disk.calls["bytes"] <= 8 * 64
    assert store.due_seconds(HOUR).tolist() == [HOUR * 3600 + second for second in range(20)]
    store.append(batch_of([HOUR * HOUR_MS + 9, (HOUR + 1) * HOUR_MS + 9]))
    checkpoint(store, 2)
    store.close()
    assert verify(quick_path).sound
