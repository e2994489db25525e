"""A backup as it crosses the service port, and how its fields are read."""

from typing import Protocol

import msgspec

from api.field import Fault, wrong_type

_CHARS_MAX = 1024
_NAME_BYTES_MAX = 255  # what file systems take


class SnapshotView(msgspec.Struct, frozen=True, kw_only=True):
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
    """What the node does to write a backup; part of `api.port.Port`."""

    async def snapshot(self, directory: str | None) -> SnapshotView:
        """Write a backup of this node's state into `directory` below the configured one (None: into that); it is
        durable then. A caller that goes away changes nothing. `invalid-field`, `change-in-progress` (one at a time),
        `backup-failed` (that place cannot be written), `no-leader` (nothing is founded yet), `draining`."""


def read_directory(value: object) -> str:
    """A directory of the node's machine."""
    if type(value) is not str:
        raise wrong_type('a directory such as "nightly"', value)
    if not value or len(value) > _CHARS_MAX or "\0" in value:
        raise Fault("invalid-field", f"a directory has 1 to {_CHARS_MAX} characters, none of them NUL")
    if any(len(name.encode()) > _NAME_BYTES_MAX for name in value.split("/")):
        raise Fault("invalid-field", f"each name between slashes has at most {_NAME_BYTES_MAX} bytes")
    return value
