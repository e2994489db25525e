"""The manifest of a snapshot: the files of one checkpoint of one group, with their lengths.

A snapshot is the last durable checkpoint, whole. It has the files of its hours up to the record's lengths, and LMDB as
one compact copy of that transaction. The manifest holds the checkpoint record and derives the files' names from it. So
a peer or a backup cannot name a file outside the data directory.

    leader    Store.pin -> Pin (pin.py)          follower  Install (directory/snapshot_install.py)
              manifest, then pieces by (name, offset)  ->           aside, verified, one rename

An offer to a follower has no piece checksums, for they would take a read of all files. Each piece travels with its own
checksum. A backup is read as it is written, so there `sums` has the CRC32C of every piece, in order.

Manifest, little endian; `sums` counts the u32 that follow the record, one per MiB begun of each file in order:
```
 0                    64            72           76     80           80 + k     80 + k + 4 n
 | file header HWSNAP | catalog_len | record len | sums | record (k) | n sums   | crc32c |
```
`crc32c` is over all bytes between the header and itself.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import google_crc32c
import numpy as np

from storage.catalog.checkpoint_record import CheckpointRecord
from storage.file.hour_file import directory_name
from storage.format.rows import HEADER_SIZE, MAGIC_SNAPSHOT, Corrupt, FileHeader

PIECE: Final = 1 << 20
"""Bytes of a file that are read, checked and sent at a time."""

SMALL: Final = 16 << 10
TOGETHER: Final = 64
"""Up to TOGETHER files of at most SMALL bytes are sent in one piece. A cluster with messages in 30,000 hours has 60,000
files, and each took 4 ms by itself."""

CATALOG_FILE: Final = "catalog/data.mdb"
_LENGTHS: Final = struct.Struct("<QII")
_CRC: Final = struct.Struct("<I")
_WHERE: Final = "snapshot manifest"


class Place(NamedTuple):
    """A piece of a snapshot that a follower asks for. It has `size` bytes, from `offset` of the file with number `file`
    on, counted from 1. If that file ends before, the piece goes on with the first byte of the next file."""

    file: int
    offset: int
    size: int


class Part(NamedTuple):
    """The bytes of a piece that lie in one file: `size` bytes from `offset` of the file `name` on."""

    name: str
    offset: int
    size: int


Files = tuple[tuple[str, int], ...]
"""(name, length in bytes) of each file, in the manifest's order."""


class SnapshotRefused(Exception):
    """Raised for a manifest, piece or snapshot with wrong content. This node's own files are not touched."""


@dataclass(frozen=True)
class Manifest:
    """The content of a snapshot: the checkpoint's record, and the length in bytes of the copy of LMDB (`catalog_len`).

    `sums` has the CRC32C of every piece of `files`, in order. It is empty in an offer to a follower.
    """

    cluster_id: bytes
    group: int
    record: CheckpointRecord
    catalog_len: int
    sums: tuple[int, ...] = ()

    @property
    def applied_index(self) -> int:
        """The index of the last entry in the snapshot."""
        return self.record.applied_index

    @property
    def applied_term(self) -> int:
        """The term of the last entry in the snapshot."""
        return self.record.applied_term

    @cached_property
    def files(self) -> Files:
        """(name relative to the data directory, length in bytes) of every file, by name."""
        files = [(CATALOG_FILE, self.catalog_len)]
        for hour, lengths in self.record.hours.items():
            directory = f"hours/{directory_name(hour, lengths.generation)}"
            named = (("log", lengths.log_len), ("index", lengths.index_len), ("settle", lengths.settle_len))
            files += [(f"{directory}/{name}", length) for name, length in named if length]
        return tuple(sorted(files))

    @cached_property
    def lengths(self) -> dict[str, int]:
        """The length of each file by name."""
        return dict(self.files)

    @property
    def total_bytes(self) -> int:
        """Length of all files together."""
        return sum(self.lengths.values())

    def pieces(self) -> Iterator[tuple[str, int, int]]:
        """Yield (name, offset, size) of every piece: PIECE bytes of a file, fewer at its end. The order is that of
        `files`."""
        for name, length in self.files:
            for offset in range(0, length, PIECE):
                yield name, offset, min(PIECE, length - offset)

    def places(self, *, together: bool) -> Iterator[Place]:
        """Yield the places that a follower asks for one by one. Together they cover all files. If `together` is True,
        the leader can send several small files in one piece."""
        size, first = 0, 1
        for number, (_, length) in enumerate(self.files, 1):
            small = together and length <= SMALL
            if size and not (small and number - first < TOGETHER):
                yield Place(first, 0, size)
                size = 0
            if small:
                first = number if not size else first
                size += length
                continue
            for offset in range(0, length, PIECE):
                yield Place(number, offset, min(PIECE, length - offset))
        if size:
            yield Place(first, 0, size)

    def encode(self) -> bytes:
        """Return the manifest's bytes. The same manifest gives the same bytes."""
        header = FileHeader(MAGIC_SNAPSHOT, self.group, 0, self.cluster_id).encode()
        record = self.record.encode()
        body = _LENGTHS.pack(self.catalog_len, len(record), len(self.sums)) + record
        body += np.array(self.sums, "<u4").tobytes()
        return header + body + _CRC.pack(google_crc32c.value(body))

    @classmethod
    def decode(cls, data: bytes, where: str = _WHERE) -> "Manifest":
        """Read the manifest back. Raises Corrupt (bytes are not as written) or FormatRefused (another version)."""
        header = FileHeader.decode(data[:HEADER_SIZE], where)
        FileHeader(MAGIC_SNAPSHOT, header.group, 0, header.cluster_id).expect(header, where)
        body = data[HEADER_SIZE : -_CRC.size]
        if len(body) < _LENGTHS.size:
            raise Corrupt(
                where, HEADER_SIZE, "length", len(data), f"at least {HEADER_SIZE + _LENGTHS.size + _CRC.size}"
            )
        found, expected = google_crc32c.value(body), _CRC.unpack(data[-_CRC.size :])[0]
        if found != expected:
            raise Corrupt(where, HEADER_SIZE, "checksum", f"{found:08x}", f"{expected:08x}")
        catalog_len, record_len, sums = _LENGTHS.unpack_from(body)
        record_end = _LENGTHS.size + record_len
        if len(body) != record_end + 4 * sums:
            raise Corrupt(where, HEADER_SIZE, "length", len(body), record_end + 4 * sums)
        record = CheckpointRecord.decode(body[_LENGTHS.size : record_end])
        pieces = tuple(np.frombuffer(body, "<u4", offset=record_end).tolist())
        manifest = cls(header.cluster_id, header.group, record, catalog_len, pieces)
        if sums and sums != sum(1 for _ in manifest.pieces()):
            raise Corrupt(where, HEADER_SIZE, "piece checksums", sums, sum(1 for _ in manifest.pieces()))
        return manifest


def parts_of(files: Files, place: Place) -> list[Part]:
    """The parts of files that a place covers. They have fewer bytes than the place if it ends behind the last file."""
    parts: list[Part] = []
    number, offset, left = place
    while left and 0 < number <= len(files) and offset <= files[number - 1][1]:
        name, length = files[number - 1]
        size = min(left, length - offset)
        if size:
            parts.append(Part(name, offset, size))
        number, offset, left = number + 1, 0, left - size
    return parts
