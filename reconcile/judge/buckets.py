"""The work of one bucket: read what is on record of a million messages, judge it, write its part of every table.

```
 units, settle records, record headers   the hour's files, the nodes' copies merged        -+
 hand-overs                              delivery files of that hour, and what is set aside  +-> judge -> ledger/
 places, records abroad, receipts,       set aside for this bucket (shuffle.py)             -+            duplicates/
 acknowledgements                                                                                         canonical/
                                                                                                          repairs/
```
Memory is that of one bucket, whatever there is in all: nothing is kept from one task to the next. An hour of several
buckets has its settle records and hand-overs read once for each; up to some ten millions an hour that costs less than
bringing them to their buckets would.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ledger.bucket import ABROAD, BUCKET_UNITS, PLACE, RECEIPT, TWIN, Bucket, Context
from ledger.columns import LEDGER, Columns, join_columns, take_columns
from ledger.judge import Ledger, judge
from ledger.scheduled_twice import twin_rows
from ledger.summary import Summary
from reconcile.files.copies import disputed
from reconcile.files.deliveries import delivery_blocks, hand_overs
from reconcile.files.find import DeliverySource
from reconcile.files.hour import read_headers, read_settles, read_units
from reconcile.files.inventory import HourPart, Span
from reconcile.files.problem import Problem
from reconcile.files.read_rows import Rows
from reconcile.judge.outside_check import lost_messages, weigh
from reconcile.judge.shuffle import Piece, gather
from reconcile.output.directory import (
    CANONICAL_TABLE,
    DUPLICATES_TABLE,
    LEDGER_TABLE,
    REPAIRS_TABLE,
    UNMATCHED_TABLE,
)
from reconcile.output.tables import (
    CANONICAL_SCHEMA,
    DUPLICATES_SCHEMA,
    LEDGER_SCHEMA,
    OPEN,
    Names,
    canonical_rows,
    repairs,
    to_table,
    write_parquet,
)
from reconcile.report.figures import Figures
from storage.format.position import INDEX_BITS, indexes_of
from storage.format.rows import SETTLE, UNIT, join_rows, take_rows
from storage.record.delivery_record import DELIVERY, START

GROUP: Final = 0
"""A data directory holds the one group there is."""
_BEFORE_ROWS: Final = 1 << 16
"""Units before a bucket that are read at a time, until they are too old to matter."""


class BucketTask(NamedTuple):
    """One bucket, and where what belongs to it stands. `part` None: no node has these units; there are only receipts
    and acknowledgements that name them.

    Rows set aside are those with owned_first <= global_index < owned_next: with that of its neighbours the hour's
    buckets own every number, so what names a unit that is not there is counted by exactly one of them.
    """

    part: HourPart | None
    span: Span
    owned_first: int
    owned_next: int
    sources: tuple[DeliverySource, ...] = ()
    strays: tuple[Piece, ...] = ()
    places: tuple[Piece, ...] = ()
    abroad: tuple[Piece, ...] = ()
    receipts: tuple[Piece, ...] = ()
    acknowledged: tuple[Piece, ...] = ()
    earlier: tuple[Piece, ...] = ()
    """Hand-overs set aside for the bucket before this one, whose messages may be twins of those here."""

    @property
    def name(self) -> str:
        """Of its files: the hour and the first unit."""
        return f"{self.span.hour}-{self.span.first:010d}.parquet"


@dataclass(frozen=True, slots=True)
class Setting:
    """What holds for all buckets of a job. `names` are those of topics, by number."""

    out: Path
    group: int
    context: Context
    names: Names


@dataclass(slots=True)
class BucketAnswer:
    """What became of one bucket; `said` counts receipts and acknowledgements by (source, class), `unreadable` rows that
    are whole in no copy by file, `repairs` by action."""

    name: str
    summary: Summary
    figures: Figures
    hand_overs: int = 0
    foreign: int = 0
    unreadable: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    said: dict[tuple[str, str], int] = field(default_factory=dict)
    repairs: dict[str, int] = field(default_factory=dict)
    open: bool = False
    """Whether it has messages that are not settled."""
    rows: dict[str, int] = field(default_factory=dict)


def reckon(task: BucketTask, setting: Setting) -> BucketAnswer:
    """Judges one bucket and writes its files below `setting.out`; the same records give the same files."""
    answer = BucketAnswer(task.name, Summary(), Figures())
    bucket = read_bucket(task, setting, answer)
    said = weigh(bucket, _owned(task, task.receipts), _owned(task, task.acknowledged), setting.context.from_ms)
    found = judge(replace(bucket, receipts=said.receipts), setting.context)
    ledger = replace(found, messages=_with_lost(found.messages, said.never_found))
    answer.hand_overs = len(bucket.deliveries)
    answer.foreign = found.foreign
    answer.said = said.counts
    answer.summary = Summary.of(ledger)
    answer.open = any(answer.summary.classes.get(kind) for kind in OPEN)
    answer.figures = Figures.of(ledger, setting.context.terms)
    del bucket, found
    _write(task.name, setting, ledger, said.unmatched, answer)
    return answer


def _with_lost(messages: Columns, never_found: Rows) -> Columns:
    """The ledger with the messages that no hour has, in order of home."""
    if not len(never_found):
        return messages
    joined = join_columns([messages, lost_messages(never_found)], LEDGER)
    return take_columns(joined, np.argsort(joined["home"], kind="stable"))


def _owned(task: BucketTask, pieces: tuple[Piece, ...], dtype: np.dtype[Any] = RECEIPT) -> Rows:
    """Of rows set aside those that this bucket owns."""
    rows = gather(pieces, dtype)
    at = indexes_of(rows["home"])
    inside = (at >= task.owned_first) & (at < task.owned_next)
    return rows if inside.all() else take_rows(rows, np.flatnonzero(inside))


def read_bucket(task: BucketTask, setting: Setting, answer: BucketAnswer) -> Bucket:
    """All that is on record of the bucket's messages but receipts; what could not be read goes into the answer."""
    span, part = task.span, task.part
    if part is None:
        none = (np.empty(0, UNIT), np.empty(0, SETTLE), None, np.empty(0, DELIVERY))
        return Bucket(setting.group, span.hour, span.first, *none)
    units, settles = read_units(part, span.first, span.count), read_settles(part, span.first, span.count)
    headers = read_headers(part, units.rows)
    for name, read in (("units", units), ("settles", settles), ("headers", headers)):
        answer.unreadable[name] = read.unreadable
        answer.problems += read.problems
    before = read_before(part, span.first, setting.context.twins_ms, headers.rows)
    deliveries, earlier = read_hand_overs(task, len(before))
    _mark_handed(before, earlier)
    return Bucket(
        setting.group,
        span.hour,
        span.first,
        units.rows,
        settles.rows,
        headers.rows,
        deliveries,
        places=_owned(task, task.places, PLACE),
        abroad=_owned(task, task.abroad, ABROAD),
        before=before,
        disputed=disputed(part, span),
    )


