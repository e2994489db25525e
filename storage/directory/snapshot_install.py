"""The install of a snapshot: built aside from pieces, verified, and put in place by one rename.

```
install/{hours,catalog,journal}     have, put: pieces, from a leader or from what this node has itself
  | verify                          everything synced, and read as `hourwheel verify` does; states files written
  | commit                          THE rename; before it the old state counts, after it the new
installed/                          finish_install: each folder takes its old one's place, by renames
replaced/                           the old ones, which `remove_replaced` removes while the node runs
```

```
| stopped | found at the next start | so |
|---|---|---|
| before the rename | the old state, and `install/` | the node goes on; what stands in `install/` is used again |
| after it, anywhere | `installed/`, perhaps some folders already moved | finish_install goes on where it stopped |
| before the old state is removed | `replaced/hours.1` and others | the node removes it while it runs |
```

`install/` may hold anything: pieces of an earlier try, of another leader's snapshot, bytes that a power cut mangled. So
no byte in it is trusted. The follower compares the checksum of what `have` finds with the leader's, piece by piece, and
verify reads everything again. Bytes of an earlier try are written again. Their sync may have failed, and then the
kernel holds the bytes and takes them for written.

Files of the node's own hours are used in the same way. They grow and never change, so their beginning is mostly that of
the snapshot. They are copied and not linked. The store that owns them goes on, cuts them at its next start, and must
not find them longer by another's bytes.
"""

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Final

from storage.catalog.catalog import Catalog
from storage.catalog.hour_lengths import settle_count
from storage.checkpoint.manifest import CATALOG_FILE, PIECE, Manifest, Part, SnapshotRefused
from storage.checkpoint.pin import checksum_of
from storage.directory.verify import verify
from storage.file.disk import Disk
from storage.file.hour_file import HourFiles
from storage.file.piece_writer import PieceWriter
from storage.format.rows import Corrupt, FormatRefused
from storage.state.files import TAIL_MIN, extend

INSTALL: Final = "install"
INSTALLED: Final = "installed"
REPLACED: Final = "replaced"
REMOVED_AT_ONCE: Final = 512
"""Directories of hours that one step of a removal takes."""
_FOLDERS: Final = ("hours", "catalog", "journal")
_SYNC_EACH_MAX: Final = 20_000
"""With more files a sync of each takes too long."""


class PieceRefused(SnapshotRefused):
    """Raised if the manifest lacks this piece, or if its checksum differs. The caller asks for the piece again."""


class InstallRefused(SnapshotRefused):
    """Raised if the files that were built differ from the manifest. The caller discards them and begins a new
    install."""


