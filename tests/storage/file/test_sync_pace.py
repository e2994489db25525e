"""What a checkpoint writes flows to the device a little at a time, so that no sync carries all of it."""

import os
from pathlib import Path

import numpy as np
import pytest
from typing_extensions import Buffer

import storage.checkpoint.hour_set
import storage.file.sync_pace
from storage.directory.verify import verify
from storage.file.disk import Disk
from storage.file.sync_pace import SyncPace
from storage.format.batches import SettleBatch
from storage.store import Store
from tests.storage.workload import HOUR, H, batch_of, checkpoint, found

UNDER_WAY = 256 << 10


BLOCK = 4 << 10


class MeteredDisk(Disk):
    """Knows which blocks of files were written and not begun, and which are under way; a device takes those in their
    order, so who waits for the last waits for all."""

    def __init__(self) -> None:
        self.written: set[tuple[str, int]] = set()
        self.begun: set[tuple[str, int]] = set()
        self.begun_most = self.carried_most = self.waits = self.pauses = 0

    def write(self, fd: int, data: Buffer, offset: int) -> None:
        """See Disk."""
        super().write(fd, data, offset)
        self.written |= _blocks(fd, offset, memoryview(data).nbytes)

    def start_writing(self, fd: int, offset: int, size: int) -> None:
        """See Disk."""
        super().start_writing(fd, offset, size)
        blocks = self.written & _blocks(fd, offset, size)
        self.written -= blocks
        self.begun |= blocks
        self.begun_most = max(self.begun_most, len(self.begun) * BLOCK)

    def write_out(self, fd: int, offset: int, size: int) -> None:
        """See Disk."""
        self.start_writing(fd, offset, size)
        super().write_out(fd, offset, size)
        self.begun.clear()
        self.waits += 1

    def fdatasync(self, fd: int) -> None:
        """See Disk."""
        name = _name(fd)
        self._carry({block for block in self.written if block[0] == name})
        super().fdatasync(fd)

    def syncfs(self, fd: int) -> None:
        """See Disk."""
        self._carry(set(self.written))
        super().syncfs(fd)

    def pause(self) -> None:
        """See Disk."""
        self.pauses += 1

    def _carry(self, blocks: set[tuple[str, int]]) -> None:
        self.carried_most = max(self.carried_most, len(blocks | self.begun) * BLOCK)
        self.written -= blocks
        self.begun.clear()


def _blocks(fd: int, offset: int, size: int) -> set[tuple[str, int]]:
    name = _name(fd)
    return {(name, block) for block in range(offset // BLOCK, (offset + size - 1) // BLOCK + 1)}


def _name(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that a small test reaches."""
    monkeypatch.setattr(storage.file.sync_pace, "UNDER_WAY_MAX", UNDER_WAY)


def founded(directory: Path) -> tuple[MeteredDisk, Store]:
    """A store behind its first checkpoint, and its disk, which counts from there on."""
    disk = MeteredDisk()
    store = Store.open(directory, disk=disk)
    found(store)
    store.turn(HOUR)
    checkpoint(store, 1)
    disk.carried_most = 0
    return disk, store


def test_few_bytes_are_under_way(tmp_path: Path) -> None:
    """Many small writes, and one that is larger than the bound."""
    disk = MeteredDisk()
    pace = SyncPace(disk)
    fd = disk.open_write(tmp_path / "file")
    at = 0
    for size in [*[10_000] * 100, 10 * UNDER_WAY + 1]:
        disk.write(fd, bytes(size), at)
        pace.wrote(fd, at, size)
        at += size
    assert 0 < disk.begun_most <= 2 * UNDER_WAY
    assert disk.waits >= at // UNDER_WAY - 10
    disk.fdatasync(fd)
    assert disk.carried_most <= UNDER_WAY
    disk.close(fd)


@pytest.mark.parametrize("hours", [3, 40])
def test_no_sync_of_a_checkpoint_carries_all_of_it(quick_path: Path, hours: int) -> None:
    """Far hours that were staged, near ones that the loop has written, settle records: whichever way it is synced."""
    disk, store = founded(quick_path)
    due = np.sort(np.random.default_rng(1).integers((HOUR + 3) * H, (HOUR + 3 + hours) * H, 4_000))
    near = np.arange(4_000) + HOUR * H
    for each in (due, near):
        position = store.append(batch_of(each, bodies=[bytes(200)] * len(each)))
        store.settle(SettleBatch.of(position, what=3, at_ms=5, when=99, term=3, attempt=1, node=2, code=200))
    checkpoint(store, 2)
    store.close()
    assert verify(quick_path).sound
    assert sum(path.stat().st_size for path in (quick_path / "hours").rglob("*") if path.is_file()) > 10 * UNDER_WAY
    assert disk.begun_most <= 3 * UNDER_WAY, "the last of what was staged, a piece of what the loop wrote, whole blocks"
    assert disk.carried_most <= 2 * UNDER_WAY


def test_no_sync_carries_all_of_many_little_hours(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message in each: one sync of 80,000 hours held every journal on that disk for a quarter of a second."""
    monkeypatch.setattr(storage.file.sync_pace, "LITTLE_MAX", 64)
    disk, store = founded(quick_path)
    store.append(batch_of((np.arange(400) + HOUR + 3) * H))
    checkpoint(store, 2)
    store.close()
    assert verify(quick_path).sound
    assert 0 < disk.carried_most <= 2 * 64 * BLOCK


def test_a_checkpoint_of_many_batches_pauses_for_the_loop(quick_path: Path) -> None:
    """Each batch is cut for groups of hours by short calls that let go of the interpreter too briefly for the loop to
    take it: with 600 batches it stood for 60 ms, with 5,000 for 200."""
    disk, store = founded(quick_path)
    for batch in range(200):
        store.append(batch_of((np.arange(70) + HOUR + 3) * H + batch))
    assert disk.pauses == 0
    checkpoint(store, 2)
    store.close()
    assert verify(quick_path).sound
    assert disk.pauses >= 200 // 64 + 70 // 18


def test_a_checkpoint_of_settle_records_pauses_too(quick_path: Path) -> None:
    """One in each of many hours, to which no unit came."""
    disk, store = founded(quick_path)
    position = store.append(batch_of((np.arange(70) + HOUR + 3) * H))
    checkpoint(store, 2)
    paused = disk.pauses
    store.settle(SettleBatch.of(position, what=3, at_ms=5, when=99, term=3, attempt=1, node=2, code=200))
    checkpoint(store, 3)
    store.close()
    assert disk.pauses - paused >= 70 // 18


def test_what_the_loop_writes_by_itself_never_pauses(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Staged hours that are written in an append: a pause would hold the loop."""
    monkeypatch.setattr(storage.checkpoint.hour_set, "_STAGED_BYTES_MAX", 1)
    disk, store = founded(quick_path)
    checkpoint(store, 2)
    paused = disk.pauses
    for batch in range(3):
        store.append(batch_of((np.arange(60) + HOUR + 3) * H + batch))
    assert store.staged_bytes == 0
    assert disk.pauses == paused
    store.close()
