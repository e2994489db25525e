"""Begins operations, waits for their end, pauses them, lets them go on, and ends them early.

From the proposal on no open message of the set is handed over (node/ready/operation_rule.py). Hand-overs that were made
before have their Leases in the same entry or an earlier one, so the set sees them. Leases ahead of strict messages of
the set are taken back, also in that entry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from api.port.problem import FieldFault, Problem
from api.port.queries import (
    WAIT_LONG_S,
    CountQuery,
    OperationIn,
    OperationPage,
    OperationVerb,
    OperationView,
)
from api.port.timestamp import render_time
from node.cluster.levels import Levels
from node.handover.term import Leads, Term
from node.leader.operations_in_hand import OperationsInHand
from node.message.count import Counting
from node.message.topic_put import topic_named
from node.operation.finder import FOUND_ROWS, Finder
from node.operation.reason import code_of
from node.operation.view import find_operation, kept, number_of, unknown_operation, view_operation, wish_fields
from node.port.failure_code import REASONS
from node.runtime.clock import NodeClock
from node.runtime.entropy import Entropy
from node.write.once_queue import Requests
from node.write.proposer import Proposer
from replication.apply.operation import (
    AGAIN,
    BEGUN,
    ENDED,
    IS_CANCEL,
    MEETS,
    TOO_MANY,
    TOO_WIDE,
    UNKNOWN,
    Begun,
    fixed_extents,
    met,
)
from replication.command.operation import BeginOperation, ChangeOperation
from storage.format.position import HOUR_MS
from storage.format.predicate import Predicate
from storage.store import Store
from storage.tables.operation_kind import CANCEL, OPERATION_KINDS
from storage.tables.operation_row import (
    ABORTED,
    HOURS_MAX,
    PAUSED,
    RUNNING,
    RUNNING_MAX,
    Operation,
    OperationRow,
    OperationWish,
    Progress,
    id_of,
)
from storage.tables.registry import OPERATIONS
from storage.tables.running_set import RunningSet

_STATES: Final[Mapping[OperationVerb, int]] = {"pause": PAUSED, "resume": RUNNING, "abort": ABORTED}


class OperationBegin:
    """Begins operations on one node. The caller has checked that it leads. `leads` returns the term, and raises a
    Problem unless the node may answer as leader at this moment."""

    def __init__(
        self,
        store: Store,
        proposer: Proposer,
        clock: NodeClock,
        entropy: Entropy,
        levels: Levels,
        counting: Counting,
        in_hand: OperationsInHand,
        max_delay_ms: int,
    ) -> None:
        self._store, self._proposer, self._clock, self._entropy = store, proposer, clock, entropy
        self._levels, self._counting, self._in_hand = levels, counting, in_hand
        self._max_delay_ms = max_delay_ms

    async def begin(self, wish: OperationIn, leads: Leads, through: Requests | None = None) -> OperationView:
        """See OperationPort. `through` proposes it, None: the proposer."""
        self._levels.require("operations")
        self._check(wish)
        which = self._which(wish)
        if wish.dry_run or wish.topics is None:
            matched = await self._matched(wish, leads)
            if wish.dry_run:
                return OperationView(**wish_fields(wish), matched=matched)
            _check_confirmed(wish, matched)
        number = await self._begun(wish, which, leads, through or self._proposer)
        with suppress(TimeoutError, Problem):  # it has begun, so it goes on under the next leader too
            async with asyncio.timeout(wish.wait_s):
                while (found := self._store.catalog.of(OPERATIONS).find(number)) is not None and not found.ended:
                    await self._in_hand.ended(number)
                    leads()
        return view_operation(find_operation(self._store, number, self._clock.now_ms()))

    def one(self, id: str) -> OperationView:
        """Return an operation. Raises `unknown-operation`."""
        return view_operation(find_operation(self._store, number_of(id), self._clock.now_ms()))

    def page(self, after: str | None, most: int) -> OperationPage:
        """See OperationPort."""
        before, now_ms = None if after is None else _cursor(after), self._clock.now_ms()
        known = [each for each in reversed(self._store.catalog.of(OPERATIONS).all()) if kept(each, now_ms)]
        behind = [each for each in known if before is None or each.row.number < before]
        items = [view_operation(each) for each in behind[:most]]
        return OperationPage(items, items[-1].id if len(behind) > most else None)

    async def change(self, id: str, verb: OperationVerb, leads: Leads) -> OperationView:
        """See OperationPort."""
        leads()
        number = number_of(id)
        self._levels.require("operations")
        find_operation(self._store, number, self._clock.now_ms())  # no entry for what is not there
        result: int = await self._proposer.propose_single(ChangeOperation(number, _STATES[verb]))
        if result == UNKNOWN:
            raise unknown_operation(id)
        if result == IS_CANCEL:
            raise Problem("already-settled", "a cancel takes effect when it begins; it cannot be paused or aborted")
        view = self.one(id)
        if result == ENDED:
            raise Problem("already-settled", f"the operation is {view.state}", operation=id)
        return view

    async def settled(self, topic: int, leads: Leads) -> None:
        """Wait until no cancel runs that may have messages of this topic. Raises `change-in-progress`."""
        try:
            async with asyncio.timeout(WAIT_LONG_S):
                while (number := self.busy(topic)) is not None:
                    await self._in_hand.ended(number)
                    leads()
        except TimeoutError:
            raise Problem("change-in-progress", "an operation still changes its messages; try again later") from None

    def busy(self, topic: int) -> int | None:
        """The number of a cancel that runs and may have messages of this topic."""
        cancels = [each for each in self._store.catalog.of(OPERATIONS).running if each.rule.name == CANCEL]
        return next((each.number for each in cancels if each.which.topics is None or topic in each.which.topics), None)

    def _check(self, wish: OperationIn) -> None:
        if wish.reason is not None and code_of(wish.reason) is None:
            known = ", ".join(sorted(REASONS.values()))
            detail = f'"{wish.reason}" is no reason of death; known: http-<status>, {known}'
            raise Problem("invalid-field", f"reason: {detail}", errors=[FieldFault("/reason", detail)])
        if wish.to_due_ms is not None and wish.to_due_ms - self._clock.now_ms() > self._max_delay_ms:
            detail = f"the due time is more than {self._max_delay_ms} ms ahead, the most that is taken here"
            raise Problem("beyond-max-delay", detail, errors=[FieldFault("/to_due", detail)])
        if wish.by_ms is not None and wish.by_ms > self._max_delay_ms:
            detail = f"by is more than {self._max_delay_ms} ms, the most that is taken here"
            raise Problem("beyond-max-delay", detail, errors=[FieldFault("/by", detail)])

    def _which(self, wish: OperationIn) -> Predicate:
        return Predicate.of(self._numbers(wish), wish.from_ms, wish.to_ms, wish.tag)

    def _numbers(self, wish: OperationIn) -> tuple[int, ...] | None:
        names = wish.topics
        return None if names is None else tuple(topic_named(self._store, name).number for name in names)

    async def _matched(self, wish: OperationIn, leads: Leads) -> int:
        """The number of messages that match now, as of one moment for each hour."""
        if not OPERATION_KINDS[wish.kind].takes_open:
            return await self._matched_of_ended(wish, leads)
        topics: tuple[str | None, ...] = (None,) if wish.topics is None else wish.topics
        queries = [CountQuery(topic=topic, from_ms=wish.from_ms, to_ms=wish.to_ms, tag=wish.tag) for topic in topics]
        return sum([(await self._counting.count(query, leads)).count for query in queries])

    async def _matched_of_ended(self, wish: OperationIn, leads: Leads) -> int:
        """The same for ended messages: they are found as for an operation that begins now."""
        row = self._row(wish)
        row = row.with_hours(*fixed_extents(self._store, row))
        finder = Finder(self._store, self._clock, RunningSet(Operation(row, Progress())), leads().term)
        matched = 0
        while not finder.ended:
            found = await finder.found(FOUND_ROWS)
            matched += len(finder.give_out(len(found)).places)
            leads()
        return matched

    async def _begun(self, wish: OperationIn, which: Predicate, leads: Leads, through: Requests) -> int:
        """Propose the operation, and return its number."""
        while True:
            term, mark = leads(), int(self._entropy.id_bits(1)[0])
            self._check_free(wish)
            if OPERATION_KINDS[wish.kind].takes_open:
                self._in_hand.proposed[mark] = which
                self._withdraw(term, which)
            asked = OperationWish(**wish_fields(wish), latest_ms=self._clock.now_ms() + self._max_delay_ms)
            proposed = asyncio.ensure_future(through.propose_single(BeginOperation(asked, mark)))
            proposed.add_done_callback(partial(self._known, mark))
            # Shielded: if the client goes away, the operation and what holds its messages stay.
            begun: Begun = await asyncio.shield(proposed)
            if begun.result == BEGUN:
                return begun.value
            if begun.result != AGAIN:
                raise _refused(begun, wish)

    def _check_free(self, wish: OperationIn) -> None:
        """Refuse an operation that would be refused by its entry, because it meets one that runs. So a request that is
        sent again and again holds no messages."""
        other = met(self._store.catalog.of(OPERATIONS).running, self._row(wish))
        if other is not None:
            raise _refused(Begun(MEETS, other.number), wish)

    def _row(self, wish: OperationIn) -> OperationRow:
        """The row of an operation that would begin now."""
        return OperationWish(**wish_fields(wish)).begun(0, self._numbers(wish), self._clock.now_ms())

    def _withdraw(self, term: Term, which: Predicate) -> None:
        """Take back the leases ahead of messages that may be of the set. Those that are not go out a moment later."""
        strict = term.handing_over.strict
        places = strict.places()
        if len(places):
            units = self._store.units(places)
            strict.withdraw_places(places[which.may_match(units["due_ms"], units["topic"], units["tags"])])

    def _known(self, mark: int, ended: asyncio.Future[Begun]) -> None:
        """The predicate is needed no more once the entry is applied, or if nothing happened. While the outcome is
        unknown it stays. The service (work.py) drops it when the entry is applied after all."""
        error = None if ended.cancelled() else ended.exception()
        if not (isinstance(error, Problem) and error.code == "outcome-unknown"):
            which = self._in_hand.proposed.pop(mark, None)
            if which is not None and (error is not None or ended.cancelled()):
                self._in_hand.let_go(which)


def _check_confirmed(wish: OperationIn, matched: int) -> None:
    if wish.confirm != matched:
        given = "is missing" if wish.confirm is None else f"is {wish.confirm}"
        detail = f"all topics: {matched} messages match now, and confirm {given}; make a dry run, and send its matched"
        raise Problem("invalid-field", f"confirm: {detail}", errors=[FieldFault("/confirm", detail)])


def _refused(begun: Begun, wish: OperationIn) -> Problem:
    if begun.result == TOO_MANY:
        detail = f"{RUNNING_MAX} operations run, the oldest is {id_of(begun.value)}; wait until one has ended"
        return Problem("over-limit", detail, operation=id_of(begun.value))
    if begun.result == TOO_WIDE:
        told = f"the window meets more than {HOURS_MAX} hours that hold messages"
        if OPERATION_KINDS[wish.kind].takes_open:
            field, detail = "to", f"{told}; the first {HOURS_MAX} end at {render_time((begun.value + 1) * HOUR_MS)}"
        else:
            field, detail = "from", f"{told}; the last {HOURS_MAX} begin at {render_time(begun.value * HOUR_MS)}"
        return Problem("invalid-field", f"{field}: {detail}", errors=[FieldFault(f"/{field}", detail)])
    if begun.result == MEETS:
        met = id_of(begun.value)
        detail = f"{met} runs, and has messages of these topics and this window; wait for its end, or abort it"
        return Problem("in-progress", detail, operation=met)
    assert wish.topics is not None, "only a named topic is unknown"
    return Problem("unknown-topic", f"no topic is named {wish.topics[begun.value]}")


def _cursor(after: str) -> int:
    try:
        return number_of(after)
    except Problem:
        detail = "the cursor is not one of a page of operations; send next_cursor as it came"
        raise Problem("invalid-field", detail, errors=[FieldFault("", detail, parameter="cursor")]) from None
