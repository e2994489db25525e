"""The journal as pysyncobj and the Raft group use it: views, syncs, bounds. Crashes are in the files beside this one."""

import threading
from pathlib import Path

import pytest

from replication.journal import Journal
from replication.journal_log import ENTRY_OVERHEAD
from replication.journal_segment import Entry
from storage.disk import Disk, DiskFailed
from storage.format import Corrupt
from tests.replication.memory_disk import MemoryDisk

HERE = Path("journal")


def entry(index: int, term: int = 1, size: int = 10) -> Entry:
    """An entry whose command names it."""
    return (f"{index}.{term};".encode() * size)[:size], index, term


def fill(journal: Journal, first: int, last: int, term: int = 1, size: int = 10) -> list[Entry]:
    """Add entries first..last."""
    entries = [entry(index, term, size) for index in range(first, last + 1)]
    for each in entries:
        journal.add(*each)
    return entries


def reopened(journal: Journal, disk: Disk, **options: int) -> Journal:
    """Close, open again."""
    journal.close()
    return Journal.open(HERE, disk=disk, **options)


def test_is_a_list_of_entries() -> None:
    """len, positions from either end and slices are those of a list; what is not there is an IndexError."""
    journal = Journal.open(HERE, disk=MemoryDisk())
    assert journal.created
    assert len(journal) == 0
    assert journal[:] == []
    expected = fill(journal, 1, 20)
    assert len(journal) == 20
    assert [journal[i] for i in range(-20, 20)] == expected + expected
    for start in range(-2, 23):
        assert journal[start:] == expected[start:]
        assert journal[start : start + 3] == expected[start : start + 3]
    for outside in (20, -21):
        with pytest.raises(IndexError):
            journal[outside]


def test_survives_a_restart() -> None:
    """Entries, term, vote, voter flag and commit index come back; a closed journal is not `created`."""
    disk = MemoryDisk()
    journal = Journal.open(HERE, disk=disk, cluster_id=b"c" * 16)
    expected = fill(journal, 1, 5)
    journal.setCurrentTerm(7, "n2")
    journal.set_voter(True)
    journal.setRaftCommitIndex(4)
    journal = reopened(journal, disk)
    assert journal[:] == expected
    assert (journal.getCurrentTerm(), journal.getVotedForNodeId(), journal.voter) == (7, "n2", True)
    assert (journal.getRaftCommitIndex(), journal.durable_index, journal.created) == (4, 5, False)
    assert journal.cluster_id == b"c" * 16
    journal.setCurrentTerm(8, None)
    journal = reopened(journal, disk)
    assert (journal.getCurrentTerm(), journal.getVotedForNodeId(), journal.voter) == (8, None, True)


def test_an_unchanged_promise_writes_nothing() -> None:
    """Setting the same term, vote or flag again, or a commit index between two timers, buffers no write."""
    journal = Journal.open(HERE, disk=MemoryDisk())
    journal.setCurrentTerm(1, "n1")
    journal.set_voter(True)
    seq = journal.write_seq
    journal.setCurrentTerm(1, "n1")
    journal.set_voter(True)
    fill(journal, 1, 3)
    journal.setRaftCommitIndex(3)
    assert journal.write_seq == seq + 3
    journal.onOneSecondTimer()
    journal.onOneSecondTimer()
    assert journal.write_seq == seq + 4


def test_deleting_hides_and_identical_entries_come_back() -> None:
    """R2: what is deleted and added again with the same index and term is not written again, what follows returns."""
    journal = Journal.open(HERE, disk=MemoryDisk())
    expected = fill(journal, 1, 10)
    journal.sync_now()
    seq = journal.write_seq
    journal.deleteEntriesFrom(4)
    assert journal[:] == expected[:4]
    journal.add(*expected[4])
    assert journal[:] == expected[:5]
    assert journal[-1] == expected[4]
    with pytest.raises(IndexError):
        journal[5]
    journal.setRaftCommitIndex(5)
    assert journal[:] == expected
    assert (journal.write_seq, journal.durable_index) == (seq, 10)
    assert journal.collect() is None


def test_until_the_commit_index_is_set_the_log_ends_with_what_was_verified() -> None:
    """A follower's min(leader's commit, log end) must not reach entries this message said nothing about.

    The leader of term 2 agrees up to 5 and has other entries from 6 on; a message carries only 4 and 5, and the news
    that 8 is committed. Counting our own 6..8 of term 1 as the end of the log would apply what nobody committed.
    """
    journal = Journal.open(HERE, disk=MemoryDisk())
    expected = fill(journal, 1, 8)
    journal.deleteEntriesFrom(3)
    journal.add(*expected[3])
    journal.add(*expected[4])
    commit_index = min(8, journal[-1][1])
    journal.setRaftCommitIndex(commit_index)
    assert journal.getRaftCommitIndex() == 5
    assert journal[:] == expected