def read_before(part: HourPart, first: int, within_ms: int, headers: Rows) -> Rows:
    """TWIN rows of the units before `first` that were created within `within_ms` of the first one there."""
    created_ms = headers["created_ms"]
    since = int(created_ms[created_ms > 0][:1].sum()) - within_ms
    if not within_ms or since <= 0:
        return np.zeros(0, TWIN)
    blocks: list[Rows] = []
    while first > part.first and len(blocks) * _BEFORE_ROWS < BUCKET_UNITS:
        start = max(part.first, first - _BEFORE_ROWS)
        units = read_units(part, start, first - start).rows
        blocks.append(twin_rows(part.hour, start, units, read_headers(part, units).rows))
        first = start
        if int(blocks[-1]["created_ms"].max()) < since:
            break
    return join_rows(blocks[::-1], TWIN)


def _mark_handed(before: Rows, earlier: Rows) -> None:
    """Fills in when the messages before the bucket were first handed over."""
    if not len(before) or not len(earlier):
        return
    starts = take_rows(earlier, np.flatnonzero(earlier["kind"] == START))
    first_ms = np.full(len(before), np.iinfo(np.int64).max)
    np.minimum.at(first_ms, (starts["home"] - before["home"][0]).astype(np.int64), starts["at_ms"])
    before["first_ms"] = np.where(first_ms == np.iinfo(np.int64).max, 0, first_ms)


def read_hand_overs(task: BucketTask, before: int) -> tuple[Rows, Rows]:
    """(start and end records of the bucket's messages, those of as many messages before it), from the files of its hour
    and from what was set aside elsewhere."""
    hour = np.uint64(task.span.hour << INDEX_BITS)
    first, following = hour + np.uint64(task.owned_first), hour + np.uint64(task.owned_next)
    origin = hour + np.uint64(task.span.first)
    kept, earlier = [_owned(task, task.strays, DELIVERY)], [gather(task.earlier, DELIVERY)] if before else []
    for source in task.sources:
        for read in delivery_blocks(source):
            home = read.rows["home"]
            inside = (home >= first) & (home < following)
            kept.append(read.rows if inside.all() else take_rows(read.rows, np.flatnonzero(inside)))
            if before:
                near = (home >= origin - np.uint64(before)) & (home < origin)
                earlier.append(take_rows(read.rows, np.flatnonzero(near)))
    twins = join_rows(earlier, DELIVERY)
    near = (twins["home"] >= origin - np.uint64(before)) & (twins["home"] < origin)
    return hand_overs(join_rows(kept, DELIVERY)), hand_overs(take_rows(twins, np.flatnonzero(near)))


def _write(name: str, setting: Setting, ledger: Ledger, unmatched: pa.Table, answer: BucketAnswer) -> None:
    """The bucket's part of every table; of the ledger always, of the others where there are rows."""
    messages, duplicates = ledger.messages, ledger.duplicates
    delivered = take_columns(messages, np.flatnonzero(canonical_rows(messages, duplicates)))
    mended = repairs(messages, setting.group, setting.names)
    for row in mended.column("action").value_counts().to_pylist():
        answer.repairs[row["values"]] = row["counts"]
    tables = {
        LEDGER_TABLE: to_table(messages, LEDGER_SCHEMA, setting.group, setting.names),
        DUPLICATES_TABLE: to_table(duplicates, DUPLICATES_SCHEMA, setting.group, setting.names),
        CANONICAL_TABLE: to_table(delivered, CANONICAL_SCHEMA, setting.group, setting.names),
        REPAIRS_TABLE: mended,
        UNMATCHED_TABLE: unmatched,
    }
    for folder, table in tables.items():
        answer.rows[folder] = len(table)
        path = setting.out / folder / name
        if len(table):
            write_parquet(table, path)
        else:
            path.unlink(missing_ok=True)  # of an earlier refresh
