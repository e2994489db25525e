"""A backup: one checkpoint of a group in a directory of its own, complete or not there.

```
<cluster id, 8 hex digits>-<applied index, 20 digits>-<node>/
    MANIFEST   hours/<hour>/{log,index,settle}   catalog/data.mdb
```
The files are those of a data directory, byte for byte. MANIFEST (storage/checkpoint/manifest.py) is the manifest with
the CRC32C of every MiB. A backup is built under its name with `.part` behind it, and renamed when all is durable. So a
directory of the full name is a whole backup. It belongs to no node: it has no LOCK, no journal, no delivery log.

A failure here fails the backup and not the node, unless the node's own files cannot be read. A backup's disk may be any
disk. If it is full or broken, the operator must hear of it, and the node goes on to deliver.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from storage.checkpoint.manifest import PIECE, Manifest, SnapshotRefused
from storage.checkpoint.pin import Pin, checksum_of
from storage.directory.snapshot_install import check_record
from storage.directory.verify import Report, verify
from storage.file.disk import Disk, DiskFailed
from storage.file.piece_writer import PieceWriter
from storage.format.rows import Corrupt, FormatRefused

MANIFEST: Final = "MANIFEST"
PART: Final = ".part"


class BackupRefused(SnapshotRefused):
    """The backup cannot be written, or a directory holds no usable backup. Says where and why."""


def backup_name(manifest: Manifest, node_id: str) -> str:
    """The name of this checkpoint's backup."""
    return f"{manifest.cluster_id.hex()[:8]}-{manifest.applied_index:020}-{node_id}"


@dataclass(frozen=True)
class Room:
    """The disk space that backups may take. It counts only on the file system of the node's data directory, `data`,
    because a full one would make the node refuse work.

    `reserve_bytes` stay free. All files below `base` take at most `share` of the whole file system.
    """

    data: Path
    reserve_bytes: int
    base: Path
    share: float

    def check(self, place: Path, needed: int, disk: Disk) -> None:
        """Raise BackupRefused if `needed` more bytes at `place`, which exists, would break one of the two bounds. On
        another file system than the data's there is no bound."""
        if not disk.same_file_system(place, self.data):
            return
        free = disk.free_bytes(place)
        if needed > free - self.reserve_bytes:
            kept = f"{place} has {free} bytes free and keeps {self.reserve_bytes} of them for the node"
            raise BackupRefused(f"{kept}, the backup needs {needed}")
        held, most = bytes_below(self.base), int(self.share * disk.total_bytes(place))
        if held + needed > most:
            bound = f"{most} of the data's disk at most ([backup] max_share)"
            raise BackupRefused(f"backups below {self.base} take {held} bytes, {bound}; this one needs {needed}")


class BackupWriter:
    """A backup that is being written. The caller calls `copy` for each of `pieces`, then `finish`, or `abandon` to give
    up. All of them block, so they run in a thread.

    Raises BackupRefused for a fault of the place that it writes to. Raises Corrupt or DiskFailed, which are final, for
    the node's own files.
    """

    def __init__(self, pin: Pin, parent: Path, node_id: str, disk: Disk, *, room: Room | None = None) -> None:
        self._pin = pin
        self._disk = disk
        self._room = room
        self.path = parent / backup_name(pin.manifest, node_id)
        """The finished backup's directory."""
        self._part = parent / (self.path.name + PART)
        self._sums: list[int] = []
        self._writer = PieceWriter(disk)
        self._begin(parent)

    def pieces(self) -> Iterator[tuple[str, int, int]]:
        """(file name, offset, size) of each piece to copy, in order."""
        return self._pin.manifest.pieces()

    def copy(self, name: str, offset: int, size: int) -> None:
        """Copy one of `pieces` into the backup. Pieces must be copied in the order of `pieces`."""
        data = self._pin.read(name, offset, size)
        self._sums.append(checksum_of(data))
        try:
            path = self._part / name
            if not offset:
                self._disk.make_directory(path.parent)
            self._writer.write(path, data, offset)
        except DiskFailed as error:
            raise self._refused(error) from error

    def finish(self) -> Manifest:
        """Make the backup durable and give it its name. Return its manifest.

        The rows and records are not checked here. That would hold the interpreter, and so the loop, for longer than the
        whole copy. `hourwheel verify` checks them on any host.
        """
        manifest = replace(self._pin.manifest, sums=tuple(self._sums))
        try:
            self._writer.write(self._part / MANIFEST, manifest.encode(), 0)
            fd = self._disk.open_read(self._part)
            try:
                self._disk.syncfs(fd)
            finally:
                self._disk.close(fd)
            check_record(self._part, manifest, self._disk)
            self._disk.rename(self._part, self.path)
            self._disk.fsync_directory(self.path.parent)
        except DiskFailed as error:
            raise self._refused(error) from error
        return manifest

    def abandon(self) -> None:
        """Give the backup up and remove its files."""
        try:
            self._disk.remove_tree(self._part)
        except DiskFailed as error:
            raise self._refused(error) from error

    def _begin(self, parent: Path) -> None:
        try:
            standing = next(place for place in (parent, *parent.parents) if self._disk.exists(place))
            if self._disk.exists(self.path):
                raise BackupRefused(f"{self.path} is there already: nothing was applied since it was written")
            self._disk.remove_tree(self._part)
            needed, free = self._pin.manifest.total_bytes, self._disk.free_bytes(standing)
            if needed > free:
                raise BackupRefused(f"{standing} has {free} bytes free, the backup needs {needed}")
            if self._room is not None:
                self._room.check(standing, needed, self._disk)
            for place in (*reversed(parent.parents), parent):
                if not self._disk.exists(place):
                    self._disk.make_directory(place)
            for folder in (self._part, self._part / "hours", self._part / "catalog"):
                self._disk.make_directory(folder)
        except DiskFailed as error:
            raise self._refused(error) from error

    def _refused(self, error: DiskFailed) -> BackupRefused:
        return BackupRefused(f"the backup cannot be written: {error.operation} {error.path}: errno {error.errno}")


