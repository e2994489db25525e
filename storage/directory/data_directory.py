"""The data directory: whose it is, and that one process has it.

Two processes on one directory, or a node started on another's, would each be consistent and together lose messages. So
LOCK names the owner, and is locked (flock: the lock dies with the process) for as long as the directory is in use.

```
hours/<hour>/{log,index,settle}   catalog/   journal/   deliveries/   LOCK   SILENCE
```
SILENCE is told of in file/silence_file.py. Beside these there are `install/`, a snapshot on its way in, `installed/`,
one that a stop kept from its place: it takes it when the directory is opened (snapshot_install.py), `replaced/`, what
it took the place of, until it is removed, and `pins/`, copies of the catalog for those it is sent to.

LOCK is one JSON line {"format","node_id","store_id","checksum"}. It is durable before anything else is made, so what a
crash during creation leaves is told apart from a damaged directory:

| LOCK | others | it is | so |
|---|---|---|---|
| missing | none | new | created |
| missing | some | not ours, or LOCK was removed | refused |
| no whole line | none | a crash during creation | created |
| no whole line | some | damaged | refused |
| a whole line | any | a data directory | format, checksum, node compared |

The store id is random and new with the directory: peers see by it that a node came back with an empty disk.
"""

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import google_crc32c

from storage.directory.snapshot_install import INSTALLED, finish_install
from storage.file.disk import Disk
from storage.format.rows import HEADER_SIZE, Corrupt, FileHeader

CONDEMNED: Final = "CONDEMNED"
"""A file that says why no node may start on this directory any more; see replication/raft/agreement.py."""

FORMAT: Final = 1
STORE_ID_SIZE: Final = 16
_LOCK: Final = "LOCK"
_FOLDERS: Final = ("hours", "catalog", "journal", "deliveries")
_IGNORED: Final = frozenset({"lost+found"})
"""The root of a freshly made file system counts as empty."""
_LINE_MAX: Final = 4096


class DirectoryRefused(Exception):
    """The directory is not this node's to use. Says which directory, why, and what to do."""


@dataclass(frozen=True, slots=True)
class _Owner:
    """What LOCK says."""

    node_id: str
    store_id: bytes

    def encode(self) -> bytes:
        fields: dict[str, object] = {"format": FORMAT, "node_id": self.node_id, "store_id": self.store_id.hex()}
        return _line({**fields, "checksum": _checksum(fields)})

    @classmethod
    def decode(cls, line: bytes, path: Path) -> Self:
        """Raises DirectoryRefused for another format, or a line that is not what was written."""
        try:
            fields = json.loads(line)
            found = fields.pop("checksum", None)
        except (ValueError, AttributeError, TypeError) as error:
            raise DirectoryRefused(f"{path}/{_LOCK} is damaged: it is not the JSON line a node wrote") from error
        if isinstance(fields.get("format"), int) and fields["format"] > FORMAT:
            raise DirectoryRefused(
                f"{path} has format {fields['format']}, this build knows up to {FORMAT}: use a newer build"
            )
        if found != _checksum(fields) or fields.get("format") != FORMAT:
            raise DirectoryRefused(f"{path}/{_LOCK} is damaged: its checksum does not match; restore it from a backup")
        return cls(fields["node_id"], bytes.fromhex(fields["store_id"]))


class DataDirectory:
    """An open data directory, locked until close. Attributes: path, node_id, store_id, hours, catalog, journal,
    deliveries (paths), created (it was new)."""

    def __init__(self, path: Path, owner: _Owner, created: bool, disk: Disk, lock: int) -> None:
        self.path = path
        self.node_id = owner.node_id
        self.store_id = owner.store_id
        self.created = created
        self.hours, self.catalog, self.journal, self.deliveries = (path / folder for folder in _FOLDERS)
        self._disk = disk
        self._lock = lock

    @classmethod
    def open(cls, path: Path, node_id: str, disk: Disk, new_store_id: bytes) -> Self:
        """Open the node's directory, or make it (with `new_store_id`, 16 random bytes) if there is nothing there.

        The parent must exist. Raises DirectoryRefused: another node's, a newer format, locked, damaged, or in use for
        something else. Raises FormatRefused if its journal is a newer build's: before anything in it is changed, since
        the hours are cut back to their checkpoint before the journal is read.
        """
        assert len(new_store_id) == STORE_ID_SIZE, f"store id of {len(new_store_id)} bytes"
        if not disk.exists(path.parent):
            raise DirectoryRefused(f"{path} cannot be made: {path.parent} does not exist")
        disk.make_directory(path)
        disk.fsync_directory(path.parent)
        _refuse_foreign(path, disk)
        lock = _take_lock(path, disk)
        try:
            owner, created = _read_owner(path, disk, lock), False
            if owner is None:
                owner, created = _Owner(node_id, new_store_id), True
                _write_owner(path, disk, lock, owner)
            if owner.node_id != node_id:
                raise DirectoryRefused(
                    f"{path} belongs to node {owner.node_id}, not {node_id}: check data_dir and node_id"
                )
            _refuse_condemned(path, disk)
            _refuse_newer(path, disk)
            if not created:
                _keep_owner(path, disk, lock, owner)
            finish_install(path, disk)
            for folder in _FOLDERS:
                disk.make_directory(path / folder)
            disk.fsync_directory(path)
        except BaseException:
            disk.close(lock)
            raise
        return cls(path, owner, created, disk, lock)

    @classmethod
    def inspect(cls, path: Path, disk: Disk) -> Self:
        """Open an existing directory of any node, for tools: nothing is made. Raises DirectoryRefused as open does,
        and if there is no data directory."""
        if not disk.exists(path / _LOCK):
            raise DirectoryRefused(f"{path} is not a data directory: it has no {_LOCK}")
        lock = _take_lock(path, disk)
        try:
            owner = _Owner(*owner_of(path, disk))
        except BaseException:
            disk.close(lock)
            raise
        return cls(path, owner, False, disk, lock)

    def condemn(self, why: str) -> None:
        """No node starts on this directory again: durable when it returns. Raises DiskFailed."""
        fd = self._disk.open_write(self.path / CONDEMNED)
        try:
            self._disk.write(fd, why.encode()[: _LINE_MAX - 1] + b"\n", 0)
            self._disk.fdatasync(fd)
        finally:
            self._disk.close(fd)
        self._disk.fsync_directory(self.path)

    def close(self) -> None:
        """Give the lock back."""
        self._disk.close(self._lock)


