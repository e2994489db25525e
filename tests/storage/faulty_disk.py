"""Disks that fail: one that stops at a chosen operation, and loses what was not synced if told to.

A stop is an exception that nothing in the product catches; the test then opens the same directory with a sound disk, as
a restarted process would. What is lost at a power cut is modelled at the worst: every byte not covered by a sync of its
file, every name not covered by a sync of its directory, and every rename not covered by one of where it went.
"""

import os
import shutil
from pathlib import Path

from typing_extensions import Buffer

from storage.file.disk import Disk

STOPPING = ("write", "fdatasync", "syncfs", "fsync_directory", "rename", "truncate", "unlink", "remove_tree")


class Stopped(BaseException):
    """The process ended here. Not an Exception, so that nothing takes it for an error to handle."""


class StoppingDisk(Disk):
    """Stops in the n-th operation that changes or syncs something (0: never), writing only part of a torn write."""

    def __init__(self, stop_at: int = 0, *, torn_bytes: int | None = None) -> None:
        self.operations: list[str] = []
        self._stop_at = stop_at
        self._torn_bytes = torn_bytes
        self._synced: dict[str, bytes] = {}
        self._names: set[str] = set()
        self._renames: list[tuple[Path, Path, bytes | None]] = []  # not synced yet; what was synced of the one replaced

    def _step(self, operation: str) -> None:
        assert operation in STOPPING
        self.operations.append(operation)
        if len(self.operations) == self._stop_at:
            raise Stopped(operation)

    def write(self, fd: int, data: Buffer, offset: int) -> None:
        """Write, or write the torn prefix and stop."""
        try:
            self._step("write")
        except Stopped:
            if self._torn_bytes:
                super().write(fd, bytes(memoryview(data).cast("B"))[: self._torn_bytes], offset)
            raise
        super().write(fd, data, offset)

    def truncate(self, fd: int, length: int) -> None:
        """Cut, or stop before."""
        self._step("truncate")
        super().truncate(fd, length)

    def fdatasync(self, fd: int) -> None:
        """Sync, or stop before."""
        self._step("fdatasync")
        path = os.readlink(f"/proc/self/fd/{fd}")
        self._synced[path] = Path(path).read_bytes()

    def syncfs(self, fd: int) -> None:
        """Sync everything below the directory, or stop before."""
        self._step("syncfs")
        self.trust(Path(os.readlink(f"/proc/self/fd/{fd}")))
        self._renames.clear()

    def fsync_directory(self, path: Path) -> None:
        """Sync names, or stop before."""
        self._step("fsync_directory")
        self._names |= {str(entry) for entry in path.resolve().iterdir()}
        self._renames = [each for each in self._renames if each[1].parent != path.resolve()]

    def rename(self, old: Path, new: Path) -> None:
        """Rename, or stop before."""
        self._step("rename")
        replaced = self._synced.get(str(new.resolve())) if str(new.resolve()) in self._names else None
        super().rename(old, new)
        self._renames.append((old.resolve(), new.resolve(), replaced))
        self._move(old.resolve(), new.resolve())

    def unlink(self, path: Path) -> None:
        """Unlink, or stop before."""
        self._step("unlink")
        super().unlink(path)

    def remove_tree(self, path: Path) -> None:
        """Remove, or stop before."""
        self._step("remove_tree")
        super().remove_tree(path)

    def trust(self, directory: Path) -> None:
        """All that is there now is synced."""
        for path in directory.resolve().rglob("*"):
            self._names.add(str(path))
            if path.is_file():
                self._synced[str(path)] = path.read_bytes()

    def _move(self, old: Path, new: Path) -> None:
        """What is below `old` is known as below `new` from now on."""

        def moved(path: str) -> str:
            return str(new / Path(path).relative_to(old)) if path.startswith(f"{old}/") or path == str(old) else path

        self._names = {moved(path) for path in self._names if path != str(old)}
        self._synced = {moved(path): data for path, data in self._synced.items()}

    def lose_unsynced(self, directory: Path) -> None:
        """A power cut: below `directory` only synced names and bytes are left."""
        for old, new, replaced in reversed(self._renames):
            if new.exists():
                new.rename(old)
                self._move(new, old)
                self._names.add(str(old))
            if replaced is not None:
                new.write_bytes(replaced)
                self._names.add(str(new))
                self._synced[str(new)] = replaced
        for path in sorted(directory.resolve().rglob("*")):
            if not path.exists():
                continue  # went with its directory
            if str(path) not in self._names:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            elif path.is_file():
                path.write_bytes(self._synced.get(str(path), b""))
