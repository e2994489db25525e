"""Verify finds what checksums alone do not: rows that are whole but wrong. The digest tells directories apart."""

from collections.abc import Callable
from pathlib import Path

import lmdb
import numpy as np
import pytest

from storage.directory.verify import digest, verify
from storage.file.delivery_file import DeliveryWriter
from storage.file.disk import Disk
from storage.format.rows import HEADER_SIZE, SETTLE, UNIT, Corrupt, seal
from storage.format.states import FORWARDED
from storage.record.delivery_record import DELIVERY, START
from storage.store import Store
from tests.storage.workload import HOUR, run

Rows = np.ndarray[tuple[int], np.dtype[np.void]]
NINE = HOUR + 9


def _change(directory: Path, name: str, change: Callable[[Rows], None]) -> None:
    """Change rows of hour 9 and seal them again, as a fault in our own code would."""
    path = directory / "hours" / str(NINE) / name
    data = path.read_bytes()
    rows = np.frombuffer(bytearray(data[HEADER_SIZE:]), UNIT if name == "index" else SETTLE)
    change(rows)
    seal(rows)
    path.write_bytes(data[:HEADER_SIZE] + rows.tobytes())


def _set(row: int, field: str, value: int) -> Callable[[Rows], None]:
    def change(rows: Rows) -> None:
        assert rows[field][row] != value
        rows[field][row] = value

    return change


def _swap(rows: Rows) -> None:
    rows[[0, 1]] = rows[[1, 0]]


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("index", _set(3, "local_index", 0), "local_index"),
        ("index", _set(3, "pre_global_index", -1), "pre_global_index"),
        ("index", _set(2, "global_index", 4), "global_index"),
        ("index", _set(2, "due_ms", 5), "hour of due_ms"),
        ("index", _set(1, "offset", 72), "offset"),
        ("index", _set(5, "size", 8), "end of the last record"),
        ("index", _swap, "global_index"),
        ("settle", _set(0, "global_index", 99), "global_index"),
        ("settle", _set(0, "what", 0), "what"),
        ("settle", _set(1, "what", 9), "what"),
        ("settle", _set(1, "previous", 0), "previous"),
        ("settle", _set(1, "what", 7), "unsettled units"),
        ("settle", _set(9, "what", 8), "forwarded units"),
        ("index", _set(7, "flags", 0), "moved units"),
        ("index", _set(7, "flags", 0), "flags of the record"),
        ("index", _set(3, "flags", 2), "flags of the record"),
    ],
)
def test_rows_that_are_whole_but_wrong(quick_path: Path, name: str, change: Callable[[Rows], None], told: str) -> None:
    """A chain, an order or a count that does not hold is a fault though every checksum does."""
    run(quick_path, Disk())
    before = digest(quick_path)
    _change(quick_path, name, change)
    faults = verify(quick_path).faults
    assert any(f"{NINE}/" in fault and told in fault for fault in faults), faults
    assert digest(quick_path) != before


def test_a_forward_that_leads_nowhere(quick_path: Path) -> None:
    """A message forwarded to a place where it does not live is told from both ends, though each hour is sound."""
    run(quick_path, Disk())
    path = quick_path / "hours" / str(HOUR + 31) / "settle"
    data = path.read_bytes()
    rows = np.frombuffer(bytearray(data[HEADER_SIZE:]), SETTLE)
    assert rows["what"].tolist() == [FORWARDED]
    rows["when"] -= 1
    seal(rows)
    path.write_bytes(data[:HEADER_SIZE] + rows.tobytes())
    forward, back = verify(quick_path).faults
    assert f"{HOUR + 31}/settle unit 0 is forwarded to {HOUR + 33}/index unit 1, where it is not open" in forward
    assert f"{HOUR + 33}/index unit 2 is open, and its home {HOUR + 31}/settle unit 0 does not" in back


def test_a_record_in_another_ones_place(quick_path: Path) -> None:
    """Two sound records that changed places are found: each says whose it is."""
    run(quick_path, Disk())
    path = quick_path / "hours" / str(NINE) / "log"
    data = path.read_bytes()
    index = np.frombuffer((path.parent / "index").read_bytes()[HEADER_SIZE:], UNIT)
    sizes = index["size"].tolist()
    assert sizes[0] == sizes[1]
    first, second = data[64 : 64 + sizes[0]], data[64 + sizes[0] : 64 + 2 * sizes[0]]
    path.write_bytes(data[:64] + second + first + data[64 + 2 * sizes[0] :])
    faults = verify(quick_path).faults
    assert sum("record's position" in fault for fault in faults) == 2, faults


