"""What an hour holds of units that have ended: their states, and the rest when it is asked for."""

from pathlib import Path
from random import Random

import numpy as np
import pytest

import storage.state
from node.memory import resident_bytes
from storage.array import U64
from storage.columns import SettleBatch
from storage.disk import Disk
from storage.format import DEAD, DELIVERED, FORWARDED, LEASED, PENDING
from storage.hour import Hour
from storage.message_trail import MessageTrail
from storage.position import HOUR_MS
from storage.state_block import BLOCK_UNITS, PART_UNITS, Block
from storage.state_files import spans_in
from storage.store import Store
from tests.storage.hour_history import HourHistory, kill_checkpoint
from tests.storage.reading_disk import ReadingDisk
from tests.storage.small_pages import small_pages
from tests.storage.workload import HOUR, batch_of, checkpoint, found, move, record_at

BLOCK = 64
PART = 16


def _store(directory: Path, disk: Disk) -> Store:
    """Of which the hour is near."""
    store = Store.open(directory, disk=disk)
    found(store)
    store.turn(HOUR)
    return store


def _append(store: Store, units: int) -> U64:
    return store.append(batch_of([HOUR * HOUR_MS + 7 * n for n in range(units)]))


def _settle(store: Store, positions: U64, what: int, attempt: int = 1) -> None:
    store.settle(SettleBatch.of(positions, what=what, at_ms=9, when=500, term=1, attempt=attempt))


def _hour(store: Store) -> Hour:
    hour = store._hours.find(HOUR)
    assert hour is not None
    return hour


