"""The data directory: made once, locked, and refused to everybody else."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typing_extensions import Buffer

from storage.directory.data_directory import CONDEMNED, DataDirectory, DirectoryRefused
from storage.file.disk import Disk

STORE, OTHER = b"s" * 16, b"o" * 16


def make(path: Path) -> None:
    """A directory of node n1, closed."""
    DataDirectory.open(path, "n1", Disk(), STORE).close()


def refused(path: Path, node_id: str, match: str) -> None:
    """Opening is refused with this reason, and changes nothing."""
    before = sorted((each, each.read_bytes() if each.is_file() else b"") for each in path.rglob("*"))
    with pytest.raises(DirectoryRefused, match=match):
        DataDirectory.open(path, node_id, Disk(), OTHER)
    after = sorted((each, each.read_bytes() if each.is_file() else b"") for each in path.rglob("*"))
    assert [each for each in after if each[0].name != "LOCK" or each[1]] == before


def test_a_new_directory_is_made_and_found_again(tmp_path: Path) -> None:
    """The first opening makes the folders and keeps the given store id; later ones find it and ignore the new one."""
    first = DataDirectory.open(tmp_path / "d", "n1", Disk(), STORE)
    assert first.created
    assert [first.hours, first.catalog, first.journal, first.deliveries] == [
        tmp_path / "d" / name for name in ("hours", "catalog", "journal", "deliveries")
    ]
    assert all(path.is_dir() for path in (first.hours, first.catalog, first.journal, first.deliveries))
    first.close()
    second = DataDirectory.open(tmp_path / "d", "n1", Disk(), OTHER)
    assert (second.created, second.store_id, second.node_id) == (False, STORE, "n1")
    second.close()


def test_an_empty_file_system_root_is_new(tmp_path: Path) -> None:
    """A mount point with only lost+found in it counts as empty."""
    (tmp_path / "lost+found").mkdir()
    make(tmp_path)


def test_another_nodes_directory_is_refused(tmp_path: Path) -> None:
    """The message names the owner."""
    make(tmp_path)
    refused(tmp_path, "n2", "belongs to node n1, not n2")


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    """While another process has the directory, nobody else gets it; when that process is killed, it is free."""
    make(tmp_path)
    code = (
        "import sys; from pathlib import Path; from storage.file.disk import Disk\n"
        "from storage.directory.data_directory import DataDirectory\n"
        "held = DataDirectory.open(Path(sys.argv[1]), 'n1', Disk(), bytes(16)); print('held', flush=True)\n"
        "sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        refused(tmp_path, "n1", "in use by another process")
        with pytest.raises(DirectoryRefused, match="in use by another process"):
            DataDirectory.inspect(tmp_path, Disk())
        holder.kill()
        holder.wait()
    make(tmp_path)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    """The message says both formats and what to do, whatever else the newer line holds."""
    make(tmp_path)
    lock = tmp_path / "LOCK"
    lock.write_text(json.dumps({**json.loads(lock.read_text()), "format": 2, "more": 1}) + "\n")
    refused(tmp_path, "n1", "format 2, this build knows up to 1: use a newer build")


def test_a_foreign_directory_is_refused(tmp_path: Path) -> None:
    """A directory with somebody's files, or with ours but without LOCK, is left alone."""
    (tmp_path / "thesis.txt").write_text("years of work")
    refused(tmp_path, "n1", "not a data directory: it holds thesis.txt")
    make(tmp_path / "d")
    (tmp_path / "d" / "LOCK").unlink()
    refused(tmp_path / "d", "n1", "has catalog, deliveries, hours, journal but no LOCK")


def test_a_missing_parent_is_refused(tmp_path: Path) -> None:
    """A mistyped path makes no trees of directories."""
    refused(tmp_path / "a" / "b", "n1", "does not exist")


def test_every_flipped_bit_of_lock_is_found(tmp_path: Path) -> None:
    """A flipped bit anywhere in LOCK refuses the directory: no node takes it under another name or store id."""
    make(tmp_path)
    lock = tmp_path / "LOCK"
    line = lock.read_bytes()
    for at in range(len(line)):
        for bit in range(8):
            lock.write_bytes(line[:at] + bytes([line[at] ^ 1 << bit]) + line[at + 1 :])
            with pytest.raises(DirectoryRefused, match=r"damaged|newer build"):
                DataDirectory.open(tmp_path, "n1", Disk(), OTHER)
    lock.write_bytes(line)
    make(tmp_path)


@pytest.mark.parametrize("line", [b"[1]\n", b"7\n", b"{}\n", b"null\n", b'"x"\n', b"\n"])
def test_json_that_is_no_lock_is_refused(tmp_path: Path, line: bytes) -> None:
    """Any other line is damage, not a crash of the program."""
    make(tmp_path)
    (tmp_path / "LOCK").write_bytes(line)
    refused(tmp_path, "n1", "damaged")


