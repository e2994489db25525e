"""Directories that the checkpoint does not name: a start leaves them, checkpoints remove them, nothing mixes."""

import errno
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from typing_extensions import Buffer

import storage.checkpoint.recovery
import storage.checkpoint.unlinked_hours
import storage.file.kept_free
from reconcile.files.find import find_hours
from reconcile.files.node import NodeData
from storage.catalog.hour_lengths import HourLengths
from storage.checkpoint.unlinked_hours import UnlinkedHours
from storage.directory.verify import digest, verify
from storage.file.disk import Disk, DiskFailed
from storage.file.hour_file import directory_of
from storage.format.states import DELIVERED
from storage.store import Store
from tests.examples import points
from tests.storage.faulty_disk import Stopped, StoppingDisk
from tests.storage.hour.test_many_hours import due, steps
from tests.storage.quick_directory import quick_directory
from tests.storage.workload import (
    HOUR,
    Entry,
    H,
    append,
    batch_of,
    checkpoint,
    content,
    found,
    replay,
    settle,
    turn,
    unlink,
)

FIRST = HOUR + 10
BLOCK = 4096


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    """However full the disk of this machine is, nothing of it is kept free."""
    monkeypatch.setattr(storage.file.kept_free, "RESERVE_BYTES", 0)
    monkeypatch.setattr(storage.file.kept_free, "RESERVE_SHARE", 0.0)


class CountingDisk(Disk):
    """Counts the directories of hours that are removed."""

    def __init__(self) -> None:
        self.removed = 0

    def remove_tree(self, path: Path) -> None:
        """See Disk."""
        self.removed += path.parent.name == "hours"
        super().remove_tree(path)


