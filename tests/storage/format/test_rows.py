"""Formats: golden bytes of version 1, and what is refused."""

import re
from itertools import pairwise
from pathlib import Path

import google_crc32c
import numpy as np
import pytest

import storage.format.rows
import storage.record.record
from storage.file.disk import Disk
from storage.format.rows import (
    HEADER_SIZE,
    MAGIC_INDEX,
    MAGIC_LOG,
    SETTLE,
    UNIT,
    Corrupt,
    FileHeader,
    FormatRefused,
    check_rows,
    seal,
)
from tests.storage.workload import HOUR, content, run

GOLDEN = Path(__file__).parents[1] / "golden"
HEADER = FileHeader(MAGIC_INDEX, 5, 490_000, bytes(range(16)))


@pytest.mark.parametrize("name", ["log", "index", "settle"])
def test_golden_bytes(request: pytest.FixtureRequest, quick_path: Path, name: str) -> None:
    """The fixed workload leaves exactly the bytes it left when version 1 was fixed (`make golden` rewrites them)."""
    run(quick_path, Disk())
    data = content(quick_path)[f"{HOUR + 9}/{name}"]
    path = GOLDEN / f"{name}-1.hex"
    lines = "".join(data[at : at + 32].hex(" ", 4) + "\n" for at in range(0, len(data), 32))
    if request.config.getoption("--golden"):
        path.write_text(lines)
    assert bytes.fromhex(path.read_text()) == data


def test_header_round_trip() -> None:
    """A header is 64 bytes and comes back equal."""
    data = HEADER.encode()
    assert len(data) == HEADER_SIZE
    assert FileHeader.decode(data, "f") == HEADER


def test_every_flipped_bit_of_a_header_is_refused() -> None:
    """A header with any bit flipped, or cut anywhere, is Corrupt."""
    data = HEADER.encode()
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Corrupt, match="header checksum"):
            FileHeader.decode(bytes(flipped), "f")
    for length in range(HEADER_SIZE):
        with pytest.raises(Corrupt, match="header length"):
            FileHeader.decode(data[:length], "f")


@pytest.mark.parametrize(
    ("at", "what"), [(8, "version 258"), (10, "flags"), (14, "reserved"), (20, "reserved"), (40, "reserved")]
)
def test_unknown_headers_are_refused(at: int, what: str) -> None:
    """Another version, a flag or a used reserve is refused by name: a newer build wrote it."""
    data = bytearray(HEADER.encode())
    data[at : at + 2] = b"\x02\x01"
    data[-4:] = google_crc32c.value(bytes(data[:-4])).to_bytes(4, "little")
    with pytest.raises(FormatRefused, match=what):
        FileHeader.decode(bytes(data), "hours/1/index")


@pytest.mark.parametrize(
    "other",
    [
        FileHeader(MAGIC_LOG, 5, 490_000, bytes(range(16))),
        FileHeader(MAGIC_INDEX, 6, 490_000, bytes(range(16))),
        FileHeader(MAGIC_INDEX, 5, 490_001, bytes(range(16))),
        FileHeader(MAGIC_INDEX, 5, 490_000, bytes(16)),
    ],
)
def test_files_of_others_are_refused(other: FileHeader) -> None:
    """A file of another kind, group, hour or cluster in this one's place is Corrupt, and the message says which."""
    with pytest.raises(Corrupt, match=r"magic|group|hour|cluster_id"):
        HEADER.expect(other, "f")


def test_rows_are_sealed_and_checked() -> None:
    """Sealed rows pass; one changed names its ordinal and byte."""
    for dtype in (UNIT, SETTLE):
        rows = np.zeros(9, dtype)
        rows["global_index"] = np.arange(9)
        seal(rows)
        check_rows(rows, "f", np.arange(100, 100 + len(rows)))
        rows["global_index"][4] += 1
        with pytest.raises(Corrupt, match=f"at byte {64 + 104 * dtype.itemsize}: checksum of row 104"):
            check_rows(rows, "f", np.arange(100, 100 + len(rows)))


def _ruler(text: str, names: list[str]) -> list[tuple[int, str]]:
    """(offset, field) as the byte rulers of a docstring draw them: each number stands above the bar it belongs to."""
    found: list[tuple[int, str]] = []
    lines = text.splitlines()
    for above, line in pairwise(lines):
        if not line.startswith(" | ") or not above.strip()[:1].isdigit():
            continue
        bars = [match.start() for match in re.finditer(r"\|", line)]
        numbers = {match.start(): int(match.group()) for match in re.finditer(r"\d+", above)}
        for bar, field in zip(bars, line.split("|")[1:-1], strict=False):
            if field.strip() in names and bar in numbers:
                found.append((numbers[bar], field.strip()))
    return found


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        (storage.format.rows.__doc__, UNIT),
        (storage.format.rows.__doc__, SETTLE),
        (storage.record.record.__doc__, storage.record.record.HEADER),
    ],
)
def test_the_rulers_are_true(text: str, dtype: np.dtype[np.void]) -> None:
    """The byte rulers in the docstrings say where each field really is."""
    assert dtype.fields is not None
    names = [name for name in dtype.names or () if name != "checksum"]
    block = text
    if dtype is UNIT or dtype is SETTLE:
        index, settle = text.split("Settle record, 48 bytes")
        block = index if dtype is UNIT else settle
    drawn = _ruler(block, names)
    assert sorted(drawn) == sorted((dtype.fields[name][1], name) for name in names)
