"""The tables of an output directory, row by row, for programs that may not know Arrow: a few thousand rows at most."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from reconcile.output.directory import DUPLICATES_TABLE


def duplicates(out: Path) -> Iterator[dict[str, Any]]:
    """Every row of `out`/duplicates as a dict by column, in order of files and rows."""
    for path in sorted((out / DUPLICATES_TABLE).glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches():
                yield from batch.to_pylist()
