"""A leader's account of a transfer: which leases it took over from the leader before, and how many of those hand-overs
it repeated.

A planned transfer promises that no message is handed over in two terms. The client that moved leadership learns how
often this promise was broken (`repeated`), so repeats are counted. The count must not come from the settle records or
the dispatcher, because the dispatcher asks the settle records before every hand-over. If the records are wrong, the
dispatcher is wrong, too. So two lists are kept for this count alone, of leases carried over and of hand-overs made.

    carried      leases of earlier terms that ran when the term began, from the settle records  --.
    told         hand-overs without a known end, as the former leader names them                --+--> repeated
    handed over  units handed over in this term, when their Leases go into an entry             --'

A unit in both lists is a repeat if this term handed it over before its former lease had ended by every clock. A message
that failed before is no repeat, because it then stands at another position (replication/apply/message/move.py). `told`
adds hand-overs whose Lease never got into the Raft log, because it was made too late or its entry was lost.

Both lists are kept for the first WATCH_S of a term. By then every ready unit has been offered to a consumer once. If a
former lease ends after that, a hand-over that repeats it later is not counted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from api.port.leadership import TOLD_MAX, OpenHandOvers, TakeoverView
from api.port.problem import Problem
from node.leader.backlog import leased_piece
from node.ready.lease_timetable import Span
from node.runtime.clock import NodeClock
from replication.command.handover import Lease
from storage.catalog.doubt import CLOCKS_MS
from storage.format.array import I64, U64
from storage.format.states import LEASED
from storage.query.lease_end import lease_ends_ms
from storage.store import Store

#: How long a leader watches for repeats.
WATCH_S: Final = 10.0
#: The account is given so long after hand-overs became possible. The ready units have gone out by then.
ACCOUNT_S: Final = 0.1
#: If a leader cannot hand over within so long after it is asked for the account, the account is refused.
READY_S: Final = 2.0
#: A leader that gives leadership away tells its successor of the hand-overs of the last so many seconds.
NEWEST_S: Final = 0.25
#: The watch for repeats ends after so many hand-overs. At the rated load there are 150,000 a second.
HANDED_MAX: Final = 1_000_000


class Carried(NamedTuple):
    """Leases of earlier terms, shape [n] each, n > 0."""

    position: U64  # ascending, each once
    ends_ms: I64


class Takeover:
    """Counts the leases that one term took over and the hand-overs that it repeated. Times in seconds are those of the
    node's monotonic clock."""

    def __init__(self, term: int, begun_s: float) -> None:
        self.term = term
        self.begun_s = begun_s
        #: From when on due units could be handed over. None: not yet.
        self.ready_s: float | None = None
        #: Set when `ready_s` is known and the carried leases are counted, or the term is over.
        self.ready = asyncio.Event()
        self.in_flight = 0
        """The number of leases of earlier terms that ran when the term began, of pulls and of pushes."""
        self._hours: list[int] = []  # yet to be looked through for leases of former leaders, rising
        self._span: Span | None = None  # what is still to be looked through of the hour that was begun
        self._noted: list[U64] = []  # units found there so far, each ascending and not empty
        self._carried: list[Carried] = []  # no unit in two of them
        self._handed: list[Lease] = []
        self._newest: deque[tuple[float, Lease]] = deque()
        self._released: U64 = np.empty(0, np.uint64)
        self._count = 0
        self._repeated: int | None = None  # known for good once the watch is over

    # leases of former leaders

    def begin(self, hours: list[int]) -> None:
        """Set the hours, rising, that `carry` looks through for leases of former leaders."""
        self._hours = hours

    @property
    def carrying(self) -> bool:
        """True if some of the hours are still to be looked through."""
        return self._span is not None or bool(self._hours)

    def carry(self, store: Store, now_ms: int) -> None:
        """Look through one piece of the hours, the newest hour first, for leases of former leaders that end after
        `now_ms`. That is the time at which the term began.

        Other work of the loop goes between two pieces. A lease that ends or is settled before its piece is looked at
        cannot be repeated. A lease that is extended counts with its new end. A unit that this term leases again would
        be missed, so `leases` notes it before that.
        """
        if self._span is None:
            self._span = Span(*store.span(self._hours.pop()))
        position, end = leased_piece(store, self._span)
        self._span = Span(end, self._span.end) if end < self._span.end else None
        self._note(store, position, now_ms)
        if not self.carrying:
            self._noted.clear()

    def leases(self, store: Store, position: U64, now_ms: int) -> None:
        """Note the leases by former leaders of units for which this term is about to propose a Lease. Does nothing once
        all hours are looked through."""
        if self.carrying:
            self._note(store, np.sort(position), now_ms)

    def _note(self, store: Store, position: U64, now_ms: int) -> None:
        """Note which of these units, ascending, former leaders leased until after `now_ms`, each unit once."""
        for noted in self._noted:
            if len(position) and noted[0] <= position[-1] and position[0] <= noted[-1]:
                position = position[np.isin(position, noted, invert=True)]
        states = store.states(position)
        ends_ms = lease_ends_ms(states.lease_end_ms, states.term, self.term)
        rows = (states.state == LEASED) & (states.term < self.term) & (ends_ms > now_ms)
        found: U64 = position[rows]
        if len(found):
            self._noted.append(found)
            self.in_flight += len(found)
            self._add(found, ends_ms[rows])

    def told(self, position: U64, lease_end_ms: I64) -> None:
        """Add to the carried leases those hand-overs of the former leader that have no known end, shape [n] each."""
        if self._repeated is None:
            self._add(position, lease_end_ms + CLOCKS_MS)

    def _add(self, position: U64, ends_ms: I64) -> None:
        """Add to the carried leases those of units that have none among them yet. A lease that is among them stays,
        because the settle records have its extensions and the former leader's list has not."""
        position, rows = np.unique(position, return_index=True)
        new = self._carried_until(position) == 0
        if new.any():
            self._carried.append(Carried(position[new], ends_ms[rows][new]))

    def _carried_until(self, position: U64) -> I64:
        """When the former lease of each of these units ends, ms, shape [n]. 0 for a unit without one."""
        ends_ms = np.zeros(len(position), np.int64)
        for carried in self._carried:
            at = np.minimum(carried.position.searchsorted(position), len(carried.position) - 1)
            same = carried.position[at] == position
            ends_ms[same] = carried.ends_ms[at[same]]
        return ends_ms

    # hand-overs of this term

    def handed_over(self, lease: Lease, now_s: float) -> None:
        """Add the units of this Lease to the hand-overs of this term. Called when the Lease goes into an entry."""
        self._newest.append((now_s, lease))
        while self._newest[0][0] < now_s - NEWEST_S:
            self._newest.popleft()
        if self._repeated is not None:
            return
        self._handed.append(lease)
        self._count += len(lease.position)
        if now_s - self.begun_s >= WATCH_S or self._count > HANDED_MAX:
            self._repeated = self.repeated
            self._handed.clear()
            self._carried.clear()

    def released(self, position: U64) -> None:
        """Forget leases ahead at these positions that were taken back. Their units were not handed over, so a later
        hand-over of them repeats nothing."""
        for number, carried in enumerate(self._carried):
            stays = np.isin(carried.position, position, invert=True)
            self._carried[number] = Carried(carried.position[stays], carried.ends_ms[stays])
        self._carried = [carried for carried in self._carried if len(carried.position)]
        self._released = np.concatenate([self._released, position])[-TOLD_MAX:]

    def newest(self) -> tuple[U64, I64]:
        """Positions and lease ends (ms) of the units handed over within the last NEWEST_S, the newest first."""
        leases = [lease for _, lease in reversed(self._newest)]
        position = np.concatenate([np.empty(0, np.uint64), *(lease.position for lease in leases)])
        ends_ms = np.concatenate([np.empty(0, np.int64), *(lease.lease_end_ms for lease in leases)])
        rows = np.isin(position, self._released, invert=True)
        return position[rows], ends_ms[rows]

    @property
    def repeated(self) -> int:
        """The number of units that this term handed over before their former lease had ended, in the first WATCH_S of
        the term."""
        if self._repeated is not None:
            return self._repeated
        if not self._carried or not self._handed:
            return 0
        position = np.concatenate([lease.position for lease in self._handed])
        at_ms = np.concatenate([lease.handed_over_ms for lease in self._handed])
        return len(np.unique(position[at_ms < self._carried_until(position)]))

    async def account(
        self, told: OpenHandOvers, node_id: str, clock: NodeClock, over: Callable[[], bool]
    ) -> TakeoverView:
        """Add the hand-overs that the former leader names in `told`. Wait until ACCOUNT_S after this leader was first
        able to hand over, and return the account. Raises `no-leader` if the term is over by then, or if this leader was
        not able to hand over within READY_S."""
        if told.term < self.term:
            self.told(np.frombuffer(told.positions, np.uint64), np.frombuffer(told.lease_ends_ms, np.int64))
        try:
            async with asyncio.timeout(READY_S):
                await self.ready.wait()
        except TimeoutError:
            detail = f"this node was elected, and cannot hand over yet after {READY_S:.0f} s"
            raise Problem("no-leader", detail) from None
        if self.ready_s is not None:
            await asyncio.sleep(self.ready_s + ACCOUNT_S - clock.monotonic())
        if over() or self.ready_s is None:
            raise Problem("no-leader", "this node leads no more")
        return TakeoverView(
            node=node_id,
            term=self.term,
            ready_us=int((clock.monotonic() - self.ready_s) * 1e6),  # rounded down: the gap is never too short
            in_flight_carried=self.in_flight,
            repeated=self.repeated,
        )
