"""What one node's directory says of itself: whose it is, and what its last checkpoint vouches for.

The node may be running. Its LOCK is read and not taken, the catalog is read through LMDB's own lock beside the node,
and files that a checkpoint begun meanwhile adds or removes are no fault.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from reconcile.files.problem import DAMAGED, DataRefused, Problem
from storage.catalog.catalog import Catalog
from storage.catalog.hour_lengths import HourLengths
from storage.file.disk import Disk, DiskFailed
from storage.format.rows import Corrupt, FormatRefused
from storage.tables.members import REMOVED
from storage.tables.registry import OPERATIONS
from storage.tables.topic import Topic

LOCK: Final = "LOCK"
STORE_DIGITS: Final = 8
_FOLDERS: Final = ("hours", "deliveries")


@dataclass(frozen=True, slots=True)
class NodeData:
    """One node's directory, or its part of an export. `name` is its node id; `number` is what records call it, 0 where
    no checkpoint says; `store` names the directory itself (8 hex digits of its id, "" where that is not known): a node
    that lost its disk has a new one. `lengths` are what its last checkpoint vouches for, by hour; `max_now_ms` is the
    newest stamp in that, 0 for none. `members` has former ones too, which are `removed`.
    """

    name: str
    path: Path
    store: str = ""
    exported: bool = False
    number: int = 0
    max_now_ms: int = 0
    applied_index: int = 0
    lengths: Mapping[int, HourLengths] = field(default_factory=dict)
    topics: tuple[Topic, ...] = ()
    held: frozenset[int] = frozenset()
    """Numbers of the topics whose messages an operation that runs may have."""
    members: Mapping[int, str] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()


def is_node_directory(path: Path) -> bool:
    """Whether a node wrote here: it has a LOCK, or the folders of a copy that was made without it."""
    return (path / LOCK).is_file() or any((path / folder).is_dir() for folder in _FOLDERS)


def read_node(path: Path) -> NodeData:
    """Open a node's directory, running or not. Raises DataRefused for one of another format, or of another kind."""
    name, store = _owner(path)
    try:
        catalog = _open_catalog(path / "catalog")
    except FormatRefused as error:
        raise DataRefused(f"{path}: {error}") from error
    except (Corrupt, DiskFailed, OSError) as error:
        return NodeData(name, path, store, problems=(Problem(DAMAGED, name, "catalog", str(error)),))
    if catalog is None:
        return NodeData(name, path, store)
    try:
        members = {member.number: member.id for member in catalog.members.all()}
        removed = frozenset(member.id for member in catalog.members.all() if member.role == REMOVED)
        record = catalog.record
        return NodeData(
            name,
            path,
            store,
            number=next((number for number, id_ in members.items() if id_ == name), 0),
            max_now_ms=record.max_now_ms if record else 0,
            applied_index=record.applied_index if record else 0,
            lengths=record.hours if record else {},
            topics=tuple(catalog.topics()),
            held=catalog.of(OPERATIONS).held_topics(topic.number for topic in catalog.topics()),
            members=members,
            removed=removed,
        )
    finally:
        catalog.close()


def _open_catalog(path: Path) -> Catalog | None:
    """The catalog beside its node; None if its node never got as far as a checkpoint."""
    if not (path / "data.mdb").is_file():
        return None
    # Without LMDB's lock file no process has it open: a backup, or a copy of the data alone.
    return Catalog.open(path, Disk(), read_only=True, beside_node=(path / "lock.mdb").is_file())


def _owner(path: Path) -> tuple[str, str]:
    """Node id and store in LOCK; the directory's name where there is none, as in a copy of hours and deliveries."""
    try:
        fields = json.loads((path / LOCK).read_bytes() or b"{}")
        owner, store = str(fields.get("node_id", "")), str(fields.get("store_id", ""))
    except FileNotFoundError:
        return path.name, ""
    except (OSError, ValueError, AttributeError) as error:
        raise DataRefused(f"{path}/{LOCK} is damaged: it is not the JSON line that a node wrote ({error})") from error
    if fields.get("format", 1) != 1:
        raise DataRefused(f"{path}/{LOCK}: format {fields['format']}; this build reads 1")
    return owner or path.name, store[:STORE_DIGITS]
