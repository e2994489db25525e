"""Exports this node's rows for the reconciliation while it serves, as `[export]` of its configuration says.

    pin      the last durable checkpoint, so that none of its hours is removed meanwhile (storage/checkpoint/pin.py)
    export   what is new since the last run (storage/export), a step at a time in a thread, no faster than configured

Every node exports its own delivery log, and the hours, which are the same on all nodes. Nothing is removed before it is
exported. The leader proposes to unlink an hour only when it has exported all of the hour's present rows. A node keeps a
file of its delivery log until that file is exported. The export is behind by the checkpoint's age and `every_s`.

An error at the target is logged, counted and tried again, and does not end the node. Hours are kept meanwhile, so an
operator must repair the target before the disk is full. A fault of the node's own files is final.
"""

from __future__ import annotations

import asyncio
import os.path
from pathlib import Path

import structlog

from node.runtime.clock import NodeClock
from node.runtime.config import Config
from node.runtime.free_space import Reserve
from node.runtime.lifecycle import Lifecycle
from replication.snapshot.in_thread import in_thread
from storage.catalog.hour_lengths import settle_count
from storage.export.export import Export, Exported, ExportRefused
from storage.export.source import source_of
from storage.file.delivery_file import DeliveryFile
from storage.file.disk import Disk
from storage.format.position import INDEX_MAX
from storage.store import Store

log = structlog.get_logger()

_MB = 1 << 20
_RETRY_S = 5.0


class Exports:
    """Makes the exports of one node, one run at a time. Without the setting `[export] to` it exports nothing, and no
    hour or file waits for an export."""

    def __init__(
        self,
        config: Config,
        store: Store,
        store_id: bytes,
        disk: Disk,
        reserve: Reserve,
        clock: NodeClock,
        life: Lifecycle,
    ) -> None:
        """`store_id`: the id of the data directory."""
        self._config, self._store, self._store_id, self._disk = config, store, store_id, disk
        self._reserve, self._clock, self._life = reserve, clock, life
        self._to = config.export.to
        self._done = Exported()  # the state that the last successful run found
        self._succeeded_s = self._clock.monotonic()
        self._running = asyncio.Lock()
        self.runs = self.failures = self.bytes = 0

    def start(self) -> None:
        """Begin to export every `every_s` seconds, until the node ends."""
        if self._to:
            self._life.spawn(self._run())

    def covers(self, hour: int) -> bool:
        """True if no export needs the hour `hour` any more: all its present rows are exported, or nothing is to be
        exported."""
        store = self._store
        lengths = store.lengths(hour)
        if not self._to or lengths is None:
            return True
        first = store.span(hour)[0] & INDEX_MAX
        return self._done.covered.get((hour, first)) == (lengths.units, settle_count(lengths))

    def covers_log(self, file: DeliveryFile) -> bool:
        """True if no export needs this file of the delivery log any more: it is exported, or nothing is to be
        exported."""
        return not self._to or file in self._done.complete

    def values(self) -> dict[str, float]:
        """Return the rows of node.cluster.metrics.TABLE about exports, by name."""
        age_s = self._clock.monotonic() - self._succeeded_s
        return {
            "hourwheel_exports": self.runs,
            "hourwheel_exports_failed": self.failures,
            "hourwheel_exported_bytes": self.bytes,
            "hourwheel_export_age_seconds": age_s if self._to else 0.0,
        }

    async def _run(self) -> None:
        every_s = self._config.export.every_s
        while True:
            try:
                exported = await self.export()
            except ExportRefused as refused:
                self.failures += 1
                log.warning("export failed", error=str(refused))
                exported = False
            await asyncio.sleep(every_s if exported else min(every_s, _RETRY_S))

    async def export(self) -> bool:
        """Export all rows of the last checkpoint that are not exported yet. Return False if there is no checkpoint yet.
        Raises ExportRefused, and errors of the node's own files."""
        async with self._running:
            return await self._export()

    async def _export(self) -> bool:
        pin = self._store.pin()
        if pin is None:
            return False
        try:
            source = source_of(
                self._config.directory,
                self._config.node_id,
                self._store_id,
                self._store.catalog,
                pin.without_catalog().record,
                until_ms=self._clock.now_ms(),
                group=self._store.group,
            )
            run = Export(
                source,
                Path(os.path.abspath(self._to)),
                self._disk,
                beside=self._config.directory,
                reserve_bytes=self._reserve.reserve_bytes,
            )
            await self._step(run)
        finally:
            await in_thread(pin.release)
        self._done = run.done
        self._succeeded_s = self._clock.monotonic()
        self.runs += 1
        if run.done.bytes:
            log.info("exported", hours=run.done.hours, units=run.done.units, bytes=run.done.bytes)
        return True

    async def _step(self, run: Export) -> None:
        """Do all steps of the export `run`, no faster than configured."""
        bytes_per_s = self._config.export.mb_per_s * _MB
        began_s, copied = self._clock.monotonic(), 0
        steps = run.steps()
        try:
            while step := await in_thread(next, steps, 0):
                copied += step
                self.bytes += step
                ahead_s = copied / bytes_per_s - (self._clock.monotonic() - began_s)
                if ahead_s > 0:
                    await asyncio.sleep(ahead_s)
        finally:
            await in_thread(steps.close)
