"""Applies the chunks of operations: cancels or moves the messages of a chunk, and notes how far the operation has come.

What is leased when its chunk comes is left alone. The set is behind the chunk then, so such a message is free again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from replication.apply.applying import Applying
from replication.apply.message.cancel import cancel_free, priors
from replication.apply.message.message_location import MessageLocation, lease_runs, standing_at
from replication.apply.message.move import Leaving, has_topic, move
from replication.apply.message.running_sets import (
    NOBODY,
    count_cancelled,
    owners_of_chunk,
    prior_counts,
)
from replication.command.column import DUE_MS_MAX
from replication.command.operation import OperationChunk
from storage.format.array import I64, U64
from storage.format.batches import StateColumns
from storage.format.rows import UNIT_KEYED
from storage.format.states import IS_OPEN, UNKNOWN
from storage.record.record import Record
from storage.store import Store
from storage.tables.operation_row import DONE, OperationRow
from storage.tables.registry import OPERATIONS

Counts = dict[str, int]
"""By field of a progress: how many messages a chunk adds to it."""


def apply_operation_chunk(applying: Applying, command: OperationChunk) -> bool:
    """Change the messages of a chunk. False if the chunk is void, because the operation does not stand where the chunk
    begins, or is paused, or has ended.
    """
    store = applying.store
    operations = store.catalog.of(OPERATIONS)
    operation = operations.find(command.number)
    if operation is None or not operation.works or command.begin != operation.progress.reached:
        return False
    row = operation.row
    change = _cancelled if not row.rule.moves else _moved if row.rule.takes_open else _moved_again
    more = change(applying, row, command.place)
    now = operation.progress  # it may have been written meanwhile
    operations.advance(
        command.number,
        now._replace(
            state=DONE if command.last else now.state,
            due_ms=command.end.due_ms,
            place=command.end.place,
            log_index=applying.index,
            at_ms=applying.envelope.now_ms,
            **{field: getattr(now, field) + count for field, count in more.items()},
        ),
    )
    return True


def _there(store: Store, place: U64) -> U64:
    """Those of the places that are known. All units of an hour may have ended, and be unlinked."""
    known: U64 = place[store.state_only(place) != UNKNOWN]
    return known


def _cancelled(applying: Applying, row: OperationRow, place: U64) -> Counts:
    """Cancel open messages."""
    store, envelope = applying.store, applying.envelope
    place = _there(store, place)
    standing = standing_at(store, place)
    assert standing.units is not None, "their units were read"
    owner = owners_of_chunk(store, row.number, place, standing.units)
    leased = lease_runs(store, standing.states, envelope)
    free = (IS_OPEN[standing.states.state] & ~leased).nonzero()[0]
    no_doubt = np.zeros(len(place), np.bool_)
    prior = cancel_free(store, store.homes(place), standing, no_doubt, free, envelope)
    count_cancelled(applying, owner.at(free), prior[free])
    applying.told.settled(standing.place[free])
    return {"leased": int(np.count_nonzero(leased & (owner.cancel == row.number)))}


def _moved(applying: Applying, row: OperationRow, place: U64) -> Counts:
    """Move open messages. Those that a later cancel has are left to it."""
    store = applying.store
    place = _there(store, place)
    standing = standing_at(store, place)
    units = standing.units
    assert units is not None, "they were read"
    leased = lease_runs(store, standing.states, applying.envelope)
    left = IS_OPEN[standing.states.state] & ~leased
    cancelled = left & (owners_of_chunk(store, row.number, place, units).cancel != NOBODY)
    free = (left & ~cancelled).nonzero()[0]
    records = store.records(place[free])
    extensions = [record.extension | {"revision": record.extension.get("revision", 1) + 1} for record in records]
    due_ms = _due_ms(row, units["due_ms"][free], applying.envelope.now_ms)
    counts = _move(applying, row, standing, free, due_ms, records, extensions)
    return counts | {"leased": int(np.count_nonzero(leased)), "settled": int(np.count_nonzero(cancelled))}


def _moved_again(applying: Applying, row: OperationRow, place: U64) -> Counts:
    """Make ended messages due again, with attempts counted anew."""
    store, asked, state = applying.store, len(place), row.rule.ended_as
    place = _there(store, place)
    standing, ends = standing_at(store, place), store.states(place)
    home = store.homes(place)
    # One that was redriven alone and died elsewhere meanwhile has its end here too, but does not stand here any more.
    ended = (standing.states.state == state) & (store.state_only(home) == state)
    there = (ended & (store.last_places(home) == place)).nonzero()[0]
    there = there[has_topic(store, home[there])]
    records = store.records(place[there])
    taken = _key_taken(store, standing, home, there, records)
    free, records = there[~taken], [record for record, is_taken in zip(records, taken, strict=True) if not is_taken]
    due_ms = np.full(len(free), applying.envelope.now_ms)
    extensions = [record.extension for record in records]
    counts = _move(applying, row, standing, free, due_ms, records, extensions, ends=ends)
    return counts | {"gone": asked - len(there), "key_taken": int(np.count_nonzero(taken))}


def _due_ms(row: OperationRow, due_ms: I64, now_ms: int) -> I64:
    """The new due times of a shift or a release: never before now. A shift by a way also never goes past the latest
    time. A message that is due later already stays there, or comes nearer.
    """
    if row.by_ms is not None:
        wanted = due_ms + row.by_ms
    else:
        wanted = np.full(len(due_ms), now_ms if row.to_due_ms is None else row.to_due_ms)
    latest_ms = DUE_MS_MAX if row.latest_ms is None else min(row.latest_ms, DUE_MS_MAX)
    latest = np.maximum(latest_ms, np.minimum(due_ms, wanted)) if row.by_ms is not None else latest_ms
    due: I64 = np.maximum(now_ms, np.minimum(wanted, latest))
    return due


def _move(
    applying: Applying,
    row: OperationRow,
    standing: MessageLocation,
    free: npt.NDArray[np.intp],
    due_ms: I64,
    records: Sequence[Record],
    extensions: Sequence[dict[str, Any]],
    *,
    ends: StateColumns | None = None,
) -> Counts:
    """Move the messages whose rows are `free`, and count them. `ends` are the states of ended messages as their records
    have them, [n]. The retry policy counts the attempts of such messages anew."""
    if not len(free):
        return {}
    store, envelope, place, states = applying.store, applying.envelope, standing.place, standing.states
    assert row.rule.code is not None, row.kind
    prior = priors(store, store.homes(place), standing, np.zeros(len(place), np.bool_), free)[free]
    leaving = Leaving(
        home=store.homes(place)[free],
        place=place[free],
        due_ms=np.maximum(due_ms, applying.dispatched.floor_ms),
        attempt=states.attempt[free],
        term=states.term[free],
        last_attempt=(states if ends is None else ends).attempt[free],
        code=row.rule.code,
    )
    uncounted = None if ends is None else leaving.attempt
    moves = move(store, leaving, records, envelope, extensions=extensions, asked_due_ms=due_ms, uncounted=uncounted)
    applying.told.moved([moves], applying.index)
    return prior_counts(prior)


def _key_taken(
    store: Store, standing: MessageLocation, home: U64, rows: npt.NDArray[np.intp], records: Sequence[Record]
) -> npt.NDArray[np.bool_]:
    """True, shape of `rows`, for messages whose key a newer message has taken."""
    assert standing.units is not None, "they were read"
    taken = np.zeros(len(rows), np.bool_)
    for at in (standing.units["flags"][rows] & UNIT_KEYED).nonzero()[0].tolist():
        record = records[at]
        holder = store.catalog.key(record.topic, record.key)
        taken[at] = holder is not None and holder.position != int(home[rows[at]])
    return taken
