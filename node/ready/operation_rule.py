"""The rule of operations: no message of the set of an operation is handed over, from its proposal on.

An operation that runs has its set in the store. Until its entry is applied the leader knows it by its predicate alone.
That takes in a few messages that are scheduled meanwhile, and none of these can be ready yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from node.ready.rule import Mask
from storage.format.array import U64
from storage.format.hold_reasons import HOLD_REASONS
from storage.format.predicate import Predicate
from storage.store import Store
from storage.tables.registry import OPERATIONS
from storage.wheel.slot import DueUnits


class OperationRule:
    """Implements Rule. `proposed` are the predicates of operations whose entry is not known to be applied."""

    reason = HOLD_REASONS["operation"]

    def __init__(self, store: Store, proposed: Mapping[int, Predicate]) -> None:
        self._store, self._proposed = store, proposed

    @property
    def active(self) -> bool:
        """See Rule."""
        return bool(self._proposed or self._store.catalog.of(OPERATIONS).running)

    def held(self, units: DueUnits, now_ms: int) -> Mask:
        """See Rule."""
        held = np.zeros(len(units), np.bool_)
        for each in self._store.catalog.of(OPERATIONS).running:
            held |= each.has(units.position, units.due_ms, units.topic, units.tags, self._tags_of)
        for which in self._proposed.values():
            may = which.may_match(units.due_ms, units.topic, units.tags) & ~held
            if which.tags is not None and len(rows := np.flatnonzero(may)):
                may[rows] = [which.tags.matches(tags) for tags in self._tags_of(units.position[rows])]
            held |= may
        return held

    def _tags_of(self, positions: U64) -> Sequence[Sequence[str]]:
        return [record.tags for record in self._store.records(positions)]
