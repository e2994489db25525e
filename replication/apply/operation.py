"""Applies the begin of operations, and what clients do with them: pause one, let it go on, end it early.

    BeginOperation --> set: predicate, and for each hour the next index --> chunk, chunk, ... --> done
                       from this entry on all nodes judge by the set        each names the point that it reaches

The chunks are applied in replication/apply/operation_chunk.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from replication.apply.applying import Applying
from replication.command.operation import BeginOperation, ChangeOperation
from storage.hour.hour_table import Extents
from storage.store import Store
from storage.tables.operation_kind import CANCEL
from storage.tables.operation_row import (
    HOURS_MAX,
    KEPT_MS,
    PAUSED,
    RUNNING_MAX,
    OperationRow,
    Progress,
)
from storage.tables.registry import OPERATIONS
from storage.tables.running_set import RunningSet

BEGUN, AGAIN, UNKNOWN_TOPIC, TOO_MANY, TOO_WIDE, MEETS = 0, 1, 2, 3, 4, 5
CHANGED, ENDED, UNKNOWN, IS_CANCEL = 0, 1, 2, 3
"""Results of a ChangeOperation. CHANGED: its state is the wanted one. The others say why not."""


class Begun(NamedTuple):
    """The result of a BeginOperation. BEGUN: `value` is its number. AGAIN: another operation begins in this entry.
    UNKNOWN_TOPIC: the row `value` of its topics does not exist. TOO_MANY: `value` is the number of the oldest.
    TOO_WIDE: more than HOURS_MAX hours that hold units. `value` is the last hour that fits, for ended messages the
    first. MEETS: another one has messages of its topics and window. `value` is the number of that one.
    """

    result: int
    value: int = 0


def apply_begin_operation(applying: Applying, command: BeginOperation) -> Begun:
    """Begin an operation, and forget old ones."""
    store, now_ms, wish = applying.store, applying.envelope.now_ms, command.wish
    operations = store.catalog.of(OPERATIONS)
    if operations.find(applying.index) is not None:
        return Begun(AGAIN)
    if len(operations.running) >= RUNNING_MAX:
        return Begun(TOO_MANY, operations.running[0].number)
    numbers: list[int] | None = None
    if wish.topics is not None:
        found = [store.catalog.topic(name, wish.namespace) for name in wish.topics]
        if None in found:
            return Begun(UNKNOWN_TOPIC, found.index(None))
        numbers = [topic.number for topic in found if topic is not None]
    row = wish.begun(applying.index, numbers, now_ms)
    if (other := met(operations.running, row)) is not None:
        return Begun(MEETS, other.number)
    fixed = fixed_extents(store, row)
    if len(fixed.hour) > HOURS_MAX:
        return Begun(TOO_WIDE, int(fixed.hour[HOURS_MAX - 1 if row.rule.takes_open else -HOURS_MAX]))
    operations.forget(now_ms - KEPT_MS)
    operations.begin(row.with_hours(*fixed), Progress(log_index=applying.index, at_ms=now_ms))
    return Begun(BEGUN, applying.index)


def met(running: Iterable[RunningSet], row: OperationRow) -> RunningSet | None:
    """An operation that keeps the one of `row` from its begin. None keeps a cancel."""
    if row.kind == CANCEL:
        return None
    return next((each for each in running if row.meets(each.operation.row)), None)


def fixed_extents(store: Store, row: OperationRow) -> Extents:
    """The extents of the hours that may hold messages of the set now. An ended message stands in the hour of the due
    time that its client asked for, or in a later one."""
    if row.rule.takes_open:
        return store.extents([hour for hour in store.open_hours() if row.which.touches(hour)])
    from_on = replace(row.which, to_ms=None)
    return store.extents([hour for hour in store.ended_hours() if from_on.touches(hour)])


def apply_change_operation(applying: Applying, command: ChangeOperation) -> int:
    """Pause an operation, let it go on, or end it. The result is CHANGED, ENDED, UNKNOWN or IS_CANCEL."""
    operations, now_ms = applying.store.catalog.of(OPERATIONS), applying.envelope.now_ms
    operation = operations.find(command.number)
    if operation is None:
        return UNKNOWN
    if operation.ended:
        return ENDED
    if operation.row.kind == CANCEL:
        return IS_CANCEL
    now = operation.progress
    if command.paused_ms not in (0, now.paused_ms):
        return CHANGED
    paused_ms = now_ms if command.state == PAUSED else now.paused_ms
    changed = now._replace(state=command.state, paused_ms=paused_ms, log_index=applying.index, at_ms=now_ms)
    operations.advance(command.number, changed)
    return CHANGED
