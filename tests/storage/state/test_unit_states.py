"""States of an hour in pages, from states files and a tail: the same answers as from all settle records, for less."""

from pathlib import Path
from random import Random

import numpy as np
import pytest

import storage.state.file
import storage.state.files
import storage.state.unit_states
from storage.directory.verify import verify
from storage.file.disk import Disk
from storage.format.array import U64
from storage.format.batches import SettleBatch
from storage.format.position import HOUR_MS
from storage.format.rows import SETTLE, Settles
from storage.format.states import DELIVERED, LEASED
from storage.state.files import spans_in
from storage.state.unit_states import States
from storage.store import Store
from tests.examples import stride
from tests.storage.faulty_disk import StoppingDisk
from tests.storage.hour_history import HourHistory, kill_checkpoint
from tests.storage.reading_disk import ReadingDisk
from tests.storage.small_pages import small_pages
from tests.storage.workload import HOUR, batch_of, checkpoint, found, record_at

GOLDEN = Path(__file__).parents[1] / "golden" / "states-1.hex"


@pytest.mark.parametrize("seed", range(40))
def test_pages_tell_what_all_records_tell(seed: int, quick_path: Path) -> None:
    """Whatever is settled, asked, saved, cooled, turned or lost by a crash, in any order."""
    random = Random(seed)
    with small_pages():
        hour = HourHistory(quick_path, random, again=seed % 3 == 0)
        steps = [hour.settle] * 5 + [hour.look] * 3 + [hour.end, hour.save, hour.save, hour.reopen, hour.cool]
        steps += [hour.turn, hour.check]
        for _ in range(60):
            random.choice(steps)()
        hour.save()
        hour.save()
        hour.reopen()
        hour.look()
        hour.check()
        hour.save()
        hour.save()
        hour.settle()
        for count in (1, 2):  # what one makes superfluous the next one removes
            checkpoint(hour.store, hour.count + count)
        hour.durable = hour.batches
        settles = sum(len(batch) for batch in hour.durable)
        hour.store.close()
        files = [path.name for path in (quick_path / "hours" / str(HOUR)).glob("states.*")]
        spans = spans_in(files, settles)
        assert len(spans) >= 1
        assert settles - spans[-1][1] < 20
        assert len(spans) <= 6
        assert len(files) == len(spans)
        assert [fault for fault in verify(quick_path).faults if "states." in fault] == []


def _begun(directory: Path, disk: Disk) -> tuple[Store, U64]:
    """A store with an hour of 60 units, 30 of them leased, whose states stand in a file; and another hour."""
    store = Store.open(directory, disk=disk)
    found(store)
    positions = store.append(batch_of([HOUR * HOUR_MS + 7 * n for n in range(60)]))
    store.append(batch_of([(HOUR + 9) * HOUR_MS]))
    store.settle(SettleBatch.of(positions[:30], what=LEASED, at_ms=1, when=500, term=1, attempt=1))
    checkpoint(store, 1)
    return store, positions


def _files(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "hours" / str(HOUR)).glob("states.*"))


def test_states_of_a_checkpoint_that_never_was_do_not_count(quick_path: Path) -> None:
    """The node is killed when the file is written and the checkpoint is not committed. The journal tells it all again,
    and finds the units as they were: one that is ended already would take no ack, unlike on the other nodes."""
    with small_pages():
        store, positions = _begun(quick_path, Disk())
        store.settle(SettleBatch.of(positions[:30], what=DELIVERED, at_ms=2, term=1, attempt=1))
        kill_checkpoint(store, 2)
        store.close()
        assert _files(quick_path) == ["states.0-30", "states.0-60"]
        store = Store.open(quick_path, disk=Disk())
        assert store.states(positions).state.tolist() == [LEASED] * 30 + [0] * 30
        store.close()


def test_what_came_during_a_checkpoint_is_not_forgotten_for_its_files(quick_path: Path) -> None:
    """The files reach up to where it began. A unit of a page that was not read was settled since; it would be pending
    or leased again, and be handed over again."""
    with small_pages():
        store, positions = _begun(quick_path, Disk())
        store.settle(SettleBatch.of(positions[:20], what=LEASED, at_ms=2, when=900, term=1, attempt=2))
        job = store.begin_checkpoint(record_at(2))
        store.settle(SettleBatch.of(positions[:1], what=DELIVERED, at_ms=3, term=1, attempt=2))
        store.states(np.array([(HOUR + 9) << 40], np.uint64))  # the hour is cool
        assert store.states(positions[40:41]).state.tolist() == [0]
        job.run()
        job.finish()
        assert _files(quick_path) == ["states.0-30", "states.0-50"]
        assert store.states(positions[:2]).state.tolist() == [DELIVERED, LEASED]
        store.close()


def test_a_states_file_outlives_a_power_cut(quick_path: Path) -> None:
    """Its name is durable with the checkpoint. Without its bytes the node would take it for damage, and stop."""
    disk = StoppingDisk()
    with small_pages():
        store, positions = _begun(quick_path, disk)
        store.close()
        disk.lose_unsynced(quick_path / "hours")
        assert _files(quick_path) == ["states.0-30"]
        store = Store.open(quick_path, disk=Disk())
        assert store.states(positions).state.tolist() == [LEASED] * 30 + [0] * 30
        store.close()


def _large(directory: Path, units: int) -> U64:
    """An hour of so many units, all leased and delivered, in a closed directory."""
    store = Store.open(directory, disk=Disk())
    found(store)
    positions = store.append(batch_of(np.arange(units, dtype=np.int64) % HOUR_MS + HOUR * HOUR_MS))
    store.settle(SettleBatch.of(positions, what=LEASED, at_ms=1, when=500, term=1, attempt=1))
    store.settle(SettleBatch.of(positions, what=DELIVERED, at_ms=2, term=1, attempt=1))
    store.append(batch_of([(HOUR + 9) * HOUR_MS]))
    checkpoint(store, 1)
    store.close()
    return positions


