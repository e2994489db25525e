"""The sets of operations that run, as commands about single messages meet them.

An operation begins with one entry, which fixes its set, and changes the messages chunk by chunk. In between, each
command judges by the set. A message of a cancel's set is cancelled already, unless its lease runs:

    without a running lease     it is cancelled: an ack, a failure or an extend is stale, and a cancel is answered so
    under a running lease       an ack ends it, and a failure that would retry it cancels it

Each message is counted once, by the entry that takes it out of the set. If several sets have it, the oldest one counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from replication.apply.applying import Applying
from replication.apply.message.message_location import Mask, lease_runs
from replication.command.entry import Envelope
from storage.format.array import I64, U8, U64
from storage.format.batches import StateColumns
from storage.format.rows import Units
from storage.format.states import IS_OPEN
from storage.store import Store
from storage.tables.operations import RunningSet
from storage.tables.registry import OPERATIONS

NOBODY: Final = -1
"""In place of the number of an operation: no set has the message."""

NONE, KNOWN, DOUBTFUL = 0, 1, 2  # before a cancel: no hand-over, a known one, perhaps an unknown one

_PRIORS: Final = ("none", "known", "unknown")  # the fields of a progress by these numbers


def owners(store: Store, places: U64, states: StateColumns) -> I64 | None:
    """The number of the operation whose set has the open unit at each place, [n], or NOBODY. None if no operation runs.
    `states` are the states of these units. One that has ended, or does not exist, is of no set.
    """
    sets = store.catalog.of(OPERATIONS).running
    if not sets or not len(places):
        return None
    owner: I64 = np.full(len(places), NOBODY, np.int64)
    rows = np.flatnonzero(IS_OPEN[states.state])
    if len(rows):
        owner[rows] = _oldest(store, sets, places[rows], store.units(places[rows]), NOBODY)
    return owner


def owners_of_chunk(store: Store, number: int, places: U64, units: Units) -> I64:
    """The same for the messages of a chunk of this operation. They are of its set, but an older operation may have them
    too. `units` are their rows of the index.
    """
    older = [each for each in store.catalog.of(OPERATIONS).running if each.number < number]
    return _oldest(store, older, places, units, number)


def _oldest(store: Store, sets: Sequence[RunningSet], places: U64, units: Units, otherwise: int) -> I64:
    """The number of the first of `sets` that has each unit. Tags are read once a unit, however many sets ask."""
    owner: I64 = np.full(len(places), otherwise, np.int64)
    left = np.arange(len(places))
    read: dict[int, Sequence[str]] = {}

    def tags_of(positions: U64) -> Sequence[Sequence[str]]:
        new = [position for position in positions.tolist() if position not in read]
        if new:
            records = store.records(np.array(new, np.uint64))
            read.update((position, record.tags) for position, record in zip(new, records, strict=True))
        return [read[position] for position in positions.tolist()]

    for each in sets:
        rows = units[left]
        has = each.has(places[left], rows["due_ms"], rows["topic"], rows["tags"], tags_of)
        owner[left[has]] = each.number
        left = left[~has]
    return owner


def cancelled_already(store: Store, owner: I64 | None, states: StateColumns, envelope: Envelope) -> Mask | None:
    """True, [n], for open messages that a set has cancelled though no record says so yet. None if there are none."""
    if owner is None:
        return None
    found: Mask = (owner != NOBODY) & IS_OPEN[states.state] & ~lease_runs(store, states, envelope)
    return found if found.any() else None


def count_cancelled(applying: Applying, owner: I64 | None, prior: U8) -> None:
    """Count messages that were cancelled just now, with what was known of their hand-overs, to the operations whose
    sets had them.
    """
    if owner is None:
        return
    for number in np.unique(owner).tolist():
        counts = np.bincount(prior[owner == number], minlength=len(_PRIORS)).tolist()
        _count(applying, number, dict(zip(_PRIORS, counts, strict=True)))


def count_settled(applying: Applying, owner: I64 | None) -> None:
    """Count messages that ended in another way just now."""
    if owner is not None:
        for number, count in zip(*np.unique_counts(owner), strict=True):
            _count(applying, int(number), {"settled": int(count)})


def _count(applying: Applying, number: int, more: dict[str, int]) -> None:
    """Add these counts to the progress of an operation that runs."""
    if number == NOBODY:
        return
    operations = applying.store.catalog.of(OPERATIONS)
    operation = operations.find(number)
    assert operation is not None, number
    now = operation.progress
    counts = {field: getattr(now, field) + count for field, count in more.items()}
    operations.advance(number, now._replace(log_index=applying.index, at_ms=applying.envelope.now_ms, **counts))