class Install:
    """A snapshot that is being built in `install/` of a data directory. Every method blocks, so it is for a thread, one
    call at a time.

    Raises DiskFailed (final) wherever it writes.
    """

    def __init__(self, directory: Path, manifest: Manifest, disk: Disk) -> None:
        """Begin to build the snapshot, or continue with the files that an earlier try left."""
        self.manifest = manifest
        self._directory = directory
        self._disk = disk
        self._aside = directory / INSTALL
        self.journal = self._aside / "journal"
        """The caller writes the snapshot's journal here, after verify and before commit."""
        self._lengths: dict[str, int] = {}  # of the files in `install/`
        self._left: dict[str, int] = {}  # as an earlier try left them
        self._writer = PieceWriter(disk)
        self._own = self._own_hours()
        self._prepare()

    @property
    def bytes_lacking(self) -> int:
        """The number of bytes still to write, if all bytes that stand in `install/` are right."""
        return self.manifest.total_bytes - sum(self._lengths.values())

    def have(self, parts: Sequence[Part]) -> bytes:
        """Return the bytes of a piece that this node has already, from the piece's beginning on. `parts` are the parts
        of files that the piece consists of.

        The bytes come from files that an earlier try left. Where such a file ends, bytes are copied from the node's own
        hours. Only the leader knows if all these bytes are right. If they are not, write the piece with `put`. Raises
        PieceRefused.
        """
        found: list[bytes] = []
        for part in parts:
            found.append(self._have(*part))
            if len(found[-1]) < part.size:
                break
        return b"".join(found)

    def _have(self, name: str, offset: int, size: int) -> bytes:
        self._check(name, offset, size)
        aside = self._aside / name
        data = b""
        if self._lengths.get(name, 0) > offset:
            data = self._read(aside, offset, min(size, self._lengths[name] - offset))
            left = data[: max(0, self._left.get(name, 0) - offset)]
            if left:
                self._write(name, offset, left)
        if len(data) < size:
            more = self._read_own(name, offset + len(data), size - len(data))
            if more:
                self._write(name, offset + len(data), more)
                data += more
        return data

    def put(self, parts: Sequence[Part], known: int, data: bytes, crc: int) -> None:
        """Write a piece, which consists of these parts of files. Its first `known` bytes stand in the files already.
        `data` has the other bytes, and `crc` is their CRC32C. Raises PieceRefused."""
        found, wanted = checksum_of(data), sum(part.size for part in parts)
        first = parts[0]
        if found != crc or known + len(data) != wanted:
            raise PieceRefused(
                f"{known} + {len(data)} bytes at {first.offset} of {first.name}, {wanted} were asked for: checksum "
                f"{found:08x}, expected {crc:08x}"
            )
        start = -known
        for name, offset, size in parts:
            self._check(name, offset, size)
            behind = max(0, -start)
            if behind < size:
                self._write(name, offset + behind, data[start + behind : start + size])
            start += size

    def verify(self) -> None:
        """Sync all files and read them back: sound, and equal to the manifest. Then write the states files that the
        next start needs. Raises InstallRefused."""
        for name, length in self.manifest.files:
            if self._lengths.get(name, 0) != length:
                raise InstallRefused(f"{name} has {self._lengths.get(name, 0)} of {length} bytes")
        self._sync()
        check_snapshot(self._aside, self.manifest, self._disk)
        write_states(self._aside, self.manifest, self._disk)

    def _sync(self) -> None:
        """Make the files and their names durable, also files that an earlier try left.

        Each file is synced by itself, for most of it is on the disk already. One syncfs would also write what other
        programs and files left unsynced, and all other syncs would wait for it.
        """
        disk, names = self._disk, self.manifest.lengths
        if len(names) > _SYNC_EACH_MAX:
            self._with(self._aside, disk.syncfs)
            return
        for name in names:
            self._with(self._aside / name, disk.fdatasync)
        above = {parent for name in names for parent in Path(name).parents}
        for directory in sorted(above, reverse=True):
            disk.fsync_directory(self._aside / directory)

    def _with(self, path: Path, sync: Callable[[int], None]) -> None:
        fd = self._disk.open_read(path)
        try:
            sync(fd)
        finally:
            self._disk.close(fd)

    def commit(self) -> None:
        """Make the snapshot this directory's state, by one rename.

        Before the call, the caller closes the old store and journal. They must not be read or written any more. The
        next DataDirectory.open puts the folders in place. `verify` has made the folders' names durable, and the writer
        of the journal has made its content durable.
        """
        assert self._disk.list_directory(self.journal), "hours of a snapshot beside a journal of before it"
        self._disk.rename(self._aside, self._directory / INSTALLED)
        self._disk.fsync_directory(self._directory)

    def discard(self) -> None:
        """Give the snapshot up: remove `install/`, which frees the disk space."""
        discard_install(self._directory, self._disk)

    def _prepare(self) -> None:
        """Make the folders, remove files that the manifest does not name, cut longer files."""
        disk, aside = self._disk, self._aside
        disk.make_directory(aside)
        disk.remove_tree(self.journal)
        for folder in _FOLDERS:
            disk.make_directory(aside / folder)
        named = {name.rsplit("/", 1)[0] for name in self.manifest.lengths}
        for hour in disk.list_directory(aside / "hours"):
            if f"hours/{hour}" not in named:
                disk.remove_tree(aside / "hours" / hour)
        for directory in sorted(named):
            if not disk.exists(aside / directory):
                continue
            for file in disk.list_directory(aside / directory):
                self._take(f"{directory}/{file}")

    def _take(self, name: str) -> None:
        """Keep a file that an earlier try left, and note its length. If it is longer than in the manifest, cut it. If
        the manifest lacks it, remove it."""
        path, length = self._aside / name, self.manifest.lengths.get(name)
        if length is None:
            self._disk.unlink(path)
            return
        fd = self._disk.open_write(path)
        try:
            size = self._disk.size(fd)
            if size > length:
                self._disk.truncate(fd, length)
        finally:
            self._disk.close(fd)
        self._lengths[name] = self._left[name] = min(size, length)

    def _check(self, name: str, offset: int, size: int) -> None:
        length = self.manifest.lengths.get(name)
        if length is None or offset < 0 or not 0 < size <= min(PIECE, length - offset):
            raise PieceRefused(f"no {size} bytes at {offset} of {name}: the manifest gives it {length}")

    def _own_hours(self) -> dict[str, str]:
        """The directories of this node's hours by number, the newest generation of each."""
        hours = self._directory / "hours"
        if not self._disk.exists(hours):
            return {}
        return {name.split(".")[0]: name for name in self._disk.list_directory(hours)}

    def _read_own(self, name: str, offset: int, size: int) -> bytes:
        if name == CATALOG_FILE:
            return b""  # its pages lie in any order
        _, hour, file = name.split("/")
        own = self._own.get(hour.split(".")[0])
        return b"" if own is None else self._read(self._directory / "hours" / own / file, offset, size)

    def _read(self, path: Path, offset: int, size: int) -> bytes:
        """Read `size` bytes at `offset`, or those of them that exist. Empty if the file does not exist, for the store
        may unlink an hour meanwhile."""
        try:
            fd = self._disk.open_read(path)
        except FileNotFoundError:
            return b""
        try:
            return self._disk.read(fd, size, offset)
        finally:
            self._disk.close(fd)

    def _write(self, name: str, offset: int, data: bytes) -> None:
        path = self._aside / name
        if name not in self._lengths:
            self._disk.make_directory(path.parent)
        self._writer.write(path, data, offset)
        self._lengths[name] = max(self._lengths.get(name, 0), offset + len(data))


