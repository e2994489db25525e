"""The context of a reckoning has the gaps of every node's account."""

from pathlib import Path

import numpy as np
import pytest

from ledger.bucket import TERM, Context
from reconcile.files.find import DeliverySource
from reconcile.files.inventory import Inventory
from reconcile.judge.context import _covered_from, context_of
from reconcile.judge.first_pass import DeliveryTask, Survey, survey
from reconcile.judge.outside_records import Said
from storage.catalog.doubt import CLOCKS_MS
from storage.file.delivery_file import BACK_MS, DeliveryWriter, delivery_files
from storage.file.disk import Disk
from storage.format.position import HOUR_MS
from storage.format.rows import HEADER_SIZE
from storage.record.delivery_record import DELIVERY, START, Deliveries
from tests.ledger.life import told

NOW_MS = 1_790_000_000_000


def start(at_ms: int) -> Deliveries:
    """Of one hand-over by node 1."""
    row = np.zeros(1, DELIVERY)
    row["kind"], row["at_ms"], row["node"], row["term"] = START, at_ms, 1, 1
    return row


def write(directory: Path) -> None:
    """A log of three files."""
    writer = DeliveryWriter(directory, Disk(), group=0, cluster_id=bytes(16))
    for hour in range(3):
        for at_ms in (0, 1):
            writer.append(start(NOW_MS + hour * HOUR_MS + at_ms), NOW_MS + hour * HOUR_MS)
    writer.close()


def surveyed(*directories: Path) -> Survey:
    """The accounts of the first node. Copies, of which no store is told."""
    found = Survey()
    for directory in directories:
        for file in delivery_files(directory, Disk()):
            path = directory / file.name
            count = (path.stat().st_size - HEADER_SIZE) // DELIVERY.itemsize
            source = DeliverySource(directory.name, "", path, file.hour, file.sequence, count)
            found.add(survey(DeliveryTask(source, ()), directory))
    return found


def context_from(found: Survey) -> Context:
    """Of these accounts alone."""
    return context_of(Inventory((), (), (), (), (), b""), found, Said(), {})


def gaps(*directories: Path) -> list[tuple[int, int]]:
    """(from, until) of the gaps in the accounts of the first node, after NOW_MS."""
    context = context_from(surveyed(*directories))
    return [(int(gap["from_ms"]) - NOW_MS, int(gap["until_ms"]) - NOW_MS) for gap in context.gaps]


@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        ("nothing", []),
        ("end", [(HOUR_MS, 2 * HOUR_MS + 1)]),
        ("file", [(1, 2 * HOUR_MS + 1)]),
        ("count", [(HOUR_MS + 1, 2 * HOUR_MS + 1)]),
    ],
)
def test_a_file_that_lost_its_end_is_a_gap_to_the_one_that_goes_on_with_it(
    tmp_path: Path, lost: str, expected: list[tuple[int, int]]
) -> None:
    """FOUND D5 over two files, as the nodes see it: tests/storage/query/test_delivery_search.py."""
    for name in ("n1", "n2"):
        (tmp_path / name).mkdir()
        write(tmp_path / name)
    _, cut, after = (tmp_path / "n1" / file.name for file in delivery_files(tmp_path / "n1", Disk()))
    size = DELIVERY.itemsize
    if lost == "end":
        cut.write_bytes(cut.read_bytes()[:-size])
    elif lost == "file":
        cut.unlink()
    elif lost == "count":
        data = after.read_bytes()
        after.write_bytes(data[:HEADER_SIZE] + bytes(size) + data[HEADER_SIZE + size :])
    found = gaps(tmp_path / "n1", tmp_path / "n2")
    assert set(found) >= set(expected)
    assert bool(found) == bool(expected)


def test_52812_an_account_does_not_cover_the_time_of_its_first_record(tmp_path: Path) -> None:
    """Where older files went by age, those may have held what is later by BACK_MS."""
    write(tmp_path)

    def begins() -> tuple[int, int]:
        found = surveyed(tmp_path)
        return context_from(found).from_ms, _covered_from(tmp_path.name, {tmp_path.name: 1}, found, 500)

    assert begins() == (0, 0)
    first, *_ = delivery_files(tmp_path, Disk())
    (tmp_path / first.name).unlink()
    whole_ms = NOW_MS + HOUR_MS + BACK_MS + 1
    assert begins() == (whole_ms, whole_ms)


def test_what_a_leader_did_by_a_clock_that_was_ahead_is_a_gap() -> None:
    """Term 1 told of a hand-over a minute from now. By the clock of term 2 it was over then."""
    found = Survey(settled_ms=NOW_MS + 10_000)
    found.terms.append(
        np.array([told(1, 1, NOW_MS, NOW_MS + 60_000), told(2, 2, NOW_MS + 4_000, NOW_MS + 9_000)], TERM)
    )
    (before, ahead) = context_from(found).gaps.tolist()
    assert (before[0], before[1], before[4]) == (1, 0, NOW_MS + 4_000 + CLOCKS_MS)
    assert ahead == (1, 1, 0, NOW_MS + 10_001, NOW_MS + 60_001)
    found.settled_ms = NOW_MS + 3_000  # term 2 lies beyond that: all was read, and nothing tells which clock is ahead
    assert not len(context_from(found).gaps)
