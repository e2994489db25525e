"""A simulated week of the store: what is in memory follows from the near hours, not from what is pending."""

import gc
import tracemalloc
from pathlib import Path

import numpy as np

from storage.checkpoint.hour_set import NEAR_HOURS
from storage.directory.verify import verify
from storage.file.disk import Disk
from storage.format.batches import SettleBatch
from storage.format.chain import HEADS_BYTES
from storage.format.position import HOUR_MS
from storage.format.states import DELIVERED
from storage.store import Store
from tests.storage.workload import HOUR, batch_of, checkpoint, found

WEEK = 7 * 24
AHEAD = 72
KEPT = 6


def live_a_week(path: Path, each: int) -> int:
    """Every hour: turn, schedule `each` messages for each of the next 72 hours, deliver what is due, unlink what is
    past its retention, checkpoint. Returns the bytes that the store holds at the end, of those that it took since the
    first of what is pending then came: who watches every allocation makes the week four times as long."""
    path.mkdir()
    store = Store.open(path, disk=Disk())
    found(store)
    for now in range(HOUR, HOUR + WEEK):
        if now == HOUR + WEEK - AHEAD:
            tracemalloc.start()
        store.turn(now)
        due = np.repeat((now + 1 + np.arange(AHEAD)) * HOUR_MS, each) + np.tile(np.arange(each) * 20_000, AHEAD)
        store.append(batch_of(due))
        first, end = store.span(now)
        if first < end:
            store.settle(SettleBatch.of(np.arange(first, end, dtype=np.uint64), what=DELIVERED, at_ms=now * HOUR_MS))
        if (gone := now - KEPT) in store.hours():
            store.unlink(gone)
        checkpoint(store, now - HOUR + 1)
        held = store.hours_held
        there = [hour for hour in store.hours() if abs(hour - now) <= NEAR_HOURS]
        assert held.near == len(there) <= 2 * NEAR_HOURS + 1
        assert held.heads_bytes <= held.near * HEADS_BYTES + AHEAD * (10 * each + 512)  # of far ones what is used
        assert held.used == held.near  # hours of the past are rows, settled or not
        assert store.staged_bytes == 0
    assert store.unit_count > AHEAD * AHEAD * each // 2
    gc.collect()
    ours = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/storage/*")])
    tracemalloc.stop()
    store.close()
    assert verify(path).sound
    return sum(trace.size for trace in ours.traces)


def test_memory_follows_the_near_hours(quick_path: Path) -> None:
    """MISSION A3: five hours are mapped, two either way of now, their heads and no others are in memory, and ten times
    as many messages pending cost the states of the near hours alone."""
    few = live_a_week(quick_path / "few", 1)
    many = live_a_week(quick_path / "many", 10)
    states = (2 * NEAR_HOURS + 1 + KEPT) * 19 * AHEAD * 10 * 2
    assert many < few + states
    assert many < 1 << 20
