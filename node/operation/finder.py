"""Finds the messages of the set of an operation that are left, hour by hour, each in a thread."""

from __future__ import annotations

import threading
from typing import Final, NamedTuple

import numpy as np

from node.operation.reason import wanted_codes
from node.runtime.clock import NodeClock
from replication.snapshot.in_thread import in_thread_until
from storage.format.array import I64, U64
from storage.format.position import HOUR_MS, INDEX_BITS, INDEX_MAX
from storage.format.rows import Corrupt
from storage.hour.hour import Hour
from storage.query.ended_members import EndedMembers
from storage.query.hour_members import HourMembers, MemberPoint, Members
from storage.query.selection import Selection
from storage.store import Store
from storage.tables.operation_row import LAST, Point
from storage.tables.running_set import RunningSet

#: A chunk has messages of about so many hours at most. Each hour that it touches costs some 50 us on every node.
CHUNK_HOURS: Final = 64
#: So many messages are found at a time, 16 bytes each.
FOUND_ROWS: Final = 1_000_000
_NO_PLACES: Final[U64] = np.empty(0, np.uint64)
_NO_DUE: Final[I64] = np.empty(0, np.int64)


class Chunk(NamedTuple):
    """The next messages of a set, by place, and the point that is reached with them. `last`: no others are left."""

    places: U64
    end: Point
    last: bool


class Finder:
    """Finds the messages of one set, in the order of its work. `reached`: all before this point were given out."""

    def __init__(self, store: Store, clock: NodeClock, of: RunningSet, term: int) -> None:
        self._store, self._clock, self._of = store, clock, of
        self._selection = Selection(of.rule.standings, of.which, term)
        self.reached = of.operation.progress.reached
        self._rest: Point | None = self.reached  # from where on others are still to be found
        self._places, self._due_ms = _NO_PLACES, _NO_DUE  # found and not given out yet

    @property
    def ended(self) -> bool:
        """True if all were given out."""
        return self.reached == LAST

    async def found(self, most: int) -> U64:
        """The places of the next messages, at most `most`, which stay to be given out. Raises Corrupt or DiskFailed."""
        places, due_ms, count = [self._places], [self._due_ms], len(self._places)
        while self._rest is not None and count <= most and len(places) <= CHUNK_HOURS:
            more = await self._hour(self._rest)
            places.append(more[0])
            due_ms.append(more[1])
            count += len(more[0])
        if len(places) > 1:  # else a copy of a million rows for each chunk, on the event loop
            self._places, self._due_ms = np.concatenate(places), np.concatenate(due_ms)
        return self._places[:most]

    def give_out(self, count: int) -> Chunk:
        """The first `count` of the messages that `found` has shown."""
        places = self._places[:count]
        self._places, self._due_ms = self._places[count:], self._due_ms[count:]
        if len(self._places):
            due_ms = int(self._due_ms[0]) if self._of.rule.moves else 0
            self.reached = Point(due_ms, int(self._places[0]))
        else:
            self.reached = LAST if self._rest is None else self._rest
        return Chunk(places, self.reached, self.reached == LAST)

    async def _hour(self, begin: Point) -> tuple[U64, I64]:
        """The messages of the next hour that has some, from this point on: places and due times. Set where the rest
        begins."""
        hours = self._of.hours
        for hour in hours[int(np.searchsorted(hours, begin.place >> INDEX_BITS)) :].tolist():
            found = self._store.selectable(hour, self._selection)
            if found is None:
                continue
            here = begin.place >> INDEX_BITS == hour
            start = MemberPoint(begin.due_ms, begin.place & INDEX_MAX) if here else MemberPoint(0, 0)
            look, stop = self._look(found, start), threading.Event()
            try:
                members: Members = await in_thread_until(stop, look.run, stop.is_set)
            except Corrupt:
                if self._store.is_linked(found):
                    raise
                continue
            base = hour << INDEX_BITS
            self._rest = None if hour == hours[-1] else self._point((hour + 1) * HOUR_MS, (hour + 1) << INDEX_BITS)
            if members.next is not None:
                self._rest = self._point(members.next.due_ms, base | members.next.at)
            return members.at.astype(np.uint64) | np.uint64(base), members.due_ms
        self._rest = None
        return _NO_PLACES, _NO_DUE

    def _point(self, due_ms: int, place: int) -> Point:
        return Point(due_ms if self._of.rule.moves else 0, place)

    def _look(self, hour: Hour, begin: MemberPoint) -> HourMembers:
        now_ms, rule, (end, settles) = self._clock.now_ms(), self._of.rule, self._of.bounds(hour.number)
        if rule.takes_open:
            return HourMembers(hour, self._selection, now_ms, begin, end, FOUND_ROWS, by_due=rule.moves)
        codes = wanted_codes(self._of.operation.row)
        return EndedMembers(hour, self._selection, now_ms, begin, end, FOUND_ROWS, settles=settles, codes=codes)
