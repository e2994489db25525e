"""What an export holds, as the inventory lists it: only what its manifests name counts, and only so far.

Rows have checksums of their own and files headers with theirs, so the checksum that a manifest has over each whole file
is not computed again here: reading checks the same bytes.
"""

from pathlib import Path

from reconcile.files.find import DeliverySource, FoundFiles, HourCopy, header_of, name_of
from reconcile.files.node import NodeData
from reconcile.files.problem import CUT_SHORT, MISSING, DataRefused, Problem
from storage.export.manifest import (
    ExportedDeliveries,
    ExportedHour,
    ExportedNode,
    ExportedTopic,
    Partition,
    is_export,
    read_export,
)
from storage.file.disk import Disk
from storage.format.rows import (
    HEADER_SIZE,
    MAGIC_DELIVERIES,
    MAGIC_HEADERS,
    MAGIC_INDEX,
    MAGIC_SETTLE,
    Corrupt,
    FormatRefused,
)
from storage.record.delivery_record import DELIVERY
from storage.record.record import RECORD_HEADER_SIZE
from storage.tables.members import REMOVED
from storage.tables.topic import Topic, paused_settings


def is_export_directory(path: Path) -> bool:
    """Whether `hourwheel export` wrote here."""
    return is_export(path, Disk())


def find_export(path: Path) -> tuple[list[NodeData], FoundFiles]:
    """The nodes of an export and all that they exported. Raises DataRefused for a manifest that is not as written, or
    of another format: nothing else tells what counts."""
    try:
        nodes, partitions = read_export(path, Disk())
    except (Corrupt, FormatRefused) as error:
        raise DataRefused(f"{path}: {error}") from error
    found = FoundFiles()
    for folder, partition in partitions:
        for hour in partition.hours:
            _find_hour(found, partition, folder / hour.folder, hour)
        for deliveries in partition.deliveries:
            _find_deliveries(found, partition, folder / deliveries.folder, deliveries)
    named = set(nodes) | {partition.node for _, partition in partitions}
    return [_node(path, name, nodes.get(name)) for name in sorted(named)], found


def _node(path: Path, name: str, word: ExportedNode | None) -> NodeData:
    if word is None:  # its first export was stopped before its last step
        return NodeData(name, path, exported=True)
    return NodeData(
        name,
        path,
        word.store_id[:8],
        exported=True,
        number=word.node_number,
        max_now_ms=word.max_now_ms,
        applied_index=word.applied_index,
        topics=tuple(_topic(topic) for topic in word.topics),
        held=frozenset(word.held),
        members={member.number: member.id for member in word.members},
        removed=frozenset(member.id for member in word.members if member.role == REMOVED),
    )


def _topic(topic: ExportedTopic) -> Topic:
    settings = {"mode": topic.mode, "handover": topic.handover, **paused_settings(topic.pause)}
    return Topic(
        number=topic.number, namespace=topic.namespace, name=topic.name, settings=settings, revision=0, created_ms=0
    )


def _find_hour(found: FoundFiles, partition: Partition, directory: Path, hour: ExportedHour) -> None:
    lengths = {}
    for name, magic, file, size in (
        ("index", MAGIC_INDEX, hour.index.bytes, 64),
        ("settle", MAGIC_SETTLE, hour.settle.bytes, 48),
        ("headers", MAGIC_HEADERS, hour.headers.bytes, RECORD_HEADER_SIZE),
    ):
        there = _length(found, partition.node, directory / name, magic, file, hour.hour)
        lengths[name] = max(0, there - HEADER_SIZE) // size
    if lengths["index"]:
        found.copies.append(
            HourCopy(
                partition.node,
                directory,
                hour.hour,
                0,
                hour.first,
                min(hour.units, lengths["index"]),
                min(hour.settles, lengths["settle"]),
                hour.units,
                hour.settles,
                0,
                min(hour.units, lengths["headers"]),
            )
        )


def _find_deliveries(found: FoundFiles, partition: Partition, path: Path, file: ExportedDeliveries) -> None:
    length = _length(found, partition.node, path, MAGIC_DELIVERIES, file.bytes, None)
    hour, sequence, store = path.name.removesuffix(".log").split("-")
    rows = min(file.rows, max(0, length - HEADER_SIZE) // DELIVERY.itemsize)
    found.deliveries.append(DeliverySource(partition.node, store, path, int(hour), int(sequence), rows))


def _length(found: FoundFiles, node: str, path: Path, magic: bytes, stated: int, hour: int | None) -> int:
    """How many of the bytes that the manifest states are there; a problem if that is not all, or they are no such
    file's."""
    if not stated:
        return 0
    if not path.is_file():
        found.problems.append(Problem(MISSING, node, name_of(path), f"the manifest states {stated} bytes", stated))
        return 0
    size = path.stat().st_size
    if size < stated:
        what = f"{size} bytes, the manifest states {stated}"
        found.problems.append(Problem(CUT_SHORT, node, name_of(path), what, stated - size))
    if header_of(found, node, path, magic, hour) is None:
        return 0
    return min(size, stated)
