"""`spark.read.format("hourwheel")`: node directories and exports as tables of Spark.

```
register(spark)
spark.read.format("hourwheel").option("table", "deliveries").load("/data/n1,/data/n2,/data/n3")
spark.readStream.format("hourwheel").option("table", "deliveries").load("/data")
```
| option | |
|---|---|
| table | messages, settlements, deliveries, terms or problems (schema.py has their columns) |
| path, paths | directories that every process sees, with commas between them; one may hold those of several nodes |
| damaged | `fail` (default): rows that no copy has whole fail the query; `skip`: they are left out |
| maxRowsPerBatch | of a stream: at most so many rows in one step |
| failOnDataLoss | of a stream: `true` (default) fails when rows are gone before they were read; `false` goes on |

A task reads a range of one file and yields Arrow batches made of its fixed-size records. With a schema of some of the
columns (`.schema("home bigint, at_ms bigint")`) only those are made, and the logs are read only if a column stands
there. A condition on `hour` leaves out whole files before any task is made.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from reconcile.files.inventory import Inventory
from reconcile.spark.options import Options, SlicePartition
from reconcile.spark.schema import ddl, wanted_columns
from reconcile.spark.slices import problem_batch, read_slice, row_counts, slice_problems, slices_of
from reconcile.spark.stream import HourwheelStream

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

FORMAT: Final = "hourwheel"


def register(spark: "SparkSession") -> None:
    """Make the format known to a session, and let conditions reach it."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(HourwheelSource)


class HourwheelSource(DataSource):
    """The data source; Spark makes one for each table that is read."""

    @classmethod
    def name(cls) -> str:
        """What `format` is called by."""
        return FORMAT

    def schema(self) -> str:
        """All columns of the table."""
        return ddl(Options(self.options).table)

    def reader(self, schema: StructType) -> "HourwheelReader":
        """Of a batch."""
        return HourwheelReader(Options(self.options), schema)

    def streamReader(self, schema: StructType) -> HourwheelStream:
        """Of a stream: the records as they are appended."""
        return HourwheelStream(Options(self.options), schema)


class ProblemsPartition(InputPartition):
    """Problems that need no reading: they were met when the files were listed."""


class HourwheelReader(DataSourceReader):
    """Reads a table as it is when the query begins."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._columns = wanted_columns(options.table, schema)
        self._hours: list[tuple[int, int]] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take note of conditions on `hour`. All go back to Spark, which checks every row itself."""
        if self._options.table in ("messages", "settlements"):
            self._hours += [bounds for condition in filters if (bounds := _hour_bounds(condition)) is not None]
        return filters

    def partitions(self) -> list[InputPartition]:
        """A slice of at most a million rows each."""
        inventory = Inventory.open(self._options.paths)
        if self._options.table == "problems":
            found: list[InputPartition] = [ProblemsPartition(inventory.problems)]
            return found + [
                SlicePartition(piece)
                for table in ("messages", "settlements", "deliveries")
                for source, rows in row_counts(inventory, table).values()
                for piece in slices_of(table, source, 0, rows)
            ]
        return [
            SlicePartition(piece)
            for source, rows in row_counts(inventory, self._options.table).values()
            if all(low <= source.hour <= high for low, high in self._hours)
            for piece in slices_of(self._options.table, source, 0, rows)
        ]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """The rows of one slice. Raises RowsDamaged."""
        if self._options.table != "problems":
            if isinstance(partition, SlicePartition):
                yield from read_slice(partition.slice, self._columns, self._options.leave_out_damaged)
            return
        if isinstance(partition, SlicePartition):
            rows = problem_batch(slice_problems(partition.slice))
        else:
            rows = problem_batch(partition.value)
        yield rows.select(list(self._columns))


_HOUR_MAX: Final = 1 << 24


def _hour_bounds(condition: Filter) -> tuple[int, int] | None:
    """The hours, from and including to, that a condition leaves; None if it is not one on `hour`."""
    if getattr(condition, "attribute", None) != ("hour",):
        return None
    match condition:
        case EqualTo(value=int(value)):
            return value, value
        case In(value=tuple(values)) if values and all(isinstance(value, int) for value in values):
            return min(values), max(values)
        case GreaterThan(value=int(value)):
            return value + 1, _HOUR_MAX
        case GreaterThanOrEqual(value=int(value)):
            return value, _HOUR_MAX
        case LessThan(value=int(value)):
            return 0, value - 1
        case LessThanOrEqual(value=int(value)):
            return 0, value
    return None
