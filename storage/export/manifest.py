"""What an export says of itself: a manifest for each node's day, and a word about the node.

```
DIR/nodes/<node>.json                                    what the node's export stands for; written last
DIR/dt=YYYY-MM-DD/node=<node>/MANIFEST.json              which files, how long, what checksum
DIR/dt=YYYY-MM-DD/node=<node>/hours/<hour>[.<first>]/{headers,index,settle}
DIR/dt=YYYY-MM-DD/node=<node>/deliveries/<hour>-<sequence>-<store id, 8 hex digits>.log
```
`dt` is the UTC day of the hour in a name. `index` and `settle` are those of the node, byte for byte; `headers` are the
file header (`HWHEADS`) and the 96 bytes that begin each record of `log` (storage/record/record.py), one row a unit, in
the order of `index`; the messages' own bytes stay behind. `<first>` is the global_index of an hour's first unit where
that is not 0: an hour that was unlinked and begun again stands beside the former one, and both count. A delivery file
is that of the node, as many whole rows as it had; its name has the directory's id too, since a node that lost its disk
numbers its files from 1 again.

Files only grow, and a manifest counts after the bytes that it names are durable: what is behind its lengths, what it
does not list and what ends in `.part` is of a run that was stopped. Both kinds of document are one JSON object, whose
`checksum` is the CRC32C of the object without it, keys in this order and nothing between them:
```
MANIFEST.json            format cluster_id group node dt hours deliveries checksum
    one of hours         hour first units settles unsettled forwarded moved headers index settle
        the last three   bytes crc32c
    one of deliveries    name store_id rows bytes crc32c complete
nodes/<node>.json        format cluster_id group node node_number store_id applied_index applied_term tick max_now_ms
                         deliveries_until_ms retention_ms key_retention_ms members topics checksum
    one of members       number id role
    one of topics        number namespace name mode handover
```
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import google_crc32c
import msgspec

from storage.file.delivery_file import DeliveryFile
from storage.file.disk import Disk
from storage.format.position import HOUR_MS
from storage.format.rows import Corrupt, FormatRefused

FORMAT: Final = 1
MANIFEST: Final = "MANIFEST.json"
NODES: Final = "nodes"
PART: Final = ".part"

_HOUR_S: Final = HOUR_MS // 1000
_DAY: Final = "dt="
_NODE: Final = "node="


class File(msgspec.Struct, frozen=True):
    """Length of a file and CRC32C of all of it, 8 hex digits. A file of 0 bytes is not there."""

    bytes: int = 0
    crc32c: str = "00000000"


class ExportedHour(msgspec.Struct, frozen=True, kw_only=True):
    """One hour as far as it is exported. `units` and `settles` are rows; the next three say what becomes of the units,
    as a checkpoint does (storage/catalog/checkpoint_record.py)."""

    hour: int
    first: int
    units: int
    settles: int
    unsettled: int
    forwarded: int
    moved: int
    headers: File
    index: File
    settle: File

    @property
    def folder(self) -> str:
        """Its directory within the partition."""
        return f"hours/{self.hour}.{self.first}" if self.first else f"hours/{self.hour}"


class ExportedDeliveries(msgspec.Struct, frozen=True, kw_only=True):
    """One file of the delivery log. `complete`: a later one was begun, this one grows no more."""

    name: str
    store_id: str
    rows: int
    bytes: int
    crc32c: str
    complete: bool

    @property
    def folder(self) -> str:
        """Its path within the partition."""
        return f"deliveries/{self.name}"


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """MANIFEST.json: one day of one node."""

    format: int
    cluster_id: str
    group: int
    node: str
    dt: str
    hours: tuple[ExportedHour, ...] = ()
    deliveries: tuple[ExportedDeliveries, ...] = ()


class ExportedMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member of the cluster, or a former one; `number` stands in settle and delivery records."""

    number: int
    id: str
    role: str


class ExportedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic, without what is secret in its settings."""

    number: int
    namespace: str
    name: str
    mode: Literal["pull", "push"]
    handover: Literal["fast", "strict"]


class ExportedNode(msgspec.Struct, frozen=True, kw_only=True):
    """nodes/<node>.json: what the export of a node stands for.

    `max_now_ms` is the replicated time at `applied_index`, up to which its hours tell; its delivery log tells up to
    `deliveries_until_ms`. `node_number` is 0 while it is no member.
    """

    format: int
    cluster_id: str
    group: int
    node: str
    node_number: int
    store_id: str
    applied_index: int
    applied_term: int
    tick: int
    max_now_ms: int
    deliveries_until_ms: int
    retention_ms: int
    key_retention_ms: int
    members: tuple[ExportedMember, ...]
    topics: tuple[ExportedTopic, ...]


Document = TypeVar("Document", Partition, ExportedNode)


def day_of(hour: int) -> str:
    """`2026-11-21`: the UTC day of an hour."""
    return datetime.fromtimestamp(hour * _HOUR_S, UTC).strftime("%Y-%m-%d")


def partition_folder(directory: Path, day: str, node: str) -> Path:
    """Where a node's day stands."""
    return directory / f"{_DAY}{day}" / f"{_NODE}{node}"


def node_file(directory: Path, node: str) -> Path:
    """Where a node's word stands."""
    return directory / NODES / f"{node}.json"


def delivery_name(file: DeliveryFile, store_id: bytes) -> str:
    """What a file of a node's delivery log is called in an export."""
    return f"{file.hour}-{file.sequence:06d}-{store_id.hex()[:8]}.log"


def encode(document: Partition | ExportedNode) -> bytes:
    """The file's bytes; the same document gives the same bytes."""
    fields = msgspec.to_builtins(document)
    return msgspec.json.encode({**fields, "checksum": _checksum(fields)}) + b"\n"


def decode(data: bytes, kind: type[Document], file: str) -> Document:
    """Read it back. Raises Corrupt (not as written) or FormatRefused (another format)."""
    try:
        fields: dict[str, Any] = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(file, 0, "JSON", error, "one object") from error
    found = fields.get("format")
    if isinstance(found, int) and found != FORMAT:
        raise FormatRefused(file, "format", found, FORMAT)
    stated = fields.pop("checksum", None)
    if stated != _checksum(fields):
        raise Corrupt(file, 0, "checksum", stated, _checksum(fields))
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise Corrupt(file, 0, "content", error, "as this build writes it") from error


def read_document(path: Path, kind: type[Document], disk: Disk) -> Document | None:
    """A manifest, or a node's word; None if there is none. Raises Corrupt, FormatRefused or DiskFailed."""
    try:
        fd = disk.open_read(path)
    except FileNotFoundError:
        return None
    try:
        return decode(disk.read(fd, disk.size(fd), 0), kind, str(path))
    finally:
        disk.close(fd)


def is_export(directory: Path, disk: Disk) -> bool:
    """Whether this is an export, and no data directory or backup."""
    return disk.exists(directory / NODES) and not disk.exists(directory / "LOCK")


def nodes_of(directory: Path, disk: Disk) -> list[str]:
    """The nodes that an export has a word of, by name."""
    names = disk.list_directory(directory / NODES) if disk.exists(directory / NODES) else []
    return [name.removesuffix(".json") for name in names if name.endswith(".json")]


def read_export(directory: Path, disk: Disk) -> tuple[dict[str, ExportedNode], list[tuple[Path, Partition]]]:
    """(the nodes by id, and (folder, manifest) of every partition, by day and node). A partition without a manifest
    holds nothing yet. Raises Corrupt, FormatRefused or DiskFailed for the first file that is not as written."""
    nodes: dict[str, ExportedNode] = {}
    for name in nodes_of(directory, disk):
        word = read_document(node_file(directory, name), ExportedNode, disk)
        if word is not None:
            nodes[name] = word
    partitions = []
    for day in disk.list_directory(directory):
        if not day.startswith(_DAY):
            continue
        for node in disk.list_directory(directory / day):
            folder = directory / day / node
            manifest = read_document(folder / MANIFEST, Partition, disk) if node.startswith(_NODE) else None
            if manifest is not None:
                partitions.append((folder, manifest))
    return nodes, partitions


def _checksum(fields: dict[str, Any]) -> str:
    return f"{google_crc32c.value(msgspec.json.encode(fields)):08x}"
