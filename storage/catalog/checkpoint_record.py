"""The checkpoint record: the row that names the moment of the files and the catalog.

It is written in the LMDB transaction of the catalog's changes, after the files of all hours are durable. So after any
crash the catalog is that of the record, and each file is at least as long as the record says. Recovery cuts the rest
off and replays the journal from `applied_index` + 1. LMDB keeps the transaction before the last one whole. If the
newest is damaged, LMDB opens the older one. Then the journal must reach back to the older one, or the node must refuse.

Row, little endian (behind the 4-byte checksum that every catalog value has):
```
 0     2       4       8               16             24     32            40                    48           56
 | ver | flags | hours | applied_index | applied_term | tick | local_index | state_applied_index | max_now_ms |
 56              64             72                 74              74 + k
 | catalog_count | catalog_hash | rolling hash k   | rolling hash  | then per hour, ascending: 64 bytes
      | {hour u32, generation u32, then u64 each: log, index, settle, units, unsettled, forwarded, moved}
```
Version 2, written from level 2 on, has 16 bytes between the rolling hash and the hours:
```
 0       2              4                6         16
 | level | hash version | bytes per hour | zeros   |
```
Version 3, written from level 3 on, has 32 bytes more behind these (storage/catalog/doubt.py):
```
 16                 24                  32               40     48
 | doubt until, ms  | end of the hour   | end of its     | term |
 | (signed)         | before it         | hour           |      |
```
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import lmdb
import numpy as np

from storage.catalog.doubt import NO_DOUBT, Doubt
from storage.catalog.hour_lengths import LENGTHS_ROW, HourLengths, HourRows
from storage.format.level import FOUNDED, LEVELS, has
from storage.format.rows import Corrupt, FormatRefused
from storage.lmdb.table import open_value, seal_value
from storage.tables.registry import ABOUT

VERSIONS: Final = (1, 3)
"""Oldest and newest version of the record that this build reads. Each level so far has its own version."""
_KEY: Final = b"checkpoint"
_WHERE: Final = "catalog, checkpoint record"
_HEAD: Final = struct.Struct("<HHIQQqqQqQQH")
_TAIL: Final = struct.Struct("<HHHHII")
_DOUBT: Final = struct.Struct("<qQQQ")
assert (_HEAD.size, _TAIL.size, _DOUBT.size) == (74, 16, 32)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecord:
    """The moment of one checkpoint.

    - `applied_index`, `applied_term`: of the last applied entry. `max_now_ms`: the newest time in any entry.
    - `tick`, `local_index`: the dispatch state. `state_applied_index`: what the leader had applied when it proposed
      this state.
    - `hours`: HourLengths by hour. `rolling_hash`: of all applied entries and what they wrote.
    - `catalog_count`, `catalog_hash`: number and hash of the catalog's rows, filled in by its commit.
    - `level`: the newest version of entries that all members read.
    - `hash_version`: the rule by which `rolling_hash` was made.
    """

    applied_index: int
    applied_term: int
    tick: int
    local_index: int
    state_applied_index: int
    max_now_ms: int
    rolling_hash: bytes = b""
    hours: Mapping[int, HourLengths] = field(default_factory=dict)
    catalog_count: int = 0
    catalog_hash: int = 0
    level: int = FOUNDED
    hash_version: int = 1
    doubt: Doubt = NO_DOUBT

    @property
    def version(self) -> int:
        """The version of the bytes, which depends on the level. All builds that a cluster of this level may run can
        read it."""
        if has(self.level, "doubt"):
            return 3
        return 1 if self.level == FOUNDED else 2

    def encode(self) -> bytes:
        """Return the row's bytes. The same record gives the same bytes."""
        head = _HEAD.pack(
            self.version,
            0,
            len(self.hours),
            self.applied_index,
            self.applied_term,
            self.tick,
            self.local_index,
            self.state_applied_index,
            self.max_now_ms,
            self.catalog_count,
            self.catalog_hash,
            len(self.rolling_hash),
        )
        tail = b""
        if self.version > 1:
            tail = _TAIL.pack(self.level, self.hash_version, LENGTHS_ROW.itemsize, 0, 0, 0)
        if self.version > 2:
            tail += _DOUBT.pack(self.doubt.until_ms, *self.doubt.ends, self.doubt.term)
        return head + self.rolling_hash + tail + HourRows.of(self.hours).rows.tobytes()

    @classmethod
    def decode(cls, data: bytes) -> "CheckpointRecord":
        """Read the record back. Raises FormatRefused for another version or unknown flags, Corrupt for a wrong
        length."""
        if len(data) < _HEAD.size:
            raise Corrupt(_WHERE, 0, "length", len(data), f"at least {_HEAD.size}")
        version, flags, hours, *numbers, hash_len = _HEAD.unpack_from(data)
        if not VERSIONS[0] <= version <= VERSIONS[1]:
            raise FormatRefused(_WHERE, "version", version, f"{VERSIONS[0]} to {VERSIONS[1]}")
        if flags:
            raise FormatRefused(_WHERE, "flags", f"{flags:#06x}", "none")
        start, level, hash_version, doubt = _HEAD.size + hash_len, FOUNDED, 1, NO_DOUBT
        if version > 1:
            level, hash_version, start = _read_tail(data, start)
        if version > 2:
            doubt, start = _read_doubt(data, start)
        if len(data) != start + hours * LENGTHS_ROW.itemsize:
            raise Corrupt(_WHERE, 0, "length", len(data), start + hours * LENGTHS_ROW.itemsize)
        index, term, tick, local_index, state_index, max_now_ms, count, total = numbers
        return cls(
            applied_index=index,
            applied_term=term,
            tick=tick,
            local_index=local_index,
            state_applied_index=state_index,
            max_now_ms=max_now_ms,
            rolling_hash=data[_HEAD.size : _HEAD.size + hash_len],
            hours=HourRows(np.frombuffer(data, LENGTHS_ROW, offset=start)),
            catalog_count=count,
            catalog_hash=total,
            level=level,
            hash_version=hash_version,
            doubt=doubt,
        )


