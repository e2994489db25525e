"""A start looks at the lengths of the first hours; of the others a checkpoint or their first use does."""

import threading
from pathlib import Path

import numpy as np
import pytest

import storage.hour.open_hour
from storage.directory.verify import verify
from storage.file.disk import Disk
from storage.format.rows import Corrupt
from tests.storage.hour.test_many_hours import FIRST, due, open_store
from tests.storage.workload import batch_of, checkpoint, content, record_at

HOURS = 10


class LengthsDisk(Disk):
    """Keeps whose lengths were asked for, and waits before it cuts if told to."""

    def __init__(self) -> None:
        self.looked: list[str] = []
        self.cuts = threading.Event()
        self.may_cut = threading.Event()
        self.may_cut.set()

    def length(self, path: str) -> int | None:
        """See Disk."""
        hour = path.split("/")[-2]
        if hour not in self.looked:
            self.looked.append(hour)
        return super().length(path)

    def truncate(self, fd: int, length: int) -> None:
        """Tell, and wait."""
        self.cuts.set()
        assert self.may_cut.wait(60)
        super().truncate(fd, length)


@pytest.fixture
def grown(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of ten far hours, of which a start looks at three and a checkpoint at four; each log has a torn tail."""
    monkeypatch.setattr(storage.hour.open_hour, "START_HOURS", 3)
    monkeypatch.setattr(storage.hour.open_hour, "PIECE_HOURS", 4)
    store = open_store(quick_path)
    store.append(batch_of(due(HOURS)))
    checkpoint(store, 1)
    store.close()
    for hour in range(HOURS):
        with log(quick_path, hour).open("ab") as file:
            file.write(b"torn")
    return quick_path


def log(path: Path, hour: int) -> Path:
    """Of the n-th hour."""
    return path / "hours" / str(FIRST + hour) / "log"


def position(hour: int) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    """Of its first message."""
    return np.array([FIRST + hour << 40], np.uint64)


def torn(path: Path) -> list[int]:
    """The hours whose tail is still there."""
    return [hour for hour in range(HOURS) if log(path, hour).exists() and b"torn" in log(path, hour).read_bytes()]


def test_a_start_looks_at_some_and_checkpoints_at_the_rest(grown: Path) -> None:
    """80,000 directories kept a start for 11 s whose blocks were not in memory. Those that are gone are passed over."""
    disk = LengthsDisk()
    store = open_store(grown, disk)
    assert disk.looked == [str(FIRST + hour) for hour in range(3)]
    assert (torn(grown), store.left_by_start) == ([3, 4, 5, 6, 7, 8, 9], 7)
    store.unlink(FIRST + 4)
    store.unlink(FIRST + 9)
    store.append(batch_of(due(10)[9:] + 1))  # begun again: another hour
    checkpoint(store, 2)
    assert (torn(grown), store.left_by_start) == ([7, 8], 3)
    checkpoint(store, 3)
    assert (torn(grown), store.left_by_start) == ([], 0)
    looked = disk.looked.copy()
    checkpoint(store, 4)
    store.close()
    assert disk.looked == looked == [str(FIRST + hour) for hour in (0, 1, 2, 3, 5, 6, 7, 8)]
    report = verify(grown)
    assert (report.faults, report.notes, report.units) == ([], [], HOURS - 1)


def test_what_is_used_first_is_cut_first(grown: Path) -> None:
    """Read, written when it is near, or written by a checkpoint: the files become those of a store without tails."""
    store = open_store(grown)
    assert store.records(position(9))[0].asked_due_ms == due(10)[9]
    assert 9 not in torn(grown)
    store.append(batch_of(due(HOURS)[5:] + 1))
    store.turn(FIRST + 7)
    assert torn(grown) == [3, 4]
    checkpoint(store, 2)
    assert torn(grown) == []
    store.close()
    other = grown / "other"
    store = open_store(other)
    store.append(batch_of(due(HOURS)))
    store.append(batch_of(due(HOURS)[5:] + 1))
    store.turn(FIRST + 7)
    checkpoint(store, 2)
    store.close()
    assert content(other) == {name: data for name, data in content(grown).items() if not name.startswith("other/")}


@pytest.mark.parametrize("name", ["log", "index"])
@pytest.mark.parametrize("change", ["cut", "gone"])
def test_a_file_that_lost_bytes_is_named(grown: Path, name: str, change: str) -> None:
    """By the first use, and by the checkpoint that comes by."""
    path = log(grown, 5).with_name(name)
    if change == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:100])
    store = open_store(grown)
    with pytest.raises(Corrupt, match=f"{FIRST + 5}/{name}.*as in the checkpoint"):
        store.records(position(5))
    with pytest.raises(Corrupt, match=f"{FIRST + 5}/{name}.*as in the checkpoint"):
        checkpoint(store, 2)
    store.close()


def test_no_thread_cuts_what_another_has_written(grown: Path) -> None:
    """A checkpoint is about to cut a tail when the loop writes to that hour: the loop waits for it."""
    disk = LengthsDisk()
    store = open_store(grown, disk)
    disk.may_cut.clear()
    job = store.begin_checkpoint(record_at(2))
    thread = threading.Thread(target=job.run)
    thread.start()
    assert disk.cuts.wait(60)
    loop = threading.Thread(target=store.turn, args=(FIRST + 3,))  # near now: it is opened
    loop.start()
    loop.join(0.1)
    assert loop.is_alive()
    disk.may_cut.set()
    loop.join(60)
    store.append(batch_of(due(HOURS)[3:4] + 1))
    thread.join(60)
    job.finish()
    assert len(store.records(np.concatenate([position(3), position(3) + np.uint64(1)]))) == 2
    checkpoint(store, 3)
    store.close()
    assert verify(grown).units == HOURS + 1
