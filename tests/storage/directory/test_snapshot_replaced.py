"""What a snapshot took the place of: moved aside by a start, removed afterwards."""

from pathlib import Path

import pytest

from storage.directory.data_directory import DataDirectory
from storage.directory.snapshot_install import REPLACED, remove_replaced
from storage.directory.verify import digest
from storage.file.disk import Disk
from tests.storage.faulty_disk import StoppingDisk
from tests.storage.installing import committed, make, pinned, state


class CountingDisk(StoppingDisk):
    """Counts the directories and files that a step removes."""

    names = 0

    def remove_tree(self, path: Path) -> None:
        """As ever."""
        self.names += sum(1 for _ in path.rglob("*")) + path.exists()
        super().remove_tree(path)


def test_a_start_takes_as_long_however_much_is_replaced(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start behind a snapshot renames; what it replaced is removed afterwards, so many hours at a time."""
    monkeypatch.setattr("storage.directory.snapshot_install.REMOVED_AT_ONCE", 10)
    leader, follower = make(quick_path / "a", 7), make(quick_path / "b", 4)
    for number in range(35):
        hour = follower / "hours" / str(number)
        hour.mkdir()
        for file in ("log", "index", "settle"):
            (hour / file).write_bytes(b"old")
    (follower / "journal" / "old").write_bytes(b"old")
    before = len(list((follower / "hours").iterdir()))
    with pinned(leader) as pin:
        committed(follower, pin, Disk())
    disk = CountingDisk()
    DataDirectory.open(follower, "n1", disk, bytes(16)).close()
    assert disk.names == 1, "the empty folder from which the new state came"
    assert [path.name for path in (follower / "journal").iterdir()] == ["1"]
    steps: list[int] = []
    more = True
    while more:
        disk.names = 0
        more = remove_replaced(follower, disk)
        steps.append(disk.names)
    assert max(steps) <= 10 * 4 + 4
    assert len(steps) >= before / 10
    assert not (follower / REPLACED).exists()
    assert state(follower) == digest(leader)[0]


def test_what_is_replaced_twice_is_removed_twice(quick_path: Path) -> None:
    """A node that takes over two snapshots and is stopped before it removed what the first one replaced."""
    middle, leader, follower = (make(quick_path / name, entries) for name, entries in (("m", 5), ("a", 7), ("b", 4)))
    for snapshot in (middle, leader):
        with pinned(snapshot) as pin:
            committed(follower, pin, Disk())
        assert state(follower) == digest(snapshot)[0]
    old = sorted(path.name for path in (follower / REPLACED).iterdir())
    assert old == [f"{folder}.{number}" for folder in ("catalog", "hours", "journal") for number in (1, 2)]
    while remove_replaced(follower, Disk()):
        assert state(follower) == digest(leader)[0], "it is used meanwhile"
    assert not (follower / REPLACED).exists()
