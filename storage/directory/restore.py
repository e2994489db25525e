"""A data directory made from a backup: the first node of a new cluster, with the old one's messages.

```
DIR/installed/{hours,catalog,journal,LOCK}    copied and checked, made another cluster's, synced, read back
  | THE rename: installed/LOCK -> LOCK        before it DIR is no data directory and no node starts on it
DIR/LOCK, DIR/installed/...                   a data directory; opening it puts the folders in place, as a snapshot's
```
It is another cluster, with a new id in every header and in the genesis. So a node of the old cluster that still lives
is refused, and two nodes restored from the same backup refuse each other. The other nodes of the new cluster start
empty and get everything from this one.

Message ids and the secret of receipts are the old ones. So a consumer or receiver that processed a message before the
backup can still acknowledge it. The journal that the caller writes begins with a term far above those of the old
cluster. So every hand-over from here on is newer than any that the old cluster made after the backup.

A failure removes the files made. A kill leaves `installed` without LOCK: nodes refuse it, the next restore removes it.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from storage.catalog.catalog import Catalog
from storage.catalog.restored import Restored
from storage.checkpoint.manifest import CATALOG_FILE, Manifest
from storage.directory.backup import BackupRefused, read_manifest, read_pieces
from storage.directory.data_directory import DataDirectory, lock_line
from storage.directory.snapshot_install import INSTALLED, check_snapshot, write_states
from storage.file.disk import Disk
from storage.format.rows import HEADER_SIZE, FileHeader
from storage.tables.members import LEARNER, REMOVED, VOTER, Member
from storage.tables.overdue import OverdueRule

_LOCK: Final = "LOCK"
_IGNORED: Final = frozenset({"lost+found", INSTALLED})

WriteJournal = Callable[[Path, Manifest], None]
"""Writes the journal that belongs to a manifest's checkpoint into an empty directory. It is durable at return."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions:
    """The node that the directory becomes.

    - `cluster_id`, `store_id`: 16 random bytes each.
    - `now_ms`: when the directory is made.
    - `raft`, `http`: host:port of this node as others reach it, None for those in the backup.
    - `alone`: the other members are removed. Otherwise they become learners, which may start empty and catch up.
    - `overdue`: which overdue messages the new cluster gives up. None: it delivers all of them.
    """

    node_id: str
    cluster_id: bytes
    store_id: bytes
    now_ms: int
    raft: str | None = None
    http: str | None = None
    alone: bool = False
    overdue: OverdueRule | None = None


def restore(
    backup: Path, directory: Path, options: RestoreOptions, write_journal: WriteJournal, disk: Disk
) -> Manifest:
    """Make `directory`, which must be missing or empty, from a backup. Return the manifest of its content.

    Raises BackupRefused: the backup is damaged, foreign or of another format, or the directory is in use. Raises
    DiskFailed. In either case no made file is left.
    """
    manifest = read_manifest(backup, disk)
    if manifest.group:
        raise BackupRefused(f"{backup} is of group {manifest.group}; this build has group 0 alone")
    if directory.absolute().is_relative_to(backup.absolute()):
        raise BackupRefused(f"{directory} is within the backup, which stays as it is; restore beside it")
    made = _claim(directory, disk)
    try:
        restored = _build(backup, manifest, directory / INSTALLED, options, write_journal, disk)
        disk.rename(directory / INSTALLED / _LOCK, directory / _LOCK)
    except BaseException as error:
        if not isinstance(error, Exception):
            raise  # the process ends, see above
        disk.remove_tree(directory if made else directory / INSTALLED)
        raise
    disk.fsync_directory(directory)
    disk.fsync_directory(directory.parent)
    DataDirectory.open(directory, options.node_id, disk, options.store_id).close()
    return restored


def _claim(directory: Path, disk: Disk) -> bool:
    """Make the directory, or check that it is empty. True if it was made."""
    if not disk.exists(directory.parent):
        raise BackupRefused(f"{directory} cannot be made: {directory.parent} does not exist")
    if not disk.exists(directory):
        disk.make_directory(directory)
        return True
    others = [name for name in disk.list_directory(directory) if name not in _IGNORED]
    if others:
        raise BackupRefused(f"{directory} is not empty: it holds {others[0]}; restore into a new or empty directory")
    disk.remove_tree(directory / INSTALLED)
    return False


