"""The simulated disk: what a power cut takes and what it leaves, crashes and failures at chosen operations."""

import errno
import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.simulator.disk.disk import SimDisk
from chaos.simulator.disk.platter import PAGE, Platter
from chaos.simulator.time.loop import Gone
from storage.file.disk import DiskFailed
from tests.examples import examples
from tests.storage.file import test_disk as real


def make(root: Path, seed: int = 0) -> tuple[Platter, SimDisk, list[str]]:
    """A platter, a process's disk on it, and what the process was told (operations, "crashed")."""
    platter = Platter(root / "data", root / "aside", random.Random(seed))
    told: list[str] = []
    return platter, SimDisk(platter, random.Random(seed), told.append, lambda: told.append("crashed")), told


def written(disk: SimDisk, path: Path, data: bytes, *, name: bool = True, bytes_too: bool = True) -> int:
    """A file with this content, synced as asked."""
    fd = disk.open_write(path)
    disk.write(fd, data, 0)
    if bytes_too:
        disk.fdatasync(fd)
    if name:
        disk.fsync_directory(path.parent)
    return fd


def cut(platter: Platter, disk: SimDisk, *, torn: bool = False) -> None:
    """Pull the plug."""
    disk.release()
    platter.power_cut(torn=torn)


def test_only_what_is_synced_survives(tmp_path: Path) -> None:
    """Bytes need fdatasync, names the sync of their directory."""
    platter, disk, _ = make(tmp_path)
    kept = written(disk, platter.root / "kept", b"old")
    disk.write(kept, b"NEW and longer", 0)
    written(disk, platter.root / "nameless", b"data", name=False)
    written(disk, platter.root / "empty", b"data", bytes_too=False)
    disk.make_directory(platter.root / "directory")
    cut(platter, disk)
    assert (platter.root / "kept").read_bytes() == b"old"
    assert (platter.root / "empty").read_bytes() == b""
    # `empty` was made after `nameless`, and the sync of the directory covered both
    assert sorted(os.listdir(platter.root)) == ["empty", "kept", "nameless"]


def test_renames_and_removals_come_back(tmp_path: Path) -> None:
    """A replaced file, a removed file and a removed tree are there again unless their directory was synced."""
    platter, disk, _ = make(tmp_path)
    written(disk, platter.root / "a", b"a")
    written(disk, platter.root / "b", b"b")
    written(disk, platter.root / "c", b"c")
    disk.make_directory(platter.root / "tree")
    written(disk, platter.root / "tree" / "leaf", b"leaf")
    disk.fsync_directory(platter.root)
    disk.unlink(platter.root / "c")
    disk.fsync_directory(platter.root)
    disk.rename(platter.root / "a", platter.root / "b")
    disk.remove_tree(platter.root / "tree")
    assert sorted(os.listdir(platter.root)) == ["b"]
    cut(platter, disk)
    assert sorted(os.listdir(platter.root)) == ["a", "b", "tree"]
    assert (platter.root / "b").read_bytes() == b"b"
    assert (platter.root / "tree" / "leaf").read_bytes() == b"leaf"


@pytest.mark.parametrize("checkpoint", [pytest.param(False, id="seed 8165"), pytest.param(True, id="seed 8027")])
def test_names_go_with_their_directory(tmp_path: Path, checkpoint: bool) -> None:
    """Seed 8165: an hour begun and not synced, then the folder of all hours replaced by a snapshot's, which has that
    hour too. The cut took the snapshot's hour, which was synced, for the one that was begun. Seed 8027: a checkpoint
    synced the folder of hours in between. The cut left the hour, and took the files in it."""
    platter, disk, _ = make(tmp_path)
    hours, installed, replaced = (platter.root / name for name in ("hours", "installed", "replaced"))
    for directory in (hours, installed, replaced, installed / "1"):
        disk.make_directory(directory)
    written(disk, installed / "1" / "log", b"durable")
    disk.fsync_directory(installed)
    disk.fsync_directory(platter.root)
    disk.make_directory(hours / "1")
    written(disk, hours / "1" / "log", b"lost", name=False)
    disk.rename(hours, replaced / "hours.1")
    disk.fsync_directory(replaced)
    disk.rename(installed, hours)
    disk.fsync_directory(platter.root)
    if checkpoint:
        disk.fsync_directory(hours)
    cut(platter, disk)
    assert (hours / "1" / "log").read_bytes() == b"durable"
    assert os.listdir(replaced / "hours.1") == []


