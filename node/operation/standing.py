"""Says of a message that an operation cancelled it already, or is about to move it. Its chunk is still to come."""

from __future__ import annotations

import numpy as np

from node.message.view import NO_OPERATION, FoundMessage, InOperation, PlaceState
from storage.format.states import IS_OPEN, LEASED
from storage.store import Store
from storage.tables.registry import OPERATIONS
from storage.tables.running_set import RunningSet


def in_operation(store: Store, found: FoundMessage, stands: PlaceState, now_ms: int) -> InOperation:
    """Find out if operations have an open message. If it is leased, its consumer decides."""
    leased = stands.state == LEASED and stands.lease_end_ms > now_ms
    sets = store.catalog.of(OPERATIONS).of_open
    if leased or not sets or not IS_OPEN[stands.state]:
        return NO_OPERATION
    having = [each for each in sets if _has(store, each, found)]
    cancelled = [each.operation.row.begun_ms for each in having if not each.rule.moves]
    held = [each.operation.row.begun_ms for each in having if each.rule.moves]
    return InOperation(min(cancelled, default=None), min(held, default=None))


def _has(store: Store, each: RunningSet, found: FoundMessage) -> bool:
    at = np.array([found.place], np.uint64)
    units = store.units(at)
    return bool(each.has(at, units["due_ms"], units["topic"], units["tags"], lambda _: [found.record.tags])[0])
