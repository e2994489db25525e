"""The reserve of free space on the disk. While it is touched, new work is refused, and acks, leases and checkpoints go
on.

A full disk stops a node, because a failed write is final. So new work is refused before the disk is full. The reserve
is 1 GiB or 5 % of the file system, whichever is larger. If the leader, or a majority of the nodes, has less free space,
schedule requests get 503 and are not written to the journal.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from api.port.problem import Problem
from storage.file.disk import Disk
from storage.file.kept_free import reserve_bytes


class Reserve:
    """The free space of this node's disk. It also decides if the cluster takes new work.

    `nodes` returns the number of members, `low_peers` the number of other members whose free space is below their
    reserve. The disk is measured once a second and not for each request, because every request asks for the decision.
    """

    def __init__(self, directory: Path, disk: Disk, *, nodes: Callable[[], int], low_peers: Callable[[], int]) -> None:
        self._directory = directory
        self._disk = disk
        self._nodes = nodes
        self._low_peers = low_peers
        self.free_bytes = self.spare_bytes = self.reserve_bytes = 0
        self.low = False
        self._low_nodes = 0
        self._refusing = False
        self.measure()

    def measure(self) -> None:
        """Measure the file system. Call it once a second."""
        self.free_bytes = self._disk.free_bytes(self._directory)
        self.reserve_bytes = reserve_bytes(self._directory, self._disk)
        self.spare_bytes = max(0, self.free_bytes - self.reserve_bytes)
        self.low = self.free_bytes < self.reserve_bytes
        self._low_nodes = self.low + self._low_peers()
        self._refusing = self.low or self._low_nodes > self._nodes() // 2

    def check(self) -> None:
        """Raise `disk-full` if this node, or a majority of the nodes, has less free space than the reserve."""
        if self._refusing:
            raise Problem("disk-full", self._shortage())

    def verdict(self, *, leads: bool) -> str:
        """`ok`, or a sentence about the shortage, for /readyz. Only the leader knows of the other nodes, and refuses
        new work for all.
        """
        if leads:
            return f"new messages are refused: {self._shortage()}" if self._refusing else "ok"
        return "free space of this node is below the reserve of 1 GiB or 5 %" if self.low else "ok"

    def _shortage(self) -> str:
        nodes = f"{self._low_nodes} of {self._nodes()} nodes"
        return f"free space is below the reserve of 1 GiB or 5 % on {nodes}; deliveries go on"
