"""Rows that have to reach the bucket of their message, wherever they were read: what Spark would call a shuffle.

Nearly all records stand where they are wanted: an hour's files hold its units and settle records, and the delivery
files of an hour its hand-overs. Those are read in place and never moved. The others (hand-overs of messages of another
hour, what consumers and producers say) are few, or not ours; each task that meets some writes one file of them, sorted
by home, and says which of its rows belong to which bucket. The judging task of a bucket reads its pieces.

A file is rows of one structured type without a header: it lives as long as the job, in the job's own directory.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from ledger.bucket import BUCKET_UNITS
from storage.format.array import U64
from storage.format.position import INDEX_BITS, hours_of, indexes_of
from storage.format.rows import join_rows, take_rows

BUCKET_BITS: Final = BUCKET_UNITS.bit_length() - 1
assert 1 << BUCKET_BITS == BUCKET_UNITS

Rows = npt.NDArray[np.void]


class Piece(NamedTuple):
    """Rows first .. first + rows of a file, all of one bucket: `number` is the bucket's place in its hour."""

    path: str
    hour: int
    number: int
    first: int
    rows: int


def buckets_of(homes: U64) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(hour, number of the bucket in it) of each home, [n] each."""
    return hours_of(homes), indexes_of(homes) >> BUCKET_BITS


def scatter(rows: Rows, directory: Path, name: str) -> list[Piece]:
    """Writes rows, which have a field `home`, to a new file in `directory`, sorted by home; equal ones stay in order.

    A task that runs twice writes two files; only the pieces that its successful run returned are ever read.
    """
    if not len(rows):
        return []
    ranked = take_rows(np.ascontiguousarray(rows), np.argsort(rows["home"], kind="stable"))
    path = directory / f"{name}-{uuid4().hex}.rows"
    ranked.tofile(path)
    places = ranked["home"] >> np.uint64(BUCKET_BITS)
    starts = np.flatnonzero(np.concatenate(([True], places[1:] != places[:-1])))
    counts = np.diff(starts, append=len(ranked))
    shift = INDEX_BITS - BUCKET_BITS
    return [
        Piece(str(path), place >> shift, place & (1 << shift) - 1, start, count)
        for place, start, count in zip(places[starts].tolist(), starts.tolist(), counts.tolist(), strict=True)
    ]


def gather(pieces: Iterable[Piece], dtype: np.dtype[Any]) -> Rows:
    """The rows of these pieces, one after the other."""
    parts = []
    for piece in pieces:
        offset = piece.first * dtype.itemsize
        rows = np.fromfile(piece.path, dtype, piece.rows, offset=offset)
        assert len(rows) == piece.rows, f"{piece.path} holds {len(rows)} of {piece.rows} rows"
        parts.append(rows)
    return join_rows(parts, dtype)


def by_bucket(pieces: Iterable[Piece]) -> dict[tuple[int, int], list[Piece]]:
    """Pieces by (hour, number of the bucket)."""
    found: dict[tuple[int, int], list[Piece]] = {}
    for piece in pieces:
        found.setdefault((piece.hour, piece.number), []).append(piece)
    return found
