"""Cancels and reschedules a message, wherever it stands now, by a command.

From the proposal of the command to its result the dispatcher does not hand the message over. The Leases of hand-overs
made before go in the same entry or an earlier one, so the command sees them. So no hand-over starts after a cancel was
answered 200, and the answer takes account of all hand-overs made before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import numpy as np

from api.port.port import CancelResult, RescheduleResult
from api.port.problem import FieldFault, Problem
from api.port.timestamp import render_time
from node.handover.term import Term
from node.message.view import (
    FoundMessage,
    find,
    handed_over_at,
    newest_lease,
    revision_of,
    tell,
    unknown_message,
)
from node.runtime.clock import NodeClock
from node.settle.move_size import move_weight
from node.write.command_queues import CancelOrder, RescheduleOrder
from node.write.once_queue import Requests
from node.write.proposer import Proposer
from replication.apply.message.cancel import CANCELLED
from replication.apply.message.message_location import (
    HELD,
    IN_PROGRESS,
    LEASED,
    MISMATCH,
    SETTLED,
    UNKNOWN,
    find_standing,
)
from replication.apply.message.move import RESCHEDULED
from replication.apply.message.running_sets import DOUBTFUL, KNOWN, NOBODY, NONE, owners
from storage.format.rows import Settles
from storage.format.states import IS_SETTLED, STATES
from storage.query.lease_end import lease_ends_ms
from storage.store import Store
from storage.tables.operation_row import id_of

PRIORS: Final = {NONE: "none", KNOWN: "known", DOUBTFUL: "unknown"}
REVISION_MAX: Final = (1 << 32) - 1
#: A message may be rescheduled so often. Each time a copy of it stays in the files until its hour is removed.
CHANGES_MAX: Final = 10_000


class MessageChange:
    """Cancels and reschedules single messages on one node. The caller has checked that it leads."""

    def __init__(self, store: Store, proposer: Proposer, clock: NodeClock, newest_term: Callable[[], int]) -> None:
        """`newest_term` returns the newest term that this node knows of. When the answer is made it may be newer than
        the term that the caller gave."""
        self._store, self._proposer, self._clock, self._newest_term = store, proposer, clock, newest_term

    async def cancel(self, term: Term, id: str, if_match: int | None, through: Requests | None = None) -> CancelResult:
        """Cancel a message. Raises `unknown-message`, `leased`, `already-settled` and `revision-mismatch`. Raises
        `change-in-progress` if its state allows no change. `through` proposes it, None: the proposer."""
        found = find(self._store, id)
        order = CancelOrder(found.home, _is_doubtful(term, found), _revision(found, if_match))
        outcome = (through or self._proposer).cancel(order)
        term.holding.until([found.home], outcome)
        # Shielded: if the client goes away, the Cancel and the hold that goes with it stay.
        result, attempts, prior = await asyncio.shield(outcome)
        if result == CANCELLED:
            return CancelResult(id.upper(), attempts, PRIORS[prior])
        raise await self.refusal(result, id, if_match)

    async def reschedule(
        self,
        term: Term,
        id: str,
        *,
        due_ms: int | None,
        delay_ms: int | None,
        if_match: int | None,
        max_delay_ms: int,
        through: Requests | None = None,
    ) -> RescheduleResult:
        """Give a message another due time. Raises what `cancel` raises, `beyond-max-delay` and `over-limit`."""
        found = find(self._store, id)
        if revision_of(found.record) > CHANGES_MAX:
            detail = f"a message is rescheduled {CHANGES_MAX} times at most; cancel it, and schedule another"
            raise Problem("over-limit", detail)
        order = RescheduleOrder(
            found.home,
            _is_doubtful(term, found),
            _revision(found, if_match),
            due_ms,
            delay_ms,
            move_weight(len(found.record.body)),
        )
        now_ms = self._clock.now_ms()
        if order.due_at(now_ms) - now_ms > max_delay_ms:
            field = "delay" if due_ms is None else "deliver_at"
            detail = f"the due time is more than {max_delay_ms} ms ahead, the most that is taken here"
            raise Problem("beyond-max-delay", detail, errors=[FieldFault(f"/{field}", detail)])
        outcome = (through or self._proposer).reschedule(order)
        term.holding.until([found.home], outcome)
        result, new_due_ms, revision = await asyncio.shield(outcome)
        if result == RESCHEDULED:
            topic = self._store.catalog.topic_by_number(found.record.topic)
            return RescheduleResult(id.upper(), topic.name if topic else "", new_due_ms, revision)
        raise await self.refusal(result, id, if_match)

    async def refusal(self, result: int, id: str, if_match: int | None = None) -> Problem:
        """The Problem that says why the command left the message as it is, made from its present state and history."""
        store = self._store
        if result == UNKNOWN:
            return unknown_message()
        if result == MISMATCH:
            return _mismatch(revision_of(find(store, id).record), if_match)
        if result == IN_PROGRESS:
            return _about_to_move(store, find(store, id).home)
        _, told = await tell(store, id)
        if result == SETTLED and not (len(told) and IS_SETTLED[int(told[-1]["what"])]):
            return Problem("already-settled", "the message was cancelled by an operation that still runs")
        if result == LEASED:
            return _leased(told, self._newest_term(), self._clock.now_ms())
        return _held(told) if result == HELD else _settled(told)


def _is_doubtful(term: Term, found: FoundMessage) -> bool:
    home, place = (np.array([position], np.uint64) for position in (found.home, found.place))
    return bool(term.doubts(home, place, [found.record])[0])


def _revision(found: FoundMessage, if_match: int | None) -> int:
    """The revision that the command names, 0 for any. Raises `revision-mismatch` if `if_match` is 0 or past 32 bits,
    because no message has such a revision."""
    if if_match is not None and not 0 < if_match <= REVISION_MAX:
        raise _mismatch(revision_of(found.record), if_match)
    return if_match or 0


def _mismatch(revision: int, if_match: int | None) -> Problem:
    return Problem("revision-mismatch", f"the message has revision {revision}, If-Match asks for {if_match}")


def _about_to_move(store: Store, home: int) -> Problem:
    """The Problem for a message that an operation is about to move. It names the operation, unless that has gone on
    meanwhile."""
    standing = find_standing(store, np.array([home], np.uint64))
    found = owners(store, standing.place, standing.states)
    number = NOBODY if found is None else int(found.move[0])
    if number == NOBODY:
        return Problem("in-progress", "an operation was about to move the message; send again")
    id = id_of(number)
    detail = f"operation {id} is about to move the message; wait for its end, or abort it"
    return Problem("in-progress", detail, operation=id)


def _leased(history: Settles, term: int, now_ms: int) -> Problem:
    lease, at_ms = newest_lease(history), handed_over_at(history, term, now_ms)
    assert lease is not None, "a message is leased without a lease"
    ends_ms = lease_ends_ms(np.array([lease["when"]]), np.array([lease["term"]]), term)
    return Problem(
        "leased",
        "the message is handed over; wait for its ack or its lease end",
        handed_over=None if at_ms is None else render_time(at_ms),
        attempt=int(lease["attempt"]),
        leased_until=render_time(int(ends_ms[0])),
    )


def _settled(history: Settles) -> Problem:
    end = history[-1]
    event = STATES[int(end["what"])].event
    return Problem("already-settled", f"the message was {event} at {render_time(int(end['at_ms']))}")


def _held(history: Settles) -> Problem:
    event = STATES[int(history[-1]["what"])].event
    return Problem("change-in-progress", f"the message is {event}, and nothing else changes it until that is over")
