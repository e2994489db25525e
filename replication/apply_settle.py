"""How hand-overs, acks and cancels change units. All vectorised: columns in, a result per row out.

The life of a unit, as its settle records tell it:

                      Lease                    Settle
    pending ------------------------> leased ---------> delivered
       |  ^                             |
       |  +--- the lease ends (no record: time decides)
       |  Cancel
       +-----------------> cancelled   (leased with the lease still running: refused)

An ack settles an unsettled unit if its (term, attempt) is not older than the newest lease, whether or not the log knows
that lease: a leader that dies takes its last hand-overs' Leases with it, but the work was done.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replication.command import Cancel, Lease, Settle
from replication.envelope import Envelope
from storage.array import U8, U16, U64
from storage.columns import SettleBatch, StateColumns
from storage.format import CANCELLED as CANCELLED_STATE
from storage.format import DELIVERED as DELIVERED_STATE
from storage.format import LEASED as LEASED_STATE
from storage.format import UNKNOWN as UNKNOWN_STATE
from storage.store import Store

ACKED, STALE, INVALID = 0, 1, 2
CANCELLED, LEASED, SETTLED, UNKNOWN = 0, 1, 2, 3
NONE, KNOWN, DOUBTFUL = 0, 1, 2  # what is known of hand-overs before a cancel


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A result per row: `result` CANCELLED, LEASED, SETTLED or UNKNOWN; `attempts` made before; `prior`."""

    result: U8
    attempts: U16
    prior: U8


def _fence(term: npt.NDArray[np.uint32] | np.uint32, attempt: U16) -> U64:
    """(term, attempt) as one number that compares in that order."""
    fence: U64 = (term.astype(np.uint64) << np.uint64(16)) | attempt.astype(np.uint64)
    return fence


def apply_lease(store: Store, command: Lease, envelope: Envelope) -> U8:
    """Record hand-overs; 1 where the Lease took effect. A Lease of a settled or unknown unit, or one not newer than
    the newest, is a no-op."""
    states = store.states(command.position)
    newer = _fence(np.uint32(envelope.term), command.attempt) > _fence(states.term, states.attempt)
    effective = (states.state <= LEASED_STATE) & newer & _first_of_each(command.position)
    rows = effective.nonzero()[0]
    if len(rows):
        store.settle(
            SettleBatch.of(
                command.position[rows],
                what=LEASED_STATE,
                at_ms=command.handed_over_ms[rows],
                when=command.lease_end_ms[rows],
                term=envelope.term,
                attempt=command.attempt[rows],
                node=envelope.node,
                subscription=command.subscription,
            )
        )
    return effective.astype(np.uint8)


def apply_settle(store: Store, command: Settle, envelope: Envelope) -> tuple[U8, U64]:
    """Ack; returns a result per row (ACKED, STALE, INVALID) and the positions settled now.

    The same unit may stand in several rows (a client that acks twice in one request): rows are taken in rounds, each
    with the first remaining row of each unit, so that a later row sees what an earlier one did.
    """
    result = np.full(len(command.position), INVALID, np.uint8)
    settled: list[U64] = []
    rows = np.arange(len(command.position))
    while len(rows):
        first = _first_of_each(command.position[rows])
        now, rows = rows[first], rows[~first]
        result[now], taken = _settle_round(store, command, envelope, now)
        settled.append(command.position[now[taken]])
    return result, settled[0] if len(settled) == 1 else np.concatenate([np.empty(0, np.uint64), *settled])


def _settle_round(
    store: Store, command: Settle, envelope: Envelope, rows: npt.NDArray[np.int64]
) -> tuple[U8, npt.NDArray[np.intp]]:
    """Ack rows that name each unit once; returns a result per row and which of `rows` settled their unit."""
    position, term, attempt = command.position[rows], command.term[rows], command.attempt[rows]
    states = store.states(position)
    claim, newest = _fence(term, attempt), _fence(states.term, states.attempt)
    taken = (states.state <= LEASED_STATE) & (claim >= newest)
    again = (states.state == DELIVERED_STATE) & (claim == newest)
    result = np.full(len(rows), STALE, np.uint8)
    result[states.state == UNKNOWN_STATE] = INVALID
    result[taken | again] = ACKED
    acked = taken.nonzero()[0]
    if len(acked):
        store.settle(
            SettleBatch.of(
                position[acked],
                what=DELIVERED_STATE,
                at_ms=envelope.now_ms,
                term=term[acked],
                attempt=attempt[acked],
                node=envelope.node,
                code=command.code[rows[acked]],
                subscription=command.subscription,
            )
        )
    return result, acked


def apply_cancel(store: Store, command: Cancel, envelope: Envelope) -> tuple[Cancelled, U64]:
    """Cancel; returns a result per row and the positions cancelled now. A unit whose lease has ended by the leader's
    stamp is ready again and can be cancelled; cancelled twice is cancelled both times."""
    states = store.states(command.home)
    leased = (states.state == LEASED_STATE) & (states.lease_end_ms > envelope.now_ms)
    taken = (states.state <= LEASED_STATE) & ~leased & _first_of_each(command.home)
    result = _cancel_results(states, leased)
    prior = np.where(states.attempt > 0, KNOWN, np.where(command.doubtful > 0, DOUBTFUL, NONE)).astype(np.uint8)
    again = states.state == CANCELLED_STATE
    if again.any():
        prior[again] = store.cancel_priors(command.home[again])
    if taken.any():
        store.settle(
            SettleBatch.of(
                command.home[taken],
                what=CANCELLED_STATE,
                at_ms=envelope.now_ms,
                term=states.term[taken],
                attempt=states.attempt[taken],
                node=envelope.node,
                code=prior[taken].astype(np.uint16),
            )
        )
    return Cancelled(result, states.attempt, prior), command.home[taken]


def _cancel_results(states: StateColumns, leased: npt.NDArray[np.bool_]) -> U8:
    result = np.full(len(leased), SETTLED, np.uint8)
    result[states.state <= LEASED_STATE] = CANCELLED
    result[states.state == CANCELLED_STATE] = CANCELLED
    result[leased] = LEASED
    result[states.state == UNKNOWN_STATE] = UNKNOWN
    return result


def _first_of_each(position: U64) -> npt.NDArray[np.bool_]:
    """True where a position stands for the first time."""
    order = position.argsort(kind="stable")
    ranked = position[order]
    again = (ranked[1:] == ranked[:-1]).nonzero()[0] + 1
    first = np.ones(len(position), bool)
    first[order[again]] = False
    return first
