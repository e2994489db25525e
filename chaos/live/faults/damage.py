"""Damage to the files of a node that does not run: flipped bits, zeroed pages, files cut short, torn writes.

A plan names the place of a damage as a share, 0 to 1, of all the bytes in files of one kind. So a plan means about the
same for files of any size.
"""

from __future__ import annotations

import bisect
import itertools
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: Kinds of files, by the word that a plan uses.
FILES: Final = {
    "journal": "journal/*",
    "hours": "hours/*/*",
    "catalog": "catalog/data.mdb",
    "deliveries": "deliveries/*.log",
}
PAGE: Final = 4096
TORN_BYTES_MAX: Final = 4096
CUT: Final = "the end"
ZEROS: Final = "a page"
#: Shorter than the shortest record of a delivery log. A node takes a part of a record at the end for a torn write, but
#: a whole record of random bytes for damage.
TORN_ROW_BYTES_MAX: Final = 63


@dataclass(frozen=True)
class FileDamage:
    """The damage to one file. `offset` is the first damaged byte, `size` the number of bytes."""

    what: str
    path: Path
    offset: int
    size: int
    held: bytes = b""
    """The bytes that stood there before, at most a page of them. Empty for a torn write and an old copy."""

    def mended(self) -> bool:
        """True if the file does not exist any more, or has the old bytes again at that place. Then its node cut the
        file and wrote it anew."""
        if not self.path.exists():
            return True
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return bool(self.held) and file.read(len(self.held)) == self.held

    def describe(self) -> str:
        """A line for a log."""
        return f"{self.what} of {self.path.parent.name}/{self.path.name} at {self.offset}, {self.size} bytes"


def files(data: Path, kind: str) -> list[Path]:
    """The files of this kind that are not empty, in the order of their names."""
    return [path for path in sorted(data.glob(FILES[kind])) if path.is_file() and path.stat().st_size]


def flip(data: Path, kind: str, at: float, chance: random.Random) -> FileDamage | None:
    """Invert one bit. Return None if there is no such file."""
    place = _place(files(data, kind), at)
    if place is None:
        return None
    path, offset = place
    with path.open("r+b") as file:
        file.seek(offset)
        held = file.read(1)
        file.seek(offset)
        file.write(bytes([held[0] ^ 1 << chance.randrange(8)]))
    return FileDamage("a bit", path, offset, 1, held)


def zero(data: Path, kind: str, at: float, chance: random.Random) -> FileDamage | None:
    """Zero the page of 4 KiB around the place. Return None if there is no such file, or the page had only zeros."""
    place = _place(files(data, kind), at)
    if place is None:
        return None
    path, offset = place
    offset -= offset % PAGE
    with path.open("r+b") as file:
        file.seek(offset)
        held = file.read(PAGE)
        file.seek(offset)
        file.write(bytes(len(held)))
    return FileDamage(ZEROS, path, offset, len(held), held) if any(held) else None


def truncate(data: Path, kind: str, at: float, chance: random.Random) -> FileDamage | None:
    """Cut the file off at the place. Return None if there is no such file."""
    place = _place(files(data, kind), at)
    if place is None:
        return None
    path, offset = place
    with path.open("rb") as file:
        file.seek(offset)
        held = file.read(PAGE)
    size = path.stat().st_size - offset
    os.truncate(path, offset)
    return FileDamage(CUT, path, offset, size, held)


def tear(data: Path, kind: str, at: float, chance: random.Random) -> FileDamage | None:
    """Append to the newest file the random bytes that an unfinished write leaves. This is no damage, because the writer
    was not told that it was written. Return None if there is no such file."""
    found = files(data, kind)
    if not found or kind == "catalog":
        return None
    path = max(found, key=lambda path: path.stat().st_mtime_ns)
    size_max = TORN_ROW_BYTES_MAX if kind == "deliveries" else TORN_BYTES_MAX
    size = max(1, round(at * size_max))
    offset = path.stat().st_size
    with path.open("ab") as file:
        file.write(chance.randbytes(size))
    return FileDamage("a torn write", path, offset, size)


def _place(found: Sequence[Path], at: float) -> tuple[Path, int] | None:
    """Return the file and the offset in it at the share `at` of all bytes of these files, one behind the other. None
    without files."""
    ends = list(itertools.accumulate(path.stat().st_size for path in found))
    if not ends:
        return None
    target = min(int(at * ends[-1]), ends[-1] - 1)
    number = bisect.bisect_right(ends, target)
    return found[number], target - (ends[number - 1] if number else 0)
