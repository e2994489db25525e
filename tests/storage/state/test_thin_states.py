"""What an hour holds of units that have ended: their states, and the rest when it is asked for."""

import mmap
from pathlib import Path

import numpy as np
import pytest

import storage.state.block
import storage.state.unit_states
from node.runtime.memory import resident_bytes
from storage.file.disk import Disk
from storage.format.position import HOUR_MS
from storage.format.states import DEAD, DELIVERED, FORWARDED, LEASED, PENDING
from storage.query.message_records import MessageRecordsRead
from storage.state.block import BLOCK_UNITS, PART_UNITS, Block
from storage.store import Store
from tests.storage.near_hour import append, killed_at_checkpoint, near_store, settle, the_hour
from tests.storage.reading_disk import ReadingDisk
from tests.storage.small_pages import small_pages
from tests.storage.workload import HOUR, checkpoint, move, record_at

BLOCK = 64
PART = 16


def _full(store: Store) -> list[int]:
    """The parts of the hour of which more than the states is in memory."""
    newest = np.concatenate([block.newest for block in the_hour(store).states()._blocks])
    return sorted(set((np.flatnonzero(newest) // PART).tolist()))


def test_what_has_ended_is_told_by_its_state_alone(quick_path: Path) -> None:
    """Which are pending, leased or dead needs no file. More is read, a page of it."""
    disk = ReadingDisk()
    with small_pages():
        store = near_store(quick_path, disk)
        positions = append(store, 4 * BLOCK)
        settle(store, positions, LEASED)
        settle(store, positions[:-4], DELIVERED, attempt=3)
        settle(store, positions[5:6], DEAD, attempt=4)
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
        store = near_store(quick_path, Disk())
        positions = append(store, 2 * BLOCK)
        settle(store, positions, DEAD, attempt=7)
        checkpoint(store, 1)
        assert _full(store) == []
        settle(store, positions[[3]], FORWARDED, attempt=8)
        assert _full(store) == [0]
        assert store.states(positions[2:5]).attempt.tolist() == [7, 8, 7]
        settle(store, positions[60:70], DELIVERED, attempt=9)
        assert store.states(positions[59:71]).attempt.tolist() == [7, *[9] * 10, 7]
        checkpoint(store, 2)
        store.close()
        store = Store.open(quick_path, disk=Disk())
        assert store.states(positions[59:71]).attempt.tolist() == [7, *[9] * 10, 7]
        store.close()


def test_b19_an_hours_memory_follows_what_is_open(quick_path: Path) -> None:
    """It was 19 bytes for each unit that the hour had seen, and 16 for each retry."""
    with small_pages():
        store = near_store(quick_path, Disk())
        last = append(store, 20)
        born: dict[int, int] = {}
        for count in range(1, 30):
            positions = append(store, BLOCK)
            places = move(store, positions[:5].tolist(), [HOUR * HOUR_MS] * 5, at_ms=1)
            born |= dict(zip(places.tolist(), positions.tolist(), strict=False))
            settle(store, last, DELIVERED)
            last = np.concatenate([positions, places])
            checkpoint(store, count)
            assert len(_full(store)) <= 2
            assert the_hour(store)._homes.count <= 10
        assert store.states(places).state.tolist() == [PENDING] * 5
        assert store.homes(np.array(list(born), np.uint64)).tolist() == list(born.values())
        store.close()


@pytest.mark.parametrize("later", [True, False])
def test_what_the_files_do_not_tell_is_kept(quick_path: Path, later: bool) -> None:
    """What comes during a checkpoint stands behind the files; few records have no files at all."""
    with small_pages():
        store = near_store(quick_path, Disk())
        positions = append(store, BLOCK)
        settle(store, positions[:-1] if later else positions[:10], DELIVERED)
        job = store.begin_checkpoint(record_at(1))
        settle(store, positions[-1:], DELIVERED, attempt=2)
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


def test_where_the_kernel_may_keep_what_was_there_it_is_zeroed(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS takes a page back when it needs one."""
    monkeypatch.setattr(storage.state.block, "_TAKES_PAGES_BACK", False)
    block = Block.mapped()
    block._maps = [mmap.mmap(-1, 1)] * len(block.columns)  # to which no such part belongs
    for column in block.columns:
        column[: 2 * PART_UNITS] = 1
    block.let_go(1)
    assert [int(column.sum()) for column in block.columns] == [2 * PART_UNITS, *[PART_UNITS] * 4]


def test_homes_of_units_to_come_are_held(quick_path: Path) -> None:
    """Of pages that no unit has reached nothing was read: they counted as ended, and a look at the home of the next
    unit read behind the index."""
    with small_pages():
        store = near_store(quick_path, Disk())
        positions = append(store, 60)
        places = move(store, positions[:2].tolist(), [HOUR * HOUR_MS] * 2, at_ms=1)
        ended = np.concatenate([positions[5:], places])
        settle(store, ended, DELIVERED)
        checkpoint(store, 1)
        settle(store, ended, LEASED)
        store = killed_at_checkpoint(store, quick_path)
        assert not len(store.leased_piece(HOUR << 40, (HOUR << 40) + 62)[0])
        append(store, 1)
        checkpoint(store, 2)
        hour = the_hour(store)
        assert hour._homes.begin == hour.next == 63
        behind = np.array([HOUR << 40 | hour.next], np.uint64)
        assert store.homes(behind).tolist() == behind.tolist()
        store.close()


def test_a_trail_reads_what_was_let_go_in_its_thread(quick_path: Path) -> None:
    """A ledger held the loop for 0.2 s where its hour had ended, and brought all of it back to memory."""
    disk = ReadingDisk()
    with small_pages():
        store = near_store(quick_path, disk)
        positions = append(store, 4 * BLOCK)
        settle(store, positions, LEASED)
        settle(store, positions, DELIVERED)
        checkpoint(store, 1)
        settle(store, positions[7:8], DELIVERED)
        full, reads = _full(store), disk.reads
        at = np.arange(0, 4 * BLOCK, 3)
        trail = MessageRecordsRead(the_hour(store), at)
        assert disk.reads == reads
        assert not trail.quick
        assert MessageRecordsRead(the_hour(store), at[:2]).quick
        told = trail.run()
        assert told.ordinals.tolist() == sorted([*at.tolist(), *(at + 4 * BLOCK).tolist()])
        assert _full(store) == full
        store.close()


def test_so_many_parts_are_let_go_at_a_time(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others when a checkpoint makes the files longer again."""
    monkeypatch.setattr(storage.state.unit_states, "_LET_GO_MAX", 3)
    with small_pages():
        store = near_store(quick_path, Disk())
        positions = append(store, 4 * BLOCK)
        settle(store, positions[: 2 * BLOCK], DELIVERED)
        checkpoint(store, 1)
        assert _full(store) == list(range(3, 8))
        settle(store, positions[-20:], LEASED)
        checkpoint(store, 2)
        assert _full(store) == [6, 7, 14, 15]
        store.close()


def test_a_mapped_block_counts_for_what_was_reached(quick_path: Path) -> None:
    """It counted for a million units. Eight hours of 140,000 were all that may be warm: in a replay, which has no
    checkpoint, each was read again for each settle record."""
    with small_pages():
        store = near_store(quick_path, Disk())
        positions = append(store, 2 * BLOCK)
        settle(store, positions[:20], DELIVERED)
        assert the_hour(store).states_units == 20
        settle(store, positions[:70], DELIVERED)
        assert the_hour(store).states_units == 70
        append(store, 8 * BLOCK)
        settle(store, np.array([HOUR << 40 | 6 * BLOCK], np.uint64), DELIVERED)
        assert the_hour(store).states_units == 71
        store.close()
