"""The source of an export: one node's last durable checkpoint, and its delivery log.

Within the node the checkpoint is pinned, so that its files stay meanwhile. From outside, the directory is read while
its node may run:

- The checkpoint's lengths bound each read, and files do not change before them.
- The catalog is read without LMDB's lock. That is sound until the node has made two checkpoints. Every row has a
  checksum, and a read that met a page in use again is repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from storage.catalog.catalog import Catalog
from storage.catalog.checkpoint_record import CheckpointRecord
from storage.catalog.hour_lengths import HourLengths
from storage.directory.data_directory import DirectoryRefused, owner_of
from storage.export.manifest import FORMAT, ExportedMember, ExportedNode, ExportedTopic
from storage.file.disk import Disk, DiskFailed
from storage.format.rows import Corrupt
from storage.tables.registry import OPERATIONS
from storage.tables.topic import pause_of

_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class ExportSource:
    """A data directory at a checkpoint: its path, the node's document (`word`), the lengths of its hours by number."""

    path: Path
    word: ExportedNode
    hours: Mapping[int, HourLengths]

    @property
    def cluster_id(self) -> bytes:
        """The id of the cluster, 16 bytes."""
        return bytes.fromhex(self.word.cluster_id)

    @property
    def store_id(self) -> bytes:
        """The random id of the data directory, 16 bytes."""
        return bytes.fromhex(self.word.store_id)


def source_of(
    path: Path, node_id: str, store_id: bytes, catalog: Catalog, record: CheckpointRecord, until_ms: int, group: int = 0
) -> ExportSource:
    """The source for a node of a founded cluster, at the checkpoint that is given. `until_ms` is the time up to which
    its delivery log is complete."""
    genesis = catalog.genesis
    assert genesis is not None, "a checkpoint of a cluster that is not founded"
    member = catalog.members.find(node_id)
    word = ExportedNode(
        format=FORMAT,
        cluster_id=genesis.cluster_id.hex(),
        group=group,
        node=node_id,
        node_number=member.number if member else 0,
        store_id=store_id.hex(),
        applied_index=record.applied_index,
        applied_term=record.applied_term,
        tick=record.tick,
        max_now_ms=record.max_now_ms,
        deliveries_until_ms=until_ms,
        retention_ms=genesis.retention_ms,
        key_retention_ms=genesis.key_retention_ms,
        members=tuple(ExportedMember(number=m.number, id=m.id, role=m.role) for m in catalog.members.all()),
        topics=tuple(
            ExportedTopic(
                number=topic.number,
                namespace=topic.namespace,
                name=topic.name,
                mode="push" if topic.settings.get("mode") == "push" else "pull",
                handover="strict" if topic.settings.get("handover") == "strict" else "fast",
                pause=pause_of(topic.settings),
            )
            for topic in catalog.topics()
        ),
        held=tuple(sorted(catalog.of(OPERATIONS).held_topics(topic.number for topic in catalog.topics()))),
    )
    return ExportSource(path, word, record.hours)


def read_source(path: Path, disk: Disk, until_ms: int, group: int = 0) -> ExportSource:
    """The source of a directory, whether its node runs or not. `until_ms` is not after now.

    Raises DirectoryRefused (no data directory, or one without a checkpoint), Corrupt, FormatRefused or DiskFailed.
    """
    node_id, store_id = owner_of(path, disk)
    if not disk.exists(path / "catalog" / "data.mdb"):
        raise DirectoryRefused(f"{path} has no checkpoint yet: there is nothing in it")
    for left in reversed(range(_TRIES)):
        try:
            catalog = Catalog.open(path / "catalog", disk, read_only=True)
            try:
                if catalog.record is None or catalog.genesis is None:
                    raise DirectoryRefused(f"{path} has no checkpoint yet: there is nothing in it")
                return source_of(path, node_id, store_id, catalog, catalog.record, until_ms, group)
            finally:
                catalog.close()
        except (Corrupt, DiskFailed):
            if not left:
                raise
    raise AssertionError("a last try neither ended nor failed")