def test_a_conflict_truncates() -> None:
    """Another term at an index ends the old log there, in memory, in the files and in durable_index."""
    disk = MemoryDisk()
    journal = Journal.open(HERE, disk=disk)
    expected = fill(journal, 1, 10)
    journal.sync_now()
    journal.deleteEntriesFrom(6)
    journal.add(*entry(7, 2))
    assert journal.durable_index == 6
    journal.setRaftCommitIndex(1)
    assert journal[:] == [*expected[:6], entry(7, 2)]
    assert [journal.term_at(index) for index in (0, 6, 7, 8)] == [None, 1, 2, None]
    journal.sync_now()
    assert journal.durable_index == 7
    assert reopened(journal, disk)[:] == [*expected[:6], entry(7, 2)]


def test_a_conflict_during_a_sync_takes_back_what_it_promised() -> None:
    """Entries truncated while a sync carries them are not durable when it is done: others stand in their place."""
    journal = Journal.open(HERE, disk=MemoryDisk())
    fill(journal, 1, 10)
    sync = journal.collect()
    assert sync is not None
    journal.deleteEntriesFrom(6)
    journal.add(*entry(7, 2))
    sync.run()
    journal.done(sync)
    assert (journal.durable_index, journal.durable_seq, journal.last_index) == (6, 10, 7)
    journal.sync_now()
    assert (journal.durable_index, journal.durable_seq) == (7, 12)


def test_clear_keeps_a_log_that_goes_on() -> None:
    """R9: after clear, an entry that stood in the log keeps all that follows it; another one starts anew, anywhere."""
    disk = MemoryDisk()
    journal = Journal.open(HERE, disk=disk)
    expected = fill(journal, 1, 10)
    journal.clear()
    assert len(journal) == 0
    journal.add(*expected[3])
    journal.add(*expected[4])
    assert journal[:] == expected[3:5]
    journal.setRaftCommitIndex(5)
    assert journal[:] == expected[3:]
    journal.clear()
    journal.add(*entry(50, 3))
    journal.add(*entry(51, 3))
    assert journal[:] == [entry(50, 3), entry(51, 3)]
    assert (journal.first_index, journal.last_index) == (50, 51)
    assert reopened(journal, disk)[:] == [entry(50, 3), entry(51, 3)]


def test_a_sync_runs_beside_the_loop() -> None:
    """What is added while a sync runs waits for the next one; there is one at a time; seq and index follow."""
    journal = Journal.open(HERE, disk=MemoryDisk())
    fill(journal, 1, 3)
    first = journal.collect()
    assert first is not None
    fill(journal, 4, 5)
    assert journal.collect() is None
    assert (journal.write_seq, journal.durable_seq, journal.durable_index) == (5, 0, 0)
    thread = threading.Thread(target=first.run)
    thread.start()
    thread.join()
    assert journal.durable_seq == 0
    journal.done(first)
    assert (journal.durable_seq, journal.durable_index) == (3, 3)
    second = journal.collect()
    assert second is not None
    second.run()
    journal.done(second)
    assert (journal.durable_seq, journal.durable_index) == (5, 5)
    assert journal.collect() is None


def test_many_syncs_in_a_thread(tmp_path: Path) -> None:
    """On a real disk, with a thread that syncs while the loop adds, all that was added is there afterwards, in order."""
    journal = Journal.open(tmp_path, disk=Disk(), segment_bytes=20_000)
    index = 0
    expected: list[Entry] = []
    for _ in range(60):
        index += 1
        expected += fill(journal, index, index + 4, size=index * 7 % 300)
        index += 4
        sync = journal.collect()
        if sync is None:
            continue
        thread = threading.Thread(target=sync.run)
        thread.start()
        index += 1
        expected += fill(journal, index, index, size=100_000 if index % 10 == 0 else 5)
        thread.join()
        journal.done(sync)
    journal.close()
    assert len(list(tmp_path.iterdir())) > 3
    journal = Journal.open(tmp_path, disk=Disk())
    assert journal[:] == expected
    journal.close()


def test_a_large_command_is_not_copied() -> None:
    """The disk gets the very object that was added, small pieces around it joined; the log holds that object too."""
    disk = MemoryDisk()
    journal = Journal.open(HERE, disk=disk)
    journal.sync_now()
    disk.written.clear()
    body = bytes(1 << 20)
    fill(journal, 1, 3)
    journal.add(body, 4, 1)
    fill(journal, 5, 6)
    journal.sync_now()
    assert [piece is body for piece in disk.written] == [False, True, False]
    assert journal[3][0] is body