@pytest.mark.parametrize("synced", [True, False])
def test_what_is_put_in_a_removed_directory_s_place_is_another(tmp_path: Path, synced: bool) -> None:
    """The same with a removal; where that is lost too, what was removed is there as far as it was synced."""
    platter, disk, _ = make(tmp_path)
    for name in ("old", "new"):
        disk.make_directory(platter.root / name)
        written(disk, platter.root / name / "kept", name.encode())
    disk.fsync_directory(platter.root)
    written(disk, platter.root / "old" / "lost", b"", name=False)
    written(disk, platter.root / "new" / "lost", b"")
    disk.remove_tree(platter.root / "old")
    disk.rename(platter.root / "new", platter.root / "old")
    if synced:
        disk.fsync_directory(platter.root)
    cut(platter, disk)
    assert (platter.root / "old" / "kept").read_bytes() == (b"new" if synced else b"old")
    assert sorted(os.listdir(platter.root / "old")) == (["kept", "lost"] if synced else ["kept"])
    assert sorted(os.listdir(platter.root)) == (["old"] if synced else ["new", "old"])


def test_a_name_that_was_not_synced_before_its_directory_was_renamed_is_lost(tmp_path: Path) -> None:
    """A snapshot whose folders were not synced before the rename that makes it count: the rename saves none of it."""
    platter, disk, _ = make(tmp_path)
    disk.make_directory(platter.root / "install")
    written(disk, platter.root / "install" / "log", b"bytes", name=False)
    disk.rename(platter.root / "install", platter.root / "installed")
    disk.fsync_directory(platter.root)
    cut(platter, disk)
    assert os.listdir(platter.root / "installed") == []


def test_syncfs_covers_everything(tmp_path: Path) -> None:
    """As one sync of the file system does."""
    platter, disk, _ = make(tmp_path)
    fd = written(disk, platter.root / "a", b"a", name=False, bytes_too=False)
    disk.syncfs(fd)
    cut(platter, disk)
    assert (platter.root / "a").read_bytes() == b"a"


def test_a_failed_sync_is_final(tmp_path: Path) -> None:
    """A second fdatasync after a failed one reports success, and what the first should have carried is lost."""
    platter, disk, _ = make(tmp_path)
    fd = written(disk, platter.root / "a", b"old")
    disk.fail(errno.EIO, "fdatasync")
    disk.write(fd, b"new", 0)
    with pytest.raises(DiskFailed, match="errno 5"):
        disk.fdatasync(fd)
    disk.fdatasync(fd)
    assert (platter.root / "a").read_bytes() == b"new"
    cut(platter, disk)
    assert (platter.root / "a").read_bytes() == b"old"


def test_a_torn_cut_leaves_any_part(tmp_path: Path) -> None:
    """Sector by sector the old or the new; over many cuts both are seen, side by side too."""
    seen = set()
    for seed in range(40):
        platter, disk, _ = make(tmp_path / str(seed), seed)
        fd = written(disk, platter.root / "a", b"o" * 2048)
        disk.write(fd, b"n" * 2048, 0)
        cut(platter, disk, torn=True)
        data = (platter.root / "a").read_bytes()
        sectors = [data[at : at + 512] for at in range(0, 2048, 512)]
        assert all(sector in (b"o" * 512, b"n" * 512) for sector in sectors)
        seen.add(bytes(sector[0] for sector in sectors))
    assert {b"oooo", b"nnnn"} < seen
    assert len(seen) > 4


def test_a_crash_may_count_the_operations_on_some_files_alone(tmp_path: Path) -> None:
    """Those of a checkpoint, say, whatever the journal does between them."""
    platter, disk, told = make(tmp_path)
    disk.make_directory(platter.root / "hours")
    disk.make_directory(platter.root / "journal")
    hours = written(disk, platter.root / "hours" / "a", b"1")
    journal = written(disk, platter.root / "journal" / "a", b"1")
    disk.crash_at(2, "hours")
    disk.write(journal, b"2", 1)
    disk.write(hours, b"2", 1)
    disk.fdatasync(journal)
    assert told[-1] == "fdatasync"
    with pytest.raises(Gone):
        disk.fdatasync(hours)
    assert told[-1] == "crashed"


