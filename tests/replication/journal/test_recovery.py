"""The truth table of replication/journal/recovery.py as data, and every cut and flip of a small journal."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from replication.journal.journal import Journal
from replication.journal.record import ENTRY, META, OPENING, TRUNCATE, encode_head, opening_body, seed_of
from replication.journal.segment import Entry
from storage.file.disk import DiskFailed
from storage.format.rows import Corrupt, FileHeader, FormatRefused
from tests.replication.memory_disk import Inode, MemoryDisk

HERE = Path("journal")
CLUSTER = b"c" * 16


def entries(first: int, last: int, term: int = 1) -> list[Entry]:
    """Entries whose commands name them."""
    return [(b"%d.%d" % (index, term) + b"x" * 40, index, term) for index in range(first, last + 1)]


def small_journal(disk: MemoryDisk) -> Journal:
    """Three segments; the last has entries 10..12 in one write and 13..15 in another, not closed."""
    journal = Journal.open(HERE, disk=disk, cluster_id=CLUSTER, segment_bytes=400)
    journal.setCurrentTerm(1, "n1")
    for first in (1, 5):
        for entry in entries(first, first + 4 if first == 5 else first + 3):
            journal.add(*entry)
        journal.sync_now()
    journal._segment_bytes = 1 << 20
    for first in (10, 13):
        for entry in entries(first, first + 2):
            journal.add(*entry)
        journal.sync_now()
    assert len(disk.names) == 3
    return journal


def segment(disk: MemoryDisk, number: int) -> Inode:
    """The file of the segment with this sequence."""
    return disk.names[HERE / f"{number:020d}.seg"]


def reopen(disk: MemoryDisk) -> Journal:
    """Open what is left after a kill."""
    disk.kill()
    return Journal.open(HERE, disk=disk, cluster_id=CLUSTER, segment_bytes=1 << 20)


def flip(inode: Inode, marker: bytes) -> None:
    """Turn one bit where `marker` stands."""
    inode.seen[inode.seen.index(marker)] ^= 4


def rewrite(inode: Inode, *records: tuple[int, int, int, bytes, int]) -> None:
    """Append whole records (kind, index, term, body, flags) to the last segment, each a write of its own."""
    for kind, index, term, body, flags in records:
        offset = len(inode.seen)
        inode.seen += encode_head(seed_of(3), offset, offset, kind, index, term, body, flags) + body


def misname(disk: MemoryDisk) -> None:
    """Only the last segment is left, and under the name of the one that would come next."""
    last = segment(disk, 3)
    disk.names.clear()
    disk.names[HERE / f"{4:020d}.seg"] = last


Damage = Callable[[MemoryDisk], object]
REFUSED: dict[str, tuple[Damage, type[Exception], str]] = {
    "4 flip in an earlier write": (lambda disk: flip(segment(disk, 3), b"11.1"), Corrupt, "later write"),
    "4 zeros in an earlier write": (
        lambda disk: segment(disk, 3).seen.__setitem__(slice(250, 260), bytes(10)),
        Corrupt,
        "later write",
    ),
    "5 flip in an older segment": (lambda disk: flip(segment(disk, 1), b"4.1"), Corrupt, "later segment"),
    "5 older segment cut": (lambda disk: segment(disk, 2).seen.__delitem__(slice(-1, None)), Corrupt, "later segment"),
    "5 flip in a header": (lambda disk: flip(segment(disk, 3), CLUSTER), Corrupt, "header checksum"),
    "5 flip in an opening": (
        lambda disk: segment(disk, 3).seen.__setitem__(80, 77),
        Corrupt,
        "what a segment is born with",
    ),
    "5 cut in the first META": (
        lambda disk: segment(disk, 3).seen.__delitem__(slice(110, None)),
        Corrupt,
        "what a segment is born with",
    ),
    "5 empty file": (lambda disk: segment(disk, 3).seen.clear(), Corrupt, "header length"),
    "6 middle segment lost": (
        lambda disk: disk.names.pop(HERE / f"{2:020d}.seg"),
        Corrupt,
        "sequence is 3, expected 2",
    ),
    "6 strange file": (lambda disk: disk.names.update({HERE / "1.seg": Inode()}), Corrupt, "file name"),
    "6 segment under another name": (misname, Corrupt, "what a segment is born with"),
    "7 index gap": (
        lambda disk: rewrite(segment(disk, 3), (ENTRY, 17, 1, b"", 0)),
        Corrupt,
        "entry index is 17, expected 16",
    ),
    "7 entry term back": (lambda disk: rewrite(segment(disk, 3), (ENTRY, 16, 0, b"", 0)), Corrupt, "entry term is 0"),
    "7 current term back": (lambda disk: rewrite(segment(disk, 3), (META, 1, 0, b"", 0)), Corrupt, "current term is 0"),
    "7 truncation past the end": (
        lambda disk: rewrite(segment(disk, 3), (TRUNCATE, 17, 1, b"", 0)),
        Corrupt,
        "truncation from is 17",
    ),
    "7 second opening": (
        lambda disk: rewrite(segment(disk, 3), (OPENING, 16, 1, opening_body(3), 0)),
        Corrupt,
        "record kind is 4",
    ),
    "8 unknown kind": (lambda disk: rewrite(segment(disk, 3), (9, 16, 1, b"", 0)), FormatRefused, "record kind"),
    "8 unknown flag": (lambda disk: rewrite(segment(disk, 3), (META, 1, 1, b"", 4)), FormatRefused, "record flags"),
    "8 flag on an entry": (lambda disk: rewrite(segment(disk, 3), (ENTRY, 16, 1, b"", 1)), FormatRefused, "flags"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    """Damage, or a newer format, stops the node with file, place and the two values, and changes no byte."""
    damage, error, message = REFUSED[case]
    disk = MemoryDisk()
    small_journal(disk)
    damage(disk)
    before = {path: bytes(inode.seen) for path, inode in disk.names.items()}
    with pytest.raises(error, match=message) as refused:
        reopen(disk)
    assert HERE.name in str(refused.value)
    assert {path: bytes(inode.seen) for path, inode in disk.names.items()} == before


def test_an_opening_must_stand_where_the_log_ends() -> None:
    """Row 6: a segment that begins elsewhere than its predecessor ended means that something is missing."""
    disk = MemoryDisk()
    small_journal(disk)
    inode = segment(disk, 3)
    body = opening_body(3)
    inode.seen[64:104] = encode_head(seed_of(3), 64, 64, OPENING, 11, 1, body) + body
    with pytest.raises(Corrupt, match="next index of the segment is 11, expected 10"):
        reopen(disk)
    body = opening_body(2)
    inode.seen[64:104] = encode_head(seed_of(3), 64, 64, OPENING, 10, 1, body) + body
    with pytest.raises(Corrupt, match="sequence is"):
        reopen(disk)


@pytest.mark.parametrize(("group", "cluster_id"), [(1, CLUSTER), (0, b"d" * 16)])
def test_another_group_or_cluster_is_refused(group: int, cluster_id: bytes) -> None:
    """A journal is not read under another group's or cluster's name."""
    disk = MemoryDisk()
    small_journal(disk).close()
    with pytest.raises(Corrupt, match=r"group|cluster_id"):
        Journal.open(HERE, disk=disk, group=group, cluster_id=cluster_id)


def test_segments_from_before_genesis_are_read() -> None:
    """A segment without cluster id is older than Genesis; the id is taken from the later ones if nobody gives it."""
    disk = MemoryDisk()
    journal = Journal.open(HERE, disk=disk, segment_bytes=100)
    journal.add(*entries(1, 1)[0])
    journal.set_cluster_id(CLUSTER)
    journal.sync_now()
    journal.close()
    for cluster_id in (None, CLUSTER):
        journal = Journal.open(HERE, disk=disk, cluster_id=cluster_id)
        assert (journal.cluster_id, journal[:]) == (CLUSTER, entries(1, 1))
        journal.close()
    with pytest.raises(Corrupt, match="cluster_id"):
        Journal.open(HERE, disk=disk, cluster_id=b"d" * 16)
    first = segment(disk, 1)
    first.seen[:64] = FileHeader(b"HWLOG", 0, 0, bytes(16)).encode()
    with pytest.raises(Corrupt, match="magic"):
        Journal.open(HERE, disk=disk)


def test_a_new_directory_and_a_half_born_segment() -> None:
    """Rows 1 and 2: nothing there means a new journal; a `.new` file was never used and goes."""
    disk = MemoryDisk()
    journal = Journal.open(HERE, disk=disk)
    assert journal.created
    journal.add(*entries(1, 1)[0])
    journal.close()
    disk.names[HERE / f"{2:020d}.new"] = Inode()
    journal = reopen_plain(disk)
    assert not journal.created
    assert journal[:] == entries(1, 1)
    assert [path.suffix for path in disk.names] == [".seg"]


def reopen_plain(disk: MemoryDisk) -> Journal:
    """Open under no cluster's name."""
    return Journal.open(HERE, disk=disk)


