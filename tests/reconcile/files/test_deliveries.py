"""A delivery log is read as far as it is as written, and its holes are told with the time that they may cover."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.files import deliveries as module
from reconcile.files.deliveries import Gap, delivery_blocks, hand_overs, read_deliveries, term_records
from reconcile.files.inventory import Inventory
from reconcile.files.problem import DAMAGED, UNWRITTEN
from storage.format.position import HOUR_MS
from storage.format.rows import HEADER_SIZE
from storage.record.delivery_record import DELIVERY, STOPPED, TERM_BEGUN, TERM_ENDED, seal_deliveries
from tests.examples import examples
from tests.reconcile.directories import NOW, cut, flip, log_deliveries, make_node, positions, term_row
from tests.reconcile.directories import hand_overs as hand_over_rows

COUNT = 30
HOMES = positions(0, range(COUNT))
TIMES = [NOW + 10 * index for index in range(COUNT)]


def zero(path: Path, row: int, count: int) -> None:
    """What a power cut leaves of rows that were not yet on the disk."""
    data = bytearray(path.read_bytes())
    start = HEADER_SIZE + row * DELIVERY.itemsize
    data[start : start + count * DELIVERY.itemsize] = bytes(count * DELIVERY.itemsize)
    path.write_bytes(data)


def test_records_are_those_that_were_written(tmp_path: Path) -> None:
    """Of all kinds, in order; hand-overs and terms are told apart."""
    path = make_node(tmp_path / "n1", [])
    begun, ended = term_row(TERM_BEGUN, 4, NOW), term_row(TERM_ENDED, 4, NOW + 1_000, code=STOPPED)
    log_deliveries(path, begun, hand_over_rows(HOMES, TIMES), ended)
    (source,) = Inventory.open([path]).deliveries
    read = read_deliveries(source)
    assert (len(read.rows), read.gaps, read.problems) == (2 * COUNT + 2, (), ())
    assert hand_overs(read.rows)["home"].tolist() == [home for home in HOMES for _ in range(2)]
    assert term_records(read.rows)["kind"].tolist() == [TERM_BEGUN, TERM_ENDED]
    part = read_deliveries(source, 1, 4)
    assert part.rows.tobytes() == read.rows[1:5].tobytes()


def test_what_a_power_cut_left_is_a_gap(tmp_path: Path) -> None:
    """Between the whole records beside it, and told as never written."""
    path = make_node(tmp_path / "n1", [])
    log = log_deliveries(path, hand_over_rows(HOMES, TIMES))
    zero(log, 10, 4)
    (source,) = Inventory.open([path]).deliveries
    read = read_deliveries(source)
    assert len(read.rows) == 2 * COUNT - 4
    assert read.gaps == (Gap("n1", TIMES[4] + 2, TIMES[7] + 1),)
    assert [(problem.kind, problem.node, problem.rows) for problem in read.problems] == [(UNWRITTEN, "n1", 4)]


def test_half_a_record_that_a_power_cut_left_was_never_written(tmp_path: Path) -> None:
    """A sector ends within it."""
    path = make_node(tmp_path / "n1", [])
    log = log_deliveries(path, hand_over_rows(HOMES, TIMES))
    data = bytearray(log.read_bytes())
    data[512 : HEADER_SIZE + 6 * DELIVERY.itemsize] = bytes(HEADER_SIZE + 6 * DELIVERY.itemsize - 512)
    log.write_bytes(data)
    (source,) = Inventory.open([path]).deliveries
    assert [(problem.kind, problem.rows) for problem in read_deliveries(source).problems] == [(UNWRITTEN, 1)]


def test_a_damaged_record_is_a_gap_and_a_problem(tmp_path: Path) -> None:
    """Nobody knows what it said; at the edge of a file its hour bounds the time."""
    path = make_node(tmp_path / "n1", [])
    log = log_deliveries(path, hand_over_rows(HOMES, TIMES))
    flip(log, HEADER_SIZE + 8)
    flip(log, HEADER_SIZE + (2 * COUNT - 1) * DELIVERY.itemsize + 8)
    (source,) = Inventory.open([path]).deliveries
    read = read_deliveries(source)
    assert read.gaps == (Gap("n1", NOW, TIMES[0] + 3), Gap("n1", TIMES[-1], NOW + HOUR_MS, open=True))
    assert [(problem.kind, problem.rows) for problem in read.problems] == [(DAMAGED, 2)]


def test_a_file_that_became_shorter_is_told(tmp_path: Path) -> None:
    """A task that finds less than the inventory saw says so, with the time until the file's last moment."""
    path = make_node(tmp_path / "n1", [])
    log = log_deliveries(path, hand_over_rows(HOMES, TIMES))
    (source,) = Inventory.open([path]).deliveries
    cut(log, HEADER_SIZE + 20 * DELIVERY.itemsize)
    read = read_deliveries(source)
    assert (len(read.rows), [problem.kind for problem in read.problems]) == (20, [DAMAGED])
    assert read.gaps == (Gap("n1", TIMES[9] + 2, NOW + HOUR_MS, open=True),)
    log.unlink()
    read = read_deliveries(source)
    assert (len(read.rows), len(read.problems)) == (0, 1)
    assert read.gaps == (Gap("n1", NOW, NOW + HOUR_MS, open=True),)


