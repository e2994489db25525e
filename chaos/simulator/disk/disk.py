"""The disk as one process has it: the real files of a platter, and every error of a disk.

The next or any later operation can be made to fail, or to crash the process. When the process has ended, its SimDisk
refuses everything. So code of a dead process that still runs cannot reach a file.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import Buffer

from chaos.simulator.disk.names import Name
from chaos.simulator.disk.platter import File, Platter, Undo, remove
from chaos.simulator.time.cost import BYTE_US, CALL_US, OPEN_US, Meter
from chaos.simulator.time.loop import Gone
from replication.group import LogGap
from storage.directory.data_directory import DirectoryRefused
from storage.file.disk import Disk, DiskFailed
from storage.format.rows import Corrupt, FormatRefused

#: The operations: a crash may come at any of these.
OPERATIONS = (
    *("write", "fdatasync", "fsync directory", "syncfs", "truncate"),
    *("create", "rename", "unlink", "remove", "make directory"),
)


#: For `crash_at`: operations on all files count, not only those below one directory.
ANY = "any"


def finds_damage(error: BaseException | None) -> bool:
    """True if this error ends a node that has found its files damaged. The cause is a checksum that does not match, or
    a journal and a catalog that do not fit each other. Or LMDB, whose pages have no checksums, met a page without
    sense: LMDB's own errors have no errno."""
    return isinstance(error, Corrupt | FormatRefused | DirectoryRefused | LogGap) or (
        isinstance(error, DiskFailed) and not error.errno
    )


@dataclass(slots=True)
class _Fault:
    """A planned failure: the `after`-th coming operation of this kind fails with the errno `number`."""

    operation: str
    number: int
    after: int


