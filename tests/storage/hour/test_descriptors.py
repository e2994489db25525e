"""Descriptors opened to look at an hour are closed again, and none are opened for what is in memory."""

import os
from pathlib import Path

import numpy as np

from storage.file.disk import Disk
from storage.format.batches import SettleBatch
from storage.format.position import HOUR_MS
from storage.format.states import DELIVERED, LEASED, PENDING
from storage.store import Store
from tests.storage.workload import HOUR, batch_of, checkpoint, found

HOURS = np.arange(40) + HOUR + 10


def test_hours_that_nobody_holds_any_more_leave_no_descriptors(quick_path: Path) -> None:
    """`Store.hour` uses no hour, so none is cooled for it: what it opened went with it, and its descriptors stayed."""
    store = Store.open(quick_path, disk=Disk())
    found(store)
    store.append(batch_of((HOURS * HOUR_MS).tolist()))
    checkpoint(store, 1)

    def look(number: int) -> int:
        hour = store.hour(number)
        assert hour is not None
        return len(hour.unit_rows(np.array([0])))

    before = len(os.listdir("/proc/self/fd"))
    assert sum(map(look, HOURS.tolist())) == len(HOURS)
    assert len(os.listdir("/proc/self/fd")) <= before
    store.close()


class _Opening(Disk):
    """Counts what is opened."""

    def __init__(self) -> None:
        self.opened = 0

    def open_read(self, path: Path) -> int:
        """Open, and count it."""
        self.opened += 1
        return super().open_read(path)


def test_an_hour_without_settle_records_on_disk_is_not_opened_for_its_states(quick_path: Path) -> None:
    """An entry that leases and ends 250 messages of 250 old hours made and opened the files of each, twice: 110 ms on
    every node's loop, where what happened to them was nothing, or was in memory."""
    store = Store.open(quick_path, disk=Disk())
    found(store)
    positions = store.append(batch_of((np.arange(250) + HOUR + 10) * HOUR_MS))
    checkpoint(store, 1)
    store.close()
    disk = _Opening()
    store = Store.open(quick_path, disk=disk)
    before = disk.opened
    assert set(store.states(positions).state.tolist()) == {PENDING}
    for what in (LEASED, DELIVERED):
        store.settle(SettleBatch.of(positions, what=what, at_ms=1, when=500, term=1, attempt=1))
        assert set(store.states(positions).state.tolist()) == {what}
    assert disk.opened == before
    checkpoint(store, 2)
    store.close()
    store = Store.open(quick_path, disk=disk)
    assert set(store.states(positions).state.tolist()) == {DELIVERED}
    store.close()
