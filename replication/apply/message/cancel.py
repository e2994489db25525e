"""Applies Cancel. The cancel of a whole set, chunk by chunk (replication/apply/operation.py), ends messages here too.

A message whose lease still runs is refused. A second cancel of a message gets the same answer as the first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replication.apply.applying import Applying
from replication.apply.message.attempt_order import rounds
from replication.apply.message.doubtful import DOUBTFUL_FIELD, doubtful_at
from replication.apply.message.message_location import (
    FREE,
    MessageLocation,
    find_standing,
    settle_everywhere,
    verdicts,
)
from replication.apply.message.running_sets import DOUBTFUL, KNOWN, NONE, count_cancelled, owners
from replication.command.column import Rows
from replication.command.entry import Envelope
from replication.command.message import Cancel
from storage.format.array import U8, U16, U64
from storage.format.batches import SettleBatch
from storage.format.level import has
from storage.format.rows import select_rows
from storage.format.states import CANCELLED as CANCELLED_STATE
from storage.store import Store

CANCELLED = FREE  # the other results are those of replication.apply.message.message_location


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A result per row. `result`: CANCELLED, LEASED, SETTLED, UNKNOWN, MISMATCH or HELD.

    `attempts`: the number of hand-overs before the cancel. `prior` says what is known of them. NONE: there was none.
    KNOWN: one is in the log. DOUBTFUL: one may have been made without a record.
    """

    result: U8
    attempts: U16
    prior: U8


def apply_cancel(applying: Applying, command: Cancel) -> Cancelled:
    """Cancel messages. Returns a result per row. A second cancel gets the same answer as the first."""
    count = len(command.home)
    answer = Cancelled(np.empty(count, np.uint8), np.empty(count, np.uint16), np.empty(count, np.uint8))
    places: list[U64] = []
    for turn in rounds(command.home, command.revision.astype(np.uint64)):
        places.append(_cancel_round(applying, command, turn.rows, answer))
        for column in (answer.result, answer.attempts, answer.prior):
            column[turn.repeats] = column[turn.repeated]
    applying.told.settled(np.concatenate([np.empty(0, np.uint64), *places]))
    return answer


def _cancel_round(applying: Applying, command: Cancel, rows: Rows, answer: Cancelled) -> U64:
    """Cancel messages whose rows name each of them at most one time, and write their answers. Return the places of the
    cancelled messages.
    """
    store, home = applying.store, command.home[rows]
    standing = find_standing(store, home)
    states = standing.states
    result = verdicts(store, standing, command.revision[rows], applying.envelope)
    free = (result == FREE).nonzero()[0]
    owner = owners(store, standing.place, states)
    prior = cancel_free(store, home, standing, command.doubtful[rows] > 0, free, applying.envelope)
    count_cancelled(applying, None if owner is None else owner.at(free), prior[free])
    again = (states.state == CANCELLED_STATE).nonzero()[0]
    if len(again):
        result[again] = CANCELLED
        prior[again] = store.cancel_priors(home[again])
    answer.result[rows], answer.attempts[rows], answer.prior[rows] = result, states.attempt, prior
    cancelled: U64 = standing.place[free]
    return cancelled


def cancel_free(
    store: Store,
    home: U64,
    standing: MessageLocation,
    doubtful: npt.NDArray[np.bool_],
    free: Rows,
    envelope: Envelope,
    code: int = 0,
) -> U8:
    """Record the end of those messages whose rows are `free`. Return what was known of the hand-overs of all messages,
    [n]: NONE, KNOWN or DOUBTFUL. `doubtful` is the leader's own judgement. `code` is a further bit of the code in the
    records.
    """
    prior = priors(store, home, standing, doubtful, free)
    if len(free):
        states = standing.states
        settle_everywhere(
            store,
            SettleBatch.of(
                standing.place[free],
                what=CANCELLED_STATE,
                at_ms=envelope.now_ms,
                term=states.term[free],
                attempt=states.attempt[free],
                node=envelope.node,
                code=prior[free].astype(np.uint16) | np.uint16(code),
            ),
        )
    return prior


def priors(store: Store, home: U64, standing: MessageLocation, doubtful: npt.NDArray[np.bool_], free: Rows) -> U8:
    """NONE, KNOWN or DOUBTFUL for the hand-overs before each change, [n]. `doubtful` is the leader's own judgement,
    `free` the rows whose messages are changed now.

    A message in doubt is DOUBTFUL even if it has known hand-overs. A message that was moved has its doubt in its
    record. Below level 3 a message with known hand-overs is KNOWN even if it is in doubt.
    """
    known, place = standing.states.attempt > 0, standing.place
    wins = has(store.level, "doubt")
    if wins:
        doubtful[free] |= doubtful_at(store, store.doubt, place[free], units=select_rows(standing.units, free))
    moved = free[(place[free] != home[free]) & (wins | ~known[free])]
    if len(moved):
        doubtful[moved] |= [DOUBTFUL_FIELD in record.extension for record in store.records(place[moved])]
    if wins:
        return np.where(doubtful, DOUBTFUL, np.where(known, KNOWN, NONE)).astype(np.uint8)
    return np.where(known, KNOWN, np.where(doubtful, DOUBTFUL, NONE)).astype(np.uint8)
