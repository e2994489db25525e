"""Rows of an hour are read from whichever copy has them whole; what none has is told and comes as zeros."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.files.hour import read_headers, read_settles, read_units, settle_blocks
from reconcile.files.inventory import Inventory
from reconcile.files.problem import DAMAGED, UNREADABLE
from storage.export.export import Export
from storage.export.source import read_source
from storage.file.disk import Disk
from storage.format.rows import HEADER_SIZE, SETTLE, UNIT
from storage.format.states import DELIVERED, LEASED
from storage.record.record import RECORD_HEADER_SIZE
from tests.examples import examples
from tests.reconcile.directories import NOW, flip, make_node
from tests.storage.workload import CLUSTER_ID, HOUR, Entry, H, append, moved, settle, turn

COUNT = 40
ENTRIES: list[Entry] = [
    turn(0),
    append(*range(1_000, 1_000 + COUNT)),
    settle(LEASED, *((0, index) for index in range(0, COUNT, 2))),
    settle(DELIVERED, *((0, index) for index in range(0, COUNT, 4))),
]
SETTLES = COUNT // 2 + COUNT // 4
assert len(CLUSTER_ID) == 16


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two nodes with the same hour."""
    root = tmp_path_factory.mktemp("nodes")
    make_node(root / "n1", ENTRIES, seed=1)
    make_node(root / "n2", ENTRIES, seed=2)
    return root


def hour_of(root: Path, node: str) -> Path:
    """Where a node's copy of the hour stands."""
    return root / node / "hours" / str(HOUR)


def test_rows_are_those_of_the_files(pristine: Path) -> None:
    """Units, settle records and headers, in file order, none unreadable."""
    (part,) = Inventory.open([pristine]).hours
    units, settles = read_units(part, 0, COUNT), read_settles(part, 0, COUNT)
    assert units.rows.tobytes() == (hour_of(pristine, "n1") / "index").read_bytes()[HEADER_SIZE:]
    assert settles.rows.tobytes() == (hour_of(pristine, "n2") / "settle").read_bytes()[HEADER_SIZE:]
    headers = read_headers(part, units.rows)
    assert headers.rows["id_global_index"].tolist() == list(range(COUNT))
    assert headers.rows["asked_due_ms"].tolist() == units.rows["due_ms"].tolist()
    assert units.problems + settles.problems + headers.problems == ()


def test_a_bucket_has_its_own_settle_records(pristine: Path) -> None:
    """Of a range of units only theirs, in file order; the ranges together have all."""
    (part,) = Inventory.open([pristine]).hours
    whole = read_settles(part, 0, COUNT).rows
    some = [read_settles(part, first, 10).rows for first in range(0, COUNT, 10)]
    assert [len(rows) for rows in some] == [8, 7, 8, 7]
    for first, rows in zip(range(0, COUNT, 10), some, strict=True):
        at = whole["global_index"].astype(np.int64)
        assert rows.tobytes() == whole[(at >= first) & (at < first + 10)].tobytes()


def test_an_export_gives_the_same_rows(pristine: Path, tmp_path: Path) -> None:
    """Headers too, which stand in a file of their own there."""
    Export(read_source(pristine / "n1", Disk(), NOW), tmp_path / "exported", Disk()).run()
    (part,), (mine,) = Inventory.open([tmp_path / "exported"]).hours, Inventory.open([pristine]).hours
    units = read_units(part, 0, COUNT)
    assert units.rows.tobytes() == read_units(mine, 0, COUNT).rows.tobytes()
    assert read_headers(part, units.rows[7:20]).rows.tobytes() == read_headers(mine, units.rows[7:20]).rows.tobytes()
    assert read_settles(part, 3, 9).rows.tobytes() == read_settles(mine, 3, 9).rows.tobytes()


def test_moved_units_name_their_home(tmp_path: Path) -> None:
    """The header of a unit that was appended by a move says where the message was born, and is no damage."""
    make_node(tmp_path / "n1", [*ENTRIES, moved(H + 5, (0, 1), (0, 3))])
    first, second = Inventory.open([tmp_path]).hours
    units = read_units(second, 0, 2)
    headers = read_headers(second, units.rows)
    assert headers.unreadable == 0
    assert headers.rows["id_hour"].tolist() == [HOUR, HOUR]
    assert headers.rows["id_global_index"].tolist() == [1, 3]
    assert (first.units, second.units) == (COUNT, 2)


