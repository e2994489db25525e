"""The tables of an output directory as the ledger's columns again: codes for words, homes as they are.

For whoever compares a reconciliation with what was planted, or with what the API says, a million rows at a time.
"""

from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from ledger.columns import (
    CAUSE_WORDS,
    CLASS_WORDS,
    DUPLICATES,
    LATE_WORDS,
    LEDGER,
    LOST_WORDS,
    Columns,
    MessageClass,
    word,
)
from reconcile.output.directory import DUPLICATES_TABLE, LEDGER_TABLE
from reconcile.output.tables import MODE_WORDS

_WORDS: Final = {
    "class": CLASS_WORDS,
    "late_cause": LATE_WORDS,
    "lost": LOST_WORDS,
    "cause": CAUSE_WORDS,
    "mode": MODE_WORDS,
}
_REMARKABLE: Final = (
    (pc.field("class") != word(MessageClass.DELIVERED_ONCE)) | (pc.field("flags") != 0) | (pc.field("hand_overs") != 1)
)


def ledger_columns(out: Path, *, remarkable: bool = False) -> Columns:
    """The ledger's rows, in order of home; with `remarkable` those of which there is more to say than delivered once.

    Memory is that of the rows asked for.
    """
    table = ds.dataset(out / LEDGER_TABLE, format="parquet").to_table(filter=_REMARKABLE if remarkable else None)
    return _by_home(_columns(table, LEDGER))


def duplicates_columns(out: Path) -> Columns:
    """All duplicates, in order of home and of (term, attempt)."""
    table = ds.dataset(out / DUPLICATES_TABLE, format="parquet").to_table()
    columns = _columns(table, DUPLICATES)
    order = np.lexsort((columns["attempt"], columns["term"], columns["home"]))
    return {name: column[order] for name, column in columns.items()}


def _columns(table: pa.Table, schema: dict[str, np.dtype[Any]]) -> Columns:
    return {
        name: _column(table.column("topic_number" if name == "topic" else name), name).astype(kind)
        for name, kind in schema.items()
    }


def _column(column: pa.ChunkedArray, name: str) -> npt.NDArray[Any]:
    words = _WORDS.get(name)
    if words is None:
        return column.fill_null(0).to_numpy()  # type: ignore[no-any-return]
    found = pc.index_in(column.cast(pa.string()), value_set=pa.array(words, pa.string()))
    return found.to_numpy()  # type: ignore[no-any-return]


def _by_home(columns: Columns) -> Columns:
    order = np.argsort(columns["home"], kind="stable")
    return {name: column[order] for name, column in columns.items()}
