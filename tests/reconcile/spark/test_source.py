"""Tables of the data source have what stands in the files, no more and no less, by whatever path it is read."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, DataType, IntegerType, LongType, StringType, StructField, StructType

from reconcile.spark.options import Options
from reconcile.spark.schema import TABLES, wanted_columns
from reconcile.spark.source import HourwheelSource
from storage.export.export import Export
from storage.export.source import read_source
from storage.file.disk import Disk
from storage.format.message_id import decode_id
from storage.format.rows import HEADER_SIZE, UNIT
from storage.format.states import CANCELLED, DELIVERED, LEASED
from storage.record.delivery_record import DELIVERY, STOPPED, TERM_BEGUN, TERM_ENDED
from tests.reconcile.directories import NOW, flip, hand_overs, log_deliveries, make_node, positions, term_row
from tests.storage.workload import HOUR, Entry, H, append, moved, settle, turn

COUNT = 300
ENTRIES: list[Entry] = [
    turn(0),
    append(*range(1_000, 1_000 + COUNT)),
    append(*range(H, H + 20)),
    settle(LEASED, *((0, index) for index in range(COUNT))),
    settle(DELIVERED, *((0, index) for index in range(0, COUNT, 3))),
    settle(CANCELLED, (1, 4)),
    moved(2 * H + 5, (0, 1), (0, 2)),
]
HOMES = positions(0, range(COUNT))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two nodes with the same hours; each handed some messages over, in a term of its own."""
    root = tmp_path_factory.mktemp("nodes")
    for number, node in enumerate(("n1", "n2"), 1):
        path = make_node(root / node, ENTRIES, seed=number)
        half = HOMES[: COUNT // 2] if number == 1 else HOMES[COUNT // 2 :]
        begun = NOW + 1_000 * number
        log_deliveries(
            path,
            term_row(TERM_BEGUN, number, begun, node=number),
            hand_overs(half, [begun + 1] * len(half), node=number, term=number),
            term_row(TERM_ENDED, number, begun + 500, node=number, code=STOPPED),
        )
    return root


TYPES: dict[str, DataType] = {
    "string": StringType(),
    "bigint": LongType(),
    "int": IntegerType(),
    "boolean": BooleanType(),
}


def directly(name: str, path: Path | str, *columns: str, **options: str) -> list[dict[str, Any]]:
    """The rows of a table, or some columns of it, as the data source gives them to Spark, without Spark."""
    wanted = [column for column in TABLES[name] if not columns or column.name in columns]
    schema = StructType([StructField(column.name, TYPES[column.kind]) for column in wanted])
    source = HourwheelSource({"table": name, "path": str(path), **options})
    reader = pickle.loads(pickle.dumps(source.reader(schema)))
    expected = to_arrow_schema(schema)
    rows: list[dict[str, Any]] = []
    for partition in reader.partitions():
        for batch in reader.read(pickle.loads(pickle.dumps(partition))):
            assert batch.schema.equals(expected), batch.schema
            rows += batch.to_pylist()
    return rows


def table(spark: Any, name: str, path: Path | str, **options: str) -> Any:
    """A table of the data there, with further options."""
    return spark.read.format("hourwheel").option("table", name).options(**options).load(str(path))


def test_messages_are_the_units(spark: Any, data: Path) -> None:
    """One row a unit, whichever node it was read from, with the id that its place and random bits make."""
    rows = table(spark, "messages", data).orderBy("hour", "global_index").collect()
    assert [(row.hour, row.global_index) for row in rows] == [
        *((HOUR, index) for index in range(COUNT)),
        *((HOUR + 1, index) for index in range(20)),
        *((HOUR + 2, index) for index in range(2)),
    ]
    for row in rows:
        parts = decode_id(row.id)
        assert (parts.position, parts.random) == (row.home, row.random)
        assert row.moved == (row.home != row.place) == (row.hour == HOUR + 2)
        assert row.place == row.hour << 40 | row.global_index
    assert {row.asked_due_ms - row.due_ms for row in rows if not row.moved} == {0}
    assert {row.topic for row in rows} == {7}


def test_settlements_are_the_records_in_order(spark: Any, data: Path) -> None:
    """With their words, and their ordinals as in the file."""
    rows = table(spark, "settlements", data).where(f"hour = {HOUR}").orderBy("ordinal").collect()
    assert [row.ordinal for row in rows] == list(range(COUNT + COUNT // 3 + 2))
    assert [row.what for row in rows] == ["leased"] * COUNT + ["delivered"] * (COUNT // 3) + ["forwarded"] * 2
    assert [row.when >> 40 for row in rows[-2:]] == [HOUR + 2, HOUR + 2]
    others = table(spark, "settlements", data).where(f"hour > {HOUR}").collect()
    assert [(row.hour, row.global_index, row.what) for row in others] == [(HOUR + 1, 4, "cancelled")]


def test_deliveries_are_each_nodes_own(data: Path) -> None:
    """Starts and ends of all nodes; records of terms are another table."""
    rows = directly("deliveries", data)
    assert len(rows) == 2 * COUNT
    assert {(row["node_id"], row["node"], row["term"]) for row in rows} == {("n1", 1, 1), ("n2", 2, 2)}
    assert {(row["kind"], row["outcome"], row["mode"]) for row in rows} == {
        ("start", None, "pull"),
        ("end", "delivered", "pull"),
    }
    assert sorted({row["home"] for row in rows}) == HOMES
    assert [(row["node_id"], row["term"], row["event"], row["how"]) for row in directly("terms", data)] == [
        ("n1", 1, "begun", None),
        ("n1", 1, "ended", "stopped"),
        ("n2", 2, "begun", None),
        ("n2", 2, "ended", "stopped"),
    ]


def test_every_table_has_its_columns(data: Path) -> None:
    """All of them in the order of schema.py under their types, and any one alone."""
    for name, columns in TABLES.items():
        whole = directly(name, data)
        assert all(list(row) == [column.name for column in columns] for row in whole)
        for column in columns:
            assert directly(name, data, column.name) == [{column.name: row[column.name]} for row in whole]


def test_an_export_is_the_same_table(data: Path, tmp_path: Path) -> None:
    """Row for row, headers included; beside the directories it changes nothing."""
    for node in ("n1", "n2"):
        Export(read_source(data / node, Disk(), NOW), tmp_path / "exported", Disk()).run()
    for name in ("messages", "settlements", "deliveries", "terms"):
        rows = directly(name, data)
        assert directly(name, tmp_path / "exported") == rows
        assert directly(name, f"{tmp_path / 'exported'},{data}") == rows


def test_a_condition_on_the_hour_leaves_out_files(spark: Any, data: Path) -> None:
    """They are not even opened: a damaged hour that is not asked for fails nothing."""
    counts = {}
    for condition in (f"hour = {HOUR}", f"hour > {HOUR}", f"hour in ({HOUR}, {HOUR + 2})", f"hour < {HOUR}"):
        found = table(spark, "messages", data).where(condition)
        counts[condition] = (found.count(), found.rdd.getNumPartitions())
    assert list(counts.values()) == [(COUNT, 1), (22, 2), (COUNT + 2, 3), (0, 1)]


def test_damage_fails_the_query_unless_told_otherwise(spark: Any, data: Path, tmp_path: Path) -> None:
    """Rows that no copy has fail by name, or are left out and listed; with another copy nobody notices."""
    path = make_node(tmp_path / "n1", ENTRIES, seed=1)
    flip(path / "hours" / str(HOUR) / "index", HEADER_SIZE + 17 * UNIT.itemsize + 5)
    with pytest.raises(Exception, match=rf"hours/{HOUR}/index: rows 17 to 17 are whole in no copy"):
        table(spark, "messages", tmp_path).count()
    left = [row["global_index"] for row in directly("messages", tmp_path, damaged="skip") if row["hour"] == HOUR]
    assert left == [index for index in range(COUNT) if index != 17]
    problems = {(row["kind"], row["node"], row["rows"]) for row in directly("problems", tmp_path)}
    assert problems == {("damaged", "n1", 1), ("unreadable", "", 1)}
    both = f"{tmp_path},{data}"
    assert len(directly("messages", both)) == COUNT + 22
    assert [(row["kind"], row["node"]) for row in directly("problems", both)] == [("damaged", "n1")]


def test_a_gap_of_a_power_cut_is_no_failure(tmp_path: Path) -> None:
    """Rows that were never written are left out, and listed."""
    path = make_node(tmp_path / "n1", ENTRIES)
    log = log_deliveries(path, hand_overs(HOMES[:10], [NOW] * 10))
    data = bytearray(log.read_bytes())
    data[HEADER_SIZE + 4 * DELIVERY.itemsize : HEADER_SIZE + 6 * DELIVERY.itemsize] = bytes(2 * DELIVERY.itemsize)
    log.write_bytes(data)
    assert len(directly("deliveries", tmp_path)) == 18
    assert [(row["kind"], row["rows"]) for row in directly("problems", tmp_path)] == [("unwritten", 2)]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"table": "letters"}, "option table is 'letters'; it must be one of messages, settlements"),
        ({"damaged": "maybe"}, "option damaged is 'maybe'; it must be fail or skip"),
        ({"failOnDataLoss": "no"}, "option failOnDataLoss is 'no'; it must be true or false"),
        ({"maxRowsPerBatch": "-1"}, "option maxRowsPerBatch is '-1'"),
        ({"path": ""}, "no path was given"),
        ({"paths": "[]"}, "no path was given"),
    ],
    ids=["table", "damaged", "loss", "rows", "none", "empty"],
)
def test_wrong_options_are_named(options: dict[str, str], says: str) -> None:
    """With the option, what it was and what it may be."""
    with pytest.raises(ValueError, match=says):
        Options({"table": "messages", "path": "/data", **options})


@pytest.mark.parametrize(
    ("field", "says"),
    [
        (StructField("nothing", StringType()), "table messages has no column 'nothing'; it has id, home"),
        (StructField("home", StringType()), "column home of table messages is bigint, asked for as string"),
    ],
    ids=["name", "type"],
)
def test_a_schema_of_other_columns_is_refused(field: StructField, says: str) -> None:
    """By the column's name."""
    with pytest.raises(ValueError, match=says):
        wanted_columns("messages", StructType([field]))


def test_what_is_no_data_fails_the_query_by_name(spark: Any) -> None:
    """The reason reaches whoever asked, through Spark."""
    with pytest.raises(Exception, match="/nowhere: there is no such directory"):
        table(spark, "messages", "/nowhere").count()


def test_long_ints_keep_their_bits(data: Path) -> None:
    """Positions come as they are; what is bits rather than a number may be negative, and is the same 64 bits."""
    row = directly("messages", data)[9]
    assert row["tags"] & (1 << 64) - 1 == NOW + 1_009
    assert row["home"] == HOMES[9]
