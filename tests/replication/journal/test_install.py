"""The journal of a node that took over a snapshot: it begins at the snapshot's index and keeps what was promised."""

from pathlib import Path
from random import Random

import pytest

from replication.journal.install import Promises, install_journal
from replication.journal.journal import Journal
from replication.journal.record import HEAD_SIZE, NO_OP
from storage.format.rows import Corrupt
from tests.replication.memory_disk import MemoryDisk, Stopped

HERE = Path("install/journal")
CLUSTER = bytes(range(16))
PROMISES = Promises(9, "n2", voter=True)


def install(disk: MemoryDisk, *, index: int = 500, term: int = 7, promises: Promises = PROMISES) -> None:
    """The journal of a snapshot that covers entry `index` of `term`."""
    install_journal(HERE, disk, index=index, term=term, cluster_id=CLUSTER, promises=promises)


def reopened(disk: MemoryDisk) -> Journal:
    """What the next start finds."""
    disk.kill()
    return Journal.open(HERE, disk=disk, cluster_id=CLUSTER, segment_bytes=600, tail_bytes=1500, slice_bytes=400)


@pytest.mark.parametrize("promises", [PROMISES, Promises(7, None, voter=False), Promises(8, "n1", voter=False)])
def test_begins_at_the_snapshot_and_keeps_the_promises(promises: Promises) -> None:
    """One placeholder at the snapshot's place; term, vote and voter flag as they were; it is no new node's journal."""
    disk = MemoryDisk()
    install(disk, promises=promises)
    journal = reopened(disk)
    assert (journal.first_index, journal.last_index, journal.term_at(500)) == (500, 500, 7)
    assert journal[0] == (NO_OP, 500, 7)
    assert Promises.of(journal) == promises
    assert journal.getRaftCommitIndex() == 500
    assert (journal.created, journal.cluster_id) == (False, CLUSTER)


def test_goes_on_behind_the_snapshot() -> None:
    """Entries follow, survive a restart, and trimming takes the placeholder away with its segment."""
    disk = MemoryDisk()
    install(disk)
    journal = reopened(disk)
    for index in range(501, 530):
        journal.add(b"x" * 60, index, 9)
        journal.sync_now()
    journal.close()
    journal = reopened(disk)
    assert (journal.first_index, journal.last_index) == (500, 529)
    assert journal.term_at(499) is None, "so nobody is ever sent entry 500"
    journal.trim(525)
    journal.sync_now()
    assert 501 < journal.first_index <= 525


def test_an_earlier_try_leaves_nothing() -> None:
    """What a try that was cut left in the directory goes, and is not taken for a part of this journal."""
    disk = MemoryDisk()
    install(disk, index=400)
    install(disk)
    assert reopened(disk).first_index == 500


def test_stopped_at_every_call() -> None:
    """Killed or cut off from power at any call, a second try makes the journal; one that returned is durable whole."""
    whole = MemoryDisk()
    install(whole)
    calls = len(whole.calls)
    assert set(whole.calls) == {"create", "write", "fdatasync", "rename", "fsync directory"}
    for seed in range(8):
        random = Random(seed)
        for call in range(1, calls + 1):
            disk = MemoryDisk()
            disk.stop_at, disk.torn = call, random.choice((0, 40, 100, 5000))
            with pytest.raises(Stopped):
                install(disk)
            disk.power_cut(random)
            install(disk)
            disk.power_cut(random)
            assert Promises.of(reopened(disk)) == PROMISES


def test_a_flipped_bit_is_found() -> None:
    """Damage in what the journal is born with, the placeholder too, stops the node; in the last META it is cut off,
    which repeats what is known already."""
    disk = MemoryDisk()
    install(disk)
    path = next(iter(disk.names))
    size = len(disk.names[path].seen)
    last = size - HEAD_SIZE - len("n2")
    for place in range(64, size, 5):
        damaged = disk.copy()
        damaged.names[path].seen[place] ^= 4
        if place < last:
            with pytest.raises(Corrupt):
                reopened(damaged)
        else:
            assert Promises.of(reopened(damaged)) == PROMISES


def test_what_keeping_costs() -> None:
    """`first_within` keeps whole segments from the end on, the last one always; `bytes_from` says what they hold."""
    disk = MemoryDisk()
    install(disk, index=1, term=1)
    journal = reopened(disk)
    for index in range(2, 60):
        journal.add(b"x" * 60, index, 9)
        journal.sync_now()
    assert journal.kept_bytes == journal.bytes_from(1)
    assert journal.first_within(1 << 30) == journal.first_index == 1
    newest = journal.first_within(0)
    assert 1 < newest <= 59
    assert journal.bytes_from(newest) < 1300
    for limit in range(600, 6000, 500):
        first = journal.first_within(limit)
        assert journal.bytes_from(first) <= max(limit, journal.bytes_from(newest)), limit
        assert first <= newest