def test_54402_what_was_not_reached_does_not_come(tmp_path: Path) -> None:
    """A crash was meant for the sixth write of a checkpoint, and the load was over after five. It came when the files
    were compared, and ended the simulation."""
    platter, disk, told = make(tmp_path)
    fd = written(disk, platter.root / "a", b"1")
    disk.crash_at(1)
    disk.fail(errno.ENOSPC, "write")
    disk.spare()
    disk.write(fd, b"2", 1)
    disk.fdatasync(fd)
    assert told[-1] == "fdatasync"


def test_a_crash_comes_at_the_chosen_operation_and_the_dead_reach_nothing(tmp_path: Path) -> None:
    """The k-th operation ends the process; what it then tries is refused, and its descriptors are closed."""
    platter, disk, told = make(tmp_path)
    fd = written(disk, platter.root / "a", b"1")
    disk.crash_at(2)
    disk.write(fd, b"2", 1)
    with pytest.raises(Gone):
        disk.fdatasync(fd)
    assert told[-1] == "crashed"
    for operation in (
        lambda: disk.write(fd, b"3", 2),
        lambda: disk.read(fd, 1, 0),
        lambda: disk.fdatasync(fd),
        lambda: disk.unlink(platter.root / "a"),
        lambda: disk.open_write(platter.root / "b"),
        lambda: disk.exists(platter.root / "a"),
    ):
        with pytest.raises(Gone):
            operation()
    disk.release()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    assert (platter.root / "a").read_bytes() == b"12"


def test_a_dead_process_s_lock_is_free(tmp_path: Path) -> None:
    """flock dies with the process."""
    platter, disk, _ = make(tmp_path)
    assert disk.lock(disk.open_write(platter.root / "LOCK"))
    other = SimDisk(platter, random.Random(0), lambda _: None, lambda: None)
    fd = other.open_write(platter.root / "LOCK")
    assert not other.lock(fd)
    disk.release()
    assert other.lock(fd)
    other.release()


def test_a_flipped_bit_is_one_bit(tmp_path: Path) -> None:
    """In the file that matches, at the place asked for; None where nothing matches."""
    platter, disk, _ = make(tmp_path)
    written(disk, platter.root / "a.log", bytes(100))
    disk.release()
    assert platter.flip("*.log", 0.5, 3) == platter.root / "a.log"
    data = (platter.root / "a.log").read_bytes()
    assert sum(byte.bit_count() for byte in data) == 1
    assert platter.flip("*.index", 0.5, 3) is None


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "append", "sync", "truncate", "create", "rename", "unlink", "sync names"]),
        st.integers(0, 3),
        st.integers(0, 3),
        st.integers(0, 2000),
    ),
    max_size=40,
)


class Model:
    """Files as contents by identity, names as a map; each seen and kept."""

    def __init__(self) -> None:
        self.seen: dict[int, bytes] = {}
        self.kept: dict[int, bytes] = {}
        self.names: dict[str, int] = {}
        self.kept_names: dict[str, int] = {}


@examples(60)
@given(steps=STEPS)
def test_a_clean_cut_leaves_what_a_model_says(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int, int]]
) -> None:
    """Random files, writes, cuts, renames and syncs in one directory: after the cut names and bytes are the model's."""
    platter, disk, _ = make(tmp_path_factory.mktemp("disk"))
    model = Model()
    fds: dict[int, int] = {}
    for number, (step, one, other, size) in enumerate(steps):
        name, to = f"f{one}", f"f{other}"
        path, identity = platter.root / name, model.names.get(name)
        data = bytes([number % 251]) * size
        if step == "create" and identity is None:
            model.names[name], model.seen[number], model.kept[number] = number, b"", b""
            fds[number] = disk.open_write(path)
        elif step == "sync names":
            disk.fsync_directory(platter.root)
            model.kept_names = dict(model.names)
        elif identity is None:
            continue
        elif step in ("write", "append"):
            seen = model.seen[identity]
            at = len(seen) if step == "append" else len(seen) // 2
            disk.write(fds[identity], data, at)
            model.seen[identity] = seen[:at] + data + seen[at + len(data) :]
        elif step == "truncate":
            disk.truncate(fds[identity], size)
            model.seen[identity] = model.seen[identity][:size].ljust(size, b"\0")
        elif step == "sync":
            disk.fdatasync(fds[identity])
            model.kept[identity] = model.seen[identity]
        elif step == "unlink":
            disk.unlink(path)
            del model.names[name]
        elif step == "rename" and name != to:
            disk.rename(path, platter.root / to)
            model.names[to] = model.names.pop(name)
    cut(platter, disk)
    found = {path.name: path.read_bytes() for path in platter.root.iterdir()}
    assert found == {name: model.kept[identity] for name, identity in model.kept_names.items()}


