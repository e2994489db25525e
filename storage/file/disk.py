"""The only home of operating-system file calls.

Every byte that Hourwheel keeps goes through a `Disk`, so that three rules hold in one place:
- A failed write or sync is `DiskFailed` and ends the process. A second fsync after a failed one may report success
  without the data being there.
- Writes are positional, so content never depends on earlier writes.
- A test can put a disk underneath that stops, tears or forgets.

Files are written with pwrite, never through a mapping. So a full disk is an error, not a SIGBUS.

Hourwheel runs on Linux. Elsewhere other calls do the work of Linux's, for development only (`missing_calls`):
- On macOS F_FULLFSYNC stands for fdatasync and fsync: fsync leaves the bytes in the drive's cache there.
- On other systems without fdatasync, fsync stands for it.
- For syncfs, each file below the directory is synced by fsync; on macOS one F_FULLFSYNC follows.
"""

import ctypes
import errno
import fcntl
import os
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from typing_extensions import Buffer

T = TypeVar("T")

_LIBC = ctypes.CDLL(None, use_errno=True)
_SYNC_FILE_RANGE_WRITE = 2
_SYNC_FILE_RANGE_WRITE_AND_WAIT = 7
PAUSE_S = 0.00005
"""How long a pause is, s. The slack of the kernel's timers makes it about twice as long. By then a waiting thread
runs."""

_NO_SUCH_CALL = (errno.ENOSYS, errno.EPERM)
"""Errors of a kernel without sync_file_range, and of a sandbox that forbids it."""

_NO_FULL_SYNC = (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY)
"""The errors of a file system without F_FULLFSYNC, such as one of another machine."""


def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    call = getattr(_LIBC, "sync_file_range", None)  # Linux has it
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return call


_SYNC_FILE_RANGE = _sync_file_range()
_SYNCFS: Callable[[int], int] | None = getattr(_LIBC, "syncfs", None)
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)  # macOS has it
_HAS_FDATASYNC = hasattr(os, "fdatasync") and _FULL_SYNC is None


def missing_calls() -> list[str]:
    """The names of Linux's calls that make bytes durable and that this system lacks."""
    return ["fdatasync"] * (not _HAS_FDATASYNC) + ["syncfs"] * (_SYNCFS is None)


def _sync(fd: int) -> None:
    """Sync a file by F_FULLFSYNC where system and file system have it (macOS), else by fsync."""
    if _FULL_SYNC is not None:
        try:
            fcntl.fcntl(fd, _FULL_SYNC)
            return
        except OSError as error:
            if error.errno not in _NO_FULL_SYNC:
                raise
    os.fsync(fd)


def _sync_data(fd: int) -> None:
    if _HAS_FDATASYNC:
        os.fdatasync(fd)
    else:
        _sync(fd)


def _fsync_below(fd: int) -> None:
    """fsync each file and directory below this directory, and then the directory itself. If the path is a file, fsync
    that file alone."""
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        with os.scandir(fd) as entries:
            names = [
                entry.name
                for entry in entries
                if entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)
            ]
        for name in names:
            try:
                below = os.open(name, os.O_RDONLY, dir_fd=fd)
            except FileNotFoundError:
                continue  # removed meanwhile
            try:
                _fsync_below(below)
            finally:
                os.close(below)
    os.fsync(fd)


class DiskFailed(Exception):
    """The disk refused an operation. Final: the caller ends the process, and no code catches it and goes on."""

    def __init__(self, operation: str, path: str, number: int) -> None:
        super().__init__(f"disk failed: {operation} {path}: {os.strerror(number)} (errno {number}); the node stops")
        self.operation = operation
        self.path = path
        self.errno = number


