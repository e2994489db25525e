"""Opens a journal after a stop, a crash or a power cut. The table has each state that its files may be in, and what is
done.

Writes go out one at a time, each followed by its fdatasync, and every record says where its write began (`batch`). So
after a crash or power cut only the last write of the last segment can be missing or damaged, in any pattern of pages.
If a whole record further on has a `batch` past a bad byte, that byte was once durable.

    #  state                                      made by                              done
    1  no segment                                 a new node                           the first is created
    2  a `.new` file                              crash while a segment was made       unlinked: never used
    3  last segment, bad record, nothing proves   crash or power cut before the        cut back
       it was durable                             fdatasync
    4  last segment, bad record, a later one      bit rot, another's write             Corrupt
       with `batch` past it
    5  bad record in an older segment, a header,  the same: durable before use         Corrupt
       OPENING or first META
    6  sequence with a gap; OPENING not where     a lost or foreign file               Corrupt
       the log ends
    7  whole records in an impossible order       a mistake in our code                Corrupt
       (index gap, term going back)
    8  unknown version, kind or flag, with a      a newer build                        FormatRefused
       right checksum
    9  oldest segments gone                       trim, or a crash within it           fine: the log starts later

The last write is written again and synced before it counts. After a failed fdatasync the pages may read well and yet
not be on the disk. After a kill nobody may have synced them.
"""

from dataclasses import dataclass, field
from pathlib import Path

import google_crc32c
import numpy as np

from replication.journal.record import (
    ENTRY,
    HEAD_SIZE,
    META,
    OPENING,
    TRUNCATE,
    VOTED,
    VOTER,
    Record,
    find_proof,
    opening_body,
)
from replication.journal.scan import Heads, record_of, whole_records
from replication.journal.segment import NEW_SUFFIX, SUFFIX, Segment
from replication.journal.sync import create_segment, preamble
from storage.file.disk import Disk
from storage.format.rows import HEADER_SIZE, MAGIC_JOURNAL, Corrupt, FileHeader, FormatRefused

NO_CLUSTER = bytes(16)
"""Cluster id in the header of a segment made before Genesis."""

_BORN_WITH = (OPENING, META)
_KNOWN_FLAGS = {ENTRY: 0, TRUNCATE: 0, META: VOTER | VOTED, OPENING: 0}


@dataclass(slots=True)
class Recovered:
    """The state of the journal as its files say it. `last` is the last entry's index, 0 if the log is empty. `next` is
    the index that the next entry must have, 0 if it may have any.

    `sealed`: the last write is a META alone, so all before it is proven durable.
    """

    segments: list[Segment] = field(default_factory=list)
    last: int = 0
    last_term: int = 0
    next: int = 0
    term: int = 0
    vote: str | None = None
    voter: bool = False
    commit: int = 1
    cluster_id: bytes = NO_CLUSTER
    created: bool = False
    sealed: bool = True


def recover(directory: Path, disk: Disk, group: int, cluster_id: bytes | None) -> Recovered:
    """Read all segments, cut a torn end off, and make the last write durable.

    Raises Corrupt or FormatRefused with file and offset; no segment was changed then. Raises DiskFailed.
    """
    found = Recovered(cluster_id=cluster_id or NO_CLUSTER)
    for name in disk.list_directory(directory):
        path = directory / name
        if name.endswith(NEW_SUFFIX):
            disk.unlink(path)
            continue
        stem = name.removesuffix(SUFFIX)
        if not (name.endswith(SUFFIX) and len(stem) == 20 and stem.isdecimal()):
            raise Corrupt(str(path), 0, "file name", name, f"<sequence, 20 digits>{SUFFIX}")
        found.segments.append(Segment(directory, int(stem)))
    if not found.segments:
        first = Segment(directory, 1)
        header = FileHeader(MAGIC_JOURNAL, group, 0, found.cluster_id)
        create_segment(disk, first, preamble(first, header, 0, 0, (found.commit, 0, 0, b"")))
        found.segments.append(first)
        found.created = True
        return found
    for before, segment in zip([None, *found.segments], found.segments, strict=False):
        if before is not None and segment.sequence != before.sequence + 1:
            raise Corrupt(str(segment.path), 0, "sequence", segment.sequence, before.sequence + 1)
        _replay(found, segment, disk, group, segment is found.segments[-1])
    return found


def _replay(found: Recovered, segment: Segment, disk: Disk, group: int, is_last: bool) -> None:
    """Read one segment, and bring `found` to the state after it. In the last segment, cut a torn end off and write the
    last write again.
    """
    segment.fd = disk.open_write(segment.path)
    data = disk.read(segment.fd, disk.size(segment.fd), 0)
    file = str(segment.path)
    header = FileHeader.decode(data, file)
    _check_header(found, header, group, file)
    segment.version = header.version
    heads = whole_records(data, HEADER_SIZE, segment.seed)
    _take_all(found, segment, heads, data)
    last = record_of(heads, -1) if len(heads) else None
    offset = last.end if last else HEADER_SIZE
    if last is None or len(heads) < len(_BORN_WITH):
        raise _bad_record(data, offset, segment, "in what a segment is born with")
    segment.size = segment.batch = offset
    found.sealed = last.kind == META and last.batch in (last.offset, HEADER_SIZE)
    if offset < len(data):
        proof = find_proof(data, offset, segment.seed)
        if not is_last or proof is not None:
            why = "a later write follows it" if proof is not None else "a later segment follows it"
            raise _bad_record(data, offset, segment, why)
    if is_last:
        if offset < len(data):
            disk.truncate(segment.fd, offset)
        disk.write(segment.fd, data[last.batch : offset], last.batch)
        disk.fdatasync(segment.fd)