@examples(60)
@given(
    damage=st.lists(
        st.tuples(st.sampled_from(["n1", "n2"]), st.integers(0, COUNT - 1), st.integers(0, UNIT.itemsize - 1)),
        max_size=12,
    )
)
def test_units_come_from_the_copy_that_has_them(pristine: Path, damage: list[tuple[str, int, int]]) -> None:
    """Row by row: a unit is unreadable exactly if every copy of it is damaged, and all others are as written."""
    written = {node: (hour_of(pristine, node) / "index").read_bytes() for node in ("n1", "n2")}
    bad: dict[str, set[int]] = {"n1": set(), "n2": set()}
    (part,) = Inventory.open([pristine]).hours
    try:
        for node, row, byte in damage:
            if row not in bad[node]:
                flip(hour_of(pristine, node) / "index", HEADER_SIZE + row * UNIT.itemsize + byte, 0x10)
                bad[node].add(row)
        found = read_units(part, 0, COUNT)
    finally:
        for node, data in written.items():
            (hour_of(pristine, node) / "index").write_bytes(data)
    nowhere = bad["n1"] & bad["n2"]
    expected = np.frombuffer(written["n1"], UNIT, offset=HEADER_SIZE).copy()
    expected[sorted(nowhere)] = np.zeros(1, UNIT)[0]
    assert found.rows.tobytes() == expected.tobytes()
    assert found.unreadable == len(nowhere)
    assert sum(problem.rows for problem in found.problems if problem.kind == UNREADABLE) == len(nowhere)
    assert sum(problem.rows for problem in found.problems if problem.node == "n1") == len(bad["n1"])
    assert sum(problem.rows for problem in found.problems if problem.node == "n2") == len(nowhere)


def test_a_copy_that_ends_before_is_gone_on_from_another(pristine: Path, tmp_path: Path) -> None:
    """A node that lags has a shorter file: no damage, the rest is read where it is."""
    make_node(tmp_path / "n1", ENTRIES[:2], seed=1)
    make_node(tmp_path / "n3", ENTRIES, seed=3)
    flip(tmp_path / "n3" / "hours" / str(HOUR) / "index", HEADER_SIZE + 5)
    (part,) = Inventory.open([tmp_path]).hours
    assert [(copy.node, copy.settles) for copy in part.copies] == [("n3", SETTLES), ("n1", 0)]
    units, settles = read_units(part, 0, COUNT), read_settles(part, 0, COUNT)
    assert (units.unreadable, settles.unreadable) == (0, 0)
    assert [(problem.kind, problem.node, problem.rows) for problem in units.problems] == [(DAMAGED, "n3", 1)]
    assert settles.problems == ()


def test_settle_records_that_no_copy_has_are_counted(pristine: Path, tmp_path: Path) -> None:
    """They are left out of every bucket and told with it; the others keep their order."""
    path = make_node(tmp_path / "n1", ENTRIES) / "hours" / str(HOUR) / "settle"
    flip(path, HEADER_SIZE + 7 * SETTLE.itemsize + 3)
    (part,) = Inventory.open([tmp_path]).hours
    found = read_settles(part, 0, COUNT)
    assert (len(found.rows), found.unreadable) == (SETTLES - 1, 1)
    assert [problem.kind for problem in found.problems] == [DAMAGED, UNREADABLE]
    (block,) = settle_blocks(part)
    assert np.flatnonzero(block.rows["what"] == 0).tolist() == [7]
    (tail,) = settle_blocks(part, 5, 4)
    assert tail.rows.tobytes() == block.rows[5:9].tobytes()


def test_a_damaged_record_header_is_taken_from_another_log(pristine: Path, tmp_path: Path) -> None:
    """A damaged header is read from another node; a damaged body is nobody's business here."""
    for seed, node in enumerate(("n1", "n2"), 1):
        make_node(tmp_path / node, ENTRIES, seed=seed)
    (part,) = Inventory.open([tmp_path]).hours
    units = read_units(part, 0, COUNT).rows
    log = hour_of(tmp_path, "n1") / "log"
    flip(log, int(units["offset"][9]) + 40)
    flip(log, int(units["offset"][11]) + RECORD_HEADER_SIZE + 2)
    found = read_headers(part, units)
    assert (found.unreadable, found.rows["id_global_index"].tolist()) == (0, list(range(COUNT)))
    assert [(problem.node, problem.what) for problem in found.problems] == [("n1", "rows 9 to 9: not as written")]
    (hour_of(tmp_path, "n2") / "log").unlink()
    found = read_headers(part, units)
    assert (found.unreadable, found.rows["size"][9]) == (1, 0)
    assert [problem.kind for problem in found.problems] == [DAMAGED, DAMAGED, UNREADABLE]