def _others(path: Path, disk: Disk) -> list[str]:
    return [name for name in disk.list_directory(path) if name != _LOCK and name not in _IGNORED]


def _refuse_foreign(path: Path, disk: Disk) -> None:
    others = _others(path, disk)
    if others and not disk.exists(path / _LOCK):
        ours = sorted(set(others) & set(_FOLDERS))
        if ours:
            raise DirectoryRefused(f"{path} has {', '.join(ours)} but no {_LOCK}: restore it or use an empty one")
        raise DirectoryRefused(f"{path} is not empty and not a data directory: it holds {others[0]}")


def _refuse_condemned(path: Path, disk: Disk) -> None:
    """A torn file counts: it was begun because the data is not to be trusted."""
    if disk.exists(path / CONDEMNED):
        fd = disk.open_read(path / CONDEMNED)
        try:
            why = disk.read(fd, _LINE_MAX, 0).decode(errors="replace").strip()
        finally:
            disk.close(fd)
        raise DirectoryRefused(f"{path} is condemned: {why or 'its data is not to be trusted'}")


def _refuse_newer(path: Path, disk: Disk) -> None:
    """The headers of the journal's segments; what is damaged is for recovery to tell."""
    journal = path / "journal"
    for name in disk.list_directory(journal) if disk.exists(journal) else []:
        fd = disk.open_read(journal / name)
        try:
            header = disk.read(fd, HEADER_SIZE, 0)
        finally:
            disk.close(fd)
        with contextlib.suppress(Corrupt):
            FileHeader.decode(header, str(journal / name))


def _take_lock(path: Path, disk: Disk) -> int:
    lock = disk.open_write(path / _LOCK)
    if not disk.lock(lock):
        disk.close(lock)
        raise DirectoryRefused(f"{path} is in use by another process: stop that one, or use another data_dir")
    return lock


def _read_owner(path: Path, disk: Disk, lock: int) -> _Owner | None:
    """What LOCK says; None if creation did not get as far as a whole line and nothing else was made."""
    line = disk.read(lock, _LINE_MAX, 0)
    if line.endswith(b"\n"):
        return _Owner.decode(line, path)
    if _others(path, disk):
        raise DirectoryRefused(f"{path}/{_LOCK} is damaged: it ends within its line; restore it from a backup")
    return None


def _write_owner(path: Path, disk: Disk, lock: int, owner: _Owner) -> None:
    disk.truncate(lock, 0)
    disk.write(lock, owner.encode(), 0)
    disk.fdatasync(lock)
    disk.fsync_directory(path)


def owner_of(path: Path, disk: Disk) -> tuple[str, bytes]:
    """(node id, store id) of a data directory, which its node may have open. Raises DirectoryRefused."""
    try:
        fd = disk.open_read(path / _LOCK)
    except FileNotFoundError as error:
        raise DirectoryRefused(f"{path} is not a data directory: it has no {_LOCK}") from error
    try:
        owner = _read_owner(path, disk, fd)
    finally:
        disk.close(fd)
    if owner is None:
        raise DirectoryRefused(f"{path} is empty: its node was stopped while making it")
    if disk.exists(path / INSTALLED):
        raise DirectoryRefused(f"{path} has a snapshot that is not yet in place: start its node, which does that")
    return owner.node_id, owner.store_id


def lock_line(node_id: str, store_id: bytes) -> bytes:
    """What LOCK says in a directory of this node: for one that is made elsewhere than by opening it."""
    return _Owner(node_id, store_id).encode()


def _keep_owner(path: Path, disk: Disk, lock: int, owner: _Owner) -> None:
    """Make the line durable once more. A start whose sync failed left it in memory alone, where this one reads it; what
    is made next must not outlive it."""
    disk.write(lock, owner.encode(), 0)
    disk.fdatasync(lock)
    disk.fsync_directory(path)


def _checksum(fields: dict[str, object]) -> str:
    return f"{google_crc32c.value(_line(fields)):08x}"


def _line(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, sort_keys=True).encode() + b"\n"