class FullDisk(MemoryDisk):
    """No space left from the first write after `full` is set."""

    full = False

    def write(self, fd: int, data: bytes, offset: int) -> None:  # type: ignore[override]
        if self.full:
            raise DiskFailed("write", "journal", 28)
        super().write(fd, data, offset)


def test_a_failed_write_is_final() -> None:
    """After a DiskFailed the same error comes from done, collect and sync_now; nothing more became durable."""
    disk = FullDisk()
    journal = Journal.open(HERE, disk=disk)
    fill(journal, 1, 2)
    journal.sync_now()
    disk.full = True
    fill(journal, 3, 3)
    sync = journal.collect()
    assert sync is not None
    with pytest.raises(DiskFailed):
        sync.run()
    disk.full = False
    calls = len(disk.calls)
    for again in (lambda: journal.done(sync), journal.collect, journal.sync_now):
        with pytest.raises(DiskFailed):
            again()
    assert (len(disk.calls), journal.durable_seq, journal.durable_index) == (calls, 2, 2)
    journal.close()
    assert not disk.open


def test_memory_of_the_tail_is_bounded() -> None:
    """Durable entries past the bound leave memory and are read back; what is not durable stays."""
    disk = MemoryDisk()
    journal = Journal.open(HERE, disk=disk, tail_bytes=50_000, segment_bytes=30_000)
    expected: list[Entry] = []
    for start in range(1, 401, 20):
        expected += fill(journal, start, start + 19, size=1000)
        journal.sync_now()
        assert journal._log.tail_size <= 50_000
    assert journal._log.tail_first > 350
    assert journal[:] == expected
    assert [journal[i] for i in range(400)] == expected
    assert [journal.term_at(i) for i in (1, 200, 400)] == [1, 1, 1]
    expected += fill(journal, 401, 500, size=1000)
    assert journal._log.tail_size >= 100 * (1000 + ENTRY_OVERHEAD)
    assert journal[395:450] == expected[395:450]
    journal.sync_now()
    assert journal._log.tail_size <= 50_000
    assert reopened(journal, disk)[:] == expected


def test_the_first_and_the_last_entry_are_at_hand() -> None:
    """pysyncobj asks for them at every message: that reads no file, once the first was read."""
    disk = MemoryDisk()
    journal = Journal.open(HERE, disk=disk, tail_bytes=1)
    expected = fill(journal, 1, 50)
    journal.sync_now()
    assert journal[0] == expected[0]
    journal._disk = journal._log._disk = None  # type: ignore[assignment]
    assert (journal[0], journal[-1], journal[49:]) == (expected[0], expected[-1], expected[-1:])


def test_a_conflict_with_evicted_entries() -> None:
    """A truncation below what memory holds leaves a log that reads on from the files."""
    disk = MemoryDisk()
    journal = Journal.open(HERE, disk=disk, tail_bytes=1000, segment_bytes=500)
    expected = fill(journal, 1, 60)
    journal.sync_now()
    journal.deleteEntriesFrom(20)
    journal.add(*entry(21, 2))
    journal.setRaftCommitIndex(1)
    assert journal[-1] == entry(21, 2)
    assert journal[:] == [*expected[:20], entry(21, 2)]
    expected = [*expected[:20], entry(21, 2), *fill(journal, 22, 70, 2)]
    journal.sync_now()
    assert journal[:] == expected
    assert reopened(journal, disk)[:] == expected


@pytest.mark.parametrize("durable", [False, True])
def test_slices_are_bounded_and_hold_two(durable: bool) -> None:
    """A slice holds what fits, at least two entries: of one, pysyncobj would conclude that nothing follows."""
    journal = Journal.open(HERE, disk=MemoryDisk(), slice_bytes=1000, tail_bytes=1 if durable else 1 << 20)
    expected = fill(journal, 1, 30, size=300)
    if durable:
        journal.sync_now()
    assert journal[:] == expected[:3]
    assert journal[10:25] == expected[10:13]
    assert journal[28:] == expected[28:]
    expected += fill(journal, 31, 33, size=5000)
    if durable:
        journal.sync_now()
    assert journal[30:] == expected[30:32]
    assert journal[29:] == expected[29:31]
    read: list[Entry] = []
    while len(read) < 33:
        read += journal[len(read) :]
    assert read == expected


