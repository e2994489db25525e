"""Stopped anywhere, the store opens again and replay gives the same bytes."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import storage.checkpoint.hour_set
from storage.catalog.catalog import Frozen
from storage.catalog.hour_lengths import HourRows
from storage.directory.verify import digest, verify
from storage.file.disk import Disk
from storage.format.batches import SettleBatch
from storage.format.pieces import at_once
from storage.format.position import HOUR_MS
from storage.format.rows import Corrupt
from storage.format.states import DELIVERED, UNKNOWN
from storage.store import Store
from tests.examples import points, stride
from tests.storage.faulty_disk import Stopped, StoppingDisk
from tests.storage.small_stage import small_stage, small_states
from tests.storage.workload import ENTRIES, HOUR, batch_of, checkpoint, content, found, replay, run

Whole = tuple[dict[str, bytes], str, int]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """(files, digest, operations) of the workload run without a fault."""
    directory = tmp_path_factory.mktemp("whole")
    disk = StoppingDisk()
    run(directory, disk)
    return content(directory), digest(directory)[0], len(disk.operations)


def _stop(directory: Path, disk: StoppingDisk) -> bool:
    """Run until the disk stops; whether it did."""
    try:
        with small_stage():
            run(directory, disk)
    except Stopped:
        return True
    return False


LOSSES = ["torn", "unsynced"]


@pytest.mark.parametrize("loss", LOSSES)
def test_stop_at_every_operation(quick_path: Path, whole: Whole, loss: str) -> None:
    """A stop in any write, sync or removal, with a write torn anywhere or all unsynced bytes gone, loses nothing that
    the journal can replay: files and digest become those of the run without a stop, which staged more at a time."""
    files, expected, operations = whole
    assert operations > 60, "the workload shrank"
    for stop_at in points(operations, LOSSES.index(loss), len(LOSSES)):
        directory = quick_path / f"{stop_at}"
        directory.mkdir()
        disk = StoppingDisk(stop_at, torn_bytes=stop_at // 2 * 7 % 60 if loss == "torn" else None)
        assert _stop(directory, disk)
        if loss == "unsynced" and (directory / "hours").exists():
            disk.lose_unsynced(directory / "hours")
        with small_states():
            run(directory, Disk())
            assert verify(directory).sound
        assert content(directory) == files, f"stopped at {stop_at}, {disk.operations[-1]}"
        assert digest(directory)[0] == expected
        shutil.rmtree(directory)


def test_stop_twice(quick_path: Path, whole: Whole) -> None:
    """A stop while recovering from a stop is no worse."""
    files, expected, operations = whole
    for stop_at in range(3, operations, 9 * stride()):
        directory = quick_path / f"{stop_at}"
        directory.mkdir()
        _stop(directory, StoppingDisk(stop_at, torn_bytes=5))
        for again in range(1, 6):
            _stop(directory, StoppingDisk(again, torn_bytes=1))
        run(directory, Disk())
        assert content(directory) == files
        assert digest(directory)[0] == expected
        shutil.rmtree(directory)


@pytest.mark.parametrize("why", ["too much", "near"])
def test_a_checkpoint_syncs_what_the_loop_wrote(quick_path: Path, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    """Staged hours that were written before it began, for there was too much or they became near, outlive a power cut
    after the checkpoint: nothing is staged of them any more, and the journal goes."""
    disk = StoppingDisk()
    store = Store.open(quick_path, disk=disk)
    found(store)
    if why == "too much":
        monkeypatch.setattr(storage.checkpoint.hour_set, "_STAGED_BYTES_MAX", 1)
    store.append(batch_of([(HOUR + hour) * HOUR_MS for hour in range(4)]))
    store.turn(HOUR + (50 if why == "too much" else 1))
    assert store.staged_bytes == 0
    checkpoint(store, 1)
    store.close()
    disk.lose_unsynced(quick_path / "hours")
    report = verify(quick_path)
    assert (report.faults, report.units) == ([], 4)
    store = Store.open(quick_path, disk=Disk())
    positions = np.array([HOUR + hour << 40 for hour in range(4)], np.uint64)
    assert [record.asked_due_ms for record in store.records(positions)] == [
        (HOUR + hour) * HOUR_MS for hour in range(4)
    ]
    store.close()


@pytest.mark.parametrize("hours", [3, 12])
def test_what_a_checkpoint_names_is_durable_before_it(
    quick_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """A power cut in the moment in which it is committed: bytes and names are there, of near hours and of staged ones,
    of new ones and of those to which only settle records came; by a sync of each or of the file system."""
    disk = StoppingDisk()
    store = Store.open(quick_path, disk=disk)
    found(store)
    store.turn(HOUR)
    commit = Frozen.commit

    def stops(frozen: Frozen, lengths: HourRows | None = None) -> None:
        commit(frozen, lengths)
        raise Stopped

    near_and_far = [HOUR + hour for hour in range(hours)]
    store.append(batch_of([hour * HOUR_MS + ms for hour in near_and_far for ms in (1, 2)]))
    for index in (1, 2):
        monkeypatch.setattr(Frozen, "commit", stops)
        with pytest.raises(Stopped):
            checkpoint(store, index)
        monkeypatch.setattr(Frozen, "commit", commit)
        store.close()
        disk.lose_unsynced(quick_path / "hours")
        report = verify(quick_path)
        assert (report.faults, report.units) == ([], 2 * hours)
        store = Store.open(quick_path, disk=disk)
        store.turn(HOUR)
        positions = np.array([hour << 40 for hour in near_and_far], np.uint64)
        assert store.states(positions).state.tolist() == [0 if index == 1 else DELIVERED] * hours
        store.settle(SettleBatch.of(positions, what=DELIVERED, at_ms=1))
    store.close()


@pytest.mark.parametrize("name", ["log", "index", "settle"])
def test_cut_at_every_byte(quick_path: Path, whole: Whole, name: str) -> None:
    """Cut behind the checkpoint the tail is replayed; cut before it the start refuses, and verify tells where."""
    behind = quick_path / "behind"
    behind.mkdir()
    store = Store.open(behind, disk=Disk())
    replay(store, ENTRIES, checkpoints=(9, 11))
    store.close()
    store = Store.open(shutil.copytree(behind, quick_path / "probe"), disk=Disk())
    assert store.checkpoint is not None
    lengths = store.checkpoint.hours[HOUR + 9]
    store.close()
    durable = {"log": lengths.log_len, "index": lengths.index_len, "settle": lengths.settle_len}[name]
    size = (behind / "hours" / str(HOUR + 9) / name).stat().st_size
    assert size > durable > 64
    for length in range(durable - 49, size, stride(5)):
        directory = shutil.copytree(behind, quick_path / f"{length}")
        with (directory / "hours" / str(HOUR + 9) / name).open("r+b") as file:
            file.truncate(length)
        if length < durable:
            assert any(f"{HOUR + 9}/{name} at byte {length}" in fault for fault in verify(directory).faults)
            with pytest.raises(Corrupt, match=f"{HOUR + 9}/{name}"):
                Store.open(directory, disk=Disk())
        else:
            assert verify(directory).sound
            _recover(directory)
            assert content(directory) == whole[0]
        shutil.rmtree(directory)


def _recover(directory: Path) -> None:
    """Open, apply what the checkpoint does not hold, and make one more."""
    store = Store.open(directory, disk=Disk())
    try:
        replay(store, ENTRIES, checkpoints=())
        checkpoint(store, store.applied_index)
    finally:
        store.close()


@pytest.mark.parametrize("name", ["log", "index", "settle"])
def test_flip_every_byte(quick_path: Path, name: str) -> None:
    """A bit flipped in any byte of a file is found by verify, and stops a node that opens or reads it."""
    run(quick_path, Disk())
    path = quick_path / "hours" / str(HOUR + 20) / name
    sound = path.read_bytes()
    assert verify(quick_path).sound
    for at in range(0, len(sound), stride(5)):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 1 << at % 8]) + sound[at + 1 :])
        faults = verify(quick_path).faults
        assert faults, f"byte {at} of {name}"
        assert all(f"{HOUR + 20}/" in fault for fault in faults), faults
        with pytest.raises(Corrupt, match=f"{HOUR + 20}/"):
            _read_hour(quick_path, HOUR + 20)
    path.write_bytes(sound)
    assert verify(quick_path).sound
    _read_hour(quick_path, HOUR + 20)


def _read_hour(directory: Path, hour: int) -> None:
    """Open, and ask for all there is of an hour."""
    store = Store.open(directory, disk=Disk())
    try:
        positions = np.arange(2, dtype=np.uint64) + np.uint64(hour << 40)
        assert len(store.records(positions)) == 2
        assert (store.states(positions).state != UNKNOWN).all()
        assert len(at_once(store.history(hour << 40))) == 2
    finally:
        store.close()


def test_damage_in_several_places(quick_path: Path) -> None:
    """Verify tells of every damaged row and record, not just the first."""
    run(quick_path, Disk())
    directory = quick_path / "hours" / str(HOUR)
    for name, offsets in {
        "index": (64 + 40, 64 + 64 * 3 + 1),
        "log": (64 + 100, 64 + 250),
        "settle": (64 + 8,),
    }.items():
        data = bytearray((directory / name).read_bytes())
        for at in offsets:
            data[at] ^= 0x10
        (directory / name).write_bytes(data)
    faults = verify(quick_path).faults
    assert sorted(fault.split(":")[1].split()[0] for fault in faults) == [
        f"{HOUR}/index", f"{HOUR}/index", f"{HOUR}/log", f"{HOUR}/settle",
    ], faults  # fmt: skip


def test_catalog_gone(quick_path: Path) -> None:
    """Hours without a catalog are not taken for leftovers and removed: the start refuses."""
    run(quick_path, Disk())
    shutil.rmtree(quick_path / "catalog")
    before = content(quick_path)
    with pytest.raises(Corrupt, match=r"data\.mdb"):
        Store.open(quick_path, disk=Disk())
    assert content(quick_path) == before
    assert "data.mdb" in verify(quick_path).faults[0]


def test_unlinked_directory_comes_back(quick_path: Path) -> None:
    """An unlinked hour whose removal a power cut undid is removed again by the next checkpoint."""
    run(quick_path, Disk())
    files = content(quick_path)
    shutil.copytree(quick_path / "hours" / str(HOUR), quick_path / "hours" / str(HOUR + 1))
    assert "1 hours" in verify(quick_path).notes[0]
    store = Store.open(quick_path, disk=Disk())
    checkpoint(store, store.applied_index)
    store.close()
    assert content(quick_path) == files
