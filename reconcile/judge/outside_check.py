"""Compares consumers' receipts and producers' acknowledgements with the records of one bucket.

Every row given ends in exactly one class, and the report's counts add up to the rows that were read:

| class | of a receipt | of an acknowledgement |
|---|---|---|
| matched | names a message that is there | the message is there |
| duplicate_row | the same in all that it says as another row | the same |
| unknown_id | names no message, though its hour is within the window | the message is lost (`not_found`) |
| outside_window | names none, and its hour may have been unlinked: nothing follows | the same |
| refused | its consumer did not take the message (`status`, not 2xx) | - |
| malformed | its id is none | the same |

The last two are told apart when the files are read (outside_records.py), the others here.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ledger.bucket import RECEIPT, Bucket
from ledger.columns import LEDGER, Columns, Lost, MessageClass, empty_columns
from reconcile.files.ids import id_column
from reconcile.files.read_rows import Rows
from reconcile.output.tables import UNMATCHED_SCHEMA
from storage.format.position import HOUR_MS, INDEX_BITS
from storage.format.rows import UNIT_MOVED, take_rows

MATCHED: Final = "matched"
DUPLICATE_ROW: Final = "duplicate_row"
UNKNOWN_ID: Final = "unknown_id"
OUTSIDE_WINDOW: Final = "outside_window"
REFUSED: Final = "refused"
MALFORMED: Final = "malformed"
CLASSES: Final = (MATCHED, DUPLICATE_ROW, UNKNOWN_ID, OUTSIDE_WINDOW, REFUSED, MALFORMED)

RECEIPTS, ACKNOWLEDGED = "receipts", "acknowledged"


@dataclass(frozen=True, slots=True)
class Testimony:
    """What was said of one bucket: `receipts` are those that matched, `counts` rows by (source, class)."""

    receipts: Rows
    never_found: Rows
    unmatched: pa.Table
    counts: dict[tuple[str, str], int] = field(default_factory=dict)


def weigh(bucket: Bucket, receipts: Rows, acknowledged: Rows, from_ms: int) -> Testimony:
    """Holds RECEIPT rows of either kind against the bucket. Before `from_ms` what is missing may have been unlinked."""
    counts: dict[tuple[str, str], int] = {}
    missing = OUTSIDE_WINDOW if (bucket.hour + 1) * HOUR_MS <= from_ms else UNKNOWN_ID
    matched, unmatched = _weighed(bucket, receipts, RECEIPTS, missing, counts)
    _, never_found = _weighed(bucket, acknowledged, ACKNOWLEDGED, missing, counts)
    tables = [
        _table(bucket.group, rows, source, missing)
        for rows, source in ((unmatched, RECEIPTS), (never_found, ACKNOWLEDGED))
    ]
    lost = never_found if missing == UNKNOWN_ID else never_found[:0]
    return Testimony(matched, lost, pa.concat_tables(tables), counts)


def lost_messages(rows: Rows) -> Columns:
    """Messages that were acknowledged and are in no node's hours, as rows of the ledger."""
    columns = empty_columns(LEDGER, len(rows))
    columns["home"], columns["random"] = rows["home"].copy(), rows["random"].copy()
    columns["class"][:] = MessageClass.LOST
    columns["lost"][:] = Lost.NOT_FOUND
    return columns


def _weighed(
    bucket: Bucket, rows: Rows, source: str, missing: str, counts: dict[tuple[str, str], int]
) -> tuple[Rows, Rows]:
    """(rows that name a message of the bucket, rows that do not), each once; counted by class."""
    fields = ("home", "random") if source == ACKNOWLEDGED else ("home", "random", "term", "attempt", "at_ms")
    once = _once(rows, fields)
    known = _known(bucket, once)
    matched, unmatched = take_rows(once, np.flatnonzero(known)), take_rows(once, np.flatnonzero(~known))
    for name, count in ((DUPLICATE_ROW, len(rows) - len(once)), (MATCHED, len(matched)), (missing, len(unmatched))):
        if count:
            counts[source, name] = counts.get((source, name), 0) + count
    return matched, unmatched


def _once(rows: Rows, fields: tuple[str, ...]) -> Rows:
    """Each row once, of those that are equal in these fields, in order of home."""
    if len(rows) < 2:
        return rows
    ranked = take_rows(rows, np.lexsort([rows[name] for name in reversed(fields)]))
    fresh = np.zeros(len(ranked), np.bool_)
    fresh[0] = True
    for name in fields:
        fresh[1:] |= ranked[name][1:] != ranked[name][:-1]
    return take_rows(ranked, np.flatnonzero(fresh))


def _known(bucket: Bucket, rows: Rows) -> npt.NDArray[np.bool_]:
    """Whether each row names a message born in the bucket, its random bits included where they are on record."""
    origin = np.uint64(bucket.hour << INDEX_BITS | bucket.first)
    there = (rows["home"] >= origin) & (rows["home"] < origin + np.uint64(len(bucket.units)))
    at = np.where(there, rows["home"] - origin, np.uint64(0)).astype(np.int64)
    if not len(bucket.units):
        return there
    there &= (bucket.units["kind"][at] != 0) & (bucket.units["flags"][at] & np.uint32(UNIT_MOVED) == 0)
    if bucket.headers is not None:
        there &= (bucket.headers["random"][at] == rows["random"]) | (bucket.headers["size"][at] == 0)
    return there


def _table(group: int, rows: Rows, source: str, name: str) -> pa.Table:
    return pa.Table.from_arrays(
        [
            id_column(group, rows["home"].copy(), rows["random"].copy()),
            pa.array([source] * len(rows), pa.string()),
            pa.array([name] * len(rows), pa.string()),
            pa.array(rows["at_ms"], pa.int64()),
            pa.array(rows["term"].astype(np.int64)),
            pa.array(rows["attempt"].astype(np.int32)),
        ],
        schema=UNMATCHED_SCHEMA,
    )


assert RECEIPT.itemsize % 8 == 0, "rows are joined and taken as words"
