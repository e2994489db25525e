"""An hour that was unlinked and is begun again: one number, two directories, and never a mixture."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from storage.columns import SettleBatch
from storage.disk import Disk
from storage.format import DELIVERED
from storage.position import HOUR_MS
from storage.store import Store
from storage.verify import digest, verify
from tests.storage.quick_directory import quick_directory
from tests.storage.workload import HOUR, batch_of, checkpoint, content, found, record_at

DUE = HOUR * HOUR_MS
NEAR = pytest.mark.parametrize("near", [True, False])


def _open(path: Path, *, near: bool) -> Store:
    store = Store.open(path, disk=Disk())
    found(store)
    store.turn(HOUR if near else HOUR + 50)
    return store


def _directories(path: Path) -> list[str]:
    return sorted(directory.name for directory in (path / "hours").iterdir())


@NEAR
def test_begun_again_at_once(quick_path: Path, near: bool) -> None:
    """A node that made a checkpoint after the unlink and one that did not give the new units the same positions, and
    have the same bytes and digest in the end."""
    with quick_directory() as other:
        results = []
        for path, checkpoints in ((quick_path, True), (other, False)):
            store = _open(path, near=near)
            store.append(batch_of([DUE, DUE + 1, DUE + 2]))
            checkpoint(store, 1)
            store.unlink(HOUR)
            if checkpoints:
                checkpoint(store, 2)
            assert store.append(batch_of([DUE + 9, DUE + 8])).tolist() == [HOUR << 40, HOUR << 40 | 1]
            checkpoint(store, 3)
            assert [record.asked_due_ms for record in store.records(_positions(2))] == [DUE + 9, DUE + 8]
            store.close()
            assert verify(path).faults == []
            results.append((content(path), digest(path)))
        assert results[0] == results[1]
        assert (_directories(quick_path), _directories(other)) == ([f"{HOUR}"], [f"{HOUR}.1"])


@NEAR
def test_a_crash_finds_the_old_hour_whole(quick_path: Path, near: bool) -> None:
    """What is written to the new hour touches no byte of the old one, to which a crash goes back."""
    store = _open(quick_path, near=near)
    store.append(batch_of([DUE, DUE + 1]))
    checkpoint(store, 1)
    before = content(quick_path)
    store.unlink(HOUR)
    store.append(batch_of([DUE + 500, DUE + 600, DUE + 700]))
    store.settle(SettleBatch.of(_positions(3), what=DELIVERED, at_ms=1))
    store.close()
    again = Store.open(quick_path, disk=Disk())
    assert [record.asked_due_ms for record in again.records(_positions(2))] == [DUE, DUE + 1]
    assert (again.unsettled(HOUR), again.unit_count) == (2, 2)
    again.close()
    assert content(quick_path) == before


@NEAR
@pytest.mark.parametrize("when", ["begun", "run"])
def test_begun_again_during_a_checkpoint(quick_path: Path, near: bool, when: str) -> None:
    """A checkpoint that froze the old hour, or is removing it, neither writes into the new one nor makes it forget."""
    store = _open(quick_path, near=near)
    steps: list[Callable[[], object]] = [lambda: store.append(batch_of([DUE, DUE + 1])), lambda: store.unlink(HOUR)]
    for round_, step in enumerate(steps):
        step()
        job = store.begin_checkpoint(record_at(round_ + 1))
        if when == "run":
            job.run()
        store.unlink(HOUR)
        store.append(batch_of([DUE + 500 + round_]))
        if when == "begun":
            job.run()
        job.finish()
        assert [record.asked_due_ms for record in store.records(_positions(1))] == [DUE + 500 + round_]
    checkpoint(store, 3)
    assert store.staged_bytes == 0
    store.close()
    assert verify(quick_path).faults == []
    again = Store.open(quick_path, disk=Disk())
    assert [record.asked_due_ms for record in again.records(_positions(1))] == [DUE + 501]
    again.close()
    assert len(_directories(quick_path)) == 1


def _positions(count: int) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    return np.arange(count, dtype=np.uint64) + np.uint64(HOUR << 40)
