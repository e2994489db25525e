"""Receipts of consumers and acknowledgements to producers, as files: read by Spark, brought to their buckets.

One row a receipt, in Parquet, JSON (an object a line) or CSV with a header, by the file's suffix; `.gz` and the like
may follow; a directory is read by what is in it. What `hourwheel listen --log` writes is read as it is.

| column | | |
|---|---|---|
| `id` | needed | the message's id |
| `at_ms`, `received_ms` or `at` | optional | when: Unix ms, or RFC 3339 (in Parquet a timestamp) |
| `term`, `attempt` | optional | the hand-over: headers Hourwheel-Term, Hourwheel-Attempt |
| `status` | optional | what the consumer answered: only 2xx is a receipt |

Other columns are passed over. A row whose id is none counts as malformed, and so does a line that cannot be read.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledger.bucket import RECEIPT
from reconcile.files.ids import decode_ids
from reconcile.files.problem import DataRefused
from reconcile.files.read_rows import Rows
from reconcile.judge.outside_check import MALFORMED, REFUSED
from reconcile.judge.shuffle import Piece, scatter
from storage.format.rows import join_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_FORMATS: Final = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".ndjson": "json",
    ".jsonl": "json",
    ".log": "json",
}
_PACKED: Final = (".gz", ".bz2", ".zst", ".snappy", ".lz4")
_COLUMNS: Final = ("id", "at_ms", "received_ms", "at", "term", "attempt", "status")
_ROWS_MAX: Final = 1 << 21
"""Rows that a task holds before it writes them: 64 MB."""
_EXAMPLES_MAX: Final = 5
_RESULT: Final = "kind string, text string, hour long, number long, first long, count long, from_ms long, until_ms long"


@dataclass(slots=True)
class Said:
    """What was read: `rows` in all; `counts` of those that went no further, by class; the times they bear."""

    rows: int = 0
    pieces: list[Piece] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)
    from_ms: int = 0
    until_ms: int = 0


def read_said(spark: "SparkSession | None", paths: Sequence[Path], source: str, scratch: Path, group: int) -> Said:
    """Reads files of receipts or acknowledgements and brings their rows to the buckets (`Said.pieces`).

    Raises DataRefused: a path that is not there, of no known format, or without a column `id`.
    """
    said = Said()
    assert spark is not None or not paths, "files of receipts are read by Spark"
    for path in paths:
        assert spark is not None
        frame = _frame(spark, path)

        def each(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return _bring(batches, scratch, source, group)

        _add(said, frame.mapInArrow(each, _RESULT))
    return said


def _format(path: Path) -> str:
    name = path.name
    for packed in _PACKED:
        name = name.removesuffix(packed)
    known = _FORMATS.get(Path(name).suffix.lower())
    if known is None and path.is_dir():
        inside = [child for child in sorted(path.iterdir()) if not child.name.startswith((".", "_"))]
        known = _format(inside[0]) if inside else None
    if known is None:
        raise DataRefused(f"{path}: not a format that is read; give {', '.join(_FORMATS)}, perhaps packed (.gz)")
    return known


def _frame(spark: "SparkSession", path: Path) -> "DataFrame":
    """The columns that count, as id text, at_ms, term, attempt, status numbers; null for what is not there."""
    from pyspark.sql import functions as F

    if not path.exists():
        raise DataRefused(f"{path}: there is no such file")
    kind, where = _format(path), path.absolute().as_uri()
    if kind == "json":
        texts = ", ".join(f"{name} string" for name in _COLUMNS)
        frame = spark.read.schema(texts).json(where)
    elif kind == "csv":
        frame = spark.read.csv(where, header=True)
    else:
        frame = spark.read.parquet(where)
    there = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    if "id" not in there:
        raise DataRefused(f"{path}: has no column id, but {', '.join(sorted(there)) or 'none'}")
    at = [_time(F.col(name), there[name]) for name in ("at_ms", "received_ms", "at") if name in there]
    at.append(F.lit(None).cast("long"))
    numbers = [
        (F.col(name).try_cast("long") if name in there else F.lit(None).cast("long")).alias(name)
        for name in ("term", "attempt", "status")
    ]
    return frame.select(F.col("id").cast("string").alias("id"), F.coalesce(*at).alias("at_ms"), *numbers)


def _time(column: "Column", kind: str) -> "Column":
    """A moment as Unix ms: from a timestamp, a number of ms, or text that is either; null if it is none."""
    from pyspark.sql import functions as F

    if kind.startswith("timestamp"):
        return F.unix_millis(column.cast("timestamp"))
    number = column.try_cast("double").try_cast("long")
    return F.coalesce(number, F.unix_millis(column.try_cast("timestamp"))) if kind == "string" else number


def _bring(batches: Iterable[pa.RecordBatch], scratch: Path, source: str, group: int) -> Iterator[pa.RecordBatch]:
    """Scatters the rows of one partition; a result row for each piece, class, example, and one of the times."""
    kept: list[Rows] = []
    counts = {MALFORMED: 0, REFUSED: 0}
    examples: list[str] = []
    total = held = from_ms = until_ms = 0
    for batch in batches:
        rows, malformed, refused, bad = receipt_rows(batch, group)
        total += len(batch)
        counts[MALFORMED] += malformed
        counts[REFUSED] += refused
        examples += bad[: _EXAMPLES_MAX - len(examples)]
        kept.append(rows)
        held += len(rows)
        at = rows["at_ms"][rows["at_ms"] > 0]
        if len(at):
            from_ms = min(from_ms or int(at.min()), int(at.min()))
            until_ms = max(until_ms, int(at.max()))
        if held >= _ROWS_MAX:
            yield _pieces(scatter(join_rows(kept, RECEIPT), scratch, source))
            kept, held = [], 0
    yield _pieces(scatter(join_rows(kept, RECEIPT), scratch, source))
    told = [("rows", "", total), *(("class", name, count) for name, count in counts.items() if count)]
    told += [("example", text, 1) for text in examples]
    yield _result([(kind, text, 0, 0, 0, count, 0, 0) for kind, text, count in told])
    yield _result([("times", "", 0, 0, 0, 0, from_ms, until_ms)])


def receipt_rows(batch: pa.RecordBatch, group: int) -> tuple[Rows, int, int, list[str]]:
    """(RECEIPT rows, malformed, refused, ids of some malformed) of a batch id, at_ms, term, attempt, status."""
    homes, randoms, sound = decode_ids(batch.column("id"), group)
    status = batch.column("status")
    taken = pc.fill_null(pc.and_(pc.greater_equal(status, 200), pc.less(status, 300)), True)
    accepted = taken.to_numpy(zero_copy_only=False)
    rows = np.zeros(int(np.count_nonzero(sound & accepted)), RECEIPT)
    chosen = sound & accepted
    rows["home"], rows["random"] = homes[chosen], randoms[chosen]
    for name, most in (("at_ms", (1 << 62)), ("term", (1 << 32) - 1), ("attempt", (1 << 16) - 1)):
        values = pc.fill_null(batch.column(name), 0).to_numpy(zero_copy_only=False)[chosen]
        rows[name] = np.where((values >= 0) & (values <= most), values, 0)
    wrong = np.flatnonzero(~sound)
    examples = [str(batch.column("id")[row].as_py()) for row in wrong[:_EXAMPLES_MAX].tolist()]
    return rows, len(wrong), int(np.count_nonzero(sound & ~accepted)), examples


def _pieces(pieces: Sequence[Piece]) -> pa.RecordBatch:
    return _result([("piece", *piece, 0, 0) for piece in pieces])


def _result(rows: Sequence[tuple[str, str, int, int, int, int, int, int]]) -> pa.RecordBatch:
    names = [part.split()[0] for part in _RESULT.split(", ")]
    kinds = [pa.string(), pa.string(), *[pa.int64()] * 6]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return pa.record_batch([pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)], names)


def _add(said: Said, frame: "DataFrame") -> None:
    for kind, text, hour, number, first, count, from_ms, until_ms in frame.collect():
        if kind == "piece":
            said.pieces.append(Piece(text, hour, number, first, count))
        elif kind == "rows":
            said.rows += count
        elif kind == "class":
            said.counts[text] = said.counts.get(text, 0) + count
        elif kind == "example":
            said.examples = [*said.examples, text][:_EXAMPLES_MAX]
        elif from_ms:
            said.from_ms = min(said.from_ms or from_ms, from_ms)
            said.until_ms = max(said.until_ms, until_ms)