def test_older_segments_gone() -> None:
    """Row 9: a journal whose beginning was trimmed starts later."""
    disk = MemoryDisk()
    small_journal(disk)
    for number in (1, 2):
        del disk.names[HERE / f"{number:020d}.seg"]
    journal = reopen(disk)
    assert (journal.first_index, journal[:]) == (10, entries(10, 15))
    assert (journal.getCurrentTerm(), journal.getVotedForNodeId()) == (1, "n1")


def test_a_trimmed_and_emptied_log_goes_on() -> None:
    """A segment whose predecessors are gone and which truncates all of them lets any index follow."""
    disk = MemoryDisk()
    journal = Journal.open(HERE, disk=disk, segment_bytes=200)
    for entry in entries(1, 4):
        journal.add(*entry)
    journal.sync_now()
    journal.clear()
    journal.add(b"anew", 70, 3)
    journal.sync_now()
    assert journal[:] == [(b"anew", 70, 3)]
    journal.trim(70)
    journal.sync_now()
    journal.close()
    assert reopen_plain(disk)[:] == [(b"anew", 70, 3)]


def test_cut_at_every_byte() -> None:
    """Row 3: wherever the last segment ends, the whole records before that are the log, and it goes on.

    Only what the two last writes brought can be missing; term and vote, from before them, never.
    """
    whole = MemoryDisk()
    small_journal(whole)
    size = len(segment(whole, 3).seen)
    preamble = 64 + 32 + 8 + 32 + 2
    seen_lengths = set()
    for cut in range(preamble, size + 1):
        disk = whole.copy()
        del segment(disk, 3).seen[cut:]
        journal = reopen(disk)
        last = 9 + (cut - preamble) // (32 + 44)
        seen_lengths.add(last)
        assert journal[:] == entries(1, last)
        assert (journal.getCurrentTerm(), journal.getVotedForNodeId(), journal.durable_index) == (1, "n1", last)
        journal.add(b"on", last + 1, 2)
        journal.close()
        assert reopen(disk)[:] == [*entries(1, last), (b"on", last + 1, 2)]
    assert seen_lengths == set(range(9, 16))