def _take_all(found: Recovered, segment: Segment, heads: Heads, data: bytes) -> None:
    """Apply the records of a segment to `found` in their order. Entries that follow one another are applied
    together.
    """
    file = str(segment.path)
    row = 0
    for other in [*np.flatnonzero(heads["kind"] != ENTRY).tolist(), len(heads)]:
        if row >= len(_BORN_WITH) and _take_entries(found, segment, heads[row:other]):
            row = other
        for each in range(row, min(other + 1, len(heads))):
            record = record_of(heads, each)
            _check_known(record, file)
            wanted = _BORN_WITH[each] if each < len(_BORN_WITH) else None
            if record.kind != wanted and (wanted is not None or record.kind == OPENING):
                raise Corrupt(file, record.offset, "record kind", record.kind, wanted or "not an opening")
            _take(found, segment, record, data)
        row = other + 1


def _take_entries(found: Recovered, segment: Segment, heads: Heads) -> bool:
    """Enter consecutive entries into `found` if each of them is possible at its place. If not, enter none and return
    False. The caller then takes them one by one with `_take`, which raises Corrupt at the wrong one.
    """
    if not len(heads):
        return True
    index, term = heads["index"], heads["term"]
    first = found.next or int(index[0])
    if (
        heads["flags"].any()
        or heads["reserved"].any()
        or (index != np.arange(first, first + len(heads), dtype=np.uint64)).any()
        or (term[1:] < term[:-1]).any()
        or (found.last and int(term[0]) < found.last_term)
    ):
        return False
    segment.place_all(first, term, heads["offset"], heads["length"])
    found.last, found.last_term, found.next = int(index[-1]), int(term[-1]), int(index[-1]) + 1
    return True


def _take(found: Recovered, segment: Segment, record: Record, data: bytes) -> None:
    """Apply one record, after checking that it is possible at its place."""
    if record.kind == ENTRY:
        _take_entry(found, segment, record)
    elif record.kind == TRUNCATE:
        if not 1 <= record.entry <= found.last + 1 and found.last:
            raise Corrupt(str(segment.path), record.offset, "truncation from", record.entry, f"<= {found.last + 1}")
        _truncate(found, record.entry)
    elif record.kind == META:
        if record.term < found.term:
            raise Corrupt(str(segment.path), record.offset, "current term", record.term, f">= {found.term}")
        found.term, found.commit = record.term, record.entry
        found.voter = bool(record.flags & VOTER)
        vote = data[record.body : record.end]
        found.vote = vote.decode() if record.flags & VOTED else None
    else:
        _take_opening(found, segment, record, data)


def _take_entry(found: Recovered, segment: Segment, record: Record) -> None:
    file = str(segment.path)
    if found.next and record.entry != found.next:
        raise Corrupt(file, record.offset, "entry index", record.entry, found.next)
    if record.term < found.last_term and found.last:
        raise Corrupt(file, record.offset, "entry term", record.term, f">= {found.last_term}")
    segment.place(record.entry, record.term, record.offset, record.end - record.body)
    found.last, found.last_term, found.next = record.entry, record.term, record.entry + 1


def _take_opening(found: Recovered, segment: Segment, record: Record, data: bytes) -> None:
    file = str(segment.path)
    if data[record.body : record.end] != opening_body(segment.sequence):
        raise Corrupt(file, record.offset, "sequence", data[record.body : record.end].hex(), segment.sequence)
    if found.next and record.entry != found.next:
        raise Corrupt(file, record.offset, "next index of the segment", record.entry, found.next)
    found.next = record.entry


def _truncate(found: Recovered, index: int) -> None:
    """Remove the entries from `index` on. If none is left, the next entry may have any index."""
    for segment in found.segments:
        segment.cut(index)
    left = [segment for segment in found.segments if segment.offsets]
    if left:
        found.last, found.last_term, found.next = index - 1, left[-1].terms[-1], index
    else:
        found.last, found.last_term, found.next = 0, 0, 0


def _check_header(found: Recovered, header: FileHeader, group: int, file: str) -> None:
    """Check that the file is a journal segment of this group, and of this cluster. A segment that was begun before
    Genesis has no cluster id to check.
    """
    if header.cluster_id != NO_CLUSTER and found.cluster_id == NO_CLUSTER:
        found.cluster_id = header.cluster_id
    cluster_id = found.cluster_id if header.cluster_id != NO_CLUSTER else NO_CLUSTER
    FileHeader(MAGIC_JOURNAL, group, 0, cluster_id).expect(header, file)


def _check_known(record: Record, file: str) -> None:
    if record.kind not in _KNOWN_FLAGS:
        raise FormatRefused(file, f"record kind at byte {record.offset}", record.kind, sorted(_KNOWN_FLAGS))
    if record.reserved or record.flags & ~_KNOWN_FLAGS[record.kind]:
        found = f"{record.flags:#04x}, reserved {record.reserved:#06x}"
        raise FormatRefused(file, f"record flags at byte {record.offset}", found, f"{_KNOWN_FLAGS[record.kind]:#04x}")


def _bad_record(data: bytes, offset: int, segment: Segment, why: str) -> Corrupt:
    """Make the error for the bytes at `offset`. It names the checksum that was found and the one that was expected, and
    the reason `why` the bytes are no torn end.
    """
    end = offset + HEAD_SIZE + int.from_bytes(data[offset + 4 : offset + 8], "little")
    found = google_crc32c.extend(segment.seed, data[offset + 4 : end])
    expected = int.from_bytes(data[offset : offset + 4], "little")
    what = f"record checksum ({why}; bytes to {min(end, len(data))} of {len(data)})"
    return Corrupt(str(segment.path), offset, what, f"{found:08x}", f"{expected:08x}")
