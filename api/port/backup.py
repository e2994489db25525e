"""A backup as it crosses the service port."""

from typing import Protocol

import msgspec


class SnapshotView(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A backup that is written. It has its node, its directory there, the last entry of the log that it holds, its
    length, and the time that it took."""

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
        """Write a backup of this node's state, durable at return, into `directory` below the configured one (None: into
        that). A caller that goes away does not stop it.

        Raises `invalid-field`, `change-in-progress` (one at a time), `backup-failed` (that place cannot be written),
        `no-leader` (the cluster is not founded yet), `draining`.
        """