def test_a_hole_within_one_millisecond_is_a_gap(tmp_path: Path) -> None:
    """A thousand messages of one pull bear one moment; what is missing among them is not seen, and nothing is lost."""
    path = make_node(tmp_path / "n1", [])
    rows = hand_over_rows(HOMES, TIMES)
    rows["at_ms"] = NOW
    zero(log_deliveries(path, rows), 4, 3)
    (source,) = Inventory.open([path]).deliveries
    assert read_deliveries(source).gaps == (Gap("n1", NOW, NOW + 1),)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A node with one file of deliveries, to be damaged and written anew."""
    path = make_node(tmp_path_factory.mktemp("node") / "n1", [])
    log_deliveries(path, hand_over_rows(HOMES, TIMES))
    return path


@examples(80)
@given(
    holes=st.lists(st.tuples(st.integers(0, 2 * COUNT - 1), st.integers(1, 5), st.booleans()), max_size=6),
    block=st.integers(1, 70),
)
def test_gaps_and_records_together_are_the_log(pristine: Path, holes: list[tuple[int, int, bool]], block: int) -> None:
    """However it is damaged and in whatever pieces it is read: every record is read or lies in a gap, none in both."""
    rows = hand_over_rows(HOMES, TIMES)
    seal_deliveries(rows)
    (log,) = (pristine / "deliveries").iterdir()
    log.write_bytes(log.read_bytes()[:HEADER_SIZE] + rows.tobytes())
    bad = np.zeros(len(rows), np.bool_)
    for row, count, zeros in holes:
        count = min(count, len(rows) - row)
        fresh = np.flatnonzero(~bad[row : row + count]) + row
        bad[row : row + count] = True
        for at in fresh.tolist():
            if zeros:
                zero(log, at, 1)
            else:
                flip(log, HEADER_SIZE + at * DELIVERY.itemsize + 17)
    (source,) = Inventory.open([pristine]).deliveries
    original, module.BLOCK_ROWS = module.BLOCK_ROWS, block  # type: ignore[misc]
    try:
        reads = list(delivery_blocks(source))
    finally:
        module.BLOCK_ROWS = original  # type: ignore[misc]
    found = [at for read in reads for at in read.rows["at_ms"].tolist()]
    gaps = [gap for read in reads for gap in read.gaps]
    assert found == rows["at_ms"][~bad].tolist()
    for at_ms in rows["at_ms"][bad].tolist():
        assert any(gap.from_ms <= at_ms < gap.until_ms for gap in gaps), at_ms
    assert sum(problem.rows for read in reads for problem in read.problems) == int(bad.sum())
