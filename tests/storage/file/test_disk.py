"""The disk: whole or failed, never in between."""

import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import storage.file.disk
from storage.file.disk import Disk, DiskFailed
from tests.storage.faulty_disk import Stopped, StoppingDisk


def test_write_and_read(tmp_path: Path) -> None:
    """What is written at an offset is read there; a read past the end is short, not an error."""
    disk = Disk()
    fd = disk.open_write(tmp_path / "file")
    disk.write(fd, b"hello", 3)
    disk.write(fd, memoryview(b"HE"), 3)
    assert disk.read(fd, 100, 0) == b"\0\0\0HEllo"
    assert disk.read(fd, 2, 4) == b"El"
    assert disk.read(fd, 5, 8) == b""
    assert disk.size(fd) == 8
    disk.truncate(fd, 4)
    disk.fdatasync(fd)
    disk.syncfs(fd)
    disk.close(fd)
    reader = disk.open_read(tmp_path / "file")
    assert disk.read(reader, 100, 0) == b"\0\0\0H"
    disk.close(reader)


def test_a_short_write_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may write less than asked for; the rest follows."""
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, data[:3], at))
    disk = Disk()
    fd = disk.open_write(tmp_path / "file")
    disk.write(fd, b"0123456789", 1)
    assert disk.read(fd, 99, 0) == b"\x000123456789"
    disk.close(fd)


def test_a_short_read_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may read less than asked for; the rest follows."""
    (tmp_path / "file").write_bytes(b"0123456789")
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: real(fd, min(size, 4), at))
    disk = Disk()
    fd = disk.open_read(tmp_path / "file")
    assert disk.read(fd, 9, 0) == b"012345678"
    assert disk.read(fd, 99, 2) == b"23456789"
    disk.close(fd)


def test_names(tmp_path: Path) -> None:
    """Directories and names: made, listed sorted, renamed, removed; making and removing twice is fine."""
    disk = Disk()
    for name in ("b", "a", "a"):
        disk.make_directory(tmp_path / name)
    disk.close(disk.open_write(tmp_path / "a" / "file"))
    disk.rename(tmp_path / "a" / "file", tmp_path / "b" / "file")
    disk.fsync_directory(tmp_path / "a")
    assert disk.list_directory(tmp_path) == ["a", "b"]
    assert disk.exists(tmp_path / "b" / "file")
    disk.unlink(tmp_path / "b" / "file")
    disk.remove_tree(tmp_path / "a")
    disk.remove_tree(tmp_path / "a")
    assert disk.list_directory(tmp_path) == ["b"]
    assert 0 < disk.free_bytes(tmp_path) <= disk.total_bytes(tmp_path)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM, errno.EIO])
def test_where_nothing_can_be_written_out_the_file_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A kernel without the call, or a sandbox that refuses it, ends no node. A device that fails does."""

    def refused(*_: int) -> int:
        ctypes.set_errno(number)
        return -1

    synced: list[int] = []
    monkeypatch.setattr(storage.file.disk, "_SYNC_FILE_RANGE", refused)
    monkeypatch.setattr(os, "fdatasync", synced.append)
    disk = Disk()
    fd = disk.open_write(tmp_path / "file")
    if number == errno.EIO:
        with pytest.raises(DiskFailed):
            disk.write_out(fd, 0, 4096)
    else:
        disk.write_out(fd, 0, 4096)
    assert synced == ([] if number == errno.EIO else [fd])
    disk.close(fd)


def test_a_lock_is_exclusive(tmp_path: Path) -> None:
    """A second holder is told no at once."""
    disk = Disk()
    first, second = disk.open_write(tmp_path / "LOCK"), disk.open_write(tmp_path / "LOCK")
    assert disk.lock(first)
    assert not disk.lock(second)
    disk.close(first)
    assert disk.lock(second)
    disk.close(second)


@pytest.mark.parametrize(
    ("operation", "call"),
    [
        ("write", lambda disk, path, fd: disk.write(fd, b"x", 0)),
        ("fdatasync", lambda disk, path, fd: disk.fdatasync(10**6)),
        ("syncfs", lambda disk, path, fd: disk.syncfs(10**6)),
        ("write out", lambda disk, path, fd: disk.write_out(10**6, 0, 1)),
        ("truncate", lambda disk, path, fd: disk.truncate(fd, 1)),
        ("open", lambda disk, path, fd: disk.open_write(path / "none" / "file")),
        ("rename", lambda disk, path, fd: disk.rename(path / "none", path / "other")),
        ("unlink", lambda disk, path, fd: disk.unlink(path / "none")),
        ("list", lambda disk, path, fd: disk.list_directory(path / "none")),
        ("make directory", lambda disk, path, fd: disk.make_directory(path / "none" / "more")),
        ("fsync directory", lambda disk, path, fd: disk.fsync_directory(path / "none")),
        ("read", lambda disk, path, fd: disk.read(10**6, 1, 0)),
    ],
)
def test_failures_are_disk_failed(tmp_path: Path, operation: str, call: Callable[[Disk, Path, int], None]) -> None:
    """Whatever the system refuses is DiskFailed, and names operation, path and errno."""
    (tmp_path / "file").write_bytes(b"")
    disk = Disk()
    fd = disk.open_read(tmp_path / "file")
    with pytest.raises(DiskFailed) as failed:
        call(disk, tmp_path, fd)
    assert failed.value.operation == operation
    assert failed.value.errno > 0
    assert "the node stops" in str(failed.value)
    disk.close(fd)


def test_a_missing_file_is_not_a_failure(tmp_path: Path) -> None:
    """Opening what is not there is an answer, not a broken disk."""
    with pytest.raises(FileNotFoundError):
        Disk().open_read(tmp_path / "none")


def test_the_stopping_disk_stops_and_forgets(tmp_path: Path) -> None:
    """The disk that the crash tests stand on: it stops where told, tears the write, and loses what was not synced."""
    disk = StoppingDisk(6, torn_bytes=2)
    fd = disk.open_write(tmp_path / "kept")
    disk.write(fd, b"synced", 0)
    disk.fdatasync(fd)
    disk.fsync_directory(tmp_path)
    lost = disk.open_write(tmp_path / "lost")
    disk.write(lost, b"x", 0)
    disk.fdatasync(lost)
    with pytest.raises(Stopped):
        disk.write(fd, b"more", 6)
    assert (tmp_path / "kept").read_bytes() == b"syncedmo"
    assert disk.operations == ["write", "fdatasync", "fsync_directory", "write", "fdatasync", "write"]
    disk.lose_unsynced(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept").read_bytes() == b"synced"
    disk.close(fd)
    disk.close(lost)
