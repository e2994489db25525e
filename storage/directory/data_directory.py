"""The data directory: its owner, and the lock that gives it to one process.

Two processes on one directory, or a node on another node's, would each be consistent and together lose messages. So
LOCK names the owner, and is locked (flock: the lock dies with the process) for as long as the directory is in use.

```
hours/<hour>/{log,index,settle}   catalog/   journal/   deliveries/   LOCK   SILENCE
```
file/silence_file.py describes SILENCE. The directory can hold four more:

- `install/`: a snapshot on its way in.
- `installed/`: a whole snapshot, if a stop came before its folders were in their places. The next open of the directory
  puts them there (snapshot_install.py).
- `replaced/`: the folders that a snapshot replaced, until they are removed.
- `pins/`: copies of the catalog on their way to a follower, a backup or an export.

LOCK is one JSON line {"format","node_id","store_id","checksum"}. It is durable before anything else is made. So a crash
during creation can be told from a damaged directory:

```
| LOCK | others | it is | so |
|---|---|---|---|
| missing | none | new | created |
| missing | some | not ours, or LOCK was removed | refused |
| no whole line | none | a crash during creation | created |
| no whole line | some | damaged | refused |
| a whole line | any | a data directory | format, checksum, node compared |
```

The store id is random and new with the directory. By it peers see that a node came back with an empty disk.
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
"""A file that says why no node may start on this directory any more. See replication/raft/agreement.py."""

FORMAT: Final = 1
STORE_ID_SIZE: Final = 16
_LOCK: Final = "LOCK"
_FOLDERS: Final = ("hours", "catalog", "journal", "deliveries")
_IGNORED: Final = frozenset({"lost+found"})
"""Such a directory counts as empty: the root of a freshly made file system has one."""
_LINE_MAX: Final = 4096


class DirectoryRefused(Exception):
    """Raised if the node must not use the directory. Says which directory, why, and what to do."""


@dataclass(frozen=True, slots=True)
class _Owner:
    """The content of LOCK."""

    node_id: str
    store_id: bytes

    def encode(self) -> bytes:
        fields: dict[str, object] = {"format": FORMAT, "node_id": self.node_id, "store_id": self.store_id.hex()}
        return _line({**fields, "checksum": _checksum(fields)})

    @classmethod
    def decode(cls, line: bytes, path: Path) -> Self:
        """Read the line. Raises DirectoryRefused for another format, or a line that is not as written."""
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
    """An open data directory, locked until close.

    Attributes: path, node_id, store_id, hours, catalog, journal, deliveries (paths), created (it was new).
    """

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
        """Open the node's directory, or make it (with `new_store_id`, 16 random bytes) if nothing is there.

        The parent must exist. Raises DirectoryRefused: another node's, a newer format, locked, damaged, or in use for
        something else. Raises FormatRefused if its journal is a newer build's. That is checked before anything is
        changed. Later would be too late: the hours are cut back to their checkpoint before the journal is read.
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
        """Open an existing directory of any node, for tools. Nothing is made. Raises DirectoryRefused as open does, and
        if there is no data directory."""
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
        """Keep every node from starting on this directory again. Durable at return. Raises DiskFailed."""
        fd = self._disk.open_write(self.path / CONDEMNED)
        try:
            self._disk.write(fd, why.encode()[: _LINE_MAX - 1] + b"\n", 0)
            self._disk.fdatasync(fd)
        finally:
            self._disk.close(fd)
        self._disk.fsync_directory(self.path)

    def close(self) -> None:
        """Release the lock."""
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
    """Raise DirectoryRefused if CONDEMNED exists. A torn file counts too, because the node began to write it when it
    found its data wrong."""
    if disk.exists(path / CONDEMNED):
        fd = disk.open_read(path / CONDEMNED)
        try:
            why = disk.read(fd, _LINE_MAX, 0).decode(errors="replace").strip()
        finally:
            disk.close(fd)
        raise DirectoryRefused(f"{path} is condemned: {why or 'its data is not to be trusted'}")


def _refuse_newer(path: Path, disk: Disk) -> None:
    """Raise FormatRefused if a header of a journal segment is a newer build's. A damaged header passes: the journal's
    recovery reports it."""
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
    """The content of LOCK. None if creation ended before a whole line and nothing else was made."""
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
    """The line of LOCK for this node's directory. A restore writes it, because it makes the directory without
    `open`."""
    return _Owner(node_id, store_id).encode()


def _keep_owner(path: Path, disk: Disk, lock: int, owner: _Owner) -> None:
    """Write the line of LOCK again and make it durable. If an earlier start's sync failed, the kernel has the line in
    memory alone, where this start read it. Files made from now on must not outlive the line."""
    disk.write(lock, owner.encode(), 0)
    disk.fdatasync(lock)
    disk.fsync_directory(path)


def _checksum(fields: dict[str, object]) -> str:
    return f"{google_crc32c.value(_line(fields)):08x}"


def _line(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, sort_keys=True).encode() + b"\n"