class SimDisk(Disk):
    """The disk as one process sees it. `note(operation)` is called for every change. `crashed()` is called when a
    planned crash ends the process."""

    def __init__(
        self, platter: Platter, chance: random.Random, note: Callable[[str], None], crashed: Callable[[], None]
    ) -> None:
        self.operations = 0
        self.dead = False
        self._platter = platter
        self._chance = chance
        self._note = note
        self._crashed = crashed
        self._crash_after, self._crash_files = 0, ANY
        self._faults: list[_Fault] = []
        self._open: dict[int, int] = {}  # descriptor -> inode number
        self._paths: dict[int, str] = {}  # descriptor -> path

    # -- called by the world

    def crash_at(self, count: int, files: str = ANY) -> None:
        """Crash the process in the `count`-th disk operation from now on. `files` is ANY, or a directory of the node's
        data: then only operations below it count."""
        self._crash_after, self._crash_files = count, files

    def fail(self, number: int, operation: str, after: int = 1) -> None:
        """Let the `after`-th coming operation of this kind (OPERATIONS) fail with this errno."""
        assert operation in OPERATIONS, operation
        self._faults.append(_Fault(operation, number, after))

    def spare(self) -> None:
        """Cancel the planned crash and the planned failures that were not reached."""
        self._crash_after = 0
        self._faults.clear()

    def release(self) -> None:
        """Close the descriptors of the process, which has ended, and refuse everything from now on. Closing drops its
        locks."""
        self.dead = True
        for fd in self._open:
            os.close(fd)
        self._open.clear()

    # -- the gate

    def _charge(self, what: str, us: float) -> None:
        """Charge `us` microseconds to the loop or thread that runs now (time/cost.py)."""
        if Meter.running is not None:
            Meter.running.charge(what, us)

    def _alive(self) -> None:
        if self.dead:
            raise Gone

    def _step(self, operation: str, path: str, torn: Callable[[], None] | None = None) -> None:
        """Begin an operation. It raises Gone if a crash was planned for it, DiskFailed if a failure was. `torn` carries
        out a part of the operation: every second crash, and each ENOSPC, leaves such a part."""
        if self.dead:
            raise Gone
        self.operations += 1
        self._note(operation)
        if self._crash_after and self._crashes(path):
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

    def _crashes(self, path: str) -> bool:
        """Count this operation on the way to the planned crash, if it is on one of the chosen files. True if the crash
        comes in it."""
        root = self._platter.root
        if self._crash_files == ANY or Path(path).is_relative_to(root / self._crash_files):
            self._crash_after -= 1
            return self._crash_after == 0
        return False

    def _file(self, fd: int) -> File:
        number = self._open[fd]
        file = self._platter.files.get(number)
        if file is None:
            file = self._platter.files[number] = File(os.fstat(fd).st_size)
        return file

    def _named(self, back: Callable[..., None], *paths: Path, forget: Callable[[], None] = lambda: None) -> None:
        self._platter.names.add(Name(list(paths), back, forget))

    # -- Disk

    def open_read(self, path: Path) -> int:
        """See Disk."""
        self._alive()
        self._charge("files opened", OPEN_US)
        fd = super().open_read(path)
        self._open[fd], self._paths[fd] = os.fstat(fd).st_ino, str(path)
        return fd

    def duplicate(self, fd: int) -> int:
        """See Disk."""
        self._alive()
        again = super().duplicate(fd)
        self._open[again], self._paths[again] = self._open[fd], self._paths[fd]
        return again

    def open_write(self, path: Path) -> int:
        """See Disk."""
        new = not os.path.lexists(path)
        if new:
            self._step("create", str(path))
        self._alive()
        self._charge("files opened", OPEN_US)
        fd = super().open_write(path)
        number = self._open[fd] = os.fstat(fd).st_ino
        self._paths[fd] = str(path)
        if new:
            self._platter.files[number] = File(0)  # another file may have had the inode number
            self._named(remove, path)
        return fd

    def close(self, fd: int) -> None:
        """See Disk. A dead process may call it: it changes nothing."""
        if self._open.pop(fd, None) is not None:
            super().close(fd)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        """See Disk."""
        self._alive()
        data = super().read(fd, size, offset)
        if Meter.running is not None:
            Meter.running.read(self._paths[fd], len(data))
        return data

    def write(self, fd: int, data: Buffer, offset: int) -> None:
        """See Disk."""
        view = memoryview(data).cast("B")

        def torn() -> None:
            self._write(fd, view[: self._chance.randint(0, len(view))], offset)

        self._step("write", self._paths[fd], torn)
        self._charge("bytes written", CALL_US + BYTE_US * len(view))
        self._write(fd, view, offset)

    def _write(self, fd: int, view: memoryview, offset: int) -> None:
        file = self._file(fd)
        size = file.size
        old = super().read(fd, min(len(view), size - offset), offset) if offset < size else b""
        if file.stuck:
            file.write_again(offset, len(view))
        file.undo.append(Undo(offset, old, size, len(view)))
        super().write(fd, view, offset)
        file.size = max(size, offset + len(view))

    def pause(self) -> None:
        """See Disk. No other thread runs beside a simulated one."""

    def fdatasync(self, fd: int) -> None:
        """See Disk. After a failed sync the kernel takes the pages for clean: no later sync writes them."""
        self._alive()
        file = self._file(fd)
        try:
            self._step("fdatasync", self._paths[fd])
        except DiskFailed:
            file.stick()
            raise
        file.synced()

    def fsync_directory(self, path: Path) -> None:
        """See Disk."""
        self._step("fsync directory", str(path))
        self._platter.sync_names(path)

    def syncfs(self, fd: int) -> None:
        """See Disk."""
        self._step("syncfs", self._paths[fd])
        self._platter.sync_all()

    def truncate(self, fd: int, length: int) -> None:
        """See Disk."""
        self._step("truncate", self._paths[fd])
        file = self._file(fd)
        size = file.size
        old = super().read(fd, size - length, length) if length < size else b""
        if file.stuck:
            old = file.cut(length, old)
        file.undo.append(Undo(min(length, size), old, size, max(0, length - size)))
        super().truncate(fd, length)
        file.size = length

    def size(self, fd: int) -> int:
        """See Disk."""
        self._alive()
        return super().size(fd)

    def rename(self, old: Path, new: Path) -> None:
        """See Disk."""
        self._step("rename", str(old))
        platter, kept = self._platter, None
        if os.path.lexists(new):
            kept = platter.keep(new)
            platter.move(new, kept)
        self._guard("rename", old, lambda: platter.move(old, new))

        def back(new: Path, old: Path) -> None:
            if os.path.lexists(new):
                platter.move(new, old)
            _put_back(platter, kept, new)

        def forget() -> None:
            if kept is not None:
                platter.remove(kept)

        self._named(back, new, old, forget=forget)

    def unlink(self, path: Path) -> None:
        """See Disk."""
        self._step("unlink", str(path))
        if not os.path.lexists(path):
            super().unlink(path)  # for its error
        self._set_aside(path)

    def remove_tree(self, path: Path) -> None:
        """See Disk. The removal is one step here. It is not crashed in its middle: a torn power cut of the directory
        covers that."""
        self._step("remove", str(path))
        if os.path.lexists(path):
            self._set_aside(path)

    def _set_aside(self, path: Path) -> None:
        platter, kept = self._platter, self._platter.keep(path)
        platter.move(path, kept)
        self._named(lambda path: _put_back(platter, kept, path), path, forget=lambda: platter.remove(kept))

    def make_directory(self, path: Path) -> None:
        """See Disk."""
        if os.path.isdir(path):
            self._alive()
            return
        self._step("make directory", str(path))
        super().make_directory(path)
        self._named(remove, path)

    def list_directory(self, path: Path) -> list[str]:
        """See Disk."""
        self._alive()
        return super().list_directory(path)

    def length(self, path: str) -> int | None:
        """See Disk."""
        self._alive()
        return super().length(path)

    def exists(self, path: Path) -> bool:
        """See Disk."""
        self._alive()
        return super().exists(path)

    def lock(self, fd: int) -> bool:
        """See Disk."""
        self._alive()
        return super().lock(fd)

    def free_bytes(self, path: Path) -> int:
        """Return the free bytes of the platter, which a fault of the plan may have set."""
        self._alive()
        return self._platter.free_bytes

    def total_bytes(self, path: Path) -> int:
        """Return the size of the platter."""
        self._alive()
        return self._platter.total_bytes


def _put_back(platter: Platter, kept: Path | None, path: Path) -> None:
    if kept is not None and path.parent.is_dir() and not os.path.lexists(path):
        platter.move(kept, path)
