"""A backup as it crosses the service port."""

from typing import Protocol

import msgspec


class SnapshotView(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A backup that is written: which node wrote it, its directory there, the last entry of the log that it holds, its
    length, and how long it took."""

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
        """Write a backup of this node's state into `directory` below the configured one (None: into that); it is
        durable then. A caller that goes away changes nothing. `invalid-field`, `change-in-progress` (one at a time),
        `backup-failed` (that place cannot be written), `no-leader` (nothing is founded yet), `draining`."""
