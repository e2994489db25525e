"""Says of a message that it is cancelled already, though the chunk of its operation is still to come."""

from __future__ import annotations

import numpy as np

from node.message.view import FoundMessage, PlaceState
from storage.format.states import IS_OPEN, LEASED
from storage.store import Store
from storage.tables.operations import RunningSet
from storage.tables.registry import OPERATIONS


def cancelled_ms(store: Store, found: FoundMessage, stands: PlaceState, now_ms: int) -> int | None:
    """When an operation that runs cancelled this message. None if none has, or if the message is leased: then its
    consumer decides."""
    leased = stands.state == LEASED and stands.lease_end_ms > now_ms
    if leased or not IS_OPEN[stands.state]:
        return None
    begun = [each.operation.row.begun_ms for each in store.catalog.of(OPERATIONS).running if _has(store, each, found)]
    return min(begun, default=None)


def _has(store: Store, each: RunningSet, found: FoundMessage) -> bool:
    at = np.array([found.place], np.uint64)
    units = store.units(at)
    return bool(each.has(at, units["due_ms"], units["topic"], units["tags"], lambda _: [found.record.tags])[0])
