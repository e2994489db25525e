"""What one node wrote down of its hand-overs: found in its own delivery log for whoever makes the ledger.

A search reads files and sums their rows, so it runs in a thread, one at a time.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Final

import numpy as np

from api.ledger import RecordsAsked, RecordsFound
from api.problem import Problem
from replication.in_thread import in_thread_until
from storage.array import U64
from storage.delivery_search import DeliverySearch, Found, Search, TooMuch

if TYPE_CHECKING:
    from node.server import Node

#: Most records one search looks at: 1.3 GB, a few seconds.
LOOKED_MAX: Final = 16_000_000
#: Most it returns: 80 MB.
FOUND_MAX: Final = 1_000_000
#: Requests that search or wait to.
WAITING_MAX: Final = 64


class HandOverRecords:
    """The records of one node, whether it leads or not."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._search = DeliverySearch(node.directory.deliveries, node.disk)
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def find(self, asked: RecordsAsked) -> RecordsFound:
        """See api.ledger.LedgerPort.hand_over_records. Raises Problem `over-limit`, and DiskFailed."""
        found = await self.search(np.frombuffer(asked.homes, np.uint64), asked.from_ms, asked.until_ms)
        node = self._node
        return RecordsFound(
            node=node.config.node_id,
            number=node.members.number,
            rows=found.rows.tobytes(),
            edges=found.edges.tobytes(),
            holes=found.holes,
            open_holes=found.open_holes,
            first_ms=found.first_ms,
            removed=found.removed,
        )

    async def search(self, homes: U64, from_ms: int, until_ms: int) -> Found:
        """Records of the messages born at `homes`, ascending, in from_ms <= t < until_ms."""
        search = Search(homes, from_ms, until_ms, LOOKED_MAX, FOUND_MAX)
        if self._waiting >= WAITING_MAX:
            raise Problem("over-limit", f"{self._waiting} searches of the delivery log wait, as many as may; ask later")
        self._waiting += 1
        try:
            async with self._turn:
                return await self._run(search)
        except TooMuch as much:
            raise Problem("over-limit", f"{much}; take a narrower window, or hourwheel reconcile") from None
        finally:
            self._waiting -= 1

    async def _run(self, search: Search) -> Found:
        """In a thread. A caller that goes away ends it too, before the next one's turn."""
        stop = threading.Event()
        written = self._node.delivery_log.written()
        return await in_thread_until(stop, self._search.run, search, written, stop.is_set)