def test_a_file_of_another_hour(quick_path: Path) -> None:
    """A sound file in the wrong directory is found by its header."""
    run(quick_path, Disk())
    hours = quick_path / "hours"
    (hours / str(NINE) / "index").write_bytes((hours / str(HOUR) / "index").read_bytes())
    assert any("hour is" in fault and f"{NINE}/index" in fault for fault in verify(quick_path).faults)


def test_a_missing_hour(quick_path: Path) -> None:
    """An hour that the checkpoint names and nobody finds is a fault of each of its files, and the digest refuses."""
    run(quick_path, Disk())
    for path in (quick_path / "hours" / str(NINE)).iterdir():
        path.unlink()
    assert len([fault for fault in verify(quick_path).faults if f"{NINE}/" in fault]) == 3
    with pytest.raises(Corrupt, match="missing"):
        digest(quick_path)


def test_nothing_is_changed(quick_path: Path) -> None:
    """Verify and digest leave hour files and what lies behind the checkpoint as they are, and count it."""
    run(quick_path, Disk())
    (quick_path / "hours" / "7").mkdir()
    path = quick_path / "hours" / str(NINE) / "log"
    path.write_bytes(path.read_bytes() + b"torn")
    whole = path.read_bytes()
    report = verify(quick_path)
    digest(quick_path)
    assert report.sound
    assert (report.applied_index, report.hours, report.units) == (31, 13, 33)
    assert [note.split(",")[0] for note in report.notes] == [
        "1 hours that the checkpoint does not name",
        "4 bytes behind the checkpoint",
    ]
    assert path.read_bytes() == whole


def test_no_store_at_all(quick_path: Path) -> None:
    """A directory without catalog is told as such, and none is made."""
    assert "data.mdb" in verify(quick_path).faults[0]
    with pytest.raises(Corrupt, match="catalog"):
        digest(quick_path)
    assert list(quick_path.iterdir()) == []


def test_a_directory_before_its_first_checkpoint_has_the_digest_of_nothing(tmp_path: Path) -> None:
    """A node killed early is not damaged: what it has stands in the journal."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Store.open(tmp_path / name, disk=Disk()).close()
    assert digest(tmp_path / "a") == digest(tmp_path / "b")
    assert digest(tmp_path / "a")[1] == 0


def test_the_delivery_log_is_read_too(tmp_path: Path) -> None:
    """Its rows are counted, a row without content behind them is a note, a flipped bit is a fault like any other."""
    run(tmp_path, Disk())
    deliveries = tmp_path / "deliveries"
    deliveries.mkdir()
    log = DeliveryWriter(deliveries, Disk(), group=0, cluster_id=bytes(16))
    rows = np.zeros(3, DELIVERY)
    rows["random"], rows["kind"] = 5, START
    log.append(rows, 1_000)
    log.close()
    assert (verify(tmp_path).faults, verify(tmp_path).deliveries) == ([], 3)

    (path,) = deliveries.iterdir()
    data = bytearray(path.read_bytes())
    path.write_bytes(data + bytes(80))
    assert any("1 rows of the delivery log are zeros" in each and path.name in each for each in verify(tmp_path).notes)
    data[HEADER_SIZE + 80] ^= 1
    path.write_bytes(data)
    assert any("delivery 1 " in fault for fault in verify(tmp_path).faults)


def test_first_start_cut_short(tmp_path: Path) -> None:
    """A node that was killed before its catalog had all its tables has nothing yet, and nothing wrong."""
    (tmp_path / "catalog").mkdir()
    environment = lmdb.open(str(tmp_path / "catalog"), max_dbs=16)
    environment.open_db(b"about")
    environment.close()
    report = verify(tmp_path)
    assert report.sound, report.faults
    assert "no checkpoint yet" in report.notes[0]


def test_pages_of_the_catalog_are_told_before_lmdb_meets_them(quick_path: Path) -> None:
    """Run 2101: LMDB ended verify by an assertion."""
    run(quick_path, Disk())
    path = quick_path / "catalog" / "data.mdb"
    whole = path.read_bytes()
    told = 0
    for first in range(2 * 4096, len(whole), 4096):
        path.write_bytes(whole[:first] + bytes(4096) + whole[first + 4096 :])
        faults = verify(quick_path).faults
        assert len(faults) <= 1
        told += any(f"at byte {first}: LMDB's page" in fault for fault in faults)
    assert told > 3