@pytest.mark.parametrize("closed", [False, True])
def test_flip_every_byte(closed: bool) -> None:
    """A flipped byte is refused everywhere except in the last write, which cannot be told from a torn one.

    Closing writes one META behind all else, so of a journal closed in peace no entry can be lost to a flip.
    """
    whole = MemoryDisk()
    journal = small_journal(whole)
    last_write = len(segment(whole, 3).seen) - 3 * (32 + 44)
    if closed:
        last_write = len(segment(whole, 3).seen)
        journal.close()
    for number in (1, 2, 3):
        for place in range(len(segment(whole, number).seen)):
            disk = whole.copy()
            segment(disk, number).seen[place] ^= 1 << place % 8
            if number == 3 and place >= last_write:
                kept = 15 if closed else 12 + (place - last_write) // (32 + 44)
                assert reopen(disk)[:] == entries(1, kept)
                continue
            with pytest.raises((Corrupt, FormatRefused)):
                reopen(disk)


def test_holes_in_the_last_write_are_a_torn_tail() -> None:
    """After a power cut whole records may stand behind a lost sector of the same write: that is no damage."""
    whole = MemoryDisk()
    small_journal(whole)
    inode = segment(whole, 3)
    begin = len(inode.seen) - 3 * (32 + 44)
    for hole in range(begin, len(inode.seen)):
        disk = whole.copy()
        end = min(hole + 20, len(inode.seen))
        segment(disk, 3).seen[hole:end] = bytes(end - hole)
        assert reopen(disk)[:] == entries(1, 12 + (hole - begin) // (32 + 44))


def test_a_record_inside_a_command_proves_nothing() -> None:
    """A message body made of journal records, even at their right offsets, does not turn a torn tail into damage."""
    disk = MemoryDisk()
    journal = Journal.open(HERE, disk=disk)
    journal.add(b"first", 1, 1)
    journal.sync_now()
    inode = segment(disk, 1)
    at = len(inode.seen) + 32
    forged = encode_head(seed_of(2), at, at, ENTRY, 3, 1, b"")
    journal.add(forged * 50, 2, 1)
    journal.sync_now()
    inode.seen[-1] ^= 1
    disk.kill()
    assert Journal.open(HERE, disk=disk)[:] == [(b"first", 1, 1)]


class FailingDisk(MemoryDisk):
    """Fails fdatasync or truncate when told to. As Linux does, a failed fdatasync leaves the pages clean."""

    fail_at = ""

    def fdatasync(self, fd: int) -> None:
        if self.fail_at == "fdatasync":
            self.open[fd].dirty.clear()
            raise DiskFailed("fdatasync", "journal", 5)
        super().fdatasync(fd)

    def truncate(self, fd: int, length: int) -> None:
        if self.fail_at == "truncate":
            raise DiskFailed("truncate", "journal", 5)
        super().truncate(fd, length)


@pytest.mark.parametrize("seed", range(20))
def test_the_last_write_is_written_again(seed: int) -> None:
    """Pages that a failed fdatasync left clean read well but are not on disk: the start writes and syncs them anew."""
    disk = FailingDisk()
    journal = small_journal(disk)
    journal.add(*entries(16, 16)[0])
    disk.fail_at = "fdatasync"
    with pytest.raises(DiskFailed):
        journal.sync_now()
    disk.fail_at = ""
    journal = reopen(disk)
    assert journal.durable_index == 16
    disk.power_cut(Random(seed))
    assert reopen(disk)[:] == entries(1, 16)


def test_a_start_proves_what_it_found() -> None:
    """After a kill the start leaves a META of its own, so that a flip in the last write before the kill is damage."""
    disk = MemoryDisk()
    small_journal(disk)
    reopen(disk)
    flip(segment(disk, 3), b"15.1")
    with pytest.raises(Corrupt, match="later write"):
        reopen(disk)


def test_restarts_in_peace_write_nothing() -> None:
    """A closed journal is not longer for having been opened and closed."""
    disk = MemoryDisk()
    small_journal(disk).close()
    size = len(segment(disk, 3).seen)
    for _ in range(3):
        reopen(disk).close()
    assert len(segment(disk, 3).seen) == size


@pytest.mark.parametrize("fail_at", ["fdatasync", "truncate"])
def test_a_failing_disk_stops_the_start(fail_at: str) -> None:
    """A start that cannot make its last write durable, or cut the torn tail, is no start."""
    disk = FailingDisk()
    small_journal(disk)
    del segment(disk, 3).seen[-1:]
    disk.fail_at = fail_at
    with pytest.raises(DiskFailed):
        reopen(disk)


def test_the_commit_index_never_passes_the_log() -> None:
    """R11: a META that names a commit index past the last entry is believed up to that entry."""
    disk = MemoryDisk()
    small_journal(disk)
    rewrite(segment(disk, 3), (META, 99, 1, b"n1", 2))
    assert reopen(disk).getRaftCommitIndex() == 15
