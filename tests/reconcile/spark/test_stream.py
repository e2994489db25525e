"""A stream gives each record once, as it is appended, across steps, restarts, limits and nodes that go."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import LongType, StructField, StructType

from reconcile.files.problem import DataRefused
from reconcile.spark.source import HourwheelSource
from reconcile.spark.stream import HourwheelStream
from storage.file.delivery_file import DeliveryWriter
from storage.file.disk import Disk
from storage.format.rows import HEADER_SIZE
from storage.format.states import LEASED
from storage.record.delivery_record import DELIVERY, STOPPED, TERM_BEGUN, TERM_ENDED
from storage.store import Store
from tests.examples import examples
from tests.reconcile.directories import NOW, cut, hand_overs, log_deliveries, make_node, positions, term_row
from tests.storage.workload import CLUSTER_ID, HOUR, Entry, H, append, settle, turn, unlink

ENTRIES: list[Entry] = [turn(0), append(*range(1_000, 1_010)), settle(LEASED, (0, 0), (0, 1), (0, 2))]
HOMES = positions(0, range(40))
SCHEMAS = {
    "messages": "global_index",
    "settlements": "ordinal",
    "deliveries": "at_ms",
    "terms": "term",
}


def stream_of(table: str, path: Path | str, **options: str) -> HourwheelStream:
    """A stream over one column of a table, as Spark makes it."""
    source = HourwheelSource({"table": table, "path": str(path), **options})
    return source.streamReader(StructType([StructField(SCHEMAS[table], LongType())]))


def between(stream: HourwheelStream, start: dict[str, int], end: dict[str, int]) -> list[int]:
    """The rows of one step."""
    return [
        row
        for partition in stream.partitions(start, end)
        for batch in stream.read(partition)
        for row in batch.column(0).to_pylist()
    ]


def steps(stream: HourwheelStream, start: dict[str, int], limit: ReadLimit | None = None) -> Iterator[list[int]]:
    """All steps until there is nothing new; each begins where the one before ended."""
    while True:
        end = stream.latestOffset(start, limit or stream.getDefaultReadLimit())
        if end == start:
            return
        yield between(stream, start, end)
        start = end


def test_what_is_appended_comes_with_the_next_step(tmp_path: Path) -> None:
    """And nothing comes twice, from whichever node it is read."""
    path = make_node(tmp_path / "n1", ENTRIES, seed=1)
    make_node(tmp_path / "n2", ENTRIES, seed=2)
    messages, settlements = stream_of("messages", tmp_path), stream_of("settlements", tmp_path)
    first = messages.latestOffset({}, ReadAllAvailable())
    assert between(messages, {}, first) == list(range(10))
    assert next(steps(settlements, {})) == [0, 1, 2]
    store = Store.open(path, disk=Disk())
    store.turn(HOUR)
    append(5_000, 5_001)(store)
    store.close()
    second = messages.latestOffset(first, ReadAllAvailable())
    assert between(messages, first, second) == [10, 11]
    shutil.rmtree(tmp_path / "n2")
    assert messages.latestOffset(second, ReadAllAvailable()) == second


def test_half_a_record_waits(tmp_path: Path) -> None:
    """What a live file has not whole yet comes when it is whole."""
    path = make_node(tmp_path / "n1", ENTRIES)
    log = log_deliveries(path, hand_overs(HOMES[:5], [NOW] * 5))
    whole = log.read_bytes()
    cut(log, HEADER_SIZE + 7 * DELIVERY.itemsize + 30)
    stream = stream_of("deliveries", path)
    first = stream.latestOffset({}, ReadAllAvailable())
    assert len(between(stream, {}, first)) == 7
    log.write_bytes(whole)
    assert [len(step) for step in steps(stream, first)] == [3]


def test_a_limit_bounds_a_step(tmp_path: Path) -> None:
    """No step has more rows, and all steps together have all, in order within a file."""
    make_node(tmp_path / "n1", [*ENTRIES, append(*range(H, H + 7))])
    parts = list(steps(stream_of("messages", tmp_path, maxRowsPerBatch="4"), {}))
    assert [len(part) for part in parts] == [4, 4, 4, 4, 1]
    assert [row for part in parts for row in part] == [*range(10), *range(7)]


def test_a_query_for_what_is_there_ends_there(tmp_path: Path) -> None:
    """Trigger availableNow: what comes after its begin is for the next query."""
    path = make_node(tmp_path / "n1", ENTRIES)
    stream = stream_of("deliveries", path)
    log_deliveries(path, hand_overs(HOMES[:2], [NOW] * 2))
    stream.prepareForTriggerAvailableNow()
    log_deliveries(path, hand_overs(HOMES[2:4], [NOW] * 2))
    assert [len(step) for step in steps(stream, {}, ReadAllAvailable())] == [4]


def test_rows_that_went_before_they_were_read_fail_by_name(tmp_path: Path) -> None:
    """Retention was faster than the stream: an error, unless the reader would rather go on."""
    path = make_node(tmp_path / "n1", ENTRIES)
    end = stream_of("messages", path).latestOffset({}, ReadAllAvailable())
    store = Store.open(path, disk=Disk())
    store.turn(HOUR)
    unlink(0)(store)
    store.close()
    shutil.rmtree(path / "hours" / str(HOUR))
    with pytest.raises(DataRefused, match=f"rows 0 to 9 of {HOUR}/0 are gone"):
        stream_of("messages", path).partitions({}, end)
    assert stream_of("messages", path, failOnDataLoss="false").partitions({}, end) == []


def test_problems_are_no_stream(tmp_path: Path) -> None:
    """They are of a moment."""
    with pytest.raises(ValueError, match="read as a batch"):
        HourwheelSource({"table": "problems", "path": str(tmp_path)}).streamReader(StructType([]))


@examples(40)
@given(
    appends=st.lists(st.tuples(st.integers(1, 6), st.booleans(), st.booleans()), min_size=1, max_size=10),
    limit=st.integers(0, 5),
)
def test_the_steps_together_are_the_log(node: Path, appends: list[tuple[int, bool, bool]], limit: int) -> None:
    """However appends, new files, terms and steps alternate: the stream has the log's records, each once, in order."""
    shutil.rmtree(node / "deliveries")
    (node / "deliveries").mkdir()
    hands, terms = (stream_of(name, node, maxRowsPerBatch=str(limit)) for name in ("deliveries", "terms"))
    at: dict[str, dict[str, int]] = {"deliveries": {}, "terms": {}}
    got: dict[str, list[int]] = {"deliveries": [], "terms": []}

    def step(name: str, stream: HourwheelStream) -> bool:
        end = stream.latestOffset(at[name], stream.getDefaultReadLimit())
        got[name] += between(stream, at[name], end)
        more, at[name] = end != at[name], end
        return more

    written: dict[str, list[int]] = {"deliveries": [], "terms": []}
    writer, now, term = None, NOW, 0
    for count, anew, look in appends:
        if anew or writer is None:
            if writer is not None:
                writer.append(term_row(TERM_ENDED, term, now, code=STOPPED), now)
                written["terms"].append(term)
                writer.close()
            writer, term = DeliveryWriter(node / "deliveries", Disk(), group=0, cluster_id=CLUSTER_ID), term + 1
            writer.append(term_row(TERM_BEGUN, term, now), now)
            written["terms"].append(term)
        rows = hand_overs(HOMES[:count], [now := now + 10] * count)
        writer.append(rows, now)
        written["deliveries"] += rows["at_ms"].tolist()
        if look:
            step("deliveries", hands)
            step("terms", terms)
    assert writer is not None
    writer.close()
    while step("deliveries", hands) | step("terms", terms):
        pass
    assert got == written


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A node whose delivery log is written anew for each example."""
    return make_node(tmp_path_factory.mktemp("nodes") / "n1", [])


def test_spark_goes_on_where_it_stopped(spark: Any, tmp_path: Path) -> None:
    """A query that is run again with its checkpoint adds what came since, and nothing it had."""
    path = make_node(tmp_path / "data" / "n1", ENTRIES)
    log_deliveries(path, hand_overs(HOMES[:5], [NOW] * 5))

    def run() -> list[int]:
        stream = spark.readStream.format("hourwheel").option("table", "deliveries").load(str(tmp_path / "data"))
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("path", str(tmp_path / "out"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        return sorted(row.home for row in spark.read.parquet(str(tmp_path / "out")).collect())

    assert run() == sorted(HOMES[:5] * 2)
    log_deliveries(path, hand_overs(HOMES[5:8], [NOW + 5] * 3))
    assert run() == sorted(HOMES[:8] * 2)
