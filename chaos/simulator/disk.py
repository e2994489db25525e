"""The simulated disk: real files, an account of what a power cut would take from them, and everything a disk can refuse.

A platter is a host's disk; it outlives processes. It knows, of every file written to, how to take back what no sync has
covered, and of every directory the names made, changed and removed since it was last synced:

| done | is undone by | until |
|---|---|---|
| bytes written, file cut | the bytes and the length that were there | fdatasync of the file, syncfs |
| file or directory made | removing it | fsync of its directory, syncfs |
| renamed | renaming back; what was replaced comes back | fsync of the directory it went to, syncfs |
| removed | putting it back (it is kept aside) | fsync of its directory, syncfs |

A power cut takes all of that back, or, when torn, any part of it: names from some point on per directory, bytes sector
by sector, as a kernel writes back in no order. LMDB writes its file by itself and counts as always durable: its commits
are single steps here.

A SimDisk is what one process has of the platter. It can be told to fail or to crash at its k-th operation, and when the
process is gone it refuses everything, so that nothing a dead process still runs can reach a file.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from typing_extensions import Buffer

from chaos.simulator.loop import Gone
from storage.disk import Disk, DiskFailed

SECTOR = 512
GIB = 1 << 30
#: What counts as an operation: a crash may come at any of these.
OPERATIONS = ("write", "fdatasync", "fsync directory", "syncfs", "truncate", "create", "rename", "unlink", "remove")
OPERATIONS += ("make directory",)


@dataclass(slots=True)
class _Undo:
    """One write or cut: these bytes were at `offset`, and the file was so long."""

    offset: int
    old: bytes
    size: int
    new_bytes: int


@dataclass(slots=True)
class _File:
    """What no sync has covered; `stuck`: what a failed sync has left behind for good."""

    undo: list[_Undo] = field(default_factory=list)
    stuck: list[_Undo] = field(default_factory=list)


@dataclass(slots=True)
class _Name:
    """One change of a directory, and how to take it back."""

    directory: Path
    back: Callable[[], None]
    forget: Callable[[], None]


class Platter:
    """A host's disk below `root`; `aside` is a directory on the same file system that keeps what was removed."""

    def __init__(self, root: Path, aside: Path, chance: random.Random) -> None:
        self.root = root
        self.free_bytes = 50 * GIB
        self.total_bytes = 100 * GIB
        self.slow_s = 0.0
        self.files: dict[int, _File] = {}
        self.names: list[_Name] = []
        self._aside = aside
        self._kept = 0
        self._chance = chance
        root.mkdir(parents=True, exist_ok=True)
        aside.mkdir(parents=True, exist_ok=True)

    def keep(self, path: Path) -> Path:
        """Where to put something that is being removed or replaced."""
        self._kept += 1
        return self._aside / f"{self._kept}-{path.name}"

    def sync_names(self, directory: Path | None) -> None:
        """The names in a directory (None: in all) are durable."""
        left = []
        for name in self.names:
            if directory is None or name.directory == directory:
                name.forget()
            else:
                left.append(name)
        self.names = left

    def sync_all(self) -> None:
        """Everything is durable."""
        self.sync_names(None)
        for file in self.files.values():
            file.undo.clear()

    def power_cut(self, *, torn: bool) -> None:
        """What no sync has covered is gone; `torn`: any part of it."""
        self._lose_names(torn)
        numbers = {path.stat().st_ino: path for path in sorted(self.root.rglob("*")) if path.is_file()}
        for number, file in sorted(self.files.items()):
            if number in numbers and (file.undo or file.stuck):
                self._lose_bytes(numbers[number], [*file.stuck, *file.undo], torn)
        self.files.clear()

    def _lose_names(self, torn: bool) -> None:
        by_directory: dict[Path, int] = {}
        for name in self.names:
            by_directory[name.directory] = by_directory.get(name.directory, 0) + 1
        left = {where: self._chance.randint(0, count) if torn else 0 for where, count in by_directory.items()}
        lost: list[_Name] = []
        for name in self.names:
            if left[name.directory]:
                left[name.directory] -= 1
                name.forget()
            else:
                lost.append(name)
        for name in reversed(lost):
            name.back()
        self.names = []

    def _lose_bytes(self, path: Path, undo: list[_Undo], torn: bool) -> None:
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
        """Flip one bit: of the first file that matches `pattern` (a glob below the root) and has bytes, at the share
        `place` of its length. None if there is none. For a host whose process is down."""
        for path in sorted(self.root.glob(pattern)):
            if path.is_file() and path.stat().st_size:
                data = bytearray(path.read_bytes())
                data[int(place * (len(data) - 1))] ^= 1 << bit
                path.write_bytes(data)
                return path
        return None

    def wipe(self) -> None:
        """An empty disk under the old name."""
        self.sync_names(None)
        self.files.clear()
        shutil.rmtree(self.root)
        shutil.rmtree(self._aside)
        self.root.mkdir()
        self._aside.mkdir()


