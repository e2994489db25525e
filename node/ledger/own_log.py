"""Finds hand-overs in this node's own delivery log, for the node that makes the ledger.

A search reads files and verifies the checksums of their rows, so it runs in a thread. A quick search is for a few
messages and looks at the first QUICK_LOOKED records. It waits only for other quick searches. All others wait for large
searches, of which LARGE_MAX may wait. So a client that searches much, or often, does not slow a look at a message.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np

from api.port.ledger import RecordsAsked, RecordsFound
from api.port.problem import Problem
from node.handover.delivery_log import DeliveryLog
from node.runtime.one_at_a_time import OneAtATime
from replication.snapshot.in_thread import in_thread_until
from storage.file.disk import Disk
from storage.format.array import U64
from storage.query.delivery_search import DeliverySearch, FoundDeliveries, Search, SearchTooLarge

#: Most records that one search looks at: 1.3 GB, a few seconds.
LOOKED_MAX: Final = 16_000_000
#: Most records that one search returns: 80 MB.
FOUND_MAX: Final = 1_000_000
#: Most messages of a quick search, and most records that it looks at: 0.2 s.
QUICK_HOMES: Final = 64
QUICK_LOOKED: Final = 1_000_000
#: Most requests at a time, those that wait included: for quick searches, and for large ones.
QUICK_MAX: Final = 64
LARGE_MAX: Final = 8


class HandOverRecords:
    """Finds the records of hand-overs that this node made, in its own delivery log. The node need not lead."""

    def __init__(
        self, deliveries: Path, disk: Disk, delivery_log: DeliveryLog, node_id: str, number: Callable[[], int]
    ) -> None:
        """`deliveries`: the directory of the log's files. `number`: the node's number in records."""
        self._node_id, self._number = node_id, number
        self._quick = _Searches(DeliverySearch(deliveries, disk), delivery_log, QUICK_MAX)
        self._large = _Searches(DeliverySearch(deliveries, disk), delivery_log, LARGE_MAX)

    async def find(self, asked: RecordsAsked) -> RecordsFound:
        """See api.port.ledger.LedgerPort.hand_over_records. Raises Problem `over-limit`, and DiskFailed."""
        found = await self.search(np.frombuffer(asked.homes, np.uint64), asked.from_ms, asked.until_ms)
        return RecordsFound(
            node=self._node_id,
            number=self._number(),
            rows=found.rows.tobytes(),
            edges=found.edges.tobytes(),
            holes=found.holes,
            open_holes=found.open_holes,
            first_ms=found.first_ms,
            removed=found.removed,
        )

    async def search(self, homes: U64, from_ms: int, until_ms: int) -> FoundDeliveries:
        """Find the records of the messages born at `homes`, ascending, with from_ms <= time < until_ms."""
        if len(homes) <= QUICK_HOMES:
            with suppress(SearchTooLarge):
                return await self._quick.run(Search(homes, from_ms, until_ms, QUICK_LOOKED, FOUND_MAX))
        try:
            return await self._large.run(Search(homes, from_ms, until_ms, LOOKED_MAX, FOUND_MAX))
        except SearchTooLarge as much:
            raise Problem("over-limit", f"{much}; take a narrower window, or hourwheel reconcile") from None


class _Searches:
    """Runs searches of the delivery log, one at a time. There is one object for quick searches and one for large ones.
    At most `most` requests wait or search in each."""

    def __init__(self, search: DeliverySearch, delivery_log: DeliveryLog, most: int) -> None:
        self._search, self._delivery_log = search, delivery_log
        self._turns = OneAtATime("searches of the delivery log", most, 1)

    async def run(self, search: Search) -> FoundDeliveries:
        """Search in a thread. If the caller is cancelled, the thread ends before the next search begins. Raises
        SearchTooLarge, and Problem `over-limit` if too many wait."""
        async with self._turns.shared():
            stop = threading.Event()
            written = self._delivery_log.written()
            return await in_thread_until(stop, self._search.run, search, written, stop.is_set)
