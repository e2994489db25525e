"""What makes bytes durable: Linux's calls, and those that stand for them on other systems."""

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import storage.file.disk
from storage.file.disk import Disk, DiskFailed, missing_calls

FULL_SYNC = 51


class Calls(list[str]):
    """The calls that sync, in order: each as its name and that of the file."""

    def tell(self, name: str, fd: int) -> None:
        """One more."""
        self.append(f"{name} {Path(os.readlink(f'/proc/self/fd/{fd}')).name}")

    def told(self, name: str, call: Callable[[int], object] = lambda fd: None) -> Callable[[int], object]:
        """A call of this name that is told of before it is made."""

        def tell(fd: int) -> object:
            self.tell(name, fd)
            return call(fd)

        return tell


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Of Linux."""
    calls = Calls()
    monkeypatch.setattr(os, "fsync", calls.told("fsync"))
    monkeypatch.setattr(os, "fdatasync", calls.told("fdatasync"))
    monkeypatch.setattr(storage.file.disk, "_SYNCFS", calls.told("syncfs", lambda fd: 0))
    return calls


@pytest.fixture
def elsewhere(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """A system with no call of Linux's."""
    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.setattr(storage.file.disk, "_HAS_FDATASYNC", False)
    monkeypatch.setattr(storage.file.disk, "_SYNCFS", None)
    monkeypatch.setattr(storage.file.disk, "_SYNC_FILE_RANGE", None)
    return calls


def give_full_sync(calls: Calls, monkeypatch: pytest.MonkeyPatch, number: int = 0) -> None:
    """F_FULLFSYNC, which fails with this errno if it is one."""

    def call(fd: int, command: int) -> int:
        assert command == FULL_SYNC
        calls.tell("full sync", fd)
        if number:
            raise OSError(number, os.strerror(number))
        return 0

    monkeypatch.setattr(storage.file.disk, "_FULL_SYNC", FULL_SYNC)
    monkeypatch.setattr(fcntl, "fcntl", call)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A directory with two files, one of them in a directory, and a link to a file beside it."""
    (tmp_path / "beside").write_bytes(b"3")
    tree = tmp_path / "tree"
    (tree / "inner").mkdir(parents=True)
    (tree / "file").write_bytes(b"1")
    (tree / "inner" / "deep").write_bytes(b"2")
    (tree / "link").symlink_to(tmp_path / "beside")
    return tree


def sync_all(tree: Path) -> None:
    """Each way to sync: a file, its bytes as they go out, names in a directory, and all of it."""
    disk = Disk()
    file, directory = disk.open_write(tree / "file"), disk.open_read(tree)
    disk.fdatasync(file)
    disk.write_out(file, 0, 1)
    disk.fsync_directory(tree)
    disk.syncfs(directory)
    disk.close(file)
    disk.close(directory)


def test_on_linux_each_sync_is_one_call(calls: Calls, tree: Path) -> None:
    """fdatasync of a file, fsync of a directory, syncfs of a file system; none is missing, and none is added."""
    assert missing_calls() == []
    sync_all(tree)
    assert calls == ["fdatasync file", "fsync tree", "syncfs tree"]


def test_elsewhere_fsync_does_it_file_by_file(elsewhere: Calls, tree: Path) -> None:
    """What stands in the directory is synced and each directory, but nothing that a link leads to."""
    assert missing_calls() == ["fdatasync", "syncfs"]
    sync_all(tree)
    assert elsewhere[:3] == ["fsync file", "fsync file", "fsync tree"]
    assert sorted(elsewhere[3:-2]) == ["fsync deep", "fsync file", "fsync inner"]
    assert elsewhere.index("fsync deep") < elsewhere.index("fsync inner")
    assert elsewhere[-2:] == ["fsync tree", "fsync tree"]


def test_full_sync_is_what_is_called_where_there_is_one(
    elsewhere: Calls, monkeypatch: pytest.MonkeyPatch, tree: Path
) -> None:
    """For a file, for names, and once behind all files of a directory."""
    give_full_sync(elsewhere, monkeypatch)
    sync_all(tree)
    assert elsewhere[:3] == ["full sync file", "full sync file", "full sync tree"]
    assert elsewhere[-2:] == ["fsync tree", "full sync tree"]
    assert [call for call in elsewhere[3:-1] if not call.startswith("fsync ")] == []


@pytest.mark.parametrize("number", [errno.ENOTSUP, errno.EINVAL, errno.EIO])
def test_a_file_system_without_a_full_sync_has_fsync(
    elsewhere: Calls, monkeypatch: pytest.MonkeyPatch, tree: Path, number: int
) -> None:
    """But a device that fails ends the node."""
    give_full_sync(elsewhere, monkeypatch, number)
    disk = Disk()
    fd = disk.open_write(tree / "file")
    if number == errno.EIO:
        with pytest.raises(DiskFailed):
            disk.fdatasync(fd)
    else:
        disk.fdatasync(fd)
    assert elsewhere == ["full sync file"] + ["fsync file"] * (number != errno.EIO)
    disk.close(fd)


def test_of_a_file_only_the_file_is_synced(elsewhere: Calls, tree: Path) -> None:
    """An pace of little writes gives the file that it wrote last."""
    disk = Disk()
    fd = disk.open_write(tree / "file")
    disk.syncfs(fd)
    assert set(elsewhere) == {"fsync file"}
    disk.close(fd)


def test_a_file_that_is_removed_meanwhile_is_no_failure(
    elsewhere: Calls, monkeypatch: pytest.MonkeyPatch, tree: Path
) -> None:
    """It has nothing left to sync."""
    real = os.open

    def gone(path: str, flags: int, **named: int) -> int:
        if path == "deep":
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return real(path, flags, **named)

    disk = Disk()
    fd = disk.open_read(tree)
    monkeypatch.setattr(os, "open", gone)
    disk.syncfs(fd)
    assert "fsync inner" in elsewhere
    assert "fsync deep" not in elsewhere
    disk.close(fd)
