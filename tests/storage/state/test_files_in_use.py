"""States files that checkpoints leave, replace and remove while somebody reads them."""

from pathlib import Path
from random import Random

import numpy as np
import pytest

from storage.file.disk import Disk
from storage.format.states import DELIVERED, LEASED, PENDING
from storage.query.message_records import MessageRecordsRead
from storage.state.files import spans_in
from storage.store import Store
from tests.storage.hour_history import HourHistory
from tests.storage.near_hour import append, killed_at_checkpoint, near_store, settle, the_hour
from tests.storage.reading_disk import ReadingDisk
from tests.storage.small_pages import small_pages
from tests.storage.workload import HOUR, checkpoint, record_at

BLOCK = 64


@pytest.mark.parametrize("seed", range(10))
def test_files_of_checkpoints_that_never_were(quick_path: Path, seed: int) -> None:
    """Killed between files and catalog, checkpoints leave files that count later."""
    random = Random(seed)
    with small_pages():
        hour = HourHistory(quick_path, random, again=seed % 3 == 0)
        hour.store.turn(HOUR)
        steps = [hour.settle] * 2 + [hour.look, hour.end, hour.save, hour.save, hour.killed, hour.killed_replaying]
        for _ in range(70):
            random.choice(steps)()
        hour.check()
        hour.store.close()


def test_a_file_that_counts_is_not_removed(quick_path: Path) -> None:
    """A checkpoint listed it as superfluous while the journal was replayed, and the next one built on it and removed
    it. What was delivered was told leased again, by the files before it."""
    with small_pages():
        store = near_store(quick_path, Disk())
        positions = append(store, 400)
        settle(store, positions[:64], LEASED)
        checkpoint(store, 1)
        settle(store, positions[:64], DELIVERED)
        store = killed_at_checkpoint(store, quick_path)
        assert store.states(positions).state.tolist() == [LEASED] * 64 + [PENDING] * 336
        settle(store, positions[:21], DELIVERED)
        checkpoint(store, 2)
        settle(store, positions[21:64], DELIVERED)
        settle(store, positions[100:130], DELIVERED)
        checkpoint(store, 3)
        assert store.states(positions[:64]).state.tolist() == [DELIVERED] * 64
        assert not len(store.leased(HOUR).position)
        assert store.open_units(HOUR) == 400 - 94
        files = [path.name for path in (quick_path / "hours" / str(HOUR)).glob("states.*")]
        assert spans_in(files, 158)[-1][1] == 158
        store.close()


def test_files_that_are_removed_are_not_in_use(quick_path: Path) -> None:
    """A checkpoint found the files of a killed one, longer than those in use, and wrote none. The next one removed
    those in use: who looked at a slot failed."""
    with small_pages():
        store = near_store(quick_path, Disk())
        positions = append(store, 200)
        settle(store, positions[:20], DELIVERED)
        checkpoint(store, 1)
        settle(store, positions[20:60], DELIVERED)
        store = killed_at_checkpoint(store, quick_path)
        for count, first, end in ((2, 20, 65), (3, 65, 70)):
            settle(store, positions[first:end], DELIVERED)
            checkpoint(store, count)
        slot_read = store.slot_read(HOUR * 3600)
        assert slot_read is not None
        assert slot_read.run().position.tolist() == positions[70:143].tolist()
        assert all((quick_path / "hours" / file.name).exists() for file in the_hour(store).states()._files.files)
        store.close()


def test_a_file_that_is_removed_while_it_is_in_use_is_read_on(quick_path: Path) -> None:
    """It was left by a killed checkpoint, found superfluous while the journal was replayed, and counted when that was
    done. The next checkpoint's thread removed it before the loop read the longer one: a look at a slot failed."""
    with small_pages():
        store = near_store(quick_path, Disk())
        positions = append(store, 400)
        settle(store, positions[:40], DELIVERED)
        checkpoint(store, 1)
        settle(store, positions[40:80], DELIVERED)
        store = killed_at_checkpoint(store, quick_path)
        store.states(positions[399:])
        settle(store, positions[40:50], DELIVERED)
        job = store.begin_checkpoint(record_at(2))
        settle(store, positions[50:80], DELIVERED)
        job.run()
        job.finish()
        settle(store, positions[80:200], DELIVERED)
        job = store.begin_checkpoint(record_at(3))
        job.run()
        assert not (quick_path / "hours" / str(HOUR) / "states.0-80").exists()
        slot_read = store.slot_read(HOUR * 3600)
        assert slot_read is not None
        assert not len(slot_read.run())
        job.finish()
        store.close()


def test_a_file_that_goes_as_it_is_opened_is_replaced_by_a_longer_one(quick_path: Path) -> None:
    """Between the list and the call that opens it."""

    class Removing(Disk):
        names: list[str] | None = None

        def list_directory(self, path: Path) -> list[str]:
            names = super().list_directory(path)
            before, self.names = self.names, None
            return names if before is None else before

    with small_pages():
        store = near_store(quick_path, disk := Removing())
        positions = append(store, 100)
        settle(store, positions[:20], DELIVERED, attempt=4)
        checkpoint(store, 1)
        old = disk.list_directory(quick_path / "hours" / str(HOUR))
        settle(store, positions[20:60], DELIVERED, attempt=5)
        checkpoint(store, 2)
        checkpoint(store, 3)
        store.close()
        store = Store.open(quick_path, disk=disk)
        disk.names = old
        assert store.states(positions[[0, 59]]).attempt.tolist() == [4, 5]
        assert disk.names is None
        store.close()


def test_files_that_nobody_reads_are_not_open(quick_path: Path) -> None:
    """They are not opened either. Sixty warm hours had three open files each."""
    with small_pages():
        store = near_store(quick_path, disk := ReadingDisk())
        small, large = append(store, 15), append(store, 10)
        settle(store, np.tile(small, 2), DELIVERED)
        checkpoint(store, 1)
        assert not the_hour(store).states()._files.files
        reads = disk.reads
        settle(store, large, LEASED)
        settle(store, large, LEASED)
        checkpoint(store, 2)
        assert [file._fd for file in the_hour(store).states()._files.files] == [-1]
        assert disk.reads > reads
        store.close()


def test_files_of_which_all_was_read_are_closed(quick_path: Path) -> None:
    """They were open until the hour cooled, also when they were removed."""
    with small_pages():
        store = near_store(quick_path, Disk())
        positions = append(store, 15)
        settle(store, np.tile(positions, 2), DELIVERED)
        checkpoint(store, 1)
        store.close()
        store = Store.open(quick_path, disk=Disk())
        store.turn(HOUR)
        assert store.states(positions).state.tolist() == [DELIVERED] * 15
        states = the_hour(store).states()
        assert [file._fd > 0 for file in states._files.files] == [True]
        settle(store, np.tile(positions, 2), DELIVERED)
        checkpoint(store, 2)
        assert [file._fd for file in states._files.files] == [-1]
        store.close()


def test_who_opened_files_for_a_thread_that_never_came_leaves_none(quick_path: Path) -> None:
    """A pull that was given up before its thread began."""
    with small_pages():
        store = near_store(quick_path, Disk())
        settle(store, append(store, 2 * BLOCK), DELIVERED)
        checkpoint(store, 1)
        at = np.arange(2 * BLOCK)
        before = len(list(Path("/proc/self/fd").iterdir()))
        trails = [MessageRecordsRead(the_hour(store), at) for _ in range(3)]
        assert len(list(Path("/proc/self/fd").iterdir())) > before
        del trails
        assert len(list(Path("/proc/self/fd").iterdir())) == before
        store.close()