def bytes_below(directory: Path) -> int:
    """The number of bytes of all files in and below a directory. A file that is removed meanwhile counts as 0."""
    total = 0
    for place, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total


def is_backup(directory: Path, disk: Disk) -> bool:
    """True if this is a backup, finished or not, and no data directory."""
    unfinished = directory.name.endswith(PART) and not disk.exists(directory / "LOCK")
    return unfinished or disk.exists(directory / MANIFEST)


def read_manifest(directory: Path, disk: Disk) -> Manifest:
    """The manifest of a backup. Raises BackupRefused if it is missing or not whole."""
    try:
        fd = disk.open_read(directory / MANIFEST)
    except FileNotFoundError as error:
        if directory.name.endswith(PART):
            raise BackupRefused(f"{directory} is a backup that was never finished: use another one") from error
        what = "a data directory, no backup" if disk.exists(directory / "LOCK") else f"no backup: it has no {MANIFEST}"
        raise BackupRefused(f"{directory} is {what}") from error
    except DiskFailed as error:
        raise BackupRefused(str(error)) from error
    try:
        manifest = Manifest.decode(disk.read(fd, disk.size(fd), 0), str(directory / MANIFEST))
    except (Corrupt, FormatRefused) as error:
        raise BackupRefused(str(error)) from error
    finally:
        disk.close(fd)
    if not manifest.sums:
        raise BackupRefused(f"{directory / MANIFEST} has no checksums: it is an offer, not a backup")
    return manifest


def read_pieces(directory: Path, manifest: Manifest, disk: Disk) -> Iterator[tuple[str, int, bytes]]:
    """Yield (name, offset, bytes) of every piece of a backup, once its checksum is verified. Raises BackupRefused at
    the first damaged piece."""
    sums = iter(manifest.sums)
    for name, length in manifest.files:
        fd = _open(directory, name, length, disk)
        try:
            for offset in range(0, length, PIECE):
                data = disk.read(fd, min(PIECE, length - offset), offset)
                found, expected = checksum_of(data), next(sums)
                if found != expected:
                    raise BackupRefused(
                        f"{directory / name}: bytes {offset} to {offset + len(data)} are not what was written: "
                        f"checksum {found:08x}, expected {expected:08x}"
                    )
                yield name, offset, data
        finally:
            disk.close(fd)


def verify_backup(directory: Path, *, disk: Disk | None = None) -> Report:
    """Check a backup as `verify` checks a data directory, and that every byte is as written. Faults are in the report,
    never raised."""
    disk = disk or Disk()
    try:
        manifest = read_manifest(directory, disk)
        report = verify(directory, disk=disk, group=manifest.group)
        for _ in read_pieces(directory, manifest, disk):
            pass
        if report.sound:
            check_record(directory, manifest, disk)
    except (SnapshotRefused, DiskFailed) as error:
        return Report(faults=[str(error)])
    report.notes.append(f"a backup of cluster {manifest.cluster_id.hex()} at index {manifest.applied_index}")
    return report


def _open(directory: Path, name: str, length: int, disk: Disk) -> int:
    try:
        fd = disk.open_read(directory / name)
    except FileNotFoundError as error:
        raise BackupRefused(f"{directory / name} is missing; the manifest gives it {length} bytes") from error
    size = disk.size(fd)
    if size != length:
        disk.close(fd)
        raise BackupRefused(f"{directory / name} has {size} bytes; the manifest gives it {length}")
    return fd