@dataclass(slots=True)
class _Fault:
    """`errno` at the `after`-th coming operation of this kind."""

    operation: str
    number: int
    after: int


class SimDisk(Disk):
    """The disk as one process sees it. `note(operation)` is told of every change, `crashed()` when it ends one."""

    def __init__(
        self, platter: Platter, chance: random.Random, note: Callable[[str], None], crashed: Callable[[], None]
    ) -> None:
        self.operations = 0
        self.dead = False
        self._platter = platter
        self._chance = chance
        self._note = note
        self._crashed = crashed
        self._crash_at = 0
        self._faults: list[_Fault] = []
        self._open: dict[int, int] = {}  # descriptor -> inode number

    # -- what the world does to it

    def crash_at(self, count: int) -> None:
        """The process ends in the `count`-th operation from now."""
        self._crash_at = self.operations + count

    def fail(self, number: int, operation: str, after: int = 1) -> None:
        """The `after`-th coming operation of this kind (OPERATIONS) fails with this errno."""
        assert operation in OPERATIONS, operation
        self._faults.append(_Fault(operation, number, after))

    def release(self) -> None:
        """The process is gone: its descriptors are closed (which drops its locks), everything is refused."""
        self.dead = True
        for fd in self._open:
            os.close(fd)
        self._open.clear()

    # -- the gate

    def _alive(self) -> None:
        if self.dead:
            raise Gone

    def _step(self, operation: str, path: str, torn: Callable[[], None] | None = None) -> None:
        """Before an operation: it may be the one that ends the process, or that fails."""
        if self.dead:
            raise Gone
        self.operations += 1
        self._note(operation)
        if self.operations == self._crash_at:
            if torn is not None and self._chance.random() < 0.5:
                torn()
            self.dead = True
            self._crashed()
            raise Gone
        for fault in self._faults:
            if fault.operation == operation:
                fault.after -= 1
                if fault.after == 0:
                    self._faults.remove(fault)
                    if torn is not None and fault.number == errno.ENOSPC:
                        torn()
                    raise DiskFailed(operation, path, fault.number)

    def _file(self, fd: int) -> _File:
        number = self._open[fd]
        file = self._platter.files.get(number)
        if file is None:
            file = self._platter.files[number] = _File()
        return file

    def _named(self, directory: Path, back: Callable[[], None], forget: Callable[[], None] = lambda: None) -> None:
        self._platter.names.append(_Name(directory, back, forget))

    # -- Disk

    def open_read(self, path: Path) -> int:
        """See Disk."""
        self._alive()
        fd = super().open_read(path)
        self._open[fd] = os.fstat(fd).st_ino
        return fd

    def open_write(self, path: Path) -> int:
        """See Disk."""
        new = not os.path.lexists(path)
        if new:
            self._step("create", str(path))
        self._alive()
        fd = super().open_write(path)
        number = self._open[fd] = os.fstat(fd).st_ino
        if new:
            self._platter.files[number] = _File()  # the number may have been another file's
            self._named(path.parent, lambda: path.unlink(missing_ok=True))
        return fd

    def close(self, fd: int) -> None:
        """See Disk. Allowed to the dead: it changes nothing."""
        if self._open.pop(fd, None) is not None:
            super().close(fd)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        """See Disk."""
        self._alive()
        return super().read(fd, size, offset)

    def write(self, fd: int, data: Buffer, offset: int) -> None:
        """See Disk."""
        view = memoryview(data).cast("B")

        def torn() -> None:
            self._write(fd, view[: self._chance.randint(0, len(view))], offset)

        self._step("write", f"fd {fd}", torn)
        self._write(fd, view, offset)

    def _write(self, fd: int, view: memoryview, offset: int) -> None:
        size = os.fstat(fd).st_size
        old = super().read(fd, min(len(view), size - offset), offset) if offset < size else b""
        self._file(fd).undo.append(_Undo(offset, old, size, len(view)))
        super().write(fd, view, offset)

    def fdatasync(self, fd: int) -> None:
        """See Disk. After a failed one the kernel holds the pages for clean: no later sync carries them."""
        file = self._file(fd) if not self.dead else _File()
        try:
            self._step("fdatasync", f"fd {fd}")
        except DiskFailed:
            file.stuck += file.undo
            file.undo = []
            raise
        file.undo.clear()

    def fsync_directory(self, path: Path) -> None:
        """See Disk."""
        self._step("fsync directory", str(path))
        self._platter.sync_names(path)

    def syncfs(self, fd: int) -> None:
        """See Disk."""
        self._step("syncfs", f"fd {fd}")
        self._platter.sync_all()

    def truncate(self, fd: int, length: int) -> None:
        """See Disk."""
        self._step("truncate", f"fd {fd}")
        size = os.fstat(fd).st_size
        old = super().read(fd, size - length, length) if length < size else b""
        self._file(fd).undo.append(_Undo(min(length, size), old, size, max(0, length - size)))
        super().truncate(fd, length)

    def size(self, fd: int) -> int:
        """See Disk."""
        self._alive()
        return super().size(fd)

    def rename(self, old: Path, new: Path) -> None:
        """See Disk."""
        self._step("rename", str(old))
        kept: Path | None = None
        if os.path.lexists(new):
            kept = self._platter.keep(new)
            os.rename(new, kept)
        super().rename(old, new)

        def back() -> None:
            if os.path.lexists(new):
                os.rename(new, old)
            _put_back(kept, new)

        self._named(new.parent, back, lambda: _remove(kept))

    def unlink(self, path: Path) -> None:
        """See Disk."""
        self._step("unlink", str(path))
        if not os.path.lexists(path):
            super().unlink(path)  # for its error
        self._set_aside(path)

    def remove_tree(self, path: Path) -> None:
        """See Disk. One step here; what a crash within leaves is covered by a torn power cut of the directory."""
        self._step("remove", str(path))
        if os.path.lexists(path):
            self._set_aside(path)

    def _set_aside(self, path: Path) -> None:
        kept = self._platter.keep(path)
        os.rename(path, kept)
        self._named(path.parent, lambda: _put_back(kept, path), lambda: _remove(kept))

    def make_directory(self, path: Path) -> None:
        """See Disk."""
        if os.path.isdir(path):
            self._alive()
            return
        self._step("make directory", str(path))
        super().make_directory(path)
        self._named(path.parent, lambda: _remove(path))

    def list_directory(self, path: Path) -> list[str]:
        """See Disk."""
        self._alive()
        return super().list_directory(path)

    def exists(self, path: Path) -> bool:
        """See Disk."""
        self._alive()
        return super().exists(path)

    def lock(self, fd: int) -> bool:
        """See Disk."""
        self._alive()
        return super().lock(fd)

    def free_bytes(self, path: Path) -> int:
        """As the plan says."""
        self._alive()
        return self._platter.free_bytes

    def total_bytes(self, path: Path) -> int:
        """As the plan says."""
        self._alive()
        return self._platter.total_bytes


def _put_back(kept: Path | None, path: Path) -> None:
    if kept is not None and path.parent.is_dir() and not os.path.lexists(path):
        os.rename(kept, path)


def _remove(path: Path | None) -> None:
    if path is None:
        return
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
