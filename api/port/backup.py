"""A backup as it crosses the service port."""

from typing import Protocol

import msgspec


class SnapshotView(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A backup that was written: the node that has it, its directory there, and the last entry of the Raft log in it
    (`applied_index`, `applied_term`). Also its length in bytes, the number of its files, and the time that it took."""

    node: str
    directory: str
    cluster_id: str
    applied_index: int
    applied_term: int
    bytes: int
    files: int
    took_ms: int


class SnapshotPort(Protocol):
    """Backups of the node. A part of `api.port.port.Port`."""

    async def snapshot(self, directory: str | None) -> SnapshotView:
        """Write a backup of this node's state into `directory`, a path below the configured directory (None: into the
        configured one itself). The backup is durable at return. It goes on even if its caller is cancelled.

        Raises `invalid-field`, `change-in-progress` (one at a time), `backup-failed` (that place cannot be written),
        `no-leader` (the cluster is not founded yet), `draining`.
        """
