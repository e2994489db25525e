"""Node directories made by the storage layer itself: what nodes that apply the same entries leave on their disks."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from storage.directory.data_directory import DataDirectory
from storage.file.delivery_file import DeliveryWriter
from storage.file.disk import Disk
from storage.format.position import HOUR_MS
from storage.record.delivery_record import DELIVERED, DELIVERY, END, PULL, START, TERM_BEGUN, TERM_ENDED, Deliveries
from storage.store import Store
from tests.storage.workload import CLUSTER_ID, HOUR, Entry, checkpoint, found

NOW = HOUR * HOUR_MS
"""Node clock at the beginning of the workload's first hour, ms."""


def make_node(
    path: Path, entries: Sequence[Entry], *, checkpoint_after: int | None = None, group: int = 0, seed: int = 1
) -> Path:
    """The directory of a node that applied genesis and the entries, and made a checkpoint at its end, or only after so
    many of them; it ends without another, as a killed node does. Its node id is the directory's name."""
    disk = Disk()
    path.parent.mkdir(parents=True, exist_ok=True)
    directory = DataDirectory.open(path, path.name, disk, bytes((seed,)) * 16)
    store = Store.open(path, disk=disk, group=group)
    after = len(entries) if checkpoint_after is None else checkpoint_after
    found(store)
    for index, entry in enumerate(entries, 1):
        entry(store)
        store.applied_index = index
        if index == after:
            checkpoint(store, index)
    store.close()
    directory.close()
    return path


def hand_overs(homes: Sequence[int], at_ms: Sequence[int], *, node: int = 1, term: int = 1) -> Deliveries:
    """A start and an end, 2 ms later, of each message, in order of time; rows [2 n], not sealed."""
    count = len(homes)
    rows: npt.NDArray[np.void] = np.zeros(2 * count, DELIVERY)
    at = np.asarray(at_ms, np.int64)
    rows["home"] = np.repeat(np.asarray(homes, np.uint64), 2)
    rows["random"] = rows["home"] * np.uint64(2654435761) & np.uint64((1 << 50) - 1)
    rows["at_ms"] = np.stack([at, at + 2], axis=1).ravel()
    rows["kind"] = np.tile(np.array([START, END], np.uint8), count)
    rows["mode"], rows["term"], rows["attempt"], rows["node"], rows["topic"] = PULL, term, 1, node, 7
    rows["outcome"] = np.where(rows["kind"] == END, DELIVERED, 0)
    return rows


def term_row(kind: int, term: int, at_ms: int, *, node: int = 1, code: int = 0) -> Deliveries:
    """The record that a term began (TERM_BEGUN) or ended (TERM_ENDED, with `code`); [1]."""
    assert kind in (TERM_BEGUN, TERM_ENDED), f"kind {kind}"
    rows: npt.NDArray[np.void] = np.zeros(1, DELIVERY)
    rows["kind"], rows["term"], rows["at_ms"], rows["node"], rows["code"] = kind, term, at_ms, node, code
    return rows


def log_deliveries(directory: Path, *parts: Deliveries) -> Path:
    """Append to the delivery log of a node, in one new file; returns its path."""
    writer = DeliveryWriter(directory / "deliveries", Disk(), group=0, cluster_id=CLUSTER_ID)
    for rows in parts:
        writer.append(np.ascontiguousarray(rows), int(rows["at_ms"][0]))
    writer.close()
    return max((directory / "deliveries").iterdir())


def flip(path: Path, offset: int, mask: int = 1) -> None:
    """Flip bits of one byte of a file."""
    data = bytearray(path.read_bytes())
    data[offset] ^= mask
    path.write_bytes(data)


def cut(path: Path, length: int) -> None:
    """Cut a file to so many bytes."""
    path.write_bytes(path.read_bytes()[:length])


def positions(hour: int, indexes: Sequence[int]) -> list[int]:
    """Positions of units of an hour, counted from the workload's first."""
    return [(HOUR + hour) << 40 | index for index in indexes]
