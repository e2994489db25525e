"""Each flaw of pysyncobj's own journal that our journal repairs, shown on the stock one and absent from ours.

A test here that also passes with the two exchanged has gone blind.
"""

import os
import signal
import struct
import subprocess
import sys
from pathlib import Path
from random import Random

import pysyncobj.journal
import pytest

from replication.journal.journal import Journal
from storage.file.disk import Disk, DiskFailed
from tests.replication.full_disk import FORBIDDEN
from tests.replication.memory_disk import MemoryDisk, Stopped

#: The stock journal leaves its files open for the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")

HERE = Path("journal")
ENTRIES = [(b"command %d" % index, index, 1) for index in range(1, 51)]


def stock(path: Path) -> pysyncobj.journal.FileJournal:
    """The stock journal in this file."""
    return pysyncobj.journal.FileJournal(str(path))


def fill(journal: pysyncobj.journal.Journal, count: int = 50) -> None:
    """Add the first entries."""
    for entry in ENTRIES[:count]:
        journal.add(*entry)


def ours(disk: MemoryDisk, segment_bytes: int = 1 << 20) -> Journal:
    """Our journal on this disk."""
    return Journal.open(HERE, disk=disk, segment_bytes=segment_bytes)


def test_r1_stock_never_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: an entry and a vote are promised without one sync of anything."""
    syncs: list[object] = []
    journal = stock(tmp_path / "j")
    monkeypatch.setattr(os, "fsync", syncs.append)
    monkeypatch.setattr(os, "fdatasync", syncs.append)
    monkeypatch.setattr(pysyncobj.journal.ResizableFile, "flush", syncs.append)
    fill(journal)
    journal.setCurrentTerm(3, "n2")
    journal.onOneSecondTimer()
    assert syncs == []
    journal._destroy()


@pytest.mark.parametrize("seed", range(30))
def test_r1_what_is_durable_survives_a_power_cut(seed: int) -> None:
    """Ours: entries, term and vote up to durable_seq are there when all that was not synced may be gone."""
    disk = MemoryDisk()
    journal = ours(disk)
    fill(journal, 40)
    journal.setCurrentTerm(3, "n2")
    assert journal.durable_seq < journal.write_seq
    journal.sync_now()
    assert journal.durable_seq == journal.write_seq
    journal.add(*ENTRIES[40])
    sync = journal.collect()
    assert sync is not None
    disk.stop_at = len(disk.calls) + 2
    with pytest.raises(Stopped):
        sync.run()
    disk.power_cut(Random(seed))
    journal = ours(disk)
    assert journal[:40] == ENTRIES[:40]
    assert (journal.getCurrentTerm(), journal.getVotedForNodeId()) == (3, "n2")


def repeat_a_message(journal: pysyncobj.journal.Journal) -> list[object]:
    """What pysyncobj does when entries 11 and 12 arrive a second time, and the log after it."""
    journal.deleteEntriesFrom(10)
    for entry in ENTRIES[10:12]:
        journal.add(*entry)
    journal.setRaftCommitIndex(12)
    return list(journal[:])


def test_r2_stock_loses_what_an_old_message_does_not_repeat(tmp_path: Path) -> None:
    """Control: a repeated message cuts acknowledged entries, in memory and in the file."""
    journal = stock(tmp_path / "j")
    fill(journal)
    assert repeat_a_message(journal) == ENTRIES[:12]
    journal._destroy()
    journal = stock(tmp_path / "j")
    assert len(journal) == 12
    journal._destroy()


def test_r2_an_old_message_takes_nothing() -> None:
    """Ours: what the message did not contradict is there afterwards, without a byte written."""
    disk = MemoryDisk()
    journal = ours(disk)
    fill(journal)
    journal.sync_now()
    calls = len(disk.calls)
    assert repeat_a_message(journal) == ENTRIES
    journal.sync_now()
    assert len(disk.calls) == calls
    disk.power_cut(Random(0))
    assert ours(disk)[:] == ENTRIES


def test_r9_stock_loses_the_log_when_it_dies_within_a_trim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: the trim empties the file and adds the rest again; killed in between, the rest is gone."""
    journal = stock(tmp_path / "j")
    fill(journal)
    real, left = journal.add, [5]

    def dying(*entry: object) -> None:
        left[0] -= 1
        if not left[0]:
            raise Stopped
        real(*entry)

    monkeypatch.setattr(journal, "add", dying)
    with pytest.raises(Stopped):
        journal.deleteEntriesTo(10)
    journal._destroy()
    journal = stock(tmp_path / "j")
    assert [entry[1] for entry in journal[:]] == [11, 12, 13, 14]
    journal._destroy()


@pytest.mark.parametrize("powerless", [False, True])
def test_r9_a_trim_may_die_at_every_step(powerless: bool) -> None:
    """Ours: entries from the checkpoint on are there wherever the trim was stopped."""
    steps = 0
    for call in range(1, 100):
        disk = MemoryDisk()
        journal = ours(disk, segment_bytes=300)
        for entry in ENTRIES:
            journal.add(*entry)
            journal.sync_now()
        disk.stop_at = len(disk.calls) + call
        journal.trim(40)
        try:
            journal.sync_now()
        except Stopped:
            steps += 1
        disk.power_cut(Random(call)) if powerless else disk.kill()
        journal = ours(disk)
        assert journal.first_index <= 40
        assert journal[:] == ENTRIES[journal.first_index - 1 :]
        if steps < call:
            break
    assert steps >= 10


