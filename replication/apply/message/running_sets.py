"""The sets of operations that run, as commands about single messages meet them.

An operation begins with one entry, which fixes its set, and changes the messages chunk by chunk. In between, each
command judges by the set. A message of a cancel's set is cancelled already, unless its lease runs:

    without a running lease     it is cancelled: an ack, a failure or an extend is stale, and a cancel is answered so
    under a running lease       an ack ends it, and a failure that would retry it cancels it

Each message is counted once, by the entry that takes it out of the set. If several sets have it, the oldest one counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from replication.apply.applying import Applying
from replication.apply.message.message_location import Mask, lease_runs
from replication.command.entry import Envelope
from storage.format.array import I64, U8, U64
from storage.format.batches import StateColumns
from storage.format.states import IS_OPEN
from storage.store import Store
from storage.tables.registry import OPERATIONS

NOBODY: Final = -1
"""In place of the number of an operation: no set has the message."""

NONE, KNOWN, DOUBTFUL = 0, 1, 2  # before a cancel: no hand-over, a known one, perhaps an unknown one

_PRIORS: Final = {NONE: "none", KNOWN: "known", DOUBTFUL: "unknown"}


def owners(store: Store, places: U64) -> I64 | None:
    """The number of the operation whose set has the unit at each place, [n], or NOBODY. None if no operation runs."""
    sets = store.catalog.of(OPERATIONS).running
    if not sets or not len(places):
        return None
    units = store.units(places)
    owner: I64 = np.full(len(places), NOBODY, np.int64)
    for each in reversed(sets):
        has = each.has(places, units["due_ms"], units["topic"], units["tags"], lambda rows: tags_of(store, rows))
        owner[has] = each.number
    return owner


def tags_of(store: Store, places: U64) -> Sequence[Sequence[str]]:
    """The tags of the messages that stand at these places."""
    return [record.tags for record in store.records(places)]


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
    if owner is not None:
        _count(applying, Counter(zip(owner.tolist(), map(_PRIORS.__getitem__, prior.tolist()), strict=True)))


def count_settled(applying: Applying, owner: I64 | None) -> None:
    """Count messages that ended in another way just now."""
    if owner is not None:
        _count(applying, Counter((number, "settled") for number in owner.tolist()))


def _count(applying: Applying, counts: Counter[tuple[int, str]]) -> None:
    operations = applying.store.catalog.of(OPERATIONS)
    for number, field in sorted(counts):
        if number != NOBODY and (operation := operations.find(number)) is not None:
            now = operation.progress
            more = {field: getattr(now, field) + counts[number, field]}
            operations.advance(number, now._replace(log_index=applying.index, at_ms=applying.envelope.now_ms, **more))
