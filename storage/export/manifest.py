"""The documents of an export: a manifest for each node's day, and a document about the node.

```
DIR/nodes/<node>.json                                    what the node's export stands for; written last
DIR/dt=YYYY-MM-DD/node=<node>/MANIFEST.json              which files, how long, what checksum
DIR/dt=YYYY-MM-DD/node=<node>/hours/<hour>[.<first>]/{headers,index,settle}
DIR/dt=YYYY-MM-DD/node=<node>/deliveries/<hour>-<sequence>-<store id, 8 hex digits>.log
```
- `dt` is the UTC day of the hour in a name.
- `index` and `settle` are those of the node, byte for byte.
- `headers` has the file header (`HWHEADS`) and the 96 bytes that begin each record of `log` (storage/record/record.py).
  It has one row a unit, in the order of `index`. The bodies are not exported.
- `<first>` is the global_index of an hour's first unit if that is not 0. An hour that was unlinked and begun again
  stands beside the former one, and both count.
- A delivery file is a copy of the node's, with as many whole rows as that had. Its name also has the directory's id,
  because a node that lost its disk numbers its files from 1 again.

Files only grow, and a manifest counts after the bytes that it names are durable. Bytes behind its lengths, files that
it does not list and files that end in `.part` are of a stopped run. Both kinds of document are one JSON object. Its
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
from storage.tables.topic import NO_PAUSE, Pause

FORMAT: Final = 1
MANIFEST: Final = "MANIFEST.json"
NODES: Final = "nodes"
PART: Final = ".part"

_HOUR_S: Final = HOUR_MS // 1000
_DAY: Final = "dt="
_NODE: Final = "node="


class File(msgspec.Struct, frozen=True):
    """Length of a file and CRC32C of all its bytes, 8 hex digits. A file of 0 bytes does not exist."""

    bytes: int = 0
    crc32c: str = "00000000"


class ExportedHour(msgspec.Struct, frozen=True, kw_only=True):
    """The exported part of one hour. `units` and `settles` count rows.

    `unsettled`, `forwarded` and `moved` count units as a checkpoint does (storage/catalog/checkpoint_record.py).
    """

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
        """The path of the hour's directory within the partition."""
        return f"hours/{self.hour}.{self.first}" if self.first else f"hours/{self.hour}"


class ExportedDeliveries(msgspec.Struct, frozen=True, kw_only=True):
    """The exported part of a file of the delivery log. `complete`: the node has begun a later file, and this one grows
    no more."""

    name: str
    store_id: str
    rows: int
    bytes: int
    crc32c: str
    complete: bool

    @property
    def folder(self) -> str:
        """The path of the exported delivery file within the partition."""
        return f"deliveries/{self.name}"


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """MANIFEST.json: the exported hours and delivery files of one day (`dt`) of one node."""

    format: int
    cluster_id: str
    group: int
    node: str
    dt: str
    hours: tuple[ExportedHour, ...] = ()
    deliveries: tuple[ExportedDeliveries, ...] = ()


class ExportedMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member of the cluster, or a former one. Settle and delivery records hold its `number`."""

    number: int
    id: str
    role: str


class ExportedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic, without the secrets of its settings."""

    number: int
    namespace: str
    name: str
    mode: Literal["pull", "push"]
    handover: Literal["fast", "strict"]
    pause: Pause = NO_PAUSE


class ExportedNode(msgspec.Struct, frozen=True, kw_only=True):
    """nodes/<node>.json: which moment of the node its export shows, and the settings that a reader of the export needs.

    - `max_now_ms`: the replicated time at `applied_index`. The exported hours reach up to it.
    - `deliveries_until_ms`: the exported delivery log reaches up to it.
    - `node_number`: 0 while the node is no member.
    - `held`: numbers of the topics whose messages an operation that runs may have.
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
    held: tuple[int, ...] = ()


Document = TypeVar("Document", Partition, ExportedNode)


def day_of(hour: int) -> str:
    """`2026-11-21`: the UTC day of an hour."""
    return datetime.fromtimestamp(hour * _HOUR_S, UTC).strftime("%Y-%m-%d")


def partition_folder(directory: Path, day: str, node: str) -> Path:
    """The folder of a node's day."""
    return directory / f"{_DAY}{day}" / f"{_NODE}{node}"


def node_file(directory: Path, node: str) -> Path:
    """The path of a node's document in an export."""
    return directory / NODES / f"{node}.json"


def delivery_name(file: DeliveryFile, store_id: bytes) -> str:
    """The name of a node's delivery file in an export."""
    return f"{file.hour}-{file.sequence:06d}-{store_id.hex()[:8]}.log"


def encode(document: Partition | ExportedNode) -> bytes:
    """Return the file's bytes. The same document gives the same bytes."""
    fields = msgspec.to_builtins(document)
    return msgspec.json.encode({**fields, "checksum": _checksum(fields)}) + b"\n"


def decode(data: bytes, kind: type[Document], file: str) -> Document:
    """Read a document back. Raises Corrupt (not as written) or FormatRefused (another format)."""
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
    """Read a manifest or a node's document, None if it is missing. Raises Corrupt, FormatRefused or DiskFailed."""
    try:
        fd = disk.open_read(path)
    except FileNotFoundError:
        return None
    try:
        return decode(disk.read(fd, disk.size(fd), 0), kind, str(path))
    finally:
        disk.close(fd)


def is_export(directory: Path, disk: Disk) -> bool:
    """True if this is an export, and no data directory or backup."""
    return disk.exists(directory / NODES) and not disk.exists(directory / "LOCK")


def nodes_of(directory: Path, disk: Disk) -> list[str]:
    """The nodes with a document in an export, by name."""
    names = disk.list_directory(directory / NODES) if disk.exists(directory / NODES) else []
    return [name.removesuffix(".json") for name in names if name.endswith(".json")]


def read_export(directory: Path, disk: Disk) -> tuple[dict[str, ExportedNode], list[tuple[Path, Partition]]]:
    """Return (the nodes by id, and (folder, manifest) of every partition, by day and node).

    A partition without a manifest holds nothing yet. Raises Corrupt, FormatRefused or DiskFailed for the first file
    that is not as written.
    """
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
