"""Lowers the term of a cluster that is stopped as a whole: the way out when no term is left.

A term never goes back, so no part of a running cluster does this. It is safe when every member is stopped and every
member's journal is at hand. Then nothing is left that a past term or a past vote protects:

- A vote keeps a node from voting twice in one term. All votes in terms above the new one are forgotten at once. No node
  leads in such a term, and no message of one is under way.
- A term keeps a deposed leader out. No node leads. The term of every leader that wrote an entry is at most the term of
  the newest entry in one of the journals. The new term is above all of these.
- A majority of disks has what is committed. No entry is changed, and a vote still goes to no shorter log.

No records are added, because recovery refuses a journal in which the term goes back. Instead records are changed at
their places and get a new checksum. A META or TRUNCATE of a later term gets the new one. A META loses its vote. The
bytes of the vote stay, but no code reads them then.

Each segment is written to a new file and put in place by a rename, the oldest first. So after a crash the terms in the
journal still rise, up to the old one. The operator then runs the command again.
"""

from __future__ import annotations

from pathlib import Path

from replication.command.entry import EntryRefused, Kind, UnknownCommand, decode_entry
from replication.command.genesis import Genesis
from replication.command.member import ADD, ChangeMember
from replication.journal.record import ENTRY, HEAD_SIZE, META, TRUNCATE, VOTED, decode_record, encode_head, seed_of
from replication.journal.recovery import Recovered, recover
from replication.journal.segment import NEW_SUFFIX, SUFFIX
from storage.file.disk import Disk
from storage.format.rows import HEADER_SIZE, Corrupt

GAP = 1000
"""The new term is this far above the term of the newest entry in any of the journals."""


def read_journal(directory: Path, disk: Disk) -> Recovered:
    """The journal as a start of the node would find it. A torn end is cut off, if `disk` writes. Raises Corrupt,
    FormatRefused, DiskFailed.
    """
    found = recover(directory, disk, 0, None)
    for segment in found.segments:
        disk.close(segment.fd)
    return found


def members_named(directory: Path, disk: Disk) -> set[str]:
    """The ids of the nodes that the entries of this journal make members, by Genesis or by a change."""
    named: set[str] = set()
    for path in _segments(directory, disk):
        data, seed, at = _bytes_of(path, disk), seed_of(int(path.stem)), HEADER_SIZE
        while record := decode_record(data, at, seed):
            if record.kind == ENTRY and record.end - record.body > 1:
                named |= _named_by(data[record.body : record.end])
            at = record.end
    return named


def lower_term(directory: Path, disk: Disk, term: int) -> int:
    """Replace each term above `term` in this journal's META and TRUNCATE records by `term`. Remove the votes of those
    records.

    Returns how many records were changed. Raises Corrupt, DiskFailed.
    """
    changed = 0
    for path in _segments(directory, disk):
        written, count = _sealed_anew(_bytes_of(path, disk), path, term)
        if count:
            _replace(path, disk, written)
            changed += count
    return changed


def _segments(directory: Path, disk: Disk) -> list[Path]:
    return [directory / name for name in sorted(disk.list_directory(directory)) if name.endswith(SUFFIX)]


def _bytes_of(path: Path, disk: Disk) -> bytes:
    fd = disk.open_read(path)
    try:
        return disk.read(fd, disk.size(fd), 0)
    finally:
        disk.close(fd)


def _named_by(entry: bytes) -> set[str]:
    named: set[str] = set()
    try:
        for section in decode_entry(entry).sections:
            if section.kind == Kind.GENESIS:
                named |= {*Genesis.unpack(section).nodes}
            elif section.kind == Kind.CHANGE_MEMBER:
                change = ChangeMember.unpack(section)
                named |= {change.id} if change.what == ADD else set()
    except (EntryRefused, UnknownCommand):  # apply will say so
        pass
    return named


def _sealed_anew(data: bytes, path: Path, term: int) -> tuple[bytes, int]:
    written, seed, at, changed = bytearray(data), seed_of(int(path.stem)), HEADER_SIZE, 0
    while at < len(data):
        record = decode_record(data, at, seed)
        if record is None:
            raise Corrupt(str(path), at, "record", "none", "a whole one")
        assert record.kind != ENTRY or record.term < term, "an entry of the new term or a later one"
        if record.kind in (META, TRUNCATE) and record.term > term:
            body, flags = data[record.body : record.end], record.flags & ~VOTED
            head = encode_head(seed, at, record.batch, record.kind, record.entry, term, body, flags)
            written[at : at + HEAD_SIZE] = head
            changed += 1
        at = record.end
    return bytes(written), changed


def _replace(path: Path, disk: Disk, data: bytes) -> None:
    """Replace the file by a rename. After a crash the next opening unlinks the new file."""
    new = path.with_suffix(NEW_SUFFIX)
    fd = disk.open_write(new)
    try:
        disk.truncate(fd, 0)
        disk.write(fd, data, 0)
        disk.fdatasync(fd)
    finally:
        disk.close(fd)
    disk.rename(new, path)
    disk.fsync_directory(path.parent)
