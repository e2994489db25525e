"""A table is a row: one more of them is opened, checkpointed, listed and read back, and nothing else is touched."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import lmdb
import pytest

from storage.catalog.catalog import Catalog
from storage.catalog.catalog_file import MAP_SIZE
from storage.file.disk import Disk
from storage.format.registry import BadRow
from storage.format.rows import Corrupt
from storage.lmdb.table import Table
from storage.tables.registry import ABOUT, DATABASES_MAX, META, TABLES, TOPICS, TableRow, registered
from tests.storage.catalog.test_catalog import checkpoint, entry

ROOT = Path(__file__).parents[3]


class Votes:
    """Counts by name, in memory and over their table, with the sum of all in another one."""

    def __init__(self, table: Table, meta: Table) -> None:
        self._table, self._meta = table, meta
        self.by_name: dict[bytes, int] = {}

    def load(self) -> None:
        """Read all rows."""
        self.by_name = {name: value[0] for name, value in self._table.rows()}

    def add(self, name: bytes) -> None:
        """One more."""
        self.by_name[name] = self.by_name.get(name, 0) + 1
        self._table.put(name, bytes([self.by_name[name]]))
        self._meta.put(b"votes", bytes([sum(self.by_name.values())]))


VOTES = TableRow("votes", 1_000, 20, "nobody: a test has an end", cache=Votes, beside=("meta",))
PLAIN: TableRow = TableRow("plain", 1_000, 20, "nobody: a test has an end")
MORE = registered([*TABLES.values(), VOTES, PLAIN])


def test_a_table_that_a_test_adds_is_kept(tmp_path: Path) -> None:
    """Over a checkpoint and a start: what is kept in memory is made from its rows again."""
    catalog = Catalog.open(tmp_path, Disk(), rows=MORE)
    votes = catalog.of(VOTES)
    for name in (b"a", b"b", b"a"):
        votes.add(name)
    catalog.table(PLAIN).put(b"k", b"v")
    checkpoint(catalog, 1)
    catalog.close()
    for read_only in (False, True):
        catalog = Catalog.open(tmp_path, Disk(), rows=MORE, read_only=read_only)
        assert catalog.of(VOTES).by_name == votes.by_name == {b"a": 2, b"b": 1}
        assert catalog.table(PLAIN).get(b"k") == b"v"
        assert catalog.faults() == []
        assert list(catalog.dump())[-3:] == [(b"votes", b"a", b"\2"), (b"votes", b"b", b"\1"), (b"plain", b"k", b"v")]
        assert (b"meta", b"votes", b"\3") in list(catalog.dump())
        catalog.close()


def test_what_an_entry_writes_there_is_in_its_checksum(tmp_path: Path) -> None:
    """So a node that differs in it differs in its hash."""
    catalog = Catalog.open(tmp_path, Disk(), rows=MORE)
    nothing = catalog.written.take()
    catalog.table(PLAIN).put(b"k", b"v")
    assert catalog.written.take() != nothing
    catalog.close()


@pytest.mark.parametrize("beside_node", [False, True])
def test_a_table_that_a_directory_lacks_is_empty(tmp_path: Path, beside_node: bool) -> None:
    """An older build made it, and what only reads it makes none. Its rows are all there and listed as before."""
    catalog = Catalog.open(tmp_path, Disk())
    catalog.put_topic("a", {}, 1)
    catalog.put_key(1, b"k", entry(5))
    checkpoint(catalog, 1)
    before = list(catalog.dump())
    catalog.close()
    catalog = Catalog.open(tmp_path, Disk(), rows=MORE, read_only=True, beside_node=beside_node)
    assert (catalog.of(VOTES).by_name, catalog.table(PLAIN).get(b"k")) == ({}, None)
    assert (catalog.faults(), list(catalog.dump())) == ([], before)
    catalog.close()
    with lmdb.open(str(tmp_path), max_dbs=DATABASES_MAX) as environment, pytest.raises(lmdb.NotFoundError):
        environment.open_db(b"votes", create=False)


def test_a_table_that_every_build_makes_is_not_missing(tmp_path: Path) -> None:
    """A directory without it is damaged."""
    catalog = Catalog.open(tmp_path, Disk(), rows=MORE)
    checkpoint(catalog, 1)
    catalog.close()
    with lmdb.open(str(tmp_path), max_dbs=DATABASES_MAX) as environment:
        topics = environment.open_db(b"topics")
        with environment.begin(write=True) as transaction:
            transaction.drop(topics)
    with pytest.raises(Corrupt, match="LMDB"):
        Catalog.open(tmp_path, Disk(), rows=MORE, read_only=True)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (TOPICS, "table topics stands here twice"),
        (replace(VOTES, rows_max=0), "table votes has no bound: rows_max is 0"),
        (replace(VOTES, rows_max=None), "table votes has no bound: rows_max is None"),  # type: ignore[arg-type]
        (replace(VOTES, rows_max=True), "table votes has no bound: rows_max is True"),
        (replace(VOTES, row_bytes=1.5), "table votes has no bound: row_bytes is 1.5"),  # type: ignore[arg-type]
        (replace(VOTES, dropped_by=" "), "table votes: it does not say who drops its rows"),
        (replace(VOTES, dropped_by="nobody: "), "table votes: it does not say who drops its rows"),
        (replace(VOTES, beside=("metta",)), "table votes: there is no table metta for its cache to write to"),
        (
            replace(VOTES, name=ABOUT.decode()),
            "table 'about': a name is a word of .*, and none that is taken",
        ),
        (replace(VOTES, name=""), "table '': a name is a word"),
        (replace(VOTES, name="v" * 17), "table 'v{17}': a name is a word of 16 bytes at most"),
        (replace(VOTES, name=None), "table None: a name is a word"),  # type: ignore[arg-type]
    ],
)
def test_a_row_that_cannot_be_is_refused_by_name(row: TableRow[Any], says: str) -> None:
    """When the registry is made: at import."""
    with pytest.raises(BadRow, match=says):
        registered([*TABLES.values(), row])


def test_there_are_no_more_tables_than_lmdb_opens() -> None:
    """The last one is named."""
    many = [replace(PLAIN, name=f"t{number}") for number in range(DATABASES_MAX - 1)]
    assert len(registered(many)) == DATABASES_MAX - 1
    with pytest.raises(BadRow, match="table votes is one too many"):
        registered([*many, replace(VOTES, beside=())])


def test_who_drops_the_rows_of_a_table_is_a_file_of_the_apply() -> None:
    """Or nobody, and the row says why there is an end to them."""
    drops = [row.dropped_by for row in TABLES.values() if not row.dropped_by.startswith("nobody: ")]
    assert drops
    assert all(each.startswith("replication/apply/") and (ROOT / each).is_file() for each in drops), drops


def test_all_tables_at_their_bounds_fit_the_map() -> None:
    """LMDB gives no more; what does not fit ends the node."""
    assert sum(row.rows_max * row.row_bytes for row in TABLES.values()) <= MAP_SIZE


def test_the_tables_are_listed_in_the_order_that_digests_were_taken_in() -> None:
    """Another order is another digest of the same content."""
    assert list(TABLES)[:5] == ["meta", "topics", "keys", "hour_keys", "members"]
    assert TABLES["meta"] is META
