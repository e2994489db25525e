"""One piece of work for each of many tasks, spread by Spark: a partition a task, in order.

Work is a plain function of plain data, which tests call without Spark. Answers are small (what was counted, which files
were written): the bulk goes straight from numpy to Parquet where it was computed, since a way through the JVM and its
rows would cost more than all the rest of the job. Even so ten thousand answers may be more than the driver should hold,
so each is a file too, and Spark carries its name.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import uuid4

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Task = TypeVar("Task")
Answer = TypeVar("Answer")

_COLUMN: Final = "answer"


def run_stage(
    spark: "SparkSession | None", tasks: Sequence[Task], work: Callable[[Task], Answer], scratch: Path
) -> Iterator[Answer]:
    """The answers in order of the tasks, once all are done. `work` and the tasks are pickled to the workers; `scratch`
    is a directory that workers and driver share, and holds the answers until they are asked for.

    A task whose worker dies is run again: work must give the same answer, and files by the same names, each time.
    Without Spark the tasks are worked off here, one after the other: for few messages a JVM is most of the time.
    """
    if spark is None:
        yield from map(work, tasks)
        return
    if not tasks:
        return
    pieces = [pickle.dumps(task) for task in tasks]

    def each(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                path = scratch / f"{uuid4().hex}.answer"
                path.write_bytes(pickle.dumps(work(pickle.loads(pieces[number]))))
                yield pa.record_batch({_COLUMN: pa.array([str(path)])})

    answers = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(each, f"{_COLUMN} string").collect()
    for row in answers:
        path = Path(row[_COLUMN])
        yield pickle.loads(path.read_bytes())
        path.unlink()
