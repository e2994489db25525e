"""A hole in a delivery log, or a member whose directory is missing: what seems lost is listed and not sent again."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bench.dataset.make import Planted, make
from reconcile.judge.job import Request, reconcile
from reconcile.output.directory import REDELIVER_REFUSED
from storage.catalog.catalog import Catalog
from storage.file.disk import Disk
from storage.format.rows import HEADER_SIZE
from storage.record.delivery_record import DELIVERY
from storage.tables.members import REMOVED
from tests.reconcile.directories import cut, flip

pytestmark = pytest.mark.usefixtures("no_page")


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """Three node directories with several delivery files each, and messages that are truly lost. The records of zeros
    that a power cut left among them are taken out."""
    planted = make(tmp_path_factory.mktemp("planted"), messages=30_000, each=2, per_hour=5_000, kills=3)
    for path in (path for node in planted.directories for path in (node / "deliveries").iterdir()):
        data = path.read_bytes()
        rows = np.frombuffer(data, DELIVERY, offset=HEADER_SIZE)
        path.write_bytes(data[:HEADER_SIZE] + rows[rows["kind"] > 0].tobytes())
    return planted


@pytest.fixture
def data(planted: Planted, tmp_path: Path) -> Path:
    """A copy of them that a test may damage."""
    for path in planted.directories:
        shutil.copytree(path, tmp_path / "data" / path.name)
    return tmp_path / "data"


def refused(*paths: Path) -> list[str]:
    """What the report of a reconciliation of these says against sending anything again."""
    document = reconcile(None, Request(paths, paths[0].parent / "out", overwrite=True))
    found = document[REDELIVER_REFUSED]
    assert document["repairs"]["redeliver"], "nothing seems lost: the refusal would be about nothing"
    assert isinstance(found, list)
    return found


def log_of(data: Path, node: str) -> list[Path]:
    """Its delivery files, oldest first."""
    return sorted((data / node / "deliveries").iterdir(), key=lambda path: path.name.split("-")[1])


def test_whole_data_is_a_ground_to_send_again(data: Path) -> None:
    """All members, all files: nothing speaks against it. Nor does a log whose oldest files went by age."""
    assert refused(data) == []
    log_of(data, "n1")[0].unlink()
    assert refused(data) == []


def test_what_a_power_cut_left_is_a_hole(data: Path) -> None:
    """Records of zeros at the end of a file."""
    with log_of(data, "n2")[1].open("ab") as file:
        file.write(bytes(3 * DELIVERY.itemsize))
    (said,) = refused(data)
    assert "the delivery log of n2 has a hole" in said
    assert "never written" in said


def test_a_member_that_was_not_given_is_named(data: Path) -> None:
    """By the newest catalog among the data."""
    said = refused(data / "n1", data / "n3")
    assert said == ["no directory and no export of member n2 was given"]


def test_a_member_that_was_removed_is_not_asked_for(data: Path) -> None:
    """Its directory may be gone for good."""
    for node in ("n1", "n2"):
        catalog = Catalog.open(data / node / "catalog", Disk())
        member = next(member for member in catalog.members.all() if member.id == "n3")
        catalog.members.put(member.became(REMOVED, 7))
        assert catalog.record is not None
        frozen = catalog.begin(catalog.record)
        frozen.commit()
        catalog.finish(frozen)
        catalog.close()
    assert refused(data / "n1", data / "n2") == []


def remove(path: Path) -> None:
    """The file is gone."""
    path.unlink()


def empty(path: Path) -> None:
    """Not a byte is left."""
    cut(path, 0)


def only_header(path: Path) -> None:
    """Its records are gone."""
    cut(path, HEADER_SIZE)


def within_a_record(path: Path) -> None:
    """It ends in the middle of one."""
    cut(path, HEADER_SIZE + 5 * DELIVERY.itemsize + 11)


def flipped_header(path: Path) -> None:
    """One bit of its header."""
    flip(path, 20)


def page_of_zeros(path: Path) -> None:
    """What a power cut leaves."""
    data = path.read_bytes()
    path.write_bytes(data[:8192] + bytes(4096) + data[12288:])


@pytest.mark.parametrize("damage", [remove, empty, only_header, within_a_record, flipped_header, page_of_zeros])
def test_a_hole_in_a_delivery_log_is_named(data: Path, damage: Callable[[Path], None]) -> None:
    """One file in the middle of a log: its hand-overs seem lost, and are not sent again (C2)."""
    files = log_of(data, "n1")
    damage(max(files[1:-1], key=lambda path: path.stat().st_size))
    said = refused(data)
    assert said
    assert all("the delivery log of n1" in sentence for sentence in said)


def test_a_directory_under_anothers_name_is_named(data: Path) -> None:
    """The LOCK of n1 stands in n3's directory: its records say who wrote them."""
    shutil.copy(data / "n1" / "LOCK", data / "n3" / "LOCK")
    said = refused(data)
    assert "no directory and no export of member n3 was given" in said
    assert any("has records of n3" in sentence for sentence in said)


def test_without_a_catalog_nobody_says_who_is_missing(data: Path) -> None:
    """Directories copied without catalogs."""
    for node in ("n1", "n2", "n3"):
        (data / node / "catalog" / "data.mdb").unlink()
    assert refused(data) == ["no catalog that was given says who the members are"]