FIRST, SECOND = b"first".ljust(PAGE), b"2" * (PAGE + 1)


def stuck(path: Path) -> tuple[Platter, SimDisk, int]:
    """A file of b"first" and, on its second page and a byte of its third, SECOND, which a sync has failed to carry."""
    platter = Platter(path / "root", path / "aside", random.Random(1))
    disk = SimDisk(platter, random.Random(1), lambda operation: None, lambda: None)
    fd = disk.open_write(platter.root / "file")
    disk.write(fd, FIRST, 0)
    disk.fdatasync(fd)
    disk.fsync_directory(platter.root)
    disk.write(fd, SECOND, PAGE)
    disk.fail(errno.EIO, "fdatasync")
    with pytest.raises(DiskFailed):
        disk.fdatasync(fd)
    return platter, disk, fd


@pytest.mark.parametrize(
    ("writes", "kept"),
    [
        ([(b"third", 3 * PAGE)], bytes(2 * PAGE) + b"third"),  # later syncs carry what is behind it, and the length
        ([(SECOND, PAGE), (b"third", 3 * PAGE)], SECOND.ljust(2 * PAGE, b"\0") + b"third"),
        ([(b"3", 2 * PAGE - 1)], SECOND[: PAGE - 1] + b"3\0"),  # a byte makes its page dirty, and no other
        ([(b"3", 2 * PAGE + 1)], bytes(PAGE) + b"23"),
    ],
)
def test_what_a_failed_sync_left_is_a_hole_unless_its_page_is_written_again(
    tmp_path: Path, writes: list[tuple[bytes, int]], kept: bytes
) -> None:
    """The kernel holds such pages for clean."""
    platter, disk, fd = stuck(tmp_path)
    for data, offset in writes:
        disk.write(fd, data, offset)
    disk.fdatasync(fd)
    cut(platter, disk)
    assert (platter.root / "file").read_bytes() == FIRST + kept


@pytest.mark.parametrize("synced", [True, False])
def test_58646_what_is_cut_off_is_no_hole_later(tmp_path: Path, synced: bool) -> None:
    """A node cuts its files at its start and writes them anew, in other pieces: the simulator had zeros there, long
    after they were synced. A cut that no sync covers brings back what was there, a hole."""
    platter, disk, fd = stuck(tmp_path)
    disk.truncate(fd, PAGE)
    if synced:
        for offset in range(0, len(SECOND), 3_000):
            disk.write(fd, SECOND[offset : offset + 3_000], PAGE + offset)
        disk.fdatasync(fd)
    cut(platter, disk)
    assert (platter.root / "file").read_bytes() == FIRST + (SECOND if synced else bytes(len(SECOND)))


@pytest.mark.parametrize("name", ["test_write_and_read", "test_names", "test_a_lock_is_exclusive"])
def test_the_simulated_disk_passes_the_real_one_s_tests(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One suite for both: what a node is shown here holds on a real disk."""
    platter = Platter(tmp_path / "data", tmp_path / "aside", random.Random(0))
    monkeypatch.setattr(real, "Disk", lambda: SimDisk(platter, random.Random(0), lambda _: None, lambda: None))
    getattr(real, name)(platter.root)


def test_what_a_cut_tears_follows_from_names(tmp_path: Path) -> None:
    """Not from inode numbers, which every file system gives in its own way: two files' torn parts are the same
    whichever was made first (a seed's trace was another one where there is no file system in memory)."""

    def torn(order: tuple[str, str], root: Path) -> dict[str, bytes]:
        platter, disk, _ = make(root, seed=5)
        for name in order:
            disk.write(written(disk, platter.root / name, b""), bytes(range(1, 250)) * 40, 0)
        cut(platter, disk, torn=True)
        return {name: (platter.root / name).read_bytes() for name in sorted(order)}

    assert torn(("a", "b"), tmp_path / "one") == torn(("b", "a"), tmp_path / "two")
