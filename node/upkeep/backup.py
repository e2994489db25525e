"""Backups of a running node: POST /v1/cluster/snapshot.

    checkpoint   of all that is applied now, like any other checkpoint
    pin          that checkpoint, so that its files stay as they are (storage/checkpoint/pin.py)
    copy         a MiB at a time in a thread, no faster than configured: the journal needs the disk too
    finish       sync the copy, and give it its name

Any node can write a backup, on its own disk: it holds what was applied there, at one index of the log. Ask a follower
rather than the leader. Serving does not wait for a backup. An error at the target is an answer to the caller and never
ends the node. A fault of the node's own files does.
"""

from __future__ import annotations

import asyncio
import os.path
from pathlib import Path

import structlog

from api.port.backup import SnapshotView
from api.port.problem import FieldFault, Problem
from node.runtime.clock import NodeClock
from node.runtime.config import Config
from node.runtime.free_space import Reserve
from node.runtime.lifecycle import Lifecycle
from node.upkeep.checkpointer import Checkpointer
from replication.snapshot.in_thread import in_thread
from storage.checkpoint.manifest import Manifest
from storage.checkpoint.pin import Pin
from storage.directory.backup import BackupRefused, BackupWriter, Room
from storage.directory.snapshot_install import InstallRefused
from storage.file.disk import Disk
from storage.store import Store

log = structlog.get_logger()

_MB = 1 << 20


class Backups:
    """Writes the backups of one node, one at a time."""

    def __init__(
        self,
        config: Config,
        store: Store,
        checkpointer: Checkpointer,
        disk: Disk,
        reserve: Reserve,
        clock: NodeClock,
        life: Lifecycle,
    ) -> None:
        self._config, self._store, self._checkpointer, self._disk = config, store, checkpointer, disk
        self._reserve, self._clock, self._life = reserve, clock, life
        self._running = False

    async def write(self, directory: str | None) -> SnapshotView:
        """See api.port.backup.SnapshotPort.snapshot."""
        parent = self._place(directory)
        if self._life.draining:
            raise Problem("draining", "this node is shutting down; ask another one for the backup")
        if self._store.cluster_id is None:
            raise Problem("no-leader", "this cluster is not founded yet: there is nothing to back up")
        if self._running:
            raise Problem("change-in-progress", "this node is writing a backup; it does one at a time")
        self._running = True
        result: asyncio.Future[SnapshotView] = asyncio.get_running_loop().create_future()
        self._life.spawn(self._run(parent, result))
        return await asyncio.shield(result)

    def _place(self, directory: str | None) -> Path:
        """Return the directory to write to: the configured one, or `directory` below it. A client that may ask for a
        backup may not write anywhere else on this computer."""
        base = self._config.backup_directory
        if directory is None:
            return base
        place = os.path.normpath(base / directory)
        if os.path.commonpath((base, place)) != str(base):
            detail = f"a directory below {base} is expected, the configured one ([backup] directory) of this node"
            raise Problem("invalid-field", f"directory: {detail}", errors=[FieldFault("/directory", detail)])
        return Path(place)

    async def _run(self, parent: Path, result: asyncio.Future[SnapshotView]) -> None:
        """Write one backup into a directory below `parent`, and give `result` the outcome. Raises only errors that end
        the node."""
        try:
            view = await self._write(parent)
        except (BackupRefused, InstallRefused) as refused:
            log.warning("backup failed", error=str(refused))
            if not result.done():
                result.set_exception(Problem("backup-failed", str(refused)))
        except BaseException:
            if not result.done():
                result.set_exception(Problem("draining", "this node stopped before the backup was written"))
            raise
        else:
            log.info("backup written", directory=view.directory, index=view.applied_index, bytes=view.bytes)
            if not result.done():
                result.set_result(view)
        finally:
            self._running = False
            result.exception()  # looked at, though the caller may be gone

    async def _write(self, parent: Path) -> SnapshotView:
        began_s = self._clock.monotonic()
        await self._checkpointer.checkpoint()
        pin = self._store.pin()
        assert pin is not None, "no checkpoint, though one was made"
        try:
            await in_thread(pin.prepare)
            writer = await in_thread(self._writer, pin, parent)
            manifest = await self._copy(pin, writer)
        finally:
            await in_thread(pin.release)
        return SnapshotView(
            node=self._config.node_id,
            directory=str(writer.path),
            cluster_id=manifest.cluster_id.hex(),
            applied_index=manifest.applied_index,
            applied_term=manifest.applied_term,
            bytes=manifest.total_bytes,
            files=len(manifest.files),
            took_ms=round((self._clock.monotonic() - began_s) * 1000),
        )

    def _writer(self, pin: Pin, parent: Path) -> BackupWriter:
        config = self._config
        room = Room(config.directory, self._reserve.reserve_bytes, config.backup_directory, config.backup.max_share)
        return BackupWriter(pin, parent, config.node_id, self._disk, room=room)

    async def _copy(self, pin: Pin, writer: BackupWriter) -> Manifest:
        """Copy all pieces of the pinned files, no faster than configured. Return the manifest of the copy."""
        bytes_per_s = self._config.backup.mb_per_s * _MB
        began_s, copied = self._clock.monotonic(), 0
        try:
            for piece in pin.manifest.pieces():
                await in_thread(writer.copy, *piece)
                copied += piece[2]
                ahead_s = copied / bytes_per_s - (self._clock.monotonic() - began_s)
                if ahead_s > 0:
                    await asyncio.sleep(ahead_s)
            return await in_thread(writer.finish)
        except BaseException:
            await in_thread(writer.abandon)
            raise
