"""The reserve of free space. Below it new work is refused while acks, leases and checkpoints go on.

A full disk stops a node, because a failed write is final. So it must not get that far. The reserve is 1 GiB or 5 % of
the file system, whichever is larger. When the leader, or a majority, has less free space, schedules are refused with
503 before the journal.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from api.port.problem import Problem
from storage.file.disk import Disk
from storage.file.kept_free import reserve_bytes


class Reserve:
    """Free space of this node, and the answer if the cluster takes new work. `nodes` counts its members, `low_peers`
    the other members that are inside their reserve.

    It is measured once a second, because it is asked for every request.
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
        """Look at the file system. Called once a second."""
        self.free_bytes = self._disk.free_bytes(self._directory)
        self.reserve_bytes = reserve_bytes(self._directory, self._disk)
        self.spare_bytes = max(0, self.free_bytes - self.reserve_bytes)
        self.low = self.free_bytes < self.reserve_bytes
        self._low_nodes = self.low + self._low_peers()
        self._refusing = self.low or self._low_nodes > self._nodes() // 2

    def check(self) -> None:
        """Raise `disk-full` when this node or a majority is inside the reserve."""
        if self._refusing:
            raise Problem("disk-full", self._shortage())

    def verdict(self, *, leads: bool) -> str:
        """`ok`, or the shortage, for /readyz. The leader alone knows of the others, and refuses for all."""
        if leads:
            return f"new messages are refused: {self._shortage()}" if self._refusing else "ok"
        return "free space of this node is below the reserve of 1 GiB or 5 %" if self.low else "ok"

    def _shortage(self) -> str:
        nodes = f"{self._low_nodes} of {self._nodes()} nodes"
        return f"free space is below the reserve of 1 GiB or 5 % on {nodes}; deliveries go on"
