"""Makes columns by message of the records of one bucket, for the quick rules of ledger/judge.py.

It also marks the messages that need the detailed rules (ledger/detailed.py). A settle record has 48 bytes, a record of
a hand-over 80. To read one field of a million such rows brings all their bytes from memory. So `lift` copies all wanted
fields of a block of rows while that block is in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ledger.bucket import Bucket, Rows
from storage.format.array import I64, U8, U16, U64
from storage.format.position import INDEX_BITS
from storage.format.rows import UNIT_MOVED
from storage.format.states import LEASED
from storage.record.delivery_record import END, START

_BLOCK: Final = 1 << 14
"""Rows that `lift` copies at a time: about a megabyte."""

_Bools = npt.NDArray[np.bool_]
_Ints = npt.NDArray[np.intp]


def lift(rows: Rows, names: Sequence[str], at: npt.NDArray[Any] | None = None) -> list[npt.NDArray[Any]]:
    """Return these fields as contiguous arrays, a list of one array for each name. They are of all rows, or of the rows
    with the given ordinals."""
    count = len(rows) if at is None else len(at)
    columns = [np.empty(count, rows.dtype[name]) for name in names]
    for start in range(0, count, _BLOCK):
        some = slice(start, start + _BLOCK)
        block = rows[some] if at is None else rows
        for column, name in zip(columns, names, strict=True):
            column[some] = block[name] if at is None else block[name][at[some]]
    return columns


@dataclass(frozen=True, slots=True)
class RecordsByMessage:
    """The records of a bucket's n units, as columns.

    Columns with one value for each unit have shape [n]. The other columns have one value for each record of a kind:
    settle records, starts of hand-overs, or ends of hand-overs. Those named `*_at` hold the row of the unit that each
    record names.
    """

    origin: int  # position of the first unit
    born: _Bools  # [n]: a message was born here; a unit that could not be read is zeros, and counts as none
    newest: I64  # [n] 1 + ordinal, in the columns that follow, of the unit's newest settle record; 0: none
    settles: _Ints  # rows of the bucket's settle records that name a unit of it
    settle_at: _Ints
    is_newest: _Bools  # of each: the newest of its unit
    settle_what: U8
    settle_name: U64  # the name of the hand-over, see name_of
    starts: _Ints  # rows of the bucket's deliveries
    start_at: _Ints
    ends: _Ints
    end_at: _Ints
    start_count: I64  # [n]
    received: I64  # [n]
    foreign: int  # records that name no message of the bucket
    beyond: int  # hand-overs and ends after the end of the settle records


def trail_of(bucket: Bucket, until_ms: int) -> RecordsByMessage:
    """Find the unit that each record of the bucket names. Hand-overs and their ends after `until_ms` are left out, and
    their number is `beyond` of the result."""
    count = len(bucket.units)
    flags, kind = lift(bucket.units, ["flags", "kind"])
    born = ((flags & np.uint32(UNIT_MOVED)) == 0) & (kind > 0)
    random = known = None
    if bucket.headers is not None:
        random, size = lift(bucket.headers, ["random", "size"])
        known = size > 0 if (size == 0).any() else None
    origin = bucket.hour << INDEX_BITS | bucket.first

    def named(home: U64, its_random: U64) -> tuple[_Ints, _Bools]:
        """Return two arrays, a value for each record. The first is the row of the unit that the record names. The
        second is True if this unit is a message born here, with these random bits."""
        at = (home - np.uint64(origin)).view(np.int64)
        within = (at >= 0) & (at < count)
        at = np.where(within, at, 0) if not within.all() else at
        if not count:
            return at, within
        within &= born[at]
        if random is not None:
            same = random[at] == its_random
            within &= same if known is None else same | ~known[at]
        return at, within

    home, its_random, kind, at_ms = lift(bucket.deliveries, ["home", "random", "kind", "at_ms"])
    at, good = named(home, its_random)
    counted = (kind == START) | (kind == END)
    late = counted & (at_ms > until_ms)  # also those of messages that are not among the records yet
    foreign = int(np.count_nonzero(counted & ~good & ~late))
    beyond = int(np.count_nonzero(late))
    if beyond:
        good &= ~late
    starts, ends = np.flatnonzero(good & (kind == START)), np.flatnonzero(good & (kind == END))
    start_at, end_at = at[starts], at[ends]
    home, its_random = lift(bucket.receipts, ["home", "random"])
    got, good = named(home, its_random)
    foreign += int(np.count_nonzero(~good))
    settles, settle_at, what, name, newest, unnamed = _settled(bucket, count)
    return RecordsByMessage(
        origin=origin,
        born=born,
        newest=newest,
        settles=settles,
        settle_at=settle_at,
        is_newest=newest[settle_at] == np.arange(1, len(settle_at) + 1),
        settle_what=what,
        settle_name=name,
        starts=starts,
        start_at=start_at,
        ends=ends,
        end_at=end_at,
        start_count=np.bincount(start_at, minlength=count),
        received=np.bincount(got[good], minlength=count),
        foreign=foreign + unnamed,
        beyond=beyond,
    )


def _settled(bucket: Bucket, count: int) -> tuple[_Ints, _Ints, U8, U64, I64, int]:
    """Return the rows of the settle records that name a unit of the bucket, and five facts about them.

    For each of these records: the row of its unit, its state, and the name of its hand-over (name_of). For each unit: 1
    + the ordinal of its newest record among these, 0 for none. Last comes the number of records that name no unit of
    the bucket. A row that could not be read is zeros, and is left out of everything.
    """
    global_index, what, term, attempt = lift(bucket.settles, ["global_index", "what", "term", "attempt"])
    name = name_of(term, attempt)
    at = global_index.view(np.int64) - bucket.first
    good = (at >= 0) & (at < count) & (what > 0)
    beyond = int(np.count_nonzero((what > 0) & ~good))
    rows = np.arange(len(at)) if good.all() else np.flatnonzero(good)
    if len(rows) < len(at):
        at, what, name = at[rows], what[rows], name[rows]
    newest = np.zeros(count, np.int64)
    newest[at] = np.arange(1, len(at) + 1)  # numpy assigns in order: the last record of a unit stays
    return rows, at, what, name, newest, beyond


@dataclass(frozen=True, slots=True)
class Newest:
    """The fields of the newest settle record at each message's home, [n] each. They are zero for a unit without a
    record."""

    what: U8
    name: U64
    at_ms: I64
    when: I64
    code: U16
    node: U16


def newest_of(bucket: Bucket, trail: RecordsByMessage) -> Newest:
    """Read the newest settle record of each unit. Records are read in the order of the file, and then written to the
    rows of their units. That reads memory faster than the order of units does."""
    newest = trail.is_newest
    at, rows = trail.settle_at[newest], trail.settles[newest]
    columns = lift(bucket.settles, ["at_ms", "when", "code", "node"], rows)
    columns += [trail.settle_what[newest], trail.settle_name[newest]]
    at_ms, when, code, node, what, name = (_spread(column, at, len(trail.newest)) for column in columns)
    return Newest(what, name, at_ms, when, code, node)


def _spread(column: npt.NDArray[Any], at: _Ints, count: int) -> npt.NDArray[Any]:
    full = np.zeros(count, column.dtype)
    full[at] = column
    return full


def storied(bucket: Bucket, trail: RecordsByMessage, newest: Newest) -> tuple[_Bools, _Bools]:
    """Return two boolean arrays, [n] each, which tell the quick rules which units have a longer history.

    The first is True for units with more settle records than two kinds: the newest one, and leases of the hand-over
    that it names. The second is True for units with more than one settle record. A message with settle records at
    positions other than its home is True in both.
    """
    count = len(bucket.units)
    more, several = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    older = np.flatnonzero(~trail.is_newest)
    at = trail.settle_at[older]
    several[at] = True
    other = (trail.settle_what[older] != LEASED) | (trail.settle_name[older] != newest.name[at])
    more[at[other]] = True
    abroad = (bucket.abroad["home"] - np.uint64(trail.origin)).view(np.int64)
    abroad = abroad[(abroad >= 0) & (abroad < count)]
    more[abroad] = several[abroad] = True
    return more, several


def name_of(term: npt.NDArray[np.uint32], attempt: U16) -> U64:
    """Return (term, attempt) as one number. It names a hand-over among those of its message. Such numbers are in order
    of term, then of attempt."""
    joined: U64 = term.astype(np.uint64) << np.uint64(16) | attempt
    return joined
