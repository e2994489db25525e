"""The rule of operations: no open message of the set of an operation is handed over, from its proposal on.

An operation that has begun has its set in the store. Until its entry is applied the leader knows it by its predicate
alone. That takes in a few messages that are scheduled meanwhile, and none of these can be ready yet.

Tags are judged by their masks alone, so that no record is read here. A message whose tags only look like the wanted
ones waits, too, until the operation has ended.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from storage.format.array import U64, Mask
from storage.format.hold_reasons import HOLD_REASONS
from storage.format.predicate import Predicate
from storage.store import Store
from storage.tables.registry import OPERATIONS
from storage.wheel.slot import DueUnits


class OperationRule:
    """Implements Rule. `proposed` are the predicates of operations whose entry is not known to be applied."""

    reason = HOLD_REASONS["operation"]
    leaves_out = True  # an operation may rest for days, and have millions of units

    def __init__(self, store: Store, proposed: Mapping[int, Predicate]) -> None:
        self._store, self._proposed = store, proposed

    def may_hold(self, positions: U64) -> bool:
        """See Rule."""
        return bool(self._proposed) or self._store.catalog.of(OPERATIONS).meet(positions)

    def held(self, units: DueUnits, now_ms: int) -> Mask:
        """See Rule."""
        held = np.zeros(len(units), np.bool_)
        for each in self._store.catalog.of(OPERATIONS).of_open:
            held |= each.may_have(units.position, units.due_ms, units.topic, units.tags)
        for which in self._proposed.values():
            held |= which.may_match(units.due_ms, units.topic, units.tags)
        return held
