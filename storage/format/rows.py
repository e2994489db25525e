"""The files of an hour, byte by byte. docs/format.md shows the same rulers; a test compares them.

All numbers are little endian. Every file starts with one 64-byte header. `index` and `settle` then hold fixed-size
rows, `log` holds records (storage/record/record.py). Zero is never a valid magic, version, kind or `what`, so a hole
reads as damage.

File header, 64 bytes:
```
 0        8     10    12    14         16    20         24          40           60      64
 | magic  | ver | flg | grp | reserved | hour | reserved | cluster id | reserved  | crc32c |
```
Index unit, 64 bytes, unit `g` at 64 + 64 (g - f), where `f` is the global_index of the file's first unit:
```
 0        8      12            16             24                 32       40     48      52         56     57         58
 | offset | size | local_index | global_index | pre_global_index | due_ms | tags | topic | checksum | kind | priority |
 58        60      64
 | attempt | flags |
```
Settle record, 48 bytes, record `r` at 64 + 48 r:
```
 0              8       16     24     28        30     32     34             36     37      38    40         44    48
 | global_index | at_ms | when | term | attempt | node | code | subscription | what | flags | pad | previous | csum |
```
- `offset` is the absolute offset of the record in `log`.
- `pre_global_index` is the unit before this one in the same second, -1 for the first.
- `what` is the number of a state (storage/format/states.py).
- `previous` is 1 + the ordinal of the unit's settle record before this one, 0 for its first. It leads through the
  history of a unit without an index.
- `when` is the end of the lease for leased, the position moved to for moved and forwarded.
- `csum` is the checksum.

A message's home is the unit that its id names. Its place is the unit where it stands now. Both are the same until the
message is moved. Each move appends a unit (flag UNIT_MOVED) at the new place. It writes `forwarded` at home, always to
the newest place, and `moved` at the place that the message leaves, unless that is home. The end of a message is written
at its place and at home alike:
```
 home    | leased | forwarded -> A |                             | forwarded -> B |                    | delivered |
 place A                           | leased | (its lease ends) | moved -> B     |
 place B                                                                          | leased | delivered |
```
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import google_crc32c
import numpy as np
import numpy.typing as npt

from storage.format.array import I64, U32
from storage.format.checksum import checksum_rows
from storage.format.level import LEVELS

HEADER_SIZE: Final = 64
MAGIC_LOG: Final = b"HWLOG"
MAGIC_INDEX: Final = b"HWINDEX"
MAGIC_SETTLE: Final = b"HWSETTLE"
MAGIC_JOURNAL: Final = b"HWJRNL"
MAGIC_DELIVERIES: Final = b"HWDELIV"
MAGIC_SNAPSHOT: Final = b"HWSNAP"
MAGIC_HEADERS: Final = b"HWHEADS"
READS: Final = {
    MAGIC_LOG: (1, 1),
    MAGIC_INDEX: (1, 1),
    MAGIC_SETTLE: (1, 1),
    MAGIC_JOURNAL: LEVELS,
    MAGIC_DELIVERIES: (1, 1),
    MAGIC_SNAPSHOT: (1, 1),
    MAGIC_HEADERS: (1, 1),
}
"""Oldest and newest version of each kind of file that this build reads. The cluster's level decides which it writes.

A journal segment may hold entries up to its own version. Nothing else in it differs.
"""

PLANNED: Final = 1
"""Bit in the `code` of a leased record: its hand-over was only planned for `at_ms` when the record was written.

If a released record takes it back, that one has the term and attempt of the newest hand-over that was made, or 0.
"""
PLANNED_BEFORE: Final = 2
"""Bit in the `code` of a leased or released record: an earlier hand-over was planned, and may have been made or not.

No node heard of its outcome before its lease ended. From level 3 on.
"""
BY_RECEIPT: Final = 4
"""Bit in the `code` of a leased record: only an extension shows the hand-over. Its own Lease was lost with its leader.

