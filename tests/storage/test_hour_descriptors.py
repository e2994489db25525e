"""Descriptors opened to look at an hour are closed again."""

import os
from pathlib import Path

import numpy as np

from storage.disk import Disk
from storage.position import HOUR_MS
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
