"""A slice: the rows of one file that one task reads, and how they become Arrow batches.

What is not as written in any copy fails the task, unless the reader said that it may be left out: a table that silently
has fewer rows than the files would make every count over it wrong. Zeros that a power cut left in a delivery log are
known gaps and fail nothing; table `problems` has them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from reconcile.files.deliveries import delivery_blocks, hand_overs, term_records
from reconcile.files.find import DeliverySource
from reconcile.files.hour import read_headers, read_units, settle_blocks
from reconcile.files.inventory import HourPart, Inventory
from reconcile.files.problem import UNWRITTEN, DataRefused, Problem
from reconcile.spark.arrow import (
    DELIVERY_COLUMNS,
    HEADER_COLUMNS,
    MESSAGE_COLUMNS,
    SETTLEMENT_COLUMNS,
    TERM_COLUMNS,
    DeliveryRows,
    Rows,
    SettleRows,
    UnitRows,
    batch,
)
from storage.format.rows import take_rows

SLICE_ROWS: Final = 1 << 20
"""Rows of one task: 64 MiB of units."""
BATCH_ROWS: Final = 1 << 16
"""Rows of one Arrow batch."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows `first` .. `first + count` of one file of a table: of an hour's index, of its settle file, of a delivery
    file. `first` is an ordinal in the file, for units too."""

    table: str
    source: HourPart | DeliverySource
    first: int
    count: int

    @property
    def hour(self) -> int:
        """The hour in the file's name."""
        return self.source.hour


class RowsDamaged(Exception):
    """Rows are not as written in any copy that was given, and nobody said to leave them out."""


def row_counts(inventory: Inventory, table: str) -> dict[str, tuple[HourPart | DeliverySource, int]]:
    """(source, rows) by the name of each file of a table; the name is the same on all nodes that have a copy."""
    if table in ("messages", "settlements"):
        return {
            f"{part.hour}/{part.first}": (part, part.units if table == "messages" else part.settles)
            for part in inventory.hours
        }
    return {
        f"{source.node}/{source.store}/{source.hour}-{source.sequence}": (source, source.rows)
        for source in inventory.deliveries
    }


def slices_of(table: str, source: HourPart | DeliverySource, first: int, end: int) -> list[Slice]:
    """Rows first .. end of one file, cut for tasks."""
    return [Slice(table, source, at, min(SLICE_ROWS, end - at)) for at in range(first, end, SLICE_ROWS)]


def read_slice(piece: Slice, columns: Sequence[str], leave_out_damaged: bool) -> Iterator[pa.RecordBatch]:
    """The slice's rows as Arrow batches. Raises RowsDamaged."""
    for rows, problems in _READERS[piece.table](piece, columns):
        lost = [problem for problem in problems if problem.kind != UNWRITTEN]
        if lost and not leave_out_damaged:
            named = "; ".join(f"{problem.node} {problem.file}: {problem.what}" for problem in lost)
            raise RowsDamaged(f"{named}. Option damaged=skip leaves them out, table problems lists them")
        yield rows


def problem_batch(problems: Sequence[Problem]) -> pa.RecordBatch:
    """Problems as rows of their table."""
    columns = list(zip(*problems, strict=True)) if problems else [()] * len(Problem._fields)
    kinds = [pa.string()] * 4 + [pa.int64()]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, list(Problem._fields))


def slice_problems(piece: Slice) -> list[Problem]:
    """All that is wrong with the rows of a slice, damaged copies with intact ones beside them included."""
    if piece.table == "deliveries":
        blocks = delivery_blocks(_file(piece), piece.first, piece.count)
        return [problem for block in blocks for problem in block.problems]
    part = _part(piece)
    if piece.table == "settlements":
        return [problem for block in settle_blocks(part, piece.first, piece.count) for problem in block.problems]
    units = read_units(part, part.first + piece.first, piece.count)
    return [*units.problems, *read_headers(part, units.rows).problems]


Read = tuple[pa.RecordBatch, Sequence[Problem]]


def _messages(piece: Slice, columns: Sequence[str]) -> Iterator[Read]:
    part = _part(piece)
    with_headers = not HEADER_COLUMNS.isdisjoint(columns)
    for at in range(piece.first, piece.first + piece.count, BATCH_ROWS):
        read = read_units(part, part.first + at, min(BATCH_ROWS, piece.first + piece.count - at))
        units, headers, problems = read.rows, None, _whole_nowhere(read.unreadable, read.problems)
        good = units["kind"] != 0
        if with_headers:
            found = read_headers(part, units)
            problems += _whole_nowhere(found.unreadable, found.problems)
            good &= found.rows["size"] != 0
            headers = _only(found.rows, good)
        yield batch(columns, MESSAGE_COLUMNS, UnitRows(part.hour, _only(units, good), headers)), problems


def _settlements(piece: Slice, columns: Sequence[str]) -> Iterator[Read]:
    part, first = _part(piece), piece.first
    for read in settle_blocks(part, piece.first, piece.count):
        ordinals = np.arange(first, first + len(read.rows))
        first += len(read.rows)
        good = read.rows["what"] != 0
        for at in range(0, len(read.rows), BATCH_ROWS):
            piece_of = slice(at, at + BATCH_ROWS)
            kept = good[piece_of]
            rows = SettleRows(part.hour, ordinals[piece_of][kept], _only(read.rows[piece_of], kept))
            problems = _whole_nowhere(read.unreadable, read.problems) if not at else []
            yield batch(columns, SETTLEMENT_COLUMNS, rows), problems


def _deliveries(piece: Slice, columns: Sequence[str]) -> Iterator[Read]:
    source = _file(piece)
    for read in delivery_blocks(source, piece.first, piece.count):
        rows = hand_overs(read.rows)
        for at in range(0, max(1, len(rows)), BATCH_ROWS):
            shown = DeliveryRows(source.node, rows[at : at + BATCH_ROWS])
            yield batch(columns, DELIVERY_COLUMNS, shown), read.problems if not at else ()


def _terms(piece: Slice, columns: Sequence[str]) -> Iterator[Read]:
    """A term's records are the first and the last of a file, nowhere else (storage/file/delivery_file.py): two are
    read."""
    source = _file(piece)
    for at in sorted({piece.first, piece.first + piece.count - 1}):
        for read in delivery_blocks(source, at, 1):
            yield batch(columns, TERM_COLUMNS, DeliveryRows(source.node, term_records(read.rows))), read.problems


_READERS: Final[dict[str, Callable[[Slice, Sequence[str]], Iterator[Read]]]] = {
    "messages": _messages,
    "settlements": _settlements,
    "deliveries": _deliveries,
    "terms": _terms,
}


def _whole_nowhere(unreadable: int, problems: Sequence[Problem]) -> list[Problem]:
    """The problems, if any row is whole in no copy: one that is whole in another is read from there."""
    return list(problems) if unreadable else []


def _only(rows: Rows, good: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> Rows:
    return rows if good.all() else take_rows(rows, np.flatnonzero(good))


def _part(piece: Slice) -> HourPart:
    if not isinstance(piece.source, HourPart):
        raise DataRefused(f"table {piece.table} is not in delivery files")
    return piece.source


def _file(piece: Slice) -> DeliverySource:
    if not isinstance(piece.source, DeliverySource):
        raise DataRefused(f"table {piece.table} is not in hours")
    return piece.source