class SmallDisk(Disk):
    """A disk of so many blocks; what stands below `path` takes some of them."""

    def __init__(self, path: Path, blocks: int) -> None:
        self._path = path
        self._blocks = blocks

    def free_bytes(self, path: Path) -> int:
        """What is left."""
        taken = sum(-(-each.stat().st_size // BLOCK) if each.is_file() else 1 for each in self._path.rglob("*"))
        return (self._blocks - taken) * BLOCK

    def total_bytes(self, path: Path) -> int:
        """All of it."""
        return self._blocks * BLOCK

    def write(self, fd: int, data: Buffer, offset: int) -> None:
        """A write to a full disk fails."""
        if self.free_bytes(self._path) <= 0:
            raise DiskFailed("write", "", errno.ENOSPC)
        super().write(fd, data, offset)


class KilledDisk(Disk):
    """The process ends where a checkpoint syncs what it has written."""

    def syncfs(self, fd: int) -> None:
        """Stop."""
        raise Stopped("syncfs")

    def fdatasync(self, fd: int) -> None:
        """Stop."""
        raise Stopped("fdatasync")


def killed(path: Path, hours: int) -> None:
    """A node that was killed in its first checkpoint, of so many far hours: all are written, none is named, and what
    was left over from before is still there."""
    store = begun_again(path, KilledDisk(), hours)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage.checkpoint.unlinked_hours, "_PIECE", 0)
        with pytest.raises(Stopped):
            checkpoint(store, 1)
    store.close()


def directories(path: Path) -> list[str]:
    """Those of hours, by name."""
    return sorted(each.name for each in (path / "hours").iterdir())


def begun_again(path: Path, disk: Disk, hours: int) -> Store:
    """Another start, and the replay."""
    store = Store.open(path, disk=disk)
    found(store)
    store.turn(HOUR)
    store.append(batch_of(due(hours)))
    return store


def test_a_start_removes_no_leftover_and_each_checkpoint_a_piece(
    quick_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The removal of 80,000 directories kept a node from serving for 207 s after a kill in its first checkpoint."""
    monkeypatch.setattr(storage.checkpoint.unlinked_hours, "_PIECE", 100)
    killed(quick_path, 250)
    assert verify(quick_path).notes == ["no checkpoint yet; 250 hours begun, which the next start rebuilds"]
    disk = CountingDisk()
    store = begun_again(quick_path, disk, 250)
    assert (store.left_by_start, disk.removed) == (250, 0)
    for index, left in enumerate((150, 50, 0, 0), 1):
        checkpoint(store, index)
        assert (store.left_by_start, disk.removed) == (left, 250 - left)
    assert len(store.records(due_positions(250))) == 250
    store.close()
    assert directories(quick_path) == [f"{FIRST + hour}.1" for hour in range(250)]
    report = verify(quick_path)
    assert (report.faults, report.notes, report.units) == ([], [], 250)
    with quick_directory() as other:
        store = begun_again(other, Disk(), 250)
        checkpoint(store, 4)
        store.close()
        assert (content(other), digest(other)) == (content(quick_path), digest(quick_path))


def due_positions(hours: int) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    """Of the only unit of each hour."""
    return (np.arange(hours) + FIRST).astype(np.uint64) << np.uint64(40)


def test_an_hour_is_begun_beside_its_leftover_and_its_name_is_free_after(
    quick_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a byte of a leftover changes while it is there, of whichever generation it is; once a checkpoint has removed
    it and is over the hour may have its name again."""
    monkeypatch.setattr(storage.checkpoint.unlinked_hours, "_PIECE", 3)
    for _ in range(2):  # twice killed: generations 0 and 1
        killed(quick_path, 10)
    old = {path: path.read_bytes() for path in (quick_path / "hours").rglob("*") if path.is_file()}
    assert len(old) == 2 * 20
    store = begun_again(quick_path, Disk(), 10)
    assert store.left_by_start == 20
    store.turn(FIRST + 2)  # half of them near, and written now
    assert {path: path.read_bytes() for path in old} == old
    assert f"{FIRST}.2" in directories(quick_path)
    checkpoint(store, 1)  # both of the first hour, one of the second
    store.unlink(FIRST)
    store.append(batch_of(due(1) + 1))
    store.turn(FIRST)
    assert {directory_of(name) for name in directories(quick_path)} >= {(FIRST, 2), (FIRST, 3)}
    checkpoint(store, 2)
    store.unlink(FIRST)
    store.append(batch_of(due(1) + 2))
    checkpoint(store, 3)
    assert str(FIRST) not in directories(quick_path), "the third generation was there when it was begun"
    store.unlink(FIRST)
    checkpoint(store, 4)
    store.append(batch_of(due(1) + 3))
    checkpoint(store, 5)
    assert f"{FIRST}" in directories(quick_path)
    for index in range(6, 10):
        checkpoint(store, index)
    store.close()
    assert len(directories(quick_path)) == 10
    report = verify(quick_path)
    assert (report.faults, report.notes) == ([], [])


def test_a_new_hour_costs_the_same_beside_many_leftovers() -> None:
    """The generation of a new hour is looked up by its number; it was a scan over all that were unlinked."""
    taken = []
    for leftovers in (0, 40_000):
        unlinked = UnlinkedHours([(FIRST + hour, 0) for hour in range(leftovers)])
        with steps() as counted:
            generations = [unlinked.generation(FIRST + hour) for hour in range(5_000)]
        assert set(generations) == ({1} if leftovers else {0})
        taken.append(counted.total())
    assert taken[1] <= 2 * taken[0]


def test_a_checkpoint_freezes_no_more_of_many_leftovers_than_its_piece() -> None:
    """What is frozen on the loop is one piece, and its names are free when it is over."""
    unlinked = UnlinkedHours([(FIRST + hour, 0) for hour in range(10_000)])
    frozen = unlinked.freeze()
    assert len(frozen.leftovers) == 2048
    frozen.removed += frozen.leftovers
    unlinked.thaw(frozen)
    assert (unlinked.generation(FIRST + 2047), unlinked.generation(FIRST + 2048)) == (0, 1)


def test_past_a_bound_a_start_removes_leftovers(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that is killed in each first checkpoint leaves more each time: the disk must not fill with them."""
    monkeypatch.setattr(storage.checkpoint.recovery, "_LEFTOVERS_MAX", 25)
    for _ in range(4):
        killed(quick_path, 10)
    store = Store.open(quick_path, disk=Disk())
    assert (store.left_by_start, len(directories(quick_path))) == (25, 25)
    store.close()


def test_a_checkpoint_removes_as_many_leftovers_as_it_needs_room(
    quick_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes the hours of all of them again: with a piece removed the disk was full at each start anew, for ever."""
    monkeypatch.setattr(storage.checkpoint.unlinked_hours, "_PIECE", 4)
    killed(quick_path, 40)
    disk = SmallDisk(quick_path, 40 * 3 + 120)  # an hour takes three blocks, and is taken for four and its content
    store = begun_again(quick_path, disk, 40)
    assert store.left_by_start == 40
    checkpoint(store, 1)
    assert 0 < store.left_by_start < 36
    assert len(directories(quick_path)) == 40 + store.left_by_start, "those removed are counted"
    store.append(batch_of(due(40) + 1))
    for index in range(2, 12):
        checkpoint(store, index)
    store.close()
    report = verify(quick_path)
    assert (report.faults, report.notes, report.units) == ([], [], 80)


def test_a_start_removes_leftovers_where_the_disk_is_short(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it writes before its first checkpoint, a term or a vote, would find no room, at each start anew."""
    killed(quick_path, 10)
    monkeypatch.setattr(storage.file.kept_free, "RESERVE_BYTES", 50 * BLOCK)
    Store.open(quick_path, disk=SmallDisk(quick_path, 100)).close()
    assert len(directories(quick_path)) == 10
    store = Store.open(quick_path, disk=SmallDisk(quick_path, 80))
    assert (store.left_by_start, directories(quick_path)) == (0, [])
    store.close()


def test_only_names_of_hours_are_leftovers(quick_path: Path) -> None:
    """What no hour is called goes at once, as before: it stands in no hour's way."""
    assert [directory_of(name) for name in ("7", "7.1", "0.2")] == [(7, 0), (7, 1), (0, 2)]
    strange = ["7.0", "07", "7.", ".7", "7.1.1", "-7", "seven", "7.01", "\u0667"]
    assert [directory_of(name) for name in strange] == [None] * len(strange)
    killed(quick_path, 2)
    for name in strange:
        (quick_path / "hours" / name).mkdir()
    Store.open(quick_path, disk=Disk()).close()
    assert directories(quick_path) == [str(FIRST), str(FIRST + 1)]


def test_a_pin_and_a_reader_of_the_directory_meet_leftovers(quick_path: Path) -> None:
    """A snapshot names none of them. To reconcile one is a copy of the hour more: the same entries were applied."""
    killed(quick_path, 10)
    store = begun_again(quick_path, Disk(), 10)
    checkpoint(store, 1)
    store.close()
    for hour in range(10):  # as if none had been removed
        shutil.copytree(quick_path / "hours" / f"{FIRST + hour}.1", quick_path / "hours" / f"{FIRST + hour}")
    report = verify(quick_path)
    assert (report.faults, report.units) == ([], 10)
    assert report.notes == ["10 hours that the checkpoint does not name, which the node removes"]
    store = Store.open(quick_path, disk=Disk())
    pin = store.pin()
    assert pin is not None
    names = [name for name, _ in pin.prepare().files if name.startswith("hours/")]
    assert {name.split("/")[1] for name in names} == {f"{FIRST + hour}.1" for hour in range(10)}
    checkpoint(store, 2)  # the pin holds none of the leftovers
    assert directories(quick_path) == [f"{FIRST + hour}.1" for hour in range(10)]
    pin.release()
    store.close()


def test_reconcile_reads_the_hour_and_not_what_is_left_over_of_it(quick_path: Path) -> None:
    """Of several directories of one hour the checkpoint's counts; before that, the newest one that has the units."""
    killed(quick_path, 10)
    store = begun_again(quick_path, Disk(), 10)
    assert {copy.generation for copy in find_hours(NodeData("n1", quick_path)).copies} == {0}, "the others are staged"
    store.turn(FIRST + 2)
    found = find_hours(NodeData("n1", quick_path)).copies
    assert [copy.generation for copy in found] == [1] * 5 + [0] * 5
    store.close()
    lengths = {FIRST: HourLengths(log_len=64, index_len=128, settle_len=0, units=1, unsettled=1)}
    found = find_hours(NodeData("n1", quick_path, lengths=lengths)).copies
    assert [copy.generation for copy in found] == [0] + [1] * 4 + [0] * 5


CRASHED: list[Entry] = [
    found,
    turn(0),
    append(5, H + 5, *range(30 * H, 42 * H, H)),
    settle(DELIVERED, (0, 0), (33, 0)),
    turn(32),
    append(30 * H + 1, 60 * H, 61 * H),
    unlink(0),
    append(7, 35 * H + 9),
    unlink(31),
    turn(0),
    append(31 * H, 62 * H),
]
"""Far hours, near ones, some that are unlinked and begun again; two checkpoints of more hours than a piece."""


LOSSES = ["written", "unsynced"]


@pytest.mark.parametrize("loss", LOSSES)
def test_stopped_anywhere_between_leftovers(quick_path: Path, monkeypatch: pytest.MonkeyPatch, loss: str) -> None:
    """Killed within the first checkpoint, then again at every operation of the start and the checkpoints after it, and
    once more at one behind: files and digest become those of a run without a kill, and every leftover goes."""
    monkeypatch.setattr(storage.checkpoint.unlinked_hours, "_PIECE", 4)
    whole, first, later = quick_path / "whole", quick_path / "first", quick_path / "later"
    for path in (whole, first):
        path.mkdir()
    _run(whole, Disk())
    expected = content(whole), digest(whole)[0]
    with pytest.raises(Stopped):
        _run(first, KilledDisk())
    assert len(directories(first)) == 14
    disk = StoppingDisk()
    _run(shutil.copytree(first, later), disk)
    operations = len(disk.operations)
    assert disk.operations.count("remove_tree") > 14
    for stop_at in points(operations, LOSSES.index(loss), len(LOSSES)):
        shutil.rmtree(later)
        shutil.copytree(first, later)
        for at in (stop_at, max(1, stop_at // 2)):
            disk = StoppingDisk(at, torn_bytes=None if loss == "unsynced" else at // 2 % 50)
            disk.trust(later)
            with suppress(Stopped):  # the second time there may be fewer operations left
                _run(later, disk)
            if loss == "unsynced":
                disk.lose_unsynced(later / "hours")
        _run(later, Disk())
        assert (content(later), digest(later)[0]) == expected, f"stopped at {stop_at}"
        assert verify(later).notes == []


def _run(path: Path, disk: Disk) -> None:
    """All entries with their checkpoints, from wherever the directory stands, then some more for what is left over."""
    store = Store.open(path, disk=disk)
    try:
        replay(store, CRASHED, checkpoints=(4, 8))
        while store.left_by_start:
            checkpoint(store, store.applied_index)
        checkpoint(store, store.applied_index)
    finally:
        store.close()
