"""Messages that may be one message scheduled twice: equal in all that a producer sets, within a minute of each other.

A producer that did not hear the answer schedules again. With a key the second message is caught. Without one it becomes
a message of its own. Equal messages have the same topic, due time asked for and tags, and CRC and lengths of the
payload (headers, content type, target, body ...).

Two cases are not counted:
- Messages of one entry have one time of creation. A client that puts the same body into a batch twice means it.
- If more than 16 messages are equal (CROWD), their producer sends equal messages on purpose.

Units of an hour stand in order of creation. So messages that are equal to one of a bucket stand in that bucket or
shortly before it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ledger.bucket import TWIN, Rows
from ledger.by_message import lift
from storage.format.array import I64, U64
from storage.format.position import INDEX_BITS
from storage.format.rows import UNIT_MOVED

CROWD: Final = 16
"""If more messages than this are equal, none of them counts as scheduled twice."""

_BINS_MAX: Final = 22
_DUE, _CRC, _TOPIC, _BODY = (
    np.array(odd, np.uint64) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F)
)
"""Odd factors without a pattern, one for each part of a message. They make it unlikely that different parts add up to
the same sum."""
_LENGTHS: Final = ("tags_len", "headers_len", "content_type_len", "target_len", "order_key_len", "extension_len")


class ScheduledTwice(NamedTuple):
    """The k messages that repeat an earlier one, [k] each."""

    home: U64
    other: U64  # home of the newest equal message that was scheduled before it
    other_ms: I64  # when `other` was first handed over, 0: never


def twin_rows(hour: int, first: int, units: Rows, headers: Rows) -> Rows:
    """TWIN rows of n units of an hour, [n]. Row i is of the unit first + i. Its likeness is a hash of all that equal
    messages have in common. It is 0 for messages that cannot be repeats: born elsewhere, with a key, or not
    readable."""
    rows = np.zeros(len(units), TWIN)
    flags, tags = lift(units, ["flags", "tags"])
    topic, asked_due_ms, crc, body_len, key_len, size, created_ms = lift(
        headers, ["topic", "asked_due_ms", "payload_crc", "body_len", "key_len", "size", "created_ms"]
    )
    likeness: U64 = (asked_due_ms.view(np.uint64) * _DUE + crc * _CRC).astype(np.uint64, copy=False)
    likeness += (topic * _TOPIC + body_len * _BODY).astype(np.uint64, copy=False)
    likeness = _mixed(likeness)
    if tags.any():
        likeness = _mixed(likeness ^ tags)
    lengths = lift(headers, _LENGTHS)
    if any(column.any() for column in lengths):
        for column in lengths:
            likeness = _mixed(likeness ^ column)
    likeness[(flags & np.uint32(UNIT_MOVED) > 0) | (key_len > 0) | (size == 0)] = 0
    rows["home"] = np.uint64(hour << INDEX_BITS | first) + np.arange(len(units), dtype=np.uint64)
    rows["likeness"], rows["created_ms"] = likeness, created_ms
    return rows


def find_twins(before: Rows, rows: Rows, within_ms: int) -> ScheduledTwice:
    """Find the messages of `rows` that repeat a message created at most `within_ms` before them. That earlier message
    is in `rows`, or in `before`, whose homes are all lower."""
    if not len(rows):
        return ScheduledTwice(np.zeros(0, np.uint64), np.zeros(0, np.uint64), np.zeros(0, np.int64))
    parts = [lift(part, ["likeness", "created_ms", "home", "first_ms"]) for part in (before, rows)]
    likeness, created_ms, home, first_ms = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    some = _crowded(likeness)
    order = some[np.lexsort((home[some], created_ms[some], likeness[some]))]
    likeness, created_ms, home, first_ms = likeness[order], created_ms[order], home[order], first_ms[order]
    if not len(home):
        return ScheduledTwice(home, home, first_ms)
    alike = _run_starts(likeness[1:] != likeness[:-1])
    entry = _run_starts((likeness[1:] != likeness[:-1]) | (created_ms[1:] != created_ms[:-1]))
    other = entry - 1  # the last message of the entry before, unless it is of another likeness
    size = np.bincount(alike, minlength=len(alike))[alike]
    repeats = (entry > alike) & (created_ms - created_ms[other] <= within_ms) & (size <= CROWD)
    if len(before):
        repeats &= home >= rows["home"][0]
    found = np.flatnonzero(repeats)
    found = found[np.argsort(home[found])]
    return ScheduledTwice(home[found], home[other[found]], first_ms[other[found]])


def _crowded(likeness: U64) -> npt.NDArray[np.intp]:
    """Return the rows that may have an equal row, because their likeness begins with the same bits as that of another
    row. Most rows are left out, and need not be sorted."""
    some = np.flatnonzero(likeness)
    bits = min(_BINS_MAX, max(8, int(4 * len(some)).bit_length()))
    bins = (likeness[some] >> np.uint64(64 - bits)).view(np.int64)
    return some[np.bincount(bins)[bins] > 1]


def _run_starts(begins: npt.NDArray[np.bool_]) -> I64:
    """For each of n rows the index of the first row of its run, [n]. `begins` [n - 1] is about the rows from the second
    on. It is True for a row that begins a run."""
    starts = np.zeros(len(begins) + 1, np.int64)
    starts[1:] = np.flatnonzero(np.concatenate([[True], begins]))[np.cumsum(begins)]
    return starts


def _mixed(numbers: U64) -> U64:
    """Hash each number, so that each of its bits changes all 64 bits of the result (the last step of splitmix64)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: U64 = numbers ^ (numbers >> np.uint64(31))
    return mixed
