"""The sets of operations that have not ended, as commands about single messages meet them.

An operation begins with one entry, which fixes its set, and changes the messages chunk by chunk. In between, each
command judges by the set. A message of a cancel's set is cancelled already, unless its lease runs:

    without a running lease     it is cancelled: an ack, a failure or an extend is stale, and a cancel is answered so
    under a running lease       an ack ends it, and a failure that would retry it cancels it

A message of a set that moves may be cancelled, acked and retried as any other. Only a reschedule is refused.

Each message is counted once in a set, by the entry that takes it out. If several cancels have it, the oldest one
counts it as changed. At most one set that moves has it too, because only a cancel may begin over another set. That one
counts it as settled then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from replication.apply.applying import Applying
from replication.apply.message.message_location import FREE, IN_PROGRESS, SETTLED, MessageLocation, lease_runs, verdicts
from replication.command.entry import Envelope
from storage.format.array import I64, U8, U32, U64, Mask
from storage.format.batches import StateColumns
from storage.format.rows import Units
from storage.format.states import IS_OPEN
from storage.store import Store
from storage.tables.registry import OPERATIONS
from storage.tables.running_set import RunningSet

NOBODY: Final = -1
"""In place of the number of an operation: no set has the message."""

NONE, KNOWN, DOUBTFUL = 0, 1, 2  # before a cancel: no hand-over, a known one, perhaps an unknown one

_PRIORS: Final = ("none", "known", "unknown")  # the fields of a progress by these numbers

TagsOf = Callable[[U64], Sequence[Sequence[str]]]


class Owners(NamedTuple):
    """The operations that have each message, [n] each: the number of the oldest cancel, and of the one that moves it.
    NOBODY where there is none."""

    cancel: I64
    move: I64

    def at(self, rows: npt.NDArray[np.intp] | Mask) -> Owners:
        """Those of these rows."""
        return Owners(self.cancel[rows], self.move[rows])


def owners(store: Store, places: U64, states: StateColumns) -> Owners | None:
    """The operations whose sets have the open unit at each place. None if none has open units. `states` are the states
    of these units. One that has ended, or does not exist, is of no set.
    """
    operations = store.catalog.of(OPERATIONS)
    if not operations.meet(places):
        return None
    sets = operations.of_open
    found = Owners(np.full(len(places), NOBODY, np.int64), np.full(len(places), NOBODY, np.int64))
    rows = np.flatnonzero(IS_OPEN[states.state])
    if len(rows):
        open_ones = _owners(store, sets, places[rows], store.units(places[rows]))
        found.cancel[rows], found.move[rows] = open_ones
    return found


def owners_of_chunk(store: Store, number: int, places: U64, units: Units) -> Owners:
    """The same for the open messages of a chunk of this operation, without the cancels that began after it. `units` are
    their rows of the index. They are known to be of its set.
    """
    sets = store.catalog.of(OPERATIONS).of_open
    if sets[0].number == number and len(sets) == 1:
        nobody: I64 = np.full(len(places), NOBODY, np.int64)
        own: I64 = np.full(len(places), number, np.int64)
        return Owners(nobody, own) if sets[0].rule.moves else Owners(own, nobody)
    found = _owners(store, [each for each in sets if each.number != number], places, units)
    (own_set,) = (each for each in sets if each.number == number)
    if own_set.rule.moves:
        found.move[:] = number
    else:
        found.cancel[(found.cancel == NOBODY) | (found.cancel > number)] = number
    return found


def _owners(store: Store, sets: Sequence[RunningSet], places: U64, units: Units) -> Owners:
    tags_of = _read_once(store)
    cancels = [each for each in sets if not each.rule.moves]
    moving = [each for each in sets if each.rule.moves]
    return Owners(_oldest(cancels, places, units, tags_of), _oldest(moving, places, units, tags_of))


def _read_once(store: Store) -> TagsOf:
    """A function that returns the tags of units, and reads those of each unit once, however many sets ask."""
    read: dict[int, Sequence[str]] = {}

    def tags_of(positions: U64) -> Sequence[Sequence[str]]:
        new = [position for position in positions.tolist() if position not in read]
        if new:
            records = store.records(np.array(new, np.uint64))
            read.update((position, record.tags) for position, record in zip(new, records, strict=True))
        return [read[position] for position in positions.tolist()]

    return tags_of


def _oldest(sets: Sequence[RunningSet], places: U64, units: Units, tags_of: TagsOf) -> I64:
    """The number of the first of `sets` that has each unit, or NOBODY."""
    owner: I64 = np.full(len(places), NOBODY, np.int64)
    left = np.arange(len(places))
    for each in sets:
        rows = units[left]
        has = each.has(places[left], rows["due_ms"], rows["topic"], rows["tags"], tags_of)
        owner[left[has]] = each.number
        left = left[~has]
    return owner


def cancelled_already(store: Store, owner: Owners | None, states: StateColumns, envelope: Envelope) -> Mask | None:
    """True, [n], for open messages that a set has cancelled though no record says so yet. None if there are none."""
    if owner is None:
        return None
    found: Mask = (owner.cancel != NOBODY) & IS_OPEN[states.state] & ~lease_runs(store, states, envelope)
    return found if found.any() else None


def judged(store: Store, standing: MessageLocation, wanted: U32, envelope: Envelope) -> tuple[U8, Owners | None]:
    """The verdicts about messages that a client would move, [n], and the sets that have them. A message that a set is
    about to move is IN_PROGRESS. One that a set has cancelled is SETTLED. `wanted` is as in `verdicts`.
    """
    found = verdicts(store, standing, wanted, envelope)
    owner = owners(store, standing.place, standing.states)
    if owner is not None:
        found[(owner.move != NOBODY) & (found == FREE)] = IN_PROGRESS
        if (cancelled := cancelled_already(store, owner, standing.states, envelope)) is not None:
            found[cancelled] = SETTLED
    return found, owner


def count_cancelled(applying: Applying, owner: Owners | None, prior: U8) -> None:
    """Count messages that were cancelled just now, with what was known of their hand-overs, to the operations whose
    sets had them.
    """
    if owner is None:
        return
    for number in np.unique(owner.cancel).tolist():
        _count(applying, number, prior_counts(prior[owner.cancel == number]))
    _count_as(applying, "settled", owner.move)


def count_settled(applying: Applying, owner: Owners | None) -> None:
    """Count messages that ended in another way just now."""
    if owner is not None:
        _count_as(applying, "settled", owner.cancel)
        _count_as(applying, "settled", owner.move)


def count_retried(applying: Applying, owner: Owners | None) -> None:
    """Count messages that a failure moved just now. No cancel has them."""
    if owner is not None:
        _count_as(applying, "leased", owner.move)


def prior_counts(prior: U8) -> dict[str, int]:
    """How many of each kind, by the fields of a progress."""
    return dict(zip(_PRIORS, np.bincount(prior, minlength=len(_PRIORS)).tolist(), strict=True))


def _count_as(applying: Applying, field: str, owner: I64) -> None:
    for number, count in zip(*np.unique_counts(owner), strict=True):
        _count(applying, int(number), {field: int(count)})


def _count(applying: Applying, number: int, more: dict[str, int]) -> None:
    """Add these counts to the progress of an operation."""
    if number == NOBODY:
        return
    operations = applying.store.catalog.of(OPERATIONS)
    operation = operations.find(number)
    assert operation is not None, number
    now = operation.progress
    counts = {field: getattr(now, field) + count for field, count in more.items()}
    operations.advance(number, now._replace(log_index=applying.index, at_ms=applying.envelope.now_ms, **counts))
