"""A segment of the journal: its file, and the offsets of those of its entries that are still part of the log.

Memory holds twelve bytes per entry of every segment (offset, length, term), but no commands. log.py has the commands of
the newest entries. Those of older ones are read from here when a follower lags or a restart applies them.
"""

from array import array
from pathlib import Path

from replication.journal.record import BATCH_AT, ENTRY, HEAD_SIZE, OFFSET_MAX, encode_head, seed_of
from storage.file.disk import Disk
from storage.format.array import U32
from storage.format.rows import HEADER_SIZE, Corrupt

Entry = tuple[bytes, int, int]
"""(command, index, term), as pysyncobj has it."""

SUFFIX = ".seg"
NEW_SUFFIX = ".new"


class Segment:
    """A segment's file, and its live entries, which are those that are still part of the log. They have consecutive
    indexes from `first` on, in the order of their offsets.

    `version` is the version in the header of the file. No entry that was added after the segment began has a later
    version.

    Invariants:

    - `batch <= size`, both in bytes. Bytes below `batch` are durable before any byte above it is written.
    - `fd` is -1 until the file exists. It belongs to the thread that runs the sync until that sync is done.
    """

    __slots__ = ("batch", "fd", "first", "lengths", "offsets", "path", "seed", "sequence", "size", "terms", "version")

    def __init__(self, directory: Path, sequence: int, version: int = 1) -> None:
        self.path = directory / f"{sequence:020d}{SUFFIX}"
        self.sequence = sequence
        self.version = version
        self.seed = seed_of(sequence)
        self.fd = -1
        self.size = self.batch = HEADER_SIZE
        self.first = 0
        self.offsets = array("I")
        self.lengths = array("I")
        self.terms = array("I")

    @property
    def end(self) -> int:
        """The index after the last live entry. Equal to `first` if there is none."""
        return self.first + len(self.offsets)

    def head(self, kind: int, index: int, term: int, body: bytes, flags: int = 0) -> bytes:
        """Take the next `32 + len(body)` bytes of the file for a record. Return its first 32 bytes, which `body` must
        follow.
        """
        offset = self.size
        self.size = offset + HEAD_SIZE + len(body)
        assert self.size <= OFFSET_MAX, f"segment {self.path} has grown to {self.size} bytes"
        return encode_head(self.seed, offset, self.batch, kind, index, term, body, flags)

    def place(self, index: int, term: int, offset: int, length: int) -> None:
        """Note an entry whose record stands at `offset` and whose command has `length` bytes."""
        if not self.offsets:
            self.first = index
        assert index == self.end, f"entry {index} behind {self.end - 1}"
        self.offsets.append(offset)
        self.lengths.append(length)
        self.terms.append(term)

    def place_all(self, index: int, terms: U32, offsets: U32, lengths: U32) -> None:
        """Note consecutive entries, the first of which has the index `index`. Each column has the shape [n]. Offsets
        and lengths are as in `place`.
        """
        if not self.offsets:
            self.first = index
        assert index == self.end, f"entry {index} behind {self.end - 1}"
        self.offsets.frombytes(offsets.tobytes())
        self.lengths.frombytes(lengths.tobytes())
        self.terms.frombytes(terms.tobytes())

    def cut(self, index: int) -> None:
        """Take the entries from `index` on out of the live entries. The file stays as it is."""
        keep = max(0, index - self.first)
        del self.offsets[keep:], self.lengths[keep:], self.terms[keep:]

    def read(self, disk: Disk, start: int, stop: int) -> list[Entry]:
        """The live entries start <= index < stop, read from the file at once. Raises Corrupt if they are not what was
        written.
        """
        low, high = start - self.first, stop - self.first
        begin = self.offsets[low]
        data = disk.read(self.fd, self.offsets[high - 1] + HEAD_SIZE + self.lengths[high - 1] - begin, begin)
        entries: list[Entry] = []
        for row in range(low, high):
            body = self.offsets[row] + HEAD_SIZE - begin
            command = data[body : body + self.lengths[row]]
            self._check(data[body - HEAD_SIZE : body], command, row)
            entries.append((command, self.first + row, self.terms[row]))
        return entries

    def _check(self, head: bytes, command: bytes, row: int) -> None:
        """Check that `head` and `command`, read from the file, are the record of this row. Raises Corrupt."""
        offset = self.offsets[row]
        batch = int.from_bytes(head[BATCH_AT : BATCH_AT + 4], "little")
        expected = encode_head(self.seed, offset, batch, ENTRY, self.first + row, self.terms[row], command)
        if head != expected:
            raise Corrupt(str(self.path), offset, "record of an entry", head.hex(), expected.hex())