def check_snapshot(directory: Path, manifest: Manifest, disk: Disk) -> None:
    """Read hours and catalog below `directory`, which no process has open. Every byte must be sound and as the manifest
    says. Raises InstallRefused."""
    report = verify(directory, disk=disk, group=manifest.group)
    if report.faults:
        raise InstallRefused("; ".join(report.faults[:3]))
    check_record(directory, manifest, disk)


def check_record(directory: Path, manifest: Manifest, disk: Disk) -> None:
    """Raise InstallRefused if the catalog below `directory` has another checkpoint record or cluster id than the
    manifest."""
    try:
        catalog = Catalog.open(directory / "catalog", disk, read_only=True)
    except (Corrupt, FormatRefused) as error:
        raise InstallRefused(str(error)) from error
    try:
        genesis, record = catalog.genesis, catalog.record
    finally:
        catalog.close()
    if record != manifest.record:
        found = record.applied_index if record else "no checkpoint"
        raise InstallRefused(f"the catalog is of {found}, the manifest of {manifest.applied_index}")
    if genesis is None or genesis.cluster_id != manifest.cluster_id:
        found = genesis.cluster_id.hex() if genesis else "none"
        raise InstallRefused(f"the catalog is of cluster {found}, the manifest of {manifest.cluster_id.hex()}")


def write_states(directory: Path, manifest: Manifest, disk: Disk) -> None:
    """Write the states files of the large hours below `directory`, which was checked and has none.

    No snapshot brings these files, and the next checkpoint is half a minute away. Until then one ack would read all
    settle records of its hour on the loop. Durable at return. Blocks, so it is for a thread.
    """
    large = [(hour, of) for hour, of in manifest.record.hours.items() if settle_count(of) >= TAIL_MIN]
    if not large:
        return
    catalog = Catalog.open(directory / "catalog", disk, read_only=True)
    firsts = [catalog.first_index(hour) for hour, _ in large]
    catalog.close()
    for (hour, lengths), first in zip(large, firsts, strict=True):
        files = HourFiles(
            disk,
            directory / "hours",
            hour,
            group=manifest.group,
            cluster_id=manifest.cluster_id,
            generation=lengths.generation,
            first=first,
        )
        extend(files, settle_count(lengths), [], set())
        files.close()


def discard_install(directory: Path, disk: Disk) -> None:
    """Remove `install/` of a data directory, with the files of an unfinished snapshot."""
    disk.remove_tree(directory / INSTALL)


def finish_install(directory: Path, disk: Disk) -> bool:
    """Put a committed snapshot's folders in their places. True if there was one.

    The folders that stood in these places wait in `replaced/` for remove_replaced. So their size does not slow the
    start. The caller holds the directory's LOCK and has nothing in it open. After a stop the next call goes on.
    """
    installed, replaced = directory / INSTALLED, directory / REPLACED
    if not disk.exists(installed):
        return False
    new = [folder for folder in _FOLDERS if disk.exists(installed / folder)]
    if old := [folder for folder in new if disk.exists(directory / folder)]:
        disk.make_directory(replaced)
        for folder in old:
            disk.rename(directory / folder, _free_place(replaced, folder, disk))
        disk.fsync_directory(directory)
        disk.fsync_directory(replaced)  # a place is free for good before a new folder takes it
    for folder in new:
        disk.rename(installed / folder, directory / folder)
    disk.fsync_directory(directory)
    disk.fsync_directory(installed)
    disk.remove_tree(installed)
    disk.fsync_directory(directory)
    return True


def _free_place(replaced: Path, folder: str, disk: Disk) -> Path:
    """A path in `replaced/` for this folder that does not exist yet."""
    return next(path for number in count(1) if not disk.exists(path := replaced / f"{folder}.{number}"))


def remove_replaced(directory: Path, disk: Disk) -> bool:
    """Remove at most REMOVED_AT_ONCE hours that snapshots have replaced. True if there are more.

    For a thread: an hour takes as long as the file system needs to free its blocks. After a stop the next call goes on.
    """
    replaced = directory / REPLACED
    if not disk.exists(replaced):
        return False
    folders = disk.list_directory(replaced)
    if not folders:
        disk.remove_tree(replaced)
        return False
    folder = replaced / folders[0]
    hours = disk.list_directory(folder) if folders[0].startswith("hours.") else []
    for hour in hours[:REMOVED_AT_ONCE]:
        disk.remove_tree(folder / hour)
    if len(hours) <= REMOVED_AT_ONCE:
        disk.remove_tree(folder)
    return True
