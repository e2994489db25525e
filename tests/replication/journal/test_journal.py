"""The journal as pysyncobj and the Raft group use it: views, syncs, bounds. Crashes are in the files beside it."""

import threading
from pathlib import Path

import pytest

from replication.journal.journal import Journal
from replication.journal.segment import Entry
from storage.file.disk import Disk, DiskFailed
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


def reopened(journal: Journal, disk: Disk) -> Journal:
    """Close, open again."""
    journal.close()
    return Journal.open(HERE, disk=disk)


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
    """On a real disk, with a thread that syncs while the loop adds, all that was added is there, in order."""
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


def test_the_commit_index_never_goes_back() -> None:
    """pysyncobj computes a lower one when an old message comes again; what is committed stays committed."""
    journal = Journal.open(HERE, disk=MemoryDisk())
    fill(journal, 1, 9)
    journal.setRaftCommitIndex(8)
    journal.setRaftCommitIndex(3)
    assert journal.getRaftCommitIndex() == 8


def test_counts_the_bytes_it_hands_over() -> None:
    """written_bytes grows by what the file grows: the owner decides by it when a checkpoint is due."""
    disk = MemoryDisk()
    journal = Journal.open(HERE, disk=disk)
    before = sum(len(inode.seen) for inode in disk.names.values())
    fill(journal, 1, 9)
    assert journal.written_bytes == 0
    journal.sync_now()
    assert journal.written_bytes == sum(len(inode.seen) for inode in disk.names.values()) - before