def _read_tail(data: bytes, at: int) -> tuple[int, int, int]:
    """Read the bytes of version 2, which begin at `at`. Return level, hash version, and where these bytes end."""
    end = at + _TAIL.size
    if len(data) < end:
        raise Corrupt(_WHERE, at, "length", len(data), f"at least {end}")
    level, hash_version, row_size, *reserved = _TAIL.unpack_from(data, at)
    if level > LEVELS[1]:
        raise FormatRefused(_WHERE, "level", level, f"{LEVELS[0]} to {LEVELS[1]}")
    if row_size != LENGTHS_ROW.itemsize or any(reserved):
        raise FormatRefused(_WHERE, "bytes per hour", f"{row_size}, reserved {reserved}", LENGTHS_ROW.itemsize)
    if level <= FOUNDED:
        raise Corrupt(_WHERE, at, "level", level, f"above {FOUNDED}")
    return level, hash_version, end


def _read_doubt(data: bytes, at: int) -> tuple[Doubt, int]:
    """Read the bytes of version 3, which begin at `at`. Return the doubt, and where the hours begin."""
    end = at + _DOUBT.size
    if len(data) < end:
        raise Corrupt(_WHERE, at, "length", len(data), f"at least {end}")
    until_ms, before, last, term = _DOUBT.unpack_from(data, at)
    return Doubt(until_ms, (before, last), term), end


NOTHING: Final = CheckpointRecord(
    applied_index=0, applied_term=0, tick=0, local_index=0, state_applied_index=0, max_now_ms=0, rolling_hash=bytes(16)
)
"""The record of a store before its first checkpoint."""


def read_checkpoint(transaction: "lmdb.Transaction[bytes]", about: "lmdb._Database") -> CheckpointRecord | None:
    """The record of this transaction, or None before the first checkpoint. Raises Corrupt or FormatRefused."""
    stored = transaction.get(_KEY, db=about)
    return None if stored is None else CheckpointRecord.decode(open_value(ABOUT, _KEY, stored))


def write_checkpoint(transaction: "lmdb.Transaction[bytes]", about: "lmdb._Database", record: CheckpointRecord) -> None:
    """Put the record into the transaction that writes the catalog's changes."""
    transaction.put(_KEY, seal_value(ABOUT, _KEY, record.encode()), db=about)