Time and node are those of the extension. From level 3 on.
"""
BY_FAILURE: Final = 4
"""Bit in the `code` of a cancelled record: the message was of the set of an operation, and its hand-over failed. The
bits below it say what was known of the hand-overs before. From level 4 on."""
CODE_RESCHEDULED, CODE_REDRIVEN, CODE_RESENT = 2000, 2001, 2002
"""The `code` of the records of a move that a client asked for. Codes of failures are smaller."""
UNIT_KEYED: Final = 1
"""Unit flag: the message has a key."""
UNIT_MOVED: Final = 2
"""Unit flag: a move appended the unit. Its record names the message's home."""

UNIT: Final = np.dtype(
    [
        ("offset", "<u8"),
        ("size", "<u4"),
        ("local_index", "<u4"),
        ("global_index", "<u8"),
        ("pre_global_index", "<i8"),
        ("due_ms", "<i8"),
        ("tags", "<u8"),
        ("topic", "<u4"),
        ("checksum", "<u4"),
        ("kind", "u1"),
        ("priority", "u1"),
        ("attempt", "<u2"),
        ("flags", "<u4"),
    ]
)
SETTLE: Final = np.dtype(
    [
        ("global_index", "<u8"),
        ("at_ms", "<i8"),
        ("when", "<i8"),
        ("term", "<u4"),
        ("attempt", "<u2"),
        ("node", "<u2"),
        ("code", "<u2"),
        ("subscription", "<u2"),
        ("what", "u1"),
        ("flags", "u1"),
        ("pad", "<u2"),
        ("previous", "<u4"),
        ("checksum", "<u4"),
    ]
)
assert UNIT.itemsize == 64
assert SETTLE.itemsize == 48

_CHECKSUM_FIELD: Final = {UNIT.itemsize: (6, 1), SETTLE.itemsize: (5, 1)}
"""The place of a row's checksum, by the row's size: its 64-bit word, and the half of it (1: the high one)."""

Units = npt.NDArray[np.void]
Settles = npt.NDArray[np.void]

_HEADER: Final = struct.Struct("<8sHHHHII16s20s")
_CRC: Final = struct.Struct("<I")
_CRC_AT: Final = HEADER_SIZE - _CRC.size
assert _HEADER.size == _CRC_AT


class Corrupt(Exception):
    """Raised if bytes on disk are not as written. The node stops rather than serve them."""

    def __init__(self, file: str, offset: int, what: str, found: object, expected: object) -> None:
        super().__init__(f"corrupt: {file} at byte {offset}: {what} is {found}, expected {expected}")
        self.file = file
        self.offset = offset
        self.what = what
        self.found = found
        self.expected = expected


class FormatRefused(Exception):
    """Raised if a file has a version or a flag that this build does not know. The file is left untouched."""

    def __init__(self, file: str, what: str, found: object, supported: object) -> None:
        super().__init__(f"format refused: {file}: {what} {found}; this build supports {supported}")
        self.file = file
        self.what = what
        self.found = found
        self.supported = supported