def _path_of(fd: int) -> str:
    """The path behind an open descriptor, for messages only."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return f"fd {fd}"


class Disk:
    """The calls on files, which turn errors of the system into DiskFailed. Stateless, so usable from any thread. The
    caller that opened a descriptor closes it."""

    def open_read(self, path: Path) -> int:
        """Open a file for reading. Raises FileNotFoundError if it is missing, DiskFailed for every other error."""
        try:
            return os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._failed("open", path, error) from error

    def duplicate(self, fd: int) -> int:
        """Another descriptor of the same file. It works even if the file has been removed from its directory."""
        return self._guard("duplicate", fd, lambda: os.dup(fd))

    def open_write(self, path: Path) -> int:
        """Open for reading and writing. A missing file is created empty. Its name is not yet durable."""
        return self._guard("open", path, lambda: os.open(path, os.O_RDWR | os.O_CREAT, 0o640))

    def close(self, fd: int) -> None:
        """Close a descriptor. That makes nothing durable."""
        self._guard("close", fd, lambda: os.close(fd))

    def read(self, fd: int, size: int, offset: int) -> bytes:
        """Up to `size` bytes at `offset`. Fewer only where the file ends."""
        parts: list[bytes] = []
        done = 0
        try:
            while done < size:
                data = os.pread(fd, size - done, offset + done)
                if len(data) == size:
                    return data
                if not data:
                    break
                parts.append(data)
                done += len(data)
        except OSError as error:
            raise self._failed("read", fd, error) from error
        return b"".join(parts)

    def write(self, fd: int, data: Buffer, offset: int) -> None:
        """Write all of `data` at `offset`. It is durable only after fdatasync or syncfs."""
        view = memoryview(data).cast("B")
        try:
            while view:
                written = os.pwrite(fd, view, offset)
                if not written:
                    raise OSError(errno.EIO, "nothing was written")
                view, offset = view[written:], offset + written
        except OSError as error:
            raise self._failed("write", fd, error) from error

    def fdatasync(self, fd: int) -> None:
        """Make the file's bytes and length durable. A failure is final."""
        self._guard("fdatasync", fd, lambda: _sync_data(fd))

    def start_writing(self, fd: int, offset: int, size: int) -> None:
        """Let the kernel begin to write these bytes, without waiting, so that a later sync has less to write.

        Makes nothing durable. On a system without sync_file_range nothing happens.
        """
        if _SYNC_FILE_RANGE is not None:
            _SYNC_FILE_RANGE(fd, offset, size, _SYNC_FILE_RANGE_WRITE)  # an error shows in the sync

    def write_out(self, fd: int, offset: int, size: int) -> None:
        """Write these bytes and wait until the device has taken them. Makes nothing durable.

        On a system without sync_file_range the file is synced. A failure is final, because the kernel reports each
        failure once, and a later sync might not get it.
        """

        def write() -> None:
            if _SYNC_FILE_RANGE is None:
                _sync_data(fd)
            elif _SYNC_FILE_RANGE(fd, offset, size, _SYNC_FILE_RANGE_WRITE_AND_WAIT) != 0:
                number = ctypes.get_errno()
                if number not in _NO_SUCH_CALL:
                    raise OSError(number, os.strerror(number))
                _sync_data(fd)

        self._guard("write out", fd, write)

    def pause(self) -> None:
        """Release the interpreter, from a thread beside the event loop, for long enough that the loop can take it.

        Python asks a thread for the interpreter when another thread has waited for the switch interval. But the waiting
        thread is woken, and begins to wait anew, each time this thread releases the interpreter by itself. Short calls
        of numpy and of the system do so for a microsecond, many times within an interval. That is too short to be
        taken, and Python never asks. A checkpoint's thread kept the loop waiting for 60 ms that way.
        """
        time.sleep(PAUSE_S)

    def fsync_directory(self, path: Path) -> None:
        """Make the names in a directory durable, after creating, renaming or removing an entry."""

        def sync() -> None:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                _sync(fd)
            finally:
                os.close(fd)

        self._guard("fsync directory", path, sync)

    def syncfs(self, fd: int) -> None:
        """Make everything on the file system of `fd` durable. Cheaper than one fdatasync for each of many files.

        `fd` is the directory with all files that the caller wrote. On a system without syncfs only this directory is
        synced.
        """

        def sync() -> None:
            if _SYNCFS is None:
                _fsync_below(fd)
                _sync(fd)  # the files have left the system's cache, and now leave the drive's
            elif _SYNCFS(fd) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))

        self._guard("syncfs", fd, sync)

    def truncate(self, fd: int, length: int) -> None:
        """Cut (or extend with zeros) to `length` bytes."""
        self._guard("truncate", fd, lambda: os.ftruncate(fd, length))

    def size(self, fd: int) -> int:
        """Length of the open file in bytes."""
        return self._guard("stat", fd, lambda: os.fstat(fd).st_size)

    def rename(self, old: Path, new: Path) -> None:
        """Rename, replacing `new`. Durable after fsync_directory of the parent."""
        self._guard("rename", old, lambda: os.rename(old, new))

    def unlink(self, path: Path) -> None:
        """Remove one file."""
        self._guard("unlink", path, lambda: os.unlink(path))

    def remove_tree(self, path: Path) -> None:
        """Remove a directory with its content. A missing one is fine, for a removal may be repeated after a crash."""

        def remove() -> None:
            try:
                shutil.rmtree(path)
            except FileNotFoundError:
                return

        self._guard("remove", path, remove)

    def make_directory(self, path: Path) -> None:
        """Create one directory. An existing one is fine. Its name is durable after fsync_directory of the parent."""

        def make() -> None:
            try:
                os.mkdir(path, 0o750)
            except FileExistsError:
                return

        self._guard("make directory", path, make)

    def list_directory(self, path: Path) -> list[str]:
        """Names in a directory, sorted."""
        return sorted(self._guard("list", path, lambda: os.listdir(path)))

    def length(self, path: str) -> int | None:
        """Length in bytes of the file at this path. None if the file is missing."""
        try:
            return os.stat(path).st_size
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed("stat", Path(path), error) from error

    def exists(self, path: Path) -> bool:
        """True if this path exists."""
        return os.path.lexists(path)

    def lock(self, fd: int) -> bool:
        """Take the exclusive lock of this file without waiting. Return False if another process holds it."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise self._failed("lock", fd, error) from error
        return True

    def free_bytes(self, path: Path) -> int:
        """Bytes free for this process on the file system of `path`."""
        found = self._guard("statvfs", path, lambda: os.statvfs(path))
        return found.f_bavail * found.f_frsize

    def total_bytes(self, path: Path) -> int:
        """Size in bytes of the file system of `path`."""
        found = self._guard("statvfs", path, lambda: os.statvfs(path))
        return found.f_blocks * found.f_frsize

    def same_file_system(self, one: Path, other: Path) -> bool:
        """True if both paths are on the same file system, so that files below one take space from the other."""
        return self._guard("stat", one, lambda: os.stat(one).st_dev == os.stat(other).st_dev)

    def _guard(self, operation: str, where: Path | int, call: Callable[[], T]) -> T:
        try:
            return call()
        except OSError as error:
            raise self._failed(operation, where, error) from error

    @staticmethod
    def _failed(operation: str, where: Path | int, error: OSError) -> DiskFailed:
        path = _path_of(where) if isinstance(where, int) else str(where)
        return DiskFailed(operation, path, error.errno or errno.EIO)
