"""Damage to the files of a node that does not run: exactly what was asked for, and nothing else."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.live.faults.damage import PAGE, FileDamage, files, flip, tear, truncate, zero

KIND_FILE = {
    "journal": "journal/000001.seg",
    "hours": "hours/494000/index",
    "catalog": "catalog/data.mdb",
    "deliveries": "deliveries/494000-000001.log",
}


def data_of(directory: Path, sizes: tuple[int, ...] = (10_000, 3_000)) -> Path:
    """A data directory with files of each kind, of bytes that are never zero."""
    for kind, name in KIND_FILE.items():
        for number, size in enumerate(sizes[: 1 if kind == "catalog" else None]):
            path = directory / name
            path = (
                path if not number else path.with_name(path.name.replace("1", "2") + ("" if "1" in path.name else "2"))
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bytes([number + 1]) * size)
    return directory


def contents(directory: Path) -> dict[Path, bytes]:
    """All files."""
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", list(KIND_FILE))
@pytest.mark.parametrize("at", [0.0, 0.37, 0.9, 1.0])
def test_one_bit(tmp_path: Path, kind: str, at: float) -> None:
    """One bit of one byte of that kind of file is inverted, where the wound says."""
    before = contents(data_of(tmp_path))
    file_damage = flip(tmp_path, kind, at, random.Random(1))
    assert file_damage is not None
    assert file_damage.path in files(tmp_path, kind)
    for path, held in contents(tmp_path).items():
        changed = [place for place, (a, b) in enumerate(zip(held, before[path], strict=True)) if a != b]
        assert changed == ([file_damage.offset] if path == file_damage.path else [])
        assert all((held[place] ^ before[path][place]).bit_count() == 1 for place in changed)


def test_one_page(tmp_path: Path) -> None:
    """A page on its own border, cut at the end of the file; a page that was zero already is no wound."""
    data_of(tmp_path)
    file_damage = zero(tmp_path, "catalog", 0.5, random.Random(1))
    assert file_damage is not None
    assert (file_damage.offset, file_damage.size) == (PAGE, PAGE)
    held = file_damage.path.read_bytes()
    assert held == bytes([1]) * PAGE + bytes(PAGE) + bytes([1]) * (10_000 - 2 * PAGE)
    assert zero(tmp_path, "catalog", 0.5, random.Random(1)) is None


def test_cut_short(tmp_path: Path) -> None:
    """The file ends at the place; others are as they were."""
    data_of(tmp_path)
    file_damage = truncate(tmp_path, "hours", 0.25, random.Random(1))
    assert file_damage is not None
    assert file_damage.path.stat().st_size == file_damage.offset == 3_250
    assert file_damage.size == 6_750


@pytest.mark.parametrize(("kind", "most"), [("journal", 4096), ("hours", 4096), ("deliveries", 63)])
def test_a_torn_write_takes_nothing_away(tmp_path: Path, kind: str, most: int) -> None:
    """All bytes that were there are there, some follow; of a delivery log less than a record."""
    before = contents(data_of(tmp_path))
    file_damage = tear(tmp_path, kind, 1.0, random.Random(1))
    assert file_damage is not None
    held = file_damage.path.read_bytes()
    assert held[: file_damage.offset] == before[file_damage.path]
    assert len(held) - file_damage.offset == file_damage.size == most


def test_nothing_to_hurt(tmp_path: Path) -> None:
    """Without such a file nothing happens; LMDB has no tail that a crash could leave."""
    for hurt in (flip, zero, truncate, tear):
        assert hurt(tmp_path, "journal", 0.5, random.Random(1)) is None
    assert tear(data_of(tmp_path), "catalog", 0.5, random.Random(1)) is None


@given(at=st.floats(0, 1))
def test_every_place_is_a_byte_of_some_file(tmp_path_factory: pytest.TempPathFactory, at: float) -> None:
    """Whatever the share, the byte exists, and the share of all bytes before it is that share."""
    directory = data_of(tmp_path_factory.mktemp("data"), (700, 300))
    file_damage = flip(directory, "hours", at, random.Random(1))
    assert file_damage is not None
    before = sum(path.stat().st_size for path in files(directory, "hours") if path < file_damage.path)
    assert 0 <= file_damage.offset < file_damage.path.stat().st_size
    assert before + file_damage.offset == min(int(at * 1_000), 999)


@pytest.mark.parametrize("hurt", [flip, zero, truncate])
def test_a_wound_is_mended_when_the_bytes_are_back(tmp_path: Path, hurt: Callable[..., FileDamage | None]) -> None:
    """As long as the file is not as it was there, the wound is there; written anew, or removed, it is not."""
    before = contents(data_of(tmp_path))
    file_damage = hurt(tmp_path, "hours", 0.5, random.Random(1))
    assert file_damage is not None
    assert not file_damage.mended()
    file_damage.path.write_bytes(before[file_damage.path])
    assert file_damage.mended()
    file_damage.path.unlink()
    assert file_damage.mended()
