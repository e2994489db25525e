"""Applies Fail, the command for failed hand-overs. The message moves to its next attempt, or it is dead and may get a
copy in a dead-letter topic.

A Fail is judged like an ack: by the hand-over that it names, and not by the leader that proposed it. So it has an
effect even in an entry that a later leader committed for a former one. A Lease or a dispatch state has no effect in
such an entry. It says what a dispatcher was about to do, and that dispatcher has stopped. A Fail says what the receiver
reported, and that stays true. If the new leader has handed the message over again meanwhile, the fence (term, attempt)
refuses the old Fail as stale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from replication.apply.apply_notifier import Moves
from replication.apply.applying import Applying
from replication.apply.message.attempt_order import fence, rounds
from replication.apply.message.cancel import cancel_free
from replication.apply.message.dead_letter_copy import Copies, copy_dead
from replication.apply.message.message_location import settle_everywhere, standing_at
from replication.apply.message.move import Leaving, move
from replication.apply.message.running_sets import (
    NOBODY,
    Owners,
    cancelled_already,
    count_cancelled,
    count_retried,
    count_settled,
    owners,
)
from replication.apply.message.settle import ACKED, INVALID, STALE
from replication.apply.message.unheard import UNHEARD
from replication.command.column import Rows
from replication.command.entry import Envelope
from replication.command.handover import AGAIN, DEAD, Fail
from storage.format.array import U8, U16, U64
from storage.format.batches import SettleBatch, StateColumns
from storage.format.rows import BY_FAILURE, CODE_RESCHEDULED
from storage.format.states import CANCELLED as CANCELLED_STATE
from storage.format.states import DEAD as DEAD_STATE
from storage.format.states import IS_OPEN, LEADS_AWAY
from storage.format.states import UNKNOWN as UNKNOWN_STATE
from storage.record.record import Record
from storage.record.record_rewrite import pack_map
from storage.store import Store

_EXTENSION_BYTES_MAX = 0xFFFF


class _Failed(NamedTuple):
    """The results and changes of the rows of a Fail that were applied so far. A row's result is ACKED, STALE or
    INVALID, as in `apply_fail`.
    """

    result: U8
    moves: list[Moves]
    ended: list[U64]  # places of messages that died, or that a running operation cancels
    copies: list[Copies]


def apply_fail(applying: Applying, command: Fail) -> U8:
    """Move or end the messages whose hand-overs failed.

    Returns a result per row. ACKED: the failure is recorded, by this row or an earlier one for the same hand-over.
    STALE: the unit has a later hand-over or has ended. INVALID: there is no such unit.
    """
    claim = fence(command.term, command.attempt)
    failed = _Failed(np.full(len(command.position), STALE, np.uint8), [], [], [])
    for turn in rounds(command.position, claim):
        _fail_round(applying, command, claim, turn.rows, failed)
        failed.result[turn.repeats] = failed.result[turn.repeated]
    for place in failed.ended:
        applying.told.settled(place)
    applying.told.moved(failed.moves, applying.index)
    for copies in failed.copies:
        applying.told.topics(copies.created_topics)
        applying.told.units(copies.fresh, applying.index)
    return failed.result


def _fail_round(applying: Applying, command: Fail, claim: U64, rows: Rows, failed: _Failed) -> None:
    """Apply rows that name each unit at most one time, and add their results and changes to `failed`."""
    store, envelope, floor_ms = applying.store, applying.envelope, applying.dispatched.floor_ms
    position, claimed = command.position[rows], claim[rows]
    states = store.states(position)
    newest = fence(states.term, states.attempt)
    taken = IS_OPEN[states.state] & (claimed >= newest)
    owner = owners(store, position, states)
    if (cancelled := cancelled_already(store, owner, states, envelope)) is not None:
        taken &= ~cancelled
    again = done_before(store, position, states, claimed == newest)
    failed.result[rows[states.state == UNKNOWN_STATE]] = INVALID
    failed.result[rows[taken | again]] = ACKED
    # The number of hand-overs so far. A hand-over of a later term may have a lower attempt than the log knows.
    attempt = np.maximum(command.attempt[rows], states.attempt)
    retried = command.fate[rows] != DEAD
    dies, moves = (taken & ~retried).nonzero()[0], (taken & retried).nonzero()[0]
    if owner is not None:
        count_settled(applying, owner.at(dies))
        moves = _cancel_instead(applying, command, rows, owner, moves, failed)
        count_retried(applying, owner.at(moves))
    if len(dies):
        _bury(store, command, envelope, floor_ms, rows[dies], attempt[dies], failed)
    if len(moves):
        failed.moves.append(_retry(store, command, envelope, floor_ms, rows[moves], attempt[moves]))


def _cancel_instead(applying: Applying, command: Fail, rows: Rows, owner: Owners, moves: Rows, failed: _Failed) -> Rows:
    """Cancel those of the rows `moves` whose message a set has, because no attempt may follow. Return the others."""
    ends = moves[owner.cancel[moves] != NOBODY]
    if len(ends):
        place = command.position[rows[ends]]
        standing = standing_at(applying.store, place)
        standing.states.term[:], standing.states.attempt[:] = command.term[rows[ends]], command.attempt[rows[ends]]
        no_doubt = np.zeros(len(place), np.bool_)
        home = applying.store.homes(place)
        prior = cancel_free(
            applying.store, home, standing, no_doubt, np.arange(len(place)), applying.envelope, BY_FAILURE
        )
        count_cancelled(applying, owner.at(ends), prior)
        failed.ended.append(place)
    others: Rows = moves[owner.cancel[moves] == NOBODY]
    return others


def done_before(
    store: Store, position: U64, states: StateColumns, same: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """A boolean array, [n]: True where an earlier Fail of the same hand-over moved or ended the message, also for an
    operation. A row is False
    if a reschedule or redrive came after that Fail.

    `same` is True where the Fail names the newest hand-over in the log.
    """
    done: npt.NDArray[np.bool_] = (states.state == DEAD_STATE) & same
    cancelled = ((states.state == CANCELLED_STATE) & same).nonzero()[0]
    if len(cancelled):
        done[cancelled] = store.newest(position[cancelled])["code"] & np.uint16(BY_FAILURE) > 0
    gone = LEADS_AWAY[states.state] & same
    rows = gone.nonzero()[0]
    if len(rows):
        done[rows] = store.newest(position[rows])["code"] < CODE_RESCHEDULED
    return done


def _retry(store: Store, command: Fail, envelope: Envelope, floor_ms: int, rows: Rows, attempt: U16) -> Moves:
    place = command.position[rows]
    leaving = Leaving(
        home=store.homes(place),
        place=place,
        due_ms=np.maximum(command.due_ms[rows], floor_ms),
        attempt=np.maximum(attempt, store.units(place)["attempt"]),
        term=command.term[rows],
        last_attempt=command.attempt[rows],
        code=command.code[rows],
    )
    records = store.records(place)
    extensions = [_with_error(record, text) for record, text in zip(records, _texts(command, rows), strict=True)]
    uncounted = np.fromiter((record.attempt for record in records), np.uint16, len(records))
    uncounted += (command.fate[rows] == AGAIN) & (uncounted < leaving.attempt)
    return move(
        store, leaving, records, envelope,
        extensions=extensions, uncounted=uncounted, subscription=command.subscription,
        heard=~np.isin(command.code[rows], UNHEARD),
    )  # fmt: skip


def _bury(
    store: Store, command: Fail, envelope: Envelope, floor_ms: int, rows: Rows, attempt: U16, failed: _Failed
) -> None:
    place = command.position[rows]
    settle_everywhere(
        store,
        SettleBatch.of(
            place,
            what=DEAD_STATE,
            at_ms=envelope.now_ms,
            term=command.term[rows],
            attempt=command.attempt[rows],
            node=envelope.node,
            code=command.code[rows],
            subscription=command.subscription,
        ),
    )
    failed.ended.append(place)
    copies = copy_dead(
        store,
        place,
        envelope,
        floor_ms=floor_ms,
        code=command.code[rows],
        attempt=attempt,
        random=command.random[rows],
        errors=_texts(command, rows),
    )
    if copies is not None:
        failed.copies.append(copies)


def _texts(command: Fail, rows: Rows) -> Sequence[str]:
    """The text of each failure, "" if there is none. A text that was cut, or is not UTF-8, loses the bytes that cannot
    be read.
    """
    if not command.texts:
        return [""] * len(rows)
    return [command.texts[row].decode(errors="ignore") for row in rows.tolist()]


def _with_error(record: Record, text: str) -> dict[str, Any]:
    """The record's extension with the text of the newest failure. The text is left out if the extension would get too
    long.
    """
    others = {name: value for name, value in record.extension.items() if name != "error"}
    with_error = others | {"error": text} if text else others
    return with_error if len(pack_map(with_error)) <= _EXTENSION_BYTES_MAX else others
