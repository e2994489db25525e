"""Headers of many records: what is read along between them is let go."""

import tracemalloc

import numpy as np
import pytest

from storage.file.disk import Disk
from storage.format.position import HOUR_MS
from tests.storage.near_hour import near_store, the_hour
from tests.storage.quick_directory import quick_directory
from tests.storage.workload import HOUR, batch_of, checkpoint

UNITS, BODY = 500, 2_000


def test_headers_are_read_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies lie between them: the ledger of a piece of an hour, or a list of dead letters, held all that it had read,
    twice."""
    monkeypatch.setattr("storage.hour.hour._RUN_BYTES_MAX", 64 << 10)
    with quick_directory() as directory:
        store = near_store(directory, Disk())
        due_ms = [HOUR * HOUR_MS + 7 * n for n in range(UNITS)]
        store.append(batch_of(due_ms, bodies=[bytes(BODY)] * UNITS))
        checkpoint(store, 2)
        at = np.random.default_rng(1).permutation(UNITS)
        hour = the_hour(store)
        hour.header_rows(at[:1])  # its files are open
        tracemalloc.start()
        try:
            rows = hour.header_rows(at)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert rows["asked_due_ms"].tolist() == [due_ms[unit] for unit in at.tolist()]
        assert peak < UNITS * BODY // 2
        assert len(hour.header_rows(at[:0])) == 0
        store.close()
