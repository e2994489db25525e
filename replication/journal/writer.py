"""The thread that writes the journal, off the event loop, one Sync at a time.

It is a plain thread with a SimpleQueue, because handing a write to an executor takes longer than to this queue.
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
    """Runs one Sync at a time off the loop. When a Sync has run, it calls `written(sync, error)` on the loop. `error`
    is None if the Sync succeeded.
    """

    def start(self, written: Written) -> None:
        """Begin to take work. Call it on the loop on which `written` will be called."""

    def put(self, sync: Sync) -> None:
        """Run this Sync. Call it only when no other is under way."""

    def close(self) -> None:
        """Stop. No Sync may be put after this."""


class WriterThread:
    """The Writer of a real node, with a thread of its own. After a Sync that failed it runs no other."""

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
        """See Writer. Blocks until the thread has ended."""
        self._loop = None
        if self._thread.is_alive():
            self._work.put(None)
            self._thread.join()

    def _write(self) -> None:
        """The work of the thread: it runs one Sync after the other."""
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
