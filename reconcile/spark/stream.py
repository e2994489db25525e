"""`spark.readStream.format("hourwheel")`: the records as the nodes append them, each once.

The offset of a stream is a count of rows for each file: `{"490000/0": 12345, "n1/5f0c2a17/490000-1": 678}`. An hour's
file is the same on all nodes, so it is counted once, and goes on from another copy when a node is gone. What is behind
the last whole row of a live file waits for the next step.

An hour that is near is written as entries are applied; one that is far, when its node makes a checkpoint (30 s).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from reconcile.files.inventory import Inventory
from reconcile.files.problem import DataRefused
from reconcile.spark.options import Options, SlicePartition
from reconcile.spark.schema import wanted_columns
from reconcile.spark.slices import read_slice, row_counts, slices_of

if TYPE_CHECKING:
    import pyarrow as pa

Offset = dict[str, int]


class HourwheelStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One stream over one table."""

    def __init__(self, options: Options, schema: StructType) -> None:
        if options.table == "problems":
            raise ValueError("table problems is read as a batch, not as a stream")
        self._options = options
        self._columns = wanted_columns(options.table, schema)
        self._until: Offset | None = None

    def initialOffset(self) -> Offset:
        """Before all rows."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """As option maxRowsPerBatch says."""
        return ReadMaxRows(self._options.max_rows) if self._options.max_rows else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """The query is to end with what is there now."""
        self._until = self._there()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """How far the files go now; a file that went away, or is read shorter, keeps the count that it had."""
        there = self._there() if self._until is None else self._until
        end, room = dict(start), limit.max_rows if isinstance(limit, ReadMaxRows) else None
        for name, rows in there.items():
            more = max(0, rows - start.get(name, 0))
            if room is not None:
                more = min(more, room)
                room -= more
            if more:
                end[name] = start.get(name, 0) + more
        return end

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The rows between two offsets, cut for tasks. Raises DataRefused when rows are gone before they were read."""
        counts = row_counts(Inventory.open(self._options.paths), self._options.table)
        found: list[InputPartition] = []
        for name, rows in end.items():
            first = start.get(name, 0)
            if rows <= first:
                continue
            source, there = counts.get(name, (None, 0))
            if there < rows and self._options.fail_on_data_loss:
                raise DataRefused(
                    f"rows {max(first, there)} to {rows - 1} of {name} are gone before they were read: its hour or log "
                    "was removed by its retention. Option failOnDataLoss=false goes on behind them"
                )
            if source is not None:
                pieces = slices_of(self._options.table, source, first, min(rows, there))
                found += [SlicePartition(piece) for piece in pieces]
        return found

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """The rows of one slice. Raises RowsDamaged."""
        if isinstance(partition, SlicePartition):
            yield from read_slice(partition.slice, self._columns, self._options.leave_out_damaged)

    def _there(self) -> Offset:
        counts = row_counts(Inventory.open(self._options.paths), self._options.table)
        return {name: rows for name, (_, rows) in counts.items()}
