"""Applies operations: begins one, whose set is fixed at that entry, and changes its messages chunk by chunk.

    BeginOperation --> set: predicate, and for each hour the next index --> chunk, chunk, ... --> done
                       from this entry on all nodes judge by the set        each names the point that it reaches

What is leased when its chunk comes is left alone. The set is behind the chunk then, so such a message is free again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from replication.apply.applying import Applying
from replication.apply.message.cancel import cancel_free
from replication.apply.message.message_location import lease_runs, standing_at
from replication.apply.message.running_sets import count_cancelled, owners_of_chunk
from replication.command.operation import BeginOperation, OperationChunk
from storage.format.states import IS_OPEN, UNKNOWN
from storage.tables.operations import (
    DONE,
    HOURS_MAX,
    KEPT_MS,
    RUNNING_MAX,
    OperationRow,
    Progress,
)
from storage.tables.registry import OPERATIONS

BEGUN, AGAIN, UNKNOWN_TOPIC, TOO_MANY, TOO_WIDE = 0, 1, 2, 3, 4


class Begun(NamedTuple):
    """The result of a BeginOperation. BEGUN: `value` is its number. AGAIN: another operation begins in this entry.
    UNKNOWN_TOPIC: the row `value` of its topics does not exist. TOO_MANY run: `value` is the number of the oldest.
    TOO_WIDE: more than HOURS_MAX hours that hold units. `value` is the last hour that fits.
    """

    result: int
    value: int = 0


def apply_begin_operation(applying: Applying, command: BeginOperation) -> Begun:
    """Begin an operation, and forget old ones."""
    store, now_ms = applying.store, applying.envelope.now_ms
    operations = store.catalog.of(OPERATIONS)
    if operations.find(applying.index) is not None:
        return Begun(AGAIN)
    if len(operations.running) >= RUNNING_MAX:
        return Begun(TOO_MANY, operations.running[0].number)
    numbers: list[int] | None = None
    if command.topics is not None:
        found = [store.catalog.topic(name, command.namespace) for name in command.topics]
        if None in found:
            return Begun(UNKNOWN_TOPIC, found.index(None))
        numbers = [topic.number for topic in found if topic is not None]
    row = OperationRow(
        number=applying.index,
        kind=command.kind,
        namespace=command.namespace,
        topics=command.topics,
        numbers=None if numbers is None else tuple(numbers),
        from_ms=command.from_ms,
        to_ms=command.to_ms,
        tag=command.tag,
        note=command.note,
        begun_ms=now_ms,
    )
    which = row.which
    fixed = store.extents([hour for hour in store.open_hours() if which.touches(hour)])
    if len(fixed.hour) > HOURS_MAX:
        return Begun(TOO_WIDE, int(fixed.hour[HOURS_MAX - 1]))
    operations.forget(now_ms - KEPT_MS)
    row = row.with_hours(fixed.hour, fixed.first, fixed.first + fixed.units)
    operations.begin(row, Progress(log_index=applying.index, at_ms=now_ms))
    return Begun(BEGUN, applying.index)


def apply_operation_chunk(applying: Applying, command: OperationChunk) -> bool:
    """Cancel the messages of a chunk, and note how far the operation has come. False if the chunk is void, because the
    operation does not stand where the chunk begins.
    """
    store, envelope = applying.store, applying.envelope
    operations = store.catalog.of(OPERATIONS)
    operation = operations.find(command.number)
    if operation is None or not operation.runs or command.begin != operation.progress.place:
        return False
    place = command.place[store.state_only(command.place) != UNKNOWN]  # all of an hour may have ended, and be unlinked
    standing = standing_at(store, place)
    assert standing.units is not None, "their units were read"
    owner = owners_of_chunk(store, command.number, place, standing.units)
    leased = lease_runs(store, standing.states, envelope)
    free = (IS_OPEN[standing.states.state] & ~leased).nonzero()[0]
    no_doubt = np.zeros(len(place), np.bool_)
    prior = cancel_free(store, store.homes(place), standing, no_doubt, free, envelope)
    count_cancelled(applying, owner[free], prior[free])
    applying.told.settled(standing.place[free])
    now = operation.progress
    ours = int(np.count_nonzero(leased & (owner == command.number)))
    state = DONE if command.last else now.state
    operations.advance(
        command.number,
        now._replace(
            state=state,
            place=command.end,
            leased=now.leased + ours,
            log_index=applying.index,
            at_ms=envelope.now_ms,
        ),
    )
    return True