def test_a_flipped_byte_in_an_evicted_entry_is_refused() -> None:
    """What is read back is checked again: the disk may have changed since the start."""
    disk = MemoryDisk()
    journal = Journal.open(HERE, disk=disk, tail_bytes=1)
    fill(journal, 1, 5)
    journal.sync_now()
    inode = next(iter(disk.names.values()))
    inode.seen[inode.seen.index(b"3.1;")] ^= 1
    assert journal[1][1] == 2
    with pytest.raises(Corrupt) as refused:
        journal[0:5]
    assert refused.value.file.endswith(".seg")
    assert inode.seen[refused.value.offset + 32 : refused.value.offset + 34] == b"2."


def test_trim_unlinks_whole_segments() -> None:
    """R9, R17: only segments wholly below go, one with each sync; the entry trimmed to stays; nothing is rewritten."""
    disk = MemoryDisk()
    journal = Journal.open(HERE, disk=disk, segment_bytes=1000)
    expected: list[Entry] = []
    for start in range(1, 101, 5):
        expected += fill(journal, start, start + 4, size=100)
        journal.sync_now()
    before = {path: bytes(inode.seen) for path, inode in disk.names.items()}
    journal.trim(48)
    first = journal.first_index
    assert 40 < first <= 48
    assert journal[:] == expected[first - 1 :]
    disk.calls.clear()
    for unlinked in range(1, 4):
        sync = journal.collect()
        assert sync is not None
        sync.run()
        journal.done(sync)
        assert disk.calls == ["unlink", "fsync directory"] * unlinked
    journal.sync_now()
    assert {path: bytes(inode.seen) for path, inode in disk.names.items()}.items() <= before.items()
    assert journal.collect() is None
    journal = reopened(journal, disk)
    assert (journal.first_index, journal[:]) == (first, expected[first - 1 :])


def test_trim_spares_the_segment_under_a_sync() -> None:
    """While a sync fills the last segment and begins the next one, neither goes, even if a checkpoint covers it."""
    disk = MemoryDisk()
    journal = Journal.open(HERE, disk=disk, segment_bytes=500)
    fill(journal, 1, 20, size=100)
    sync = journal.collect()
    assert sync is not None
    fill(journal, 21, 21)
    journal.trim(21)
    assert journal.first_index == 1
    sync.run()
    journal.done(sync)
    journal.trim(21)
    assert journal.first_index == 21
    journal.sync_now()
    assert reopened(journal, disk)[:] == [entry(21)]


def test_the_newest_entry_is_never_trimmed() -> None:
    """A checkpoint of the last index still leaves the entry whose term the next message has to match."""
    disk = MemoryDisk()
    journal = Journal.open(HERE, disk=disk, segment_bytes=100)
    fill(journal, 1, 10, size=100)
    journal.sync_now()
    journal.trim(10)
    journal.sync_now()
    assert journal[-1] == entry(10, size=100)
    with pytest.raises(AssertionError):
        journal.trim(11)


def test_every_segment_repeats_the_promises() -> None:
    """Term, vote, voter flag and commit index outlive the segments in which they were first written."""
    disk = MemoryDisk()
    journal = Journal.open(HERE, disk=disk, segment_bytes=300)
    journal.setCurrentTerm(5, "n3")
    journal.set_voter(True)
    fill(journal, 1, 3, term=5, size=200)
    journal.setRaftCommitIndex(3)
    journal.sync_now()
    journal.set_cluster_id(b"k" * 16)
    fill(journal, 4, 6, term=5, size=200)
    journal.sync_now()
    journal.trim(6)
    journal.sync_now()
    assert len(disk.names) == 2
    journal = reopened(journal, disk)
    assert (journal.getCurrentTerm(), journal.getVotedForNodeId(), journal.voter) == (5, "n3", True)
    assert (journal.getRaftCommitIndex(), journal.cluster_id) == (3, b"k" * 16)


def test_delete_entries_to() -> None:
    """pysyncobj's own way to drop the beginning: exact in the view; on disk by segments, the rest returns."""
    disk = MemoryDisk()
    journal = Journal.open(HERE, disk=disk, segment_bytes=500)
    expected: list[Entry] = []
    for start in range(1, 41, 2):
        expected += fill(journal, start, start + 1, size=100)
        journal.sync_now()
    journal.deleteEntriesTo(17)
    assert journal[:] == expected[17:]
    journal = reopened(journal, disk)
    assert 1 < journal.first_index <= 18
    assert journal[:] == expected[journal.first_index - 1 :]
    journal.deleteEntriesTo(len(journal))
    assert len(journal) == 0
    journal.add(*entry(90, 4))
    assert journal[:] == [entry(90, 4)]
    assert reopened(journal, disk)[:] == [entry(90, 4)]