def test_r11_stock_keeps_a_commit_index_past_the_log(tmp_path: Path) -> None:
    """Control: the index is in a file of its own; when the log's unsynced end is lost, it points past the log."""
    journal = stock(tmp_path / "j")
    fill(journal)
    journal.setRaftCommitIndex(50)
    journal.onOneSecondTimer()
    journal._destroy()
    data = bytearray((tmp_path / "j").read_bytes())
    offset = pysyncobj.journal.FIRST_RECORD_OFFSET
    for _ in range(20):
        offset += struct.unpack_from("<I", data, offset)[0] + 8
    struct.pack_into("<I", data, pysyncobj.journal.LAST_RECORD_OFFSET_OFFSET, offset)
    (tmp_path / "j").write_bytes(data)
    journal = stock(tmp_path / "j")
    assert (journal[-1][1], journal.getRaftCommitIndex()) == (20, 50)
    journal._destroy()


def test_r11_the_commit_index_stays_within_the_log() -> None:
    """Ours: entries and index are in one file, in one order; whatever end is lost, the index is not past the rest."""
    disk = MemoryDisk()
    journal = ours(disk)
    fill(journal)
    journal.setRaftCommitIndex(50)
    journal.onOneSecondTimer()
    journal.sync_now()
    (path,) = disk.names
    size = len(disk.names[path].seen)
    for cut in range(size - 400, size):
        lost = disk.copy()
        del lost.names[path].seen[cut:]
        journal = ours(lost)
        assert journal.getRaftCommitIndex() <= journal[-1][1]
    journal = ours(disk.copy())
    assert journal.getRaftCommitIndex() == 50
    journal.deleteEntriesFrom(20)
    journal.add(b"another", 21, 2)
    journal.setRaftCommitIndex(20)
    journal.close()


def fill_a_disk(which: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run tests/replication/full_disk.py; skips where the kernel forbids a private mount."""
    command = [sys.executable, "-m", "tests.replication.full_disk", which, str(directory)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    child = subprocess.run(command, capture_output=True, check=False, text=True, env=environment)
    if child.returncode == FORBIDDEN:
        pytest.skip("no private mounts here; test_r14_a_failed_write_is_a_clean_error covers our side")
    return child


def test_r14_stock_dies_of_a_full_disk(tmp_path: Path) -> None:
    """Control: a page of its mapping that the disk cannot back is a SIGBUS, which no handler can answer."""
    assert fill_a_disk("stock", tmp_path).returncode == -signal.SIGBUS


def test_r14_a_full_disk_is_a_clean_error(tmp_path: Path) -> None:
    """Ours: ENOSPC is DiskFailed with the errno; with space again the journal opens and has all that was durable."""
    child = fill_a_disk("ours", tmp_path)
    assert (child.returncode, child.stderr) == (0, "")
    number, durable, last = map(int, child.stdout.split())
    assert number == 28
    assert 100 < durable <= last <= durable + 1


def test_r14_stock_ends_at_4_gib_and_is_not_opened_after_a_crash_at_birth(tmp_path: Path) -> None:
    """Control: its offsets are 32 bits for the whole log, and a file that is still empty never opens again."""
    journal = stock(tmp_path / "j")
    with pytest.raises(struct.error):
        journal._FileJournal__setLastRecordOffset(1 << 32)
    journal._destroy()
    (tmp_path / "empty").touch()
    script = "import sys; from pysyncobj.journal import FileJournal; FileJournal(sys.argv[1])"
    command = [sys.executable, "-c", script, str(tmp_path / "empty")]
    child = subprocess.run(command, capture_output=True, check=False, text=True)
    assert "ValueError: cannot mmap an empty file" in child.stderr


def test_r14_a_failed_write_is_a_clean_error(tmp_path: Path) -> None:
    """Ours: ENOSPC is DiskFailed with the errno; what was durable before is there when space is back."""
    journal = Journal.open(tmp_path, disk=Disk())
    fill(journal, 10)
    journal.sync_now()
    file, journal._active.fd = journal._active.fd, os.open("/dev/full", os.O_RDWR)
    journal.add(*ENTRIES[10])
    with pytest.raises(DiskFailed) as failed:
        journal.sync_now()
    assert failed.value.errno == 28
    os.close(file)
    journal.close()
    journal = Journal.open(tmp_path, disk=Disk())
    assert journal[:] == ENTRIES[:10]
    journal.close()


def test_r17_stock_keeps_all_in_memory_and_never_shrinks(tmp_path: Path) -> None:
    """Control: every command is in its list, and the file keeps its size when the log is trimmed."""
    journal = stock(tmp_path / "j")
    for index in range(1, 41):
        journal.add(bytes(10_000), index, 1)
    size = (tmp_path / "j").stat().st_size
    assert sum(len(entry[0]) for entry in journal._FileJournal__journal) == 400_000
    journal.deleteEntriesTo(39)
    journal._destroy()
    assert (tmp_path / "j").stat().st_size >= size


def test_r17_memory_and_files_are_bounded(tmp_path: Path) -> None:
    """Ours: memory holds the tail, and a trim gives the segments back."""
    journal = Journal.open(tmp_path, disk=Disk(), segment_bytes=50_000, tail_bytes=60_000)
    for index in range(1, 41):
        journal.add(bytes(10_000), index, 1)
        journal.sync_now()
    assert sum(len(entry[0]) for entry in journal._log._tail) <= 60_000
    assert journal[0][0] == bytes(10_000)
    journal.trim(40)
    journal.sync_now()
    journal.close()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 110_000
