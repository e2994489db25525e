"""A host's disk: real files, and an account of what a power cut would take from them.

It outlives processes. A power cut takes back every change that no sync has covered:

- A write or a truncation: the file gets its old bytes and length. Fdatasync of the file covers it.
- A new file or directory is removed. Fsync of its directory covers it.
- A renamed file or directory gets its old name, and the one that it replaced comes back. Fsync of the target directory
  covers it.
- A removed file or directory comes back, because it was kept aside. Fsync of its directory covers it.

Syncfs covers all changes. A renamed or removed directory takes its unsynced names along. A later directory at its path
has nothing to do with them.

A torn power cut takes back any part: in each directory the changes from some point on, in each file any sectors. A
kernel writes back in no order, too. LMDB writes its file by itself, and this file counts as always durable: LMDB's
commits are single steps here.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

from chaos.simulator.disk.names import Name, Names

SECTOR = 512
PAGE = 4096
GIB = 1 << 30


@dataclass(slots=True)
class Undo:
    """One write or truncation, so that it can be taken back. Before it the bytes `old` stood at `offset`, and the file
    was `size` bytes long. `new_bytes` counts the bytes that were written, or that a truncation to a greater length
    added."""

    offset: int
    old: bytes
    size: int
    new_bytes: int

    def part(self, begin: int, end: int) -> list[Undo]:
        """The part of this change in begin <= byte < end: a list of one change, or of none. Call it only for a write
        that replaced as many bytes as it wrote."""
        begin, end = max(begin, self.offset), min(end, self.offset + len(self.old))
        old = self.old[begin - self.offset : end - self.offset]
        return [Undo(begin, old, self.size, len(old))] if begin < end else []


def _parts(several: list[Undo], begin: int, end: int) -> list[Undo]:
    return [part for each in several for part in each.part(begin, end)]


@dataclass(slots=True)
class File:
    """A file's length and its unsynced changes. `undo` has those that the next sync covers. `stuck` has those whose
    sync failed: no sync covers them until their page is written again."""

    size: int
    undo: list[Undo] = field(default_factory=list)
    stuck: list[Undo] = field(default_factory=list)

    def stick(self) -> None:
        """Move the unsynced changes to `stuck`, because a sync of them failed. The kernel takes their pages for clean
        then, so no later sync writes them. If a later sync writes bytes behind them, their place is a hole in the
        file."""
        for each in self.undo:
            each.old = each.old.ljust(each.new_bytes, b"\0")
        self.stuck += self.undo
        self.undo = []

    def write_again(self, offset: int, length: int) -> None:
        """Move the stuck changes in the pages of this write back to `undo`. The kernel takes these pages for dirty
        again, and the next sync writes them."""
        begin, end = offset - offset % PAGE, -(-(offset + length) // PAGE) * PAGE
        self.undo = _parts(self.stuck, begin, end) + self.undo
        self.stuck = _parts(self.stuck, 0, begin) + _parts(self.stuck, end, sys.maxsize)

    def cut(self, length: int, old: bytes) -> bytes:
        """Note a truncation to `length`, where `old` are the bytes behind it. Stuck changes behind `length` are
        dropped. Return the bytes to restore if the truncation is taken back: `old`, with the bytes before each stuck
        change in its place."""
        held = bytearray(old)
        for each in _parts(self.stuck, length, length + len(old)):
            held[each.offset - length : each.offset - length + len(each.old)] = each.old
        self.stuck = _parts(self.stuck, 0, length)
        return bytes(held)

    def synced(self) -> None:
        """Note that a sync succeeded: all that is not stuck is durable, and so is the length."""
        self.undo.clear()
        for each in self.stuck:
            each.size = max(each.size, self.size)


class Platter:
    """A host's disk below `root`. `aside` is a directory on the same file system that keeps removed files."""

    def __init__(self, root: Path, aside: Path, chance: random.Random) -> None:
        self.root = root
        self.free_bytes = 50 * GIB
        self.total_bytes = 100 * GIB
        self.slow_s = 0.0
        self.files: dict[int, File] = {}
        self.names = Names()
        self._aside = aside
        self._kept = 0
        self._chance = chance
        root.mkdir(parents=True, exist_ok=True)
        aside.mkdir(parents=True, exist_ok=True)

    def keep(self, path: Path) -> Path:
        """Return a new path in `aside`. The caller moves a file to it that is being removed or replaced."""
        self._kept += 1
        return self._aside / f"{self._kept}-{path.name}"

    def move(self, old: Path, new: Path) -> None:
        """Rename a file or directory. The unsynced changes of a directory go with it."""
        directory = old.is_dir()
        os.rename(old, new)
        if directory:
            self.names.follow(old, new)

    def remove(self, kept: Path) -> None:
        """Forget a kept file or directory for good, with its content."""
        if kept.is_dir():
            _forget(self.names.take_below(kept))
        remove(kept)

    def sync_names(self, directory: Path | None) -> None:
        """Note that a sync has covered the changes of a directory (None: of all), so that they are durable."""
        _forget(self.names.take(directory))

    def sync_all(self) -> None:
        """Note that everything is durable."""
        self.sync_names(None)
        for file in self.files.values():
            file.synced()

    def power_cut(self, *, torn: bool) -> None:
        """Take back all that no sync has covered, or any part of it if `torn`."""
        self._lose_names(torn)
        for path in sorted(self.root.rglob("*")):  # by name: inode numbers depend on the file system
            file = self.files.get(path.stat().st_ino) if path.is_file() else None
            if file is not None and (file.undo or file.stuck):
                self._lose_bytes(path, [*file.stuck, *file.undo], torn)
        self.files.clear()

    def _lose_names(self, torn: bool) -> None:
        by_directory: dict[Path, int] = {}
        names = list(self.names)
        for name in names:
            by_directory[name.directory] = by_directory.get(name.directory, 0) + 1
        left = {where: self._chance.randint(0, count) if torn else 0 for where, count in by_directory.items()}
        lost: list[Name] = []
        for name in names:
            if left[name.directory]:
                left[name.directory] -= 1
                name.forget()
            else:
                lost.append(name)
        for name in reversed(lost):
            name.back(*name.paths)  # the paths follow the directories that were renamed back before
        self.names.take(None)

    def _lose_bytes(self, path: Path, undo: list[Undo], torn: bool) -> None:
        seen = path.read_bytes()
        kept = bytearray(seen)
        dirty: set[int] = set()
        for each in reversed(undo):
            end = each.offset + max(each.new_bytes, len(each.old))
            dirty.update(range(each.offset // SECTOR, end // SECTOR + 1))
            kept.extend(bytes(max(0, each.size - len(kept))))
            kept[each.offset : each.offset + len(each.old)] = each.old
            del kept[each.size :]
        if not torn:
            path.write_bytes(kept)
            return
        chance = self._chance
        short, long = sorted((len(kept), len(seen)))
        length = chance.choice((len(kept), len(seen), chance.randint(short, long)))
        result = bytearray(bytes(kept[:length]).ljust(length, b"\0"))
        share = chance.random()
        for sector in sorted(dirty):
            start = sector * SECTOR
            if start < length and chance.random() < share:
                part = seen[start : min(start + SECTOR, length)]
                result[start : start + len(part)] = part
        path.write_bytes(result)

    def flip(self, pattern: str, place: float, bit: int) -> Path | None:
        """Flip one bit of the first file that matches `pattern` (a glob below the root) and has bytes. `place` is a
        share of its length. None if there is no such file. The host's process must be down."""
        for path in sorted(self.root.glob(pattern)):
            if path.is_file() and path.stat().st_size:
                data = bytearray(path.read_bytes())
                data[int(place * (len(data) - 1))] ^= 1 << bit
                path.write_bytes(data)
                return path
        return None

    def wipe(self) -> None:
        """Empty the disk: remove all files, and all that was kept aside."""
        self.sync_names(None)
        self.files.clear()
        shutil.rmtree(self.root)
        shutil.rmtree(self._aside)
        self.root.mkdir()
        self._aside.mkdir()


def _forget(names: list[Name]) -> None:
    for name in names:
        name.forget()


def remove(path: Path) -> None:
    """Remove a file, or a directory and all in it. Do nothing if it is missing."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
