"""A write of the journal. The event loop gathers it, a thread carries it out, and the loop then notes that it is
durable.

The thread only does the system calls. So the loop never waits for a disk, and the journal needs no lock. One sync runs
at a time. A failed one is not tried again: a second fdatasync may report success without the data being on disk.
"""

from pathlib import Path

from replication.journal.record import META, OPENING, opening_body
from replication.journal.segment import NEW_SUFFIX, Segment
from storage.file.disk import Disk
from storage.format.rows import FileHeader

GATHER_BYTES = 1 << 16
"""Smaller pieces are joined before they are written. Larger ones (bodies) go to the disk uncopied."""


class Sync:
    """A write of the journal: `pieces` go into the file of `segment`, from byte `offset` on. It may also begin a
    segment (`next`) and unlink one (`doomed`).

    When it is durable, all writes up to number `seq` are durable, and all entries up to index `last`. The loop lowers
    `last` when a conflict truncates the log meanwhile. Only `run` is for a thread. All else is for the loop.
    """

    def __init__(self, disk: Disk, segment: Segment, pieces: list[bytes], seq: int, last: int) -> None:
        self.segment = segment
        self.offset = segment.batch
        self.seq = seq
        self.last = last
        self.next: tuple[Segment, bytes] | None = None
        self.doomed: Segment | None = None
        self.ran = False
        self.error: BaseException | None = None
        self._disk = disk
        self._pieces = pieces

    def run(self) -> None:
        """Write and fdatasync. Blocks the calling thread. Raises DiskFailed, after which the process has to end.

        It uses only the pieces and the files of this Sync. The loop changes neither of them meanwhile.
        """
        try:
            if self._pieces:
                self._write()
                self._disk.fdatasync(self.segment.fd)
            if self.next is not None:
                create_segment(self._disk, *self.next)
            if self.doomed is not None:
                remove_segment(self._disk, self.doomed)
        except BaseException as error:
            self.error = error
            raise
        self.ran = True

    def _write(self) -> None:
        fd, offset = self.segment.fd, self.offset
        small: list[bytes] = []
        size = 0
        for piece in self._pieces:
            large = len(piece) >= GATHER_BYTES
            if small and (large or size >= GATHER_BYTES):
                self._disk.write(fd, b"".join(small), offset)
                offset += size
                small, size = [], 0
            if large:
                self._disk.write(fd, piece, offset)
                offset += len(piece)
            else:
                small.append(piece)
                size += len(piece)
        if small:
            self._disk.write(fd, b"".join(small), offset)


def preamble(segment: Segment, header: FileHeader, index: int, term: int, meta: tuple[int, int, int, bytes]) -> bytes:
    """Make the first bytes of a segment: header, OPENING, META. The segment's size then counts them.

    `index` is the index of the next entry, and `term` that of the last entry. `meta` is (commit, term, flags, vote).
    Every segment repeats it, because older segments may be unlinked.
    """
    body = opening_body(segment.sequence)
    opening = segment.head(OPENING, index, term, body) + body
    commit, current, flags, vote = meta
    data = header.encode() + opening + segment.head(META, commit, current, vote, flags) + vote
    segment.batch = segment.size
    assert len(data) == segment.size
    return data


def create_segment(disk: Disk, segment: Segment, data: bytes) -> None:
    """Create the file of a segment with its first bytes. First the bytes are made durable, then the file gets its name,
    and then the name is made durable.
    """
    new = segment.path.with_suffix(NEW_SUFFIX)
    segment.fd = disk.open_write(new)
    disk.write(segment.fd, data, 0)
    disk.fdatasync(segment.fd)
    disk.rename(new, segment.path)
    disk.fsync_directory(directory_of(segment))


def remove_segment(disk: Disk, segment: Segment) -> None:
    """Unlink the oldest segment, and make that durable. So a crash never leaves a gap between segments."""
    disk.unlink(segment.path)
    disk.fsync_directory(directory_of(segment))
    disk.close(segment.fd)


def directory_of(segment: Segment) -> Path:
    """The journal's directory."""
    return segment.path.parent
