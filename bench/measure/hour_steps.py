"""Measure how long a store holds the event loop with many hours, or long ones: CPU time of each step, one process.

A step is the work of a node between two turns of its loop. Waiting for a thread does not count.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from bench.row import Row, at_most
from storage.catalog.checkpoint_record import CheckpointRecord
from storage.catalog.genesis import Genesis
from storage.file.disk import Disk
from storage.format.array import I64
from storage.format.batches import UnitBatch
from storage.format.position import HOUR_MS
from storage.record.record import KIND_MESSAGE, Drafts, encode_records
from storage.store import Store

T = TypeVar("T")

NOW: Final = 490_000
STEP_MS: Final = 20
BATCH: Final = 20_000


class Steps:
    """The longest step of each name, in ms of CPU."""

    def __init__(self) -> None:
        self.worst_ms: dict[str, float] = {}

    def take(self, name: str, step: Callable[[], T]) -> T:
        """Call `step` and return its result. Keep its processor time under this name, if it is the longest so far."""
        start = time.thread_time()
        result = step()
        took_ms = (time.thread_time() - start) * 1000
        self.worst_ms[name] = max(took_ms, self.worst_ms.get(name, 0.0))
        return result

    def rows(self, where: str) -> list[Row]:
        """Return a row for each step."""
        return [Row(f"{where}: {name}", worst, "ms", target=at_most(STEP_MS)) for name, worst in self.worst_ms.items()]


def batch_of(due_ms: I64) -> UnitBatch:
    """Return messages of 100 bytes."""
    count = len(due_ms)
    records = encode_records(Drafts([b"x" * 100] * count, due_ms, due_ms.astype(np.uint64)))
    nothing = np.zeros(count, np.uint8)
    return UnitBatch(
        due_ms=due_ms,
        size=records.size,
        topic=np.ones(count, np.uint32),
        tags=np.zeros(count, np.uint64),
        kind=np.full(count, KIND_MESSAGE, np.uint8),
        priority=nothing,
        attempt=nothing.astype(np.uint16),
        flags=nothing.astype(np.uint32),
        records=records.blob,
        created_ms=NOW * HOUR_MS,
    )


def open_store(directory: Path) -> Store:
    """Make a store in `directory`, found it, and open it."""
    directory.mkdir()
    store = Store.open(directory, disk=Disk())
    genesis = Genesis(cluster_id=bytes(range(16)), secret=bytes(32), nodes=("n1",), formats={}, created_ms=1)
    store.found(genesis.cluster_id)
    store.catalog.found(genesis)
    store.turn(NOW)
    return store


def checkpoint(store: Store, index: int, steps: Steps) -> None:
    """Make a whole checkpoint. Its begin and its end, which run on the loop of a node, are taken as steps."""
    record = CheckpointRecord(
        applied_index=index, applied_term=1, tick=0, local_index=0, state_applied_index=0, max_now_ms=1
    )
    job = steps.take("begin of a checkpoint", lambda: store.begin_checkpoint(record))
    job.run()
    steps.take("end of a checkpoint", job.finish)


def many_hours(directory: Path, hours: int) -> list[Row]:
    """Measure `hours` hours with a message each: apply of a batch for new ones, checkpoints, a start."""
    store, steps = open_store(directory), Steps()
    for first in range(0, hours, BATCH // 4):
        batch = batch_of((NOW + 10 + np.arange(first, min(hours, first + BATCH // 4))) * HOUR_MS)
        steps.take("apply of 5,000 messages for new hours", lambda batch=batch: store.append(batch))  # type: ignore[misc]
    checkpoint(store, 1, steps)
    store.append(batch_of((NOW + 10 + np.arange(0, hours, 20)) * HOUR_MS + 1))
    checkpoint(store, 2, steps)
    steps.take("turn of the hour", lambda: store.turn(NOW + 1))
    steps.take("open hours, for a promotion", store.open_hours)
    pin = steps.take("pin for a snapshot", store.pin)
    assert pin is not None, "a checkpoint was made"
    pin.release()
    store.close()
    start = time.perf_counter()
    Store.open(directory, disk=Disk()).close()
    took_s = time.perf_counter() - start
    return [*steps.rows(f"{hours:,} hours"), Row(f"{hours:,} hours: open the store", took_s, "s", took_s, at_most(5))]


def long_hour(directory: Path, units: int) -> list[Row]:
    """Measure a store after a restart, with a far hour of `units` messages that becomes near. That happens once after a
    checkpoint of other hours, and once before any checkpoint."""
    store, steps = open_store(directory), Steps()
    number = NOW + 4
    batch = batch_of(number * HOUR_MS + np.arange(BATCH) * (HOUR_MS // BATCH))
    for index in range(1, units // BATCH + 1):
        store.append(batch)
        if not index % 20:
            checkpoint(store, index, Steps())
    checkpoint(store, units, Steps())
    store.close()
    store = Store.open(directory, disk=Disk())
    store.turn(NOW)
    store.append(batch_of(np.array([(NOW + 9) * HOUR_MS])))
    checkpoint(store, units + 1, steps)
    steps.take("turn to it", lambda: store.turn(NOW + 2))
    steps.take("its used seconds", lambda: store.due_seconds(number))
    store.close()
    store = Store.open(directory, disk=Disk())
    store.begin_at(NOW)
    steps.take("turn to it before the first checkpoint", lambda: store.turn(NOW + 2))
    store.close()
    return steps.rows(f"an hour of {units:,}")