def _build(
    backup: Path, manifest: Manifest, aside: Path, options: RestoreOptions, write_journal: WriteJournal, disk: Disk
) -> Manifest:
    for folder in (aside, aside / "hours", aside / "catalog", aside / "journal"):
        disk.make_directory(folder)
    _copy(backup, manifest, aside, options.cluster_id, disk)
    refounded = _refound(aside / "catalog", manifest, options, disk)
    check_snapshot(aside, refounded, disk)
    write_states(aside, refounded, disk)
    write_journal(aside / "journal", manifest)
    fd = disk.open_write(aside / _LOCK)
    try:
        disk.write(fd, lock_line(options.node_id, options.store_id), 0)
    finally:
        disk.close(fd)
    fd = disk.open_read(aside)
    try:
        disk.syncfs(fd)
    finally:
        disk.close(fd)
    return manifest


def _copy(backup: Path, manifest: Manifest, aside: Path, cluster_id: bytes, disk: Disk) -> None:
    """Check every piece of the backup and copy it to `aside`. Headers of hours' files get the new cluster's id."""
    fd, opened = -1, ""
    try:
        for name, offset, data in read_pieces(backup, manifest, disk):
            if name != opened:
                if fd >= 0:
                    disk.close(fd)
                disk.make_directory((aside / name).parent)
                fd, opened = disk.open_write(aside / name), name
                if name != CATALOG_FILE:
                    header = replace(FileHeader.decode(data[:HEADER_SIZE], name), cluster_id=cluster_id)
                    data = header.encode() + data[HEADER_SIZE:]
            disk.write(fd, data, offset)
    finally:
        if fd >= 0:
            disk.close(fd)


def _refound(path: Path, manifest: Manifest, options: RestoreOptions, disk: Disk) -> Manifest:
    """Give the catalog of the backup the new cluster's genesis, members and rule for overdue messages, in one
    transaction. Return the manifest of the result."""
    catalog = Catalog.open(path, disk)
    try:
        record = catalog.record
        if record != manifest.record or catalog.genesis is None or catalog.genesis.cluster_id != manifest.cluster_id:
            raise BackupRefused(f"{path} is not the catalog that the manifest names")
        assert record is not None
        catalog.refound(msgspec.structs.replace(catalog.genesis, cluster_id=options.cluster_id))
        _set_members(catalog, record.applied_index, options)
        catalog.set_overdue_rule(options.overdue)
        ends = {hour: catalog.first_index(hour) + lengths.units for hour, lengths in record.hours.items()}
        catalog.set_restored(Restored(options.now_ms, ends, record.applied_term))
        rolling = hashlib.blake2b(record.rolling_hash + options.cluster_id, digest_size=16).digest()
        frozen = catalog.begin(replace(record, rolling_hash=rolling))
        frozen.commit()
        catalog.finish(frozen)
        assert catalog.record is not None
        return replace(manifest, cluster_id=options.cluster_id, record=catalog.record, sums=())
    finally:
        catalog.close()


def _set_members(catalog: Catalog, index: int, options: RestoreOptions) -> None:
    """Make this node the only voter. Otherwise decisions would need a majority of nodes that do not exist any more."""
    members = catalog.members
    for member in members.all():
        if member.id != options.node_id and member.role != REMOVED:
            role = REMOVED if options.alone else LEARNER
            members.put(msgspec.structs.replace(member, role=role, since_index=index))
    former = members.find(options.node_id)
    raft, http = options.raft or (former.raft if former else None), options.http or (former.http if former else None)
    if not raft or not http:
        known = ", ".join(member.id for member in members.all()) or "nobody"
        raise BackupRefused(
            f"the backup has no address of {options.node_id} (it knows {known}): give --raft and --http"
        )
    number = former.number if former else members.next_number
    members.put(Member(number=number, id=options.node_id, raft=raft, http=http, role=VOTER, since_index=index))