def test_one_look_at_an_old_message_does_not_read_its_hour(quick_path: Path) -> None:
    """A GET, a cancel, an ack or a key that is asked again rebuilt the states of the whole hour, on the loop (A5)."""
    positions = _large(quick_path, 100_000)
    disk = ReadingDisk()
    store = Store.open(quick_path, disk=disk)
    for look in (
        lambda: store.states(positions[[70_000]]),
        lambda: store.settled_at(int(positions[3])),
        lambda: store.history(int(positions[99_999])),
        lambda: store.settle(SettleBatch.of(positions[[5]], what=DELIVERED, at_ms=3, term=1, attempt=1)),
        lambda: store.leased(HOUR),
    ):
        store.states(np.array([(HOUR + 9) << 40], np.uint64))
        store._hours.find(HOUR).cool()  # type: ignore[union-attr]
        before = disk.read_bytes
        assert look() is None or True
        assert disk.read_bytes - before < 40_000
    assert int(store.states(positions[[5]]).attempt[0]) == 1
    assert store.settled_at(int(positions[5])) == 3
    assert store._hours.find(HOUR).states_units <= 1024  # type: ignore[union-attr]
    store.close()


def test_a_look_for_leases_reads_few_pages_at_a_time(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leases that a promotion notes of an hour of ten million stood on 101 pages, read in one step: 31 ms."""
    monkeypatch.setattr(storage.state.unit_states, "_PIECE_PAGES", 4)
    positions = _large(quick_path, 20_000)
    store = Store.open(quick_path, disk=Disk())
    leased = positions[::1_000]  # each on a page of its own
    store.settle(SettleBatch.of(leased, what=LEASED, at_ms=3, when=500, term=2, attempt=2))
    checkpoint(store, 2)
    store.close()
    store = Store.open(quick_path, disk=Disk())
    first, end, found, pieces = int(positions[0]), (HOUR + 1) << 40, [], 0
    while first < end:
        before = store._hours.find(HOUR).states_units  # type: ignore[union-attr]
        piece, first = store.leased_piece(first, end)
        assert store._hours.find(HOUR).states_units - before <= 4 * 512  # type: ignore[union-attr]
        found += piece.tolist()
        pieces += 1
    assert (found, first, pieces) == (leased.tolist(), end, 5)
    assert store.leased_piece(int(positions[0]), end)[1] == end, "what is in memory needs no piece"
    store.close()


def test_an_hour_begun_again_holds_no_states_of_the_former_one() -> None:
    """They were indexed from 0: 19 bytes for every unit that went with the former hour."""
    states = States(5_000_000)
    rows: Settles = np.zeros(2, SETTLE)
    rows["global_index"], rows["what"] = [5_000_000, 5_000_001], LEASED
    states.enter(rows, 0)
    assert states.held <= 1024
    assert states.leased().tolist() == [5_000_000, 5_000_001]


def test_growing_copies_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """States doubled as a whole: at 32 Mi units one ack took 0.67 s (A10)."""
    monkeypatch.setattr(storage.state.unit_states, "BLOCK_UNITS", 4096)
    monkeypatch.setattr(storage.state.unit_states, "_BLOCK_BITS", 12)
    monkeypatch.setattr("storage.state.block.BLOCK_UNITS", 4096)
    states = States()
    rows: Settles = np.zeros(1, SETTLE)
    rows["what"] = DELIVERED
    for number in range(40_000):
        rows["global_index"] = number
        states.absorb(rows, number)
        if number % 4096 == 4095:
            kept = [id(block.state) for block in states._blocks]
            assert all(len(block.state) == 4096 for block in states._blocks)
    assert [id(block.state) for block in states._blocks][: len(kept)] == kept
    assert states.at(np.array([0, 20_000, 39_999])).state.tolist() == [DELIVERED] * 3


def test_golden_bytes(request: pytest.FixtureRequest, quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a states file holds, byte for byte."""
    monkeypatch.setattr(storage.state.files, "TAIL_MIN", 3)
    monkeypatch.setattr(storage.checkpoint.states_due, "TAIL_MIN", 3)
    _large(quick_path, 4)
    (path,) = (quick_path / "hours" / str(HOUR)).glob("states.*")
    assert path.name == "states.0-8"
    if request.config.getoption("--golden"):
        GOLDEN.write_text(path.read_bytes().hex("\n", 32) + "\n")
    assert path.read_bytes() == bytes.fromhex(GOLDEN.read_text())


def test_flip_every_byte(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bit flipped anywhere is found by verify; without the file all is well."""
    monkeypatch.setattr(storage.state.files, "TAIL_MIN", 3)
    monkeypatch.setattr(storage.checkpoint.states_due, "TAIL_MIN", 3)
    _large(quick_path, 4)
    (path,) = (quick_path / "hours" / str(HOUR)).glob("states.*")
    sound = path.read_bytes()
    assert verify(quick_path).sound
    for at in range(0, len(sound), stride(5)):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 1 << at % 8]) + sound[at + 1 :])
        faults = verify(quick_path).faults
        assert faults, f"byte {at}"
        assert all(path.name in fault for fault in faults), faults
    path.unlink()
    assert verify(quick_path).sound
    store = Store.open(quick_path, disk=Disk())
    assert store.states(np.array([HOUR << 40], np.uint64)).state.tolist() == [DELIVERED]
    store.close()
