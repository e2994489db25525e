"""Writes what the directories of nodes have beside the hours: their folders, their catalogs and their delivery logs."""

from __future__ import annotations

import secrets
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from storage.catalog.catalog import Catalog
from storage.catalog.checkpoint_record import CheckpointRecord
from storage.catalog.genesis import Genesis
from storage.directory.data_directory import DataDirectory
from storage.file.delivery_file import FILE_BYTES_MAX, DeliveryFile
from storage.file.disk import Disk
from storage.format.rows import MAGIC_DELIVERIES, FileHeader, take_rows
from storage.record.delivery_record import DELIVERY, TERM_BEGUN, seal_deliveries
from storage.tables.members import Member

NODES: Final = ("n1", "n2", "n3")
CLUSTER_ID: Final = bytes(range(16))
_BLOCK: Final = 1 << 16

Rows = npt.NDArray[Any]


class Accounts:
    """The delivery logs of all nodes, each split into files as a node splits its own. The first file of the first node
    is left out, as if retention had removed it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._next = {1: 2, 2: 1, 3: 1}
        self._open: dict[int, tuple[int, Path]] = {}  # node -> hour and file

    def append(self, rows: Rows, lost: npt.NDArray[np.bool_], hour: int) -> None:
        """Append the records of one hour, in order of time, to their nodes' logs. Where the boolean array `lost` is
        True, write zeros in place of the record, as a power cut leaves them."""
        nodes = rows["node"].copy()
        seal_deliveries(rows)
        rows.view(np.dtype((np.void, DELIVERY.itemsize)))[lost] = np.zeros(1, DELIVERY).view("V80")
        for node in self._next:
            its = take_rows(rows, np.flatnonzero(nodes == node))
            begun = np.flatnonzero(its["kind"] == TERM_BEGUN).tolist()
            for first, last in pairwise([0, *begun, len(its)]):
                if first in begun:
                    self._open.pop(node, None)  # a term begins with a file of its own
                self._write(node, its[first:last], hour)

    def _write(self, node: int, rows: Rows, hour: int) -> None:
        for start in range(0, len(rows), _BLOCK):
            now = self._open.get(node)
            if now is None or now[0] < hour or now[1].stat().st_size >= FILE_BYTES_MAX:
                file = DeliveryFile(hour, self._next[node])
                self._next[node] += 1
                now = self._open[node] = hour, self._root / NODES[node - 1] / "deliveries" / file.name
                now[1].write_bytes(FileHeader(MAGIC_DELIVERIES, 0, hour, CLUSTER_ID).encode())
            with now[1].open("ab") as opened:
                np.ascontiguousarray(rows[start : start + _BLOCK]).tofile(opened)


def make_directories(root: Path) -> list[Path]:
    """Make empty data directories, which no process locks."""
    paths = []
    for node in NODES:
        DataDirectory.open(root / node, node, Disk(), secrets.token_bytes(16)).close()
        for folder in ("hours", "deliveries", "catalog"):
            (root / node / folder).mkdir(exist_ok=True)
        paths.append(root / node)
    return paths


def write_catalog(path: Path, topics: list[tuple[str, dict[str, Any]]], record: CheckpointRecord, now_ms: int) -> None:
    """Write genesis, members, topics (numbered from 1) and the checkpoint record of the hours."""
    catalog = Catalog.open(path / "catalog", Disk())
    catalog.found(Genesis(cluster_id=CLUSTER_ID, secret=bytes(32), nodes=NODES, formats={}, created_ms=now_ms))
    for number, node in enumerate(NODES, 1):
        address = f"127.0.0.1:{number}"
        catalog.members.put(Member(number=number, id=node, raft=address, http=address, role="voter", since_index=1))
    for name, settings in topics:
        catalog.put_topic(name, settings, now_ms)
    frozen = catalog.begin(record)
    frozen.commit()
    catalog.finish(frozen)
    catalog.close()
