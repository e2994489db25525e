"""Applies hand-overs, acks and longer leases to units. All vectorised: columns in, a result per row out.

The life of a unit, as its settle records say:

                      Lease, Extend            Settle
    pending ------------------------> leased ---------> delivered
       |  ^                             |
       |  +--- the lease ends (no record: time decides)
       |  Cancel (cancel.py)                            (Fail: fail.py; moves: move.py)
       +-----------------> cancelled   (leased with the lease still running: refused)

A Release takes back a lease whose hand-over never began (release.py).

An ack ends an open unit if its (term, attempt) is not older than the newest lease in the log. The log may not have the
Lease of that hand-over. A leader that dies may have handed over without a record, but the consumer did the work. An
Extend and a Fail are judged by the same rule.

Lease, Settle, Extend, Fail and Release name places. Cancel names homes (message_location.py defines both).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from replication.apply.applying import Applying
from replication.apply.message.attempt_order import fence, first_of_each, rounds
from replication.apply.message.doubtful import planned_before
from replication.apply.message.message_location import settle_everywhere
from replication.apply.message.running_sets import cancelled_already, count_settled, owners
from replication.command.column import Rows
from replication.command.entry import Envelope
from replication.command.handover import Extend, Lease, Settle
from storage.format.array import I64, U8, U16, U64
from storage.format.batches import SettleBatch, StateColumns
from storage.format.level import has
from storage.format.rows import BY_RECEIPT, CODE_RESENT, PLANNED, PLANNED_BEFORE
from storage.format.states import DELIVERED as DELIVERED_STATE
from storage.format.states import IS_OPEN, LEADS_AWAY
from storage.format.states import LEASED as LEASED_STATE
from storage.format.states import UNKNOWN as UNKNOWN_STATE
from storage.store import Store

ACKED, STALE, INVALID = 0, 1, 2
EXTENDED = ACKED


def apply_lease(applying: Applying, command: Lease) -> U8:
    """Record hand-overs. The result of a row is 1 where the Lease took effect, else 0.

    A Lease has no effect on a unit that has ended or does not exist. It also has no effect if its (term, attempt) is
    not newer than that of the unit's newest hand-over.
    """
    store, envelope = applying.store, applying.envelope
    states = store.states(command.position)
    newer = fence(np.uint32(envelope.term), command.attempt) > fence(states.term, states.attempt)
    effective = IS_OPEN[states.state] & newer & first_of_each(command.position)
    rows = effective.nonzero()[0]
    if len(rows):
        again = states.attempt[rows] > 0
        before = planned_before(store, command.position[rows], again) if again.any() else np.uint16(0)
        store.settle(
            SettleBatch.of(
                command.position[rows],
                what=LEASED_STATE,
                at_ms=command.handed_over_ms[rows],
                when=command.lease_end_ms[rows],
                term=envelope.term,
                attempt=command.attempt[rows],
                node=envelope.node,
                code=before | np.uint16(PLANNED if command.planned else 0),
                subscription=command.subscription,
            )
        )
    if applying.told.listener is not None:  # a follower has no listener to make these for
        applying.told.leased(command.position[effective], command.attempt[effective], command.lease_end_ms[effective])
    return effective.astype(np.uint8)


def apply_settle(applying: Applying, command: Settle) -> U8:
    """End the units of acked hand-overs. Returns a result per row. ACKED: the unit has ended by this ack or an earlier
    one of the same hand-over. STALE: it has a later hand-over, or ended in another way. INVALID: there is no such unit.

    A unit may stand in several rows, since a client may ack it twice in one request.
    """
    claim = fence(command.term, command.attempt)
    result = np.full(len(command.position), STALE, np.uint8)
    settled: list[U64] = []
    for turn in rounds(command.position, claim):
        taken = _settle_round(applying, command, claim, turn.rows, result)
        result[turn.repeats] = result[turn.repeated]
        settled.append(command.position[taken])
    applying.told.settled(settled[0] if len(settled) == 1 else np.concatenate([np.empty(0, np.uint64), *settled]))
    return result


def _settle_round(applying: Applying, command: Settle, claim: U64, rows: Rows, result: U8) -> Rows:
    """Ack rows that name each unit at most one time, and write their results. Return the rows that ended their unit."""
    store, envelope = applying.store, applying.envelope
    position, claimed = command.position[rows], claim[rows]
    states = store.states(position)
    newest = fence(states.term, states.attempt)
    taken = IS_OPEN[states.state] & (claimed >= newest)
    owner = owners(store, position, states)
    if (cancelled := cancelled_already(store, owner, states, envelope)) is not None:
        taken &= ~cancelled
    again = _delivered_before(store, position, states, claimed == newest)
    maybe = ~IS_OPEN[states.state] & (states.state != UNKNOWN_STATE)  # a resent message is open elsewhere
    stale = (maybe & ~again & (claimed < newest)).nonzero()[0]
    if len(stale):
        of = rows[stale]
        again[stale] = store.acked_before(position[stale], command.term[of], command.attempt[of])
    result[rows[states.state == UNKNOWN_STATE]] = INVALID
    result[rows[taken | again]] = ACKED
    acked = rows[taken]
    if len(acked):
        count_settled(applying, None if owner is None else owner.at(taken))
        settle_everywhere(
            store,
            SettleBatch.of(
                command.position[acked],
                what=DELIVERED_STATE,
                at_ms=envelope.now_ms,
                term=command.term[acked],
                attempt=command.attempt[acked],
                node=envelope.node,
                code=command.code[acked],
                subscription=command.subscription,
            ),
        )
    return acked


def _delivered_before(
    store: Store, position: U64, states: StateColumns, same: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """True, [n], where an earlier ack of the same hand-over ended the message, even if it was delivered again since.
    `same` is True where the ack names the newest hand-over in the log."""
    done: npt.NDArray[np.bool_] = (states.state == DELIVERED_STATE) & same
    rows = (LEADS_AWAY[states.state] & same).nonzero()[0]
    if len(rows):
        done[rows] = store.newest(position[rows])["code"] == CODE_RESENT
    return done


def apply_extend(applying: Applying, command: Extend) -> U8:
    """Let leases end later. Returns a result per row: EXTENDED, STALE or INVALID, of which the last two are as in
    `apply_settle`.

    A lease never ends earlier than before. If several rows name the same hand-over, the latest end counts. Below level
    3 the end of the last row counts, even if it is earlier.
    """
    store, envelope = applying.store, applying.envelope
    claim = fence(command.term, command.attempt)
    result = np.full(len(command.position), STALE, np.uint8)
    lease_end_ms = command.lease_end_ms.copy()
    extended: list[Rows] = []
    for turn in rounds(command.position, claim):
        if has(store.level, "extend-later"):
            np.maximum.at(lease_end_ms, turn.repeated, lease_end_ms[turn.repeats])
        else:
            lease_end_ms[turn.repeated] = lease_end_ms[turn.repeats]
        extended.append(_extend_round(store, command, envelope, claim, lease_end_ms, turn.rows, result))
        result[turn.repeats] = result[turn.repeated]
    rows = np.concatenate([np.empty(0, np.intp), *extended])
    applying.told.leased(command.position[rows], command.attempt[rows], lease_end_ms[rows])
    return result


def _extend_round(
    store: Store, command: Extend, envelope: Envelope, claim: U64, lease_end_ms: I64, rows: Rows, result: U8
) -> Rows:
    """Extend the leases of rows that name each unit at most one time. Write the rows' results to `result`, and the ends
    that now hold to `lease_end_ms`. Return the rows that took effect.

    The new settle record repeats the lease with another end. It also repeats the time and the node of the hand-over,
    unless the log does not have this hand-over.
    """
    position, claimed = command.position[rows], claim[rows]
    states = store.states(position)
    newest = fence(states.term, states.attempt)
    taken = IS_OPEN[states.state] & (claimed >= newest)
    if (cancelled := cancelled_already(store, owners(store, position, states), states, envelope)) is not None:
        taken &= ~cancelled
    result[rows[states.state == UNKNOWN_STATE]] = INVALID
    result[rows[taken]] = EXTENDED
    now = rows[taken]
    if not len(now):
        return now
    known = (states.state[taken] == LEASED_STATE) & (claimed[taken] == newest[taken])
    lease = store.newest(position[taken])
    if has(store.level, "extend-later"):
        lease_end_ms[now] = np.maximum(lease_end_ms[now], np.where(known, states.lease_end_ms[taken], 0))
    store.settle(
        SettleBatch.of(
            position[taken],
            what=LEASED_STATE,
            at_ms=np.where(known, lease["at_ms"], envelope.now_ms),
            when=lease_end_ms[now],
            term=command.term[now],
            attempt=command.attempt[now],
            node=np.where(known, lease["node"], envelope.node),
            code=_extended_code(store, lease["code"], known),
            subscription=command.subscription,
        )
    )
    return now


def _extended_code(store: Store, code: U16, known: npt.NDArray[np.bool_]) -> U16:
    """The code of an extended lease, [n]. PLANNED is left out, because the consumer that extends the lease has the
    message.

    `known` is True where the log has the lease. Elsewhere BY_RECEIPT says that only the receipt proves the hand-over.
    """
    if not has(store.level, "by-receipt"):
        return np.zeros(len(code), np.uint16)
    by_receipt = ~known | (code & np.uint16(BY_RECEIPT) > 0)
    return (code & np.uint16(PLANNED_BEFORE)) | np.where(by_receipt, BY_RECEIPT, 0).astype(np.uint16)