def _full(store: Store) -> list[int]:
    """The parts of the hour of which more than the states is in memory."""
    newest = np.concatenate([block.newest for block in _hour(store).states()._blocks])
    return sorted(set((np.flatnonzero(newest) // PART).tolist()))


def test_what_has_ended_is_told_by_its_state_alone(quick_path: Path) -> None:
    """Which are pending, leased or dead needs no file. More is read, a page of it."""
    disk = ReadingDisk()
    with small_pages():
        store = _store(quick_path, disk)
        positions = _append(store, 4 * BLOCK)
        _settle(store, positions, LEASED)
        _settle(store, positions[:-4], DELIVERED, attempt=3)
        _settle(store, positions[5:6], DEAD, attempt=4)
        slot_read = store.slot_read(HOUR * 3600)
        assert slot_read is not None
        assert _full(store) == list(range(16))
        checkpoint(store, 1)
        assert _full(store) == [15]
        reads = disk.reads
        assert store.leased(HOUR).position.tolist() == positions[-4:].tolist()
        assert store.born_in_state(HOUR << 40, (HOUR + 1) << 40, DEAD).tolist() == positions[5:6].tolist()
        expected = [DELIVERED] * 5 + [DEAD] + [DELIVERED] * (4 * BLOCK - 10) + [LEASED] * 4
        assert store.state_only(positions).tolist() == expected
        assert disk.reads == reads
        assert store.states(positions[[70]]).attempt.tolist() == [3]
        assert disk.reads == reads + 1
        assert _full(store) == [4, 15]
        assert not len(slot_read.run())
        assert not len(store.pending(HOUR))
        found = store.states(positions)
        assert found.attempt.tolist() == [3] * 5 + [4] + [3] * (4 * BLOCK - 10) + [1] * 4
        assert found.lease_end_ms.tolist() == [0] * (4 * BLOCK - 4) + [500] * 4
        store.close()


def test_what_happens_to_units_that_had_ended_is_kept(quick_path: Path) -> None:
    """A dead message is redriven after its block was let go, and ends again."""
    with small_pages():
        store = _store(quick_path, Disk())
        positions = _append(store, 2 * BLOCK)
        _settle(store, positions, DEAD, attempt=7)
        checkpoint(store, 1)
        assert _full(store) == []
        _settle(store, positions[[3]], FORWARDED, attempt=8)
        assert _full(store) == [0]
        assert store.states(positions[2:5]).attempt.tolist() == [7, 8, 7]
        _settle(store, positions[60:70], DELIVERED, attempt=9)
        assert store.states(positions[59:71]).attempt.tolist() == [7, *[9] * 10, 7]
        checkpoint(store, 2)
        store.close()
        store = Store.open(quick_path, disk=Disk())
        assert store.states(positions[59:71]).attempt.tolist() == [7, *[9] * 10, 7]
        store.close()


def test_b19_an_hours_memory_follows_what_is_open(quick_path: Path) -> None:
    """It was 19 bytes for each unit that the hour had seen, and 16 for each retry."""
    with small_pages():
        store = _store(quick_path, Disk())
        last = _append(store, 20)
        born: dict[int, int] = {}
        for count in range(1, 30):
            positions = _append(store, BLOCK)
            places = move(store, positions[:5].tolist(), [HOUR * HOUR_MS] * 5, at_ms=1)
            born |= dict(zip(places.tolist(), positions.tolist(), strict=False))
            _settle(store, last, DELIVERED)
            last = np.concatenate([positions, places])
            checkpoint(store, count)
            assert len(_full(store)) <= 2
            assert _hour(store)._homes.count <= 10
        assert store.states(places).state.tolist() == [PENDING] * 5
        assert store.homes(np.array(list(born), np.uint64)).tolist() == list(born.values())
        store.close()


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


def _killed_at_checkpoint(store: Store, directory: Path) -> Store:
    """It left its files; what is not in the catalog comes again."""
    kill_checkpoint(store, 2)
    store.close()
    store = Store.open(directory, disk=Disk())
    store.turn(HOUR)
    return store


def test_a_file_that_counts_is_not_removed(quick_path: Path) -> None:
    """A checkpoint listed it as superfluous while the journal was replayed, and the next one built on it and removed
    it. What was delivered was told leased again, by the files before it."""
    with small_pages():
        store = _store(quick_path, Disk())
        positions = _append(store, 400)
        _settle(store, positions[:64], LEASED)
        checkpoint(store, 1)
        _settle(store, positions[:64], DELIVERED)
        store = _killed_at_checkpoint(store, quick_path)
        assert store.states(positions).state.tolist() == [LEASED] * 64 + [PENDING] * 336
        _settle(store, positions[:21], DELIVERED)
        checkpoint(store, 2)
        _settle(store, positions[21:64], DELIVERED)
        _settle(store, positions[100:130], DELIVERED)
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
        store = _store(quick_path, Disk())
        positions = _append(store, 200)
        _settle(store, positions[:20], DELIVERED)
        checkpoint(store, 1)
        _settle(store, positions[20:60], DELIVERED)
        store = _killed_at_checkpoint(store, quick_path)
        for count, first, end in ((2, 20, 65), (3, 65, 70)):
            _settle(store, positions[first:end], DELIVERED)
            checkpoint(store, count)
        slot_read = store.slot_read(HOUR * 3600)
        assert slot_read is not None
        assert slot_read.run().position.tolist() == positions[70:143].tolist()
        store.close()


@pytest.mark.parametrize("later", [True, False])
def test_what_the_files_do_not_tell_is_kept(quick_path: Path, later: bool) -> None:
    """What comes during a checkpoint stands behind the files; few records have no files at all."""
    with small_pages():
        store = _store(quick_path, Disk())
        positions = _append(store, BLOCK)
        _settle(store, positions[:-1] if later else positions[:10], DELIVERED)
        job = store.begin_checkpoint(record_at(1))
        _settle(store, positions[-1:], DELIVERED, attempt=2)
        job.run()
        job.finish()
        assert _full(store) == ([3] if later else [0, 3])
        assert store.states(positions[-1:]).attempt.tolist() == [2]
        store.close()


def test_what_is_let_go_is_the_kernels() -> None:
    """18 bytes a unit; and a block takes no memory for what nobody touches."""
    begin = resident_bytes()
    block = Block.mapped()
    assert resident_bytes() - begin < 1 << 20
    for column in block.columns:
        column[: 2 * PART_UNITS] = 1
    full = resident_bytes()
    assert full - begin > 35 * PART_UNITS
    block.let_go(1)
    assert full - resident_bytes() > 17 * PART_UNITS
    assert [int(column.sum()) for column in block.columns] == [2 * PART_UNITS, *[PART_UNITS] * 4]
    assert len(block.state) == BLOCK_UNITS


def test_a_file_that_is_removed_while_it_is_in_use_is_read_on(quick_path: Path) -> None:
    """It was left by a killed checkpoint, found superfluous while the journal was replayed, and counted when that was
    done. The next checkpoint's thread removed it before the loop read the longer one: a look at a slot failed."""
    with small_pages():
        store = _store(quick_path, Disk())
        positions = _append(store, 400)
        _settle(store, positions[:40], DELIVERED)
        checkpoint(store, 1)
        _settle(store, positions[40:80], DELIVERED)
        store = _killed_at_checkpoint(store, quick_path)
        store.states(positions[399:])
        _settle(store, positions[40:50], DELIVERED)
        job = store.begin_checkpoint(record_at(2))
        _settle(store, positions[50:80], DELIVERED)
        job.run()
        job.finish()
        _settle(store, positions[80:200], DELIVERED)
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
        store = _store(quick_path, disk := Removing())
        positions = _append(store, 100)
        _settle(store, positions[:20], DELIVERED, attempt=4)
        checkpoint(store, 1)
        old = disk.list_directory(quick_path / "hours" / str(HOUR))
        _settle(store, positions[20:60], DELIVERED, attempt=5)
        checkpoint(store, 2)
        checkpoint(store, 3)
        store.close()
        store = Store.open(quick_path, disk=disk)
        disk.names = old
        assert store.states(positions[[0, 59]]).attempt.tolist() == [4, 5]
        assert disk.names is None
        store.close()


def test_homes_of_units_to_come_are_held(quick_path: Path) -> None:
    """Of pages that no unit has reached nothing was read: they counted as ended, and a look at the home of the next
    unit read behind the index."""
    with small_pages():
        store = _store(quick_path, Disk())
        positions = _append(store, 60)
        places = move(store, positions[:2].tolist(), [HOUR * HOUR_MS] * 2, at_ms=1)
        ended = np.concatenate([positions[5:], places])
        _settle(store, ended, DELIVERED)
        checkpoint(store, 1)
        _settle(store, ended, LEASED)
        store = _killed_at_checkpoint(store, quick_path)
        assert not len(store.leased_piece(HOUR << 40, (HOUR << 40) + 62)[0])
        _append(store, 1)
        checkpoint(store, 2)
        hour = _hour(store)
        assert hour._homes.begin == hour.next == 63
        behind = np.array([HOUR << 40 | hour.next], np.uint64)
        assert store.homes(behind).tolist() == behind.tolist()
        store.close()


def test_a_trail_reads_what_was_let_go_in_its_thread(quick_path: Path) -> None:
    """A ledger held the loop for 0.2 s where its hour had ended, and brought all of it back to memory."""
    disk = ReadingDisk()
    with small_pages():
        store = _store(quick_path, disk)
        positions = _append(store, 4 * BLOCK)
        _settle(store, positions, LEASED)
        _settle(store, positions, DELIVERED)
        checkpoint(store, 1)
        _settle(store, positions[7:8], DELIVERED)
        full, reads = _full(store), disk.reads
        at = np.arange(0, 4 * BLOCK, 3)
        trail = MessageTrail(_hour(store), at)
        assert disk.reads == reads
        assert not trail.quick
        assert MessageTrail(_hour(store), at[:2]).quick
        told = trail.run()
        assert told.ordinals.tolist() == sorted([*at.tolist(), *(at + 4 * BLOCK).tolist()])
        assert _full(store) == full
        store.close()


def test_so_many_parts_are_let_go_at_a_time(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others when a checkpoint makes the files longer again."""
    monkeypatch.setattr(storage.state, "_LET_GO_MAX", 3)
    with small_pages():
        store = _store(quick_path, Disk())
        positions = _append(store, 4 * BLOCK)
        _settle(store, positions[: 2 * BLOCK], DELIVERED)
        checkpoint(store, 1)
        assert _full(store) == list(range(3, 8))
        _settle(store, positions[-20:], LEASED)
        checkpoint(store, 2)
        assert _full(store) == [6, 7, 14, 15]
        store.close()


def test_a_mapped_block_counts_for_what_was_reached(quick_path: Path) -> None:
    """It counted for a million units. Eight hours of 140,000 were all that may be warm: in a replay, which has no
    checkpoint, each was read again for each settle record."""
    with small_pages():
        store = _store(quick_path, Disk())
        positions = _append(store, 2 * BLOCK)
        _settle(store, positions[:20], DELIVERED)
        assert _hour(store).states_units == 20
        _settle(store, positions[:70], DELIVERED)
        assert _hour(store).states_units == 70
        _append(store, 8 * BLOCK)
        _settle(store, np.array([HOUR << 40 | 6 * BLOCK], np.uint64), DELIVERED)
        assert _hour(store).states_units == 71
        store.close()


def test_files_that_nobody_reads_are_not_open(quick_path: Path) -> None:
    """Nor opened: sixty warm hours had three each."""
    with small_pages():
        store = _store(quick_path, disk := ReadingDisk())
        small, large = _append(store, 15), _append(store, 10)
        _settle(store, np.tile(small, 2), DELIVERED)
        checkpoint(store, 1)
        assert not _hour(store).states()._files.files
        reads = disk.reads
        _settle(store, large, LEASED)
        _settle(store, large, LEASED)
        checkpoint(store, 2)
        assert [file._fd for file in _hour(store).states()._files.files] == [-1]
        assert disk.reads > reads
        store.close()


def test_files_of_which_all_was_read_are_closed(quick_path: Path) -> None:
    """They were open until the hour cooled, also when they were removed."""
    with small_pages():
        store = _store(quick_path, Disk())
        positions = _append(store, 15)
        _settle(store, np.tile(positions, 2), DELIVERED)
        checkpoint(store, 1)
        store.close()
        store = Store.open(quick_path, disk=Disk())
        store.turn(HOUR)
        assert store.states(positions).state.tolist() == [DELIVERED] * 15
        states = _hour(store).states()
        assert [file._fd > 0 for file in states._files.files] == [True]
        _settle(store, np.tile(positions, 2), DELIVERED)
        checkpoint(store, 2)
        assert [file._fd for file in states._files.files] == [-1]
        store.close()


def test_who_opened_files_for_a_thread_that_never_came_leaves_none(quick_path: Path) -> None:
    """A pull that was given up before its thread began."""
    with small_pages():
        store = _store(quick_path, Disk())
        _settle(store, _append(store, 2 * BLOCK), DELIVERED)
        checkpoint(store, 1)
        at = np.arange(2 * BLOCK)
        before = len(list(Path("/proc/self/fd").iterdir()))
        trails = [MessageTrail(_hour(store), at) for _ in range(3)]
        assert len(list(Path("/proc/self/fd").iterdir())) > before
        del trails
        assert len(list(Path("/proc/self/fd").iterdir())) == before
        store.close()