@dataclass(frozen=True, slots=True)
class FileHeader:
    """The first 64 bytes of every file: its kind and its owner. `hour` is 0 in files that belong to no hour.

    `version` is chosen when the file is made. Later bytes of the file are of that version too.
    """

    magic: bytes
    group: int
    hour: int
    cluster_id: bytes
    version: int = 1

    def encode(self) -> bytes:
        """Return the 64 bytes, CRC32C last."""
        assert len(self.cluster_id) == 16, f"cluster id of {len(self.cluster_id)} bytes"
        fields = _HEADER.pack(self.magic, self.version, 0, self.group, 0, self.hour, 0, self.cluster_id, bytes(20))
        return fields + _CRC.pack(google_crc32c.value(fields))

    @classmethod
    def decode(cls, data: bytes, file: str) -> "FileHeader":
        """Read the 64 bytes back. Raises Corrupt (short, or wrong checksum) or FormatRefused (version, flags)."""
        if len(data) < HEADER_SIZE:
            raise Corrupt(file, 0, "header length", len(data), HEADER_SIZE)
        found, expected = google_crc32c.value(data[:_CRC_AT]), _CRC.unpack_from(data, _CRC_AT)[0]
        if found != expected:
            raise Corrupt(file, 0, "header checksum", f"{found:08x}", f"{expected:08x}")
        magic, version, flags, group, zero, hour, zeros, cluster_id, rest = _HEADER.unpack_from(data)
        magic = magic.rstrip(b"\0")
        oldest, newest = READS.get(magic, (1, 1))
        if not oldest <= version <= newest:
            raise FormatRefused(file, "version", version, newest if oldest == newest else f"{oldest} to {newest}")
        if flags or zero or zeros or any(rest):
            raise FormatRefused(file, "flags", f"{flags:#06x}, reserved {zero}, {zeros}, {rest.hex()}", "none")
        return cls(magic, group, hour, cluster_id, version)

    def expect(self, found: "FileHeader", file: str) -> None:
        """Raise Corrupt with the first field in which `found`, read from `file`, differs from this header. Versions may
        differ."""
        for name in ("magic", "group", "hour", "cluster_id"):
            mine, theirs = getattr(self, name), getattr(found, name)
            if mine != theirs:
                show = (lambda value: value.hex()) if name == "cluster_id" else str
                raise Corrupt(file, 0, name, show(theirs), show(mine))


def row_checksums(rows: npt.NDArray[np.void]) -> U32:
    """Checksums, shape [n], of contiguous units or settle records as if their checksum field were zero."""
    return checksum_rows(_words(rows), _CHECKSUM_FIELD[rows.dtype.itemsize])


def seal(rows: npt.NDArray[np.void]) -> None:
    """Fill in the checksum field of contiguous units or settle records, in place."""
    rows["checksum"] = 0
    rows["checksum"] = checksum_rows(_words(rows))


def _words(rows: npt.NDArray[np.void]) -> npt.NDArray[np.uint64]:
    return rows.view(np.uint64).reshape(-1, rows.dtype.itemsize // 8)


def join_rows(parts: Sequence[npt.NDArray[np.void]], dtype: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """Join contiguous arrays of rows. They are joined as words, for numpy would compare the fields of each array in
    Python."""
    if not parts:
        return np.empty(0, dtype)
    return np.concatenate([part.view(np.uint64) for part in parts]).view(dtype)


def take_rows(rows: npt.NDArray[np.void], at: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.void]:
    """Copy the rows with these ordinals whole. Indexed as rows, numpy would copy each field of each row."""
    return rows.view(np.dtype((np.void, rows.dtype.itemsize))).take(at).view(rows.dtype)


def select_rows(rows: Units | None, at: npt.NDArray[np.intp] | slice) -> Units | None:
    """The rows that an index array or a slice names. None if `rows` is None."""
    if rows is None or isinstance(at, slice):
        return rows if rows is None else rows[at]
    return take_rows(rows, at)


def put_rows(rows: npt.NDArray[np.void], at: npt.NDArray[Any] | slice, values: npt.NDArray[np.void]) -> None:
    """Set whole rows of `rows` to `values`. `at` names these rows by an index array, a boolean array or a slice."""
    whole = np.dtype((np.void, rows.dtype.itemsize))
    rows.view(whole)[at] = values.view(whole)


def check_rows(rows: npt.NDArray[np.void], file: str, at: I64) -> None:
    """Raise Corrupt for the first row with a wrong checksum. `at` are the rows' ordinals in `file`, [n]."""
    sums = row_checksums(rows)
    wrong = (sums != rows["checksum"]).nonzero()[0]
    if len(wrong):
        row = int(wrong[0])
        ordinal = int(at[row])
        offset = HEADER_SIZE + ordinal * rows.dtype.itemsize
        found, expected = f"{int(sums[row]):08x}", f"{int(rows['checksum'][row]):08x}"
        raise Corrupt(file, offset, f"checksum of row {ordinal}", found, expected)
