"""The thread that writes the journal, off the event loop, one Sync at a time.

A plain thread and a SimpleQueue, since an executor's futures cost more than the write's own hand-off.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Protocol

from replication.journal.sync import Sync

Written = Callable[[Sync, BaseException | None], None]


class Writer(Protocol):
    """Runs a Sync and reports it on the loop. At most one is under way."""

    def start(self, written: Written) -> None:
        """Start, inside the loop on which `written` will be called."""

    def put(self, sync: Sync) -> None:
        """Run this Sync."""

    def close(self) -> None:
        """End: no more Syncs come."""


class WriterThread:
    """The real writer. After an error it takes nothing more."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Sync | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="journal", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, written: Written) -> None:
        """See Writer."""
        self._loop, self._written = asyncio.get_running_loop(), written
        self._thread.start()

    def put(self, sync: Sync) -> None:
        """See Writer."""
        self._work.put(sync)

    def close(self) -> None:
        """See Writer. Waits for the thread."""
        self._loop = None
        if self._thread.is_alive():
            self._work.put(None)
            self._thread.join()

    def _write(self) -> None:
        """The thread: nothing but system calls."""
        while (sync := self._work.get()) is not None:
            error: BaseException | None = None
            try:
                sync.run()
            except BaseException as raised:
                error = raised
            loop = self._loop
            if loop is None:
                return
            loop.call_soon_threadsafe(self._written, sync, error)
            if error is not None:
                return
