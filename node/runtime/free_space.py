"""The reserve of free space: below it new work is refused while acks, leases and checkpoints go on.

A full disk stops a node (a failed write is final), so it must not get that far: when the leader, or a majority, has
less free than the larger of 1 GiB and 5 % of its file system, schedules are refused with 503 before the journal.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from api.port.problem import Problem
from storage.file.disk import Disk
from storage.file.kept_free import reserve_bytes


class Reserve:
    """Free space of this node, and whether the cluster takes new work. `nodes` counts its members, `low_peers` those
    of the others inside theirs.

    Measured every now and then, so that asking costs nothing: it is asked for every request.
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
        """Look at the file system; called once a second."""
        self.free_bytes = self._disk.free_bytes(self._directory)
        self.reserve_bytes = reserve_bytes(self._directory, self._disk)
        self.spare_bytes = max(0, self.free_bytes - self.reserve_bytes)
        self.low = self.free_bytes < self.reserve_bytes
        self._low_nodes = self.low + self._low_peers()
        self._refusing = self.low or self._low_nodes > self._nodes() // 2

    def check(self) -> None:
        """Raises `disk-full` when this node or a majority is inside the reserve."""
        if self._refusing:
            raise Problem("disk-full", self._shortage())

    def verdict(self, *, leads: bool) -> str:
        """`ok`, or what is short; for /readyz. The leader alone knows of the others, and refuses for all."""
        if leads:
            return f"new messages are refused: {self._shortage()}" if self._refusing else "ok"
        return "free space of this node is below the reserve of 1 GiB or 5 %" if self.low else "ok"

    def _shortage(self) -> str:
        nodes = f"{self._low_nodes} of {self._nodes()} nodes"
        return f"free space is below the reserve of 1 GiB or 5 % on {nodes}; deliveries go on"
