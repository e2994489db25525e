"""The log behind the journal: memory bounded by the tail, the rest in segments, whole segments trimmed."""

import pytest

from replication.journal.journal import Journal
from replication.journal.log import ENTRY_OVERHEAD
from replication.journal.segment import Entry
from storage.format.rows import Corrupt
from tests.replication.journal.test_journal import HERE, entry, fill, reopened
from tests.replication.memory_disk import MemoryDisk


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


def test_what_is_not_durable_stays_in_memory() -> None:
    """Entries added while a sync was under way are not in any file yet when it is done: they must not be dropped."""
    journal = Journal.open(HERE, disk=MemoryDisk(), tail_bytes=1000)
    expected = fill(journal, 1, 10, size=300)
    sync = journal.collect()
    assert sync is not None
    expected += fill(journal, 11, 30, size=300)
    sync.run()
    journal.done(sync)
    assert journal._log.tail_first == 11
    assert journal[:] == expected


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


def test_the_entry_trimmed_to_stays() -> None:
    """A checkpoint covers it, and the log goes on from it: without it the node would not start. Also where it is the
    last one of its segment."""
    journal = Journal.open(HERE, disk=MemoryDisk(), segment_bytes=1000)
    for start in range(1, 101, 5):
        fill(journal, start, start + 4, size=100)
        journal.sync_now()
    for index in range(1, 101):
        journal.trim(index)
        assert journal.first_index <= index
    assert journal.first_index > 90


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