def test_a_cut_line_is_a_crash_during_creation_or_damage(tmp_path: Path) -> None:
    """The table of the header: no whole line and nothing else is made anew; with folders it is damage."""
    make(tmp_path / "d")
    line = (tmp_path / "d" / "LOCK").read_bytes()
    for length in range(len(line)):
        (tmp_path / "d" / "LOCK").write_bytes(line[:length])
        with pytest.raises(DirectoryRefused, match="damaged: it ends within its line"):
            DataDirectory.open(tmp_path / "d", "n1", Disk(), OTHER)
        fresh = tmp_path / f"fresh{length}"
        fresh.mkdir()
        (fresh / "LOCK").write_bytes(line[:length])
        with pytest.raises(DirectoryRefused, match="stopped while making it"):
            DataDirectory.inspect(fresh, Disk())
        opened = DataDirectory.open(fresh, "n1", Disk(), OTHER)
        assert (opened.created, opened.store_id) == (True, OTHER)
        opened.close()


class Stopped(Exception):
    """The process stopped here."""


class StoppingDisk(Disk):
    """Stops before its n-th change."""

    def __init__(self, after: int) -> None:
        self.left = after

    def _count(self) -> None:
        if self.left == 0:
            raise Stopped
        self.left -= 1

    def write(self, fd: int, data: bytes, offset: int) -> None:  # type: ignore[override]
        """A half-written line when it stops here."""
        if self.left == 0:
            super().write(fd, data[: len(data) // 2], offset)
        self._count()
        super().write(fd, data, offset)

    def fdatasync(self, fd: int) -> None:
        """Counted."""
        self._count()
        super().fdatasync(fd)

    def make_directory(self, path: Path) -> None:
        """Counted."""
        self._count()
        super().make_directory(path)

    def fsync_directory(self, path: Path) -> None:
        """Counted."""
        self._count()
        super().fsync_directory(path)


def test_a_stop_at_every_step_of_creation_is_survived(tmp_path: Path) -> None:
    """Wherever creation stops, the next start opens the directory, with the store id that got as far as a line."""
    for steps in range(100):
        path = tmp_path / str(steps)
        try:
            DataDirectory.open(path, "n1", StoppingDisk(steps), STORE).close()
        except Stopped:
            lock = path / "LOCK"
            written = lock.exists() and lock.read_bytes().endswith(b"\n")
            again = DataDirectory.open(path, "n1", Disk(), OTHER)
            assert again.store_id == (STORE if written else OTHER)
            assert again.created != written
            assert again.deliveries.is_dir()
            again.close()
        else:
            break
    assert steps >= 9


def test_inspect_opens_any_nodes_directory_and_makes_none(tmp_path: Path) -> None:
    """Tools see whose it is; a path without data directory is refused and stays as it is."""
    make(tmp_path / "d")
    found = DataDirectory.inspect(tmp_path / "d", Disk())
    assert (found.node_id, found.store_id, found.created) == ("n1", STORE, False)
    found.close()
    with pytest.raises(DirectoryRefused, match="not a data directory"):
        DataDirectory.inspect(tmp_path, Disk())
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_a_condemned_directory_is_refused_until_it_is_removed(tmp_path: Path) -> None:
    """With the reason, which outlives the process; also when the file was torn as it was written. Tools may look, and
    an emptied directory is a new one."""
    make(tmp_path / "d")
    directory = DataDirectory.open(tmp_path / "d", "n1", Disk(), OTHER)
    directory.condemn("node n1 differs from the majority")
    directory.close()
    refused(tmp_path / "d", "n1", "is condemned: node n1 differs from the majority")
    DataDirectory.inspect(tmp_path / "d", Disk()).close()
    (tmp_path / "d" / CONDEMNED).write_bytes(b"")
    refused(tmp_path / "d", "n1", "is condemned: its data is not to be trusted")
    shutil.rmtree(tmp_path / "d")
    DataDirectory.open(tmp_path / "d", "n1", Disk(), OTHER).close()


class _Watching(Disk):
    """Notes what is made durable, and when folders are made."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def write(self, fd: int, data: Buffer, offset: int) -> None:
        """Noted."""
        self.done.append("write")
        super().write(fd, data, offset)

    def fdatasync(self, fd: int) -> None:
        """Noted."""
        self.done.append("sync")
        super().fdatasync(fd)

    def make_directory(self, path: Path) -> None:
        """Noted."""
        self.done.append(path.name)
        super().make_directory(path)


def test_the_owner_is_durable_before_what_rests_on_it(tmp_path: Path) -> None:
    """A start whose sync of LOCK failed leaves a line that only memory has: the next start reads it, made folders, and
    after a power cut there were folders without an owner, which no start takes (simulated seed 308: wipe, EIO on sync,
    crash)."""
    make(tmp_path / "d")
    disk = _Watching()
    line = (tmp_path / "d" / "LOCK").read_bytes()
    DataDirectory.open(tmp_path / "d", "n1", disk, OTHER).close()
    assert disk.done[1:4] == ["write", "sync", "hours"]
    assert (tmp_path / "d" / "LOCK").read_bytes() == line
