"""Lists messages in order of (due time, place), page by page.

The messages of a page are found in a thread, over hours as they are at one moment (storage/query/page.py). Then their
records are read on the loop, a few at a time, and each is shown as GET shows it, without its history. A message that
stands still is on exactly one page. One that moves meanwhile may be missed, or be on two.

Lists take turns, as counts do. One page looks at the index of a few hours at most, so a page may be short or empty
although others follow.
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec
import numpy as np

from api.port.message import MessagePage, MessageView
from api.port.port import PULL_BYTES_MAX
from api.port.problem import Problem
from api.port.queries import ListQuery
from node.handover.term import Leads, Term
from node.message.list_cursor import read_cursor, write_cursor
from node.message.selection_of import selection_of
from node.message.view import SCHEDULED_WORD, place_states, tell, view_message, view_untouched
from node.runtime.clock import NodeClock
from node.runtime.one_at_a_time import OneAtATime
from replication.apply.message.running_sets import NOBODY, owners
from replication.snapshot.in_thread import in_thread_until
from storage.format.array import U32, U64
from storage.format.message_id import encode_id, encode_ids
from storage.format.position import HOUR_MAX, HOUR_MS, INDEX_BITS, pack
from storage.format.rows import UNIT, Corrupt, Units, join_rows, take_rows
from storage.format.states import OPEN_STANDINGS, READY_WORD, UNKNOWN
from storage.query.page import HourPage, PageStart
from storage.query.selection import Selection
from storage.store import Store

#: A page looks at no further hour once it has looked at so many units, or so many hours.
LOOK_UNITS: Final = 200_000
LOOK_HOURS: Final = 1_024
#: So many hours are looked at in one turn.
TURN_HOURS: Final = 64
#: So many messages, or records of so many bytes, are shown before the loop does other work.
SHOWN_AT_ONCE: Final = 128
SHOWN_BYTES: Final = 1 << 20
#: At most so many requests list or wait to list, and at most so many of them take turns.
WAITING_MAX: Final = 64
TAKE_TURNS: Final = 16


class _Found(NamedTuple):
    """Messages in order, [n] each: positions, and their units. `rest`: where the messages behind them begin, None if
    there are none. `looked` and `hours`: how many units and hours were looked at."""

    places: U64
    units: Units
    rest: PageStart | None
    looked: int
    hours: int


@dataclasses.dataclass(slots=True)
class _Page:
    """The messages of a page so far. `settling` is as in MessagePage."""

    views: list[MessageView] = dataclasses.field(default_factory=list)
    settling: int = 0


class MessageList:
    """Lists messages on one node. The caller has checked that the node leads. `leads` returns the term, and raises a
    Problem unless the node may answer as leader at this moment."""

    def __init__(self, store: Store, clock: NodeClock) -> None:
        self._store, self._clock = store, clock
        self._turns = OneAtATime("lists", WAITING_MAX, TAKE_TURNS)

    async def page(self, query: ListQuery, leads: Leads) -> MessagePage:
        """Return the page that begins at the query's cursor. Raises `unknown-topic`, `over-limit`, and `invalid-field`
        for a cursor of another query or another cluster."""
        cluster = self._store.cluster_id
        assert cluster is not None, "a leader's cluster is founded"
        rest: PageStart | None = PageStart(query.from_ms or 0, 0)
        if query.cursor is not None:
            rest = read_cursor(query.cursor, query, cluster)
        selection = dataclasses.replace(selection_of(self._store, query), term=leads().term)
        page = _Page()
        looked = hours = 0
        async with self._turns.shared() as turn:
            while rest is not None and len(page.views) < query.limit and looked < LOOK_UNITS and hours < LOOK_HOURS:
                async with turn:
                    found = await self._look(selection, rest, query.limit - len(page.views))
                rest = found.rest
                looked, hours = looked + found.looked, hours + found.hours
                if (unshown := await self._show(found, query, page, leads)) is not None:
                    rest = unshown
                    break
        cursor = None if rest is None else write_cursor(rest, query, cluster)
        return MessagePage(page.views, cursor, page.settling)

    async def _look(self, selection: Selection, begin: PageStart, most: int) -> _Found:
        """Find the first selected messages from `begin` on, in the next hours. They are read in a thread."""
        pages, behind = self._pages(selection, begin, most)
        stop = threading.Event()
        found, damaged = await in_thread_until(stop, _read_all, pages, behind, most, stop.is_set)
        for page, error in damaged:
            if self._store.is_linked(page.source):
                raise error
        return found

    def _pages(self, selection: Selection, begin: PageStart, most: int) -> tuple[list[HourPage], PageStart | None]:
        """Return the pages of the next hours that may have selected messages, and where the hours behind them begin."""
        store, now_ms = self._store, self._clock.now_ms()
        pages: list[HourPage] = []
        units = 0
        for hour in self._hours(selection, begin):
            if (found := store.selectable(hour, selection)) is None:
                continue
            if units >= LOOK_UNITS or len(pages) == TURN_HOURS:
                return pages, PageStart.at_hour(hour)
            pages.append(HourPage(found, selection, now_ms, begin, most))
            units += found.units
        return pages, None

    def _hours(self, selection: Selection, begin: PageStart) -> list[int]:
        """The hours that may have selected messages from `begin` on."""
        first = begin.due_ms // HOUR_MS
        last = HOUR_MAX if selection.which.to_ms is None else min(HOUR_MAX, (selection.which.to_ms - 1) // HOUR_MS)
        if first > last:
            return []
        if selection.standings <= OPEN_STANDINGS:
            return self._store.open_hours(first, last)
        return self._store.hours(first, last + 1)

    async def _show(self, found: _Found, query: ListQuery, page: _Page, leads: Leads) -> PageStart | None:
        """Add the found messages to the page. Return where those begin that would make it too large, None if there are
        none."""
        views, size = page.views, sum(len(view.body) for view in page.views)
        for piece in _pieces(found.units["size"]):
            await asyncio.sleep(0)
            shown, with_history = self._views(found.places[piece], found.units[piece], query, leads())
            for row in with_history:
                if (view := await self._told(int(found.places[piece][row]), query, leads)) is not None:
                    shown[row] = view
            settling = self._settling(found.places[piece], shown)
            for row, view in sorted(shown.items()):
                size += len(view.body)
                if views and size > PULL_BYTES_MAX:
                    at = piece.start + row
                    return PageStart(int(found.units["due_ms"][at]), int(found.places[at]))
                views.append(view)
                page.settling += row in settling
        return None

    def _settling(self, places: U64, shown: Mapping[int, MessageView]) -> Collection[int]:
        """The shown messages that a running cancel has not reached yet, by the rows of their places."""
        waiting = [row for row, view in shown.items() if view.state in (SCHEDULED_WORD, READY_WORD)]
        at = places[waiting]
        found = owners(self._store, at, self._store.states(at))
        return () if found is None else [waiting[row] for row in np.flatnonzero(found.cancel != NOBODY).tolist()]

    def _views(
        self, places: U64, units: Units, query: ListQuery, term: Term
    ) -> tuple[dict[int, MessageView], list[int]]:
        """Show the messages that still stand at these places in a wanted state, by the row of the place. Return also
        the rows of those that have a history. They are not shown yet, because histories take long to read."""
        store, now_ms = self._store, self._clock.now_ms()
        rows = np.flatnonzero(store.state_only(places) != UNKNOWN)  # an hour may have been unlinked meanwhile
        there = places[rows]
        homes = store.homes(there)
        told = (store.newest(there)["what"] != 0) | (homes != there)
        with_history = rows[told].tolist()
        rows, there = rows[~told], there[~told]
        shown: dict[int, MessageView] = {}
        its = take_rows(units, rows)
        records = store.records(there, its)
        ids = encode_ids(store.group, there, np.array([record.random for record in records], np.uint64))
        topics = {number: store.catalog.topic_by_number(number) for number in {record.topic for record in records}}
        columns = (rows.tolist(), its["due_ms"].tolist(), records, ids.astype(str).tolist())
        for row, due, record, id in zip(*columns, strict=True):
            state = READY_WORD if due <= now_ms else SCHEDULED_WORD
            if state in query.states:
                shown[row] = view_untouched(record, id, state, due, topics[record.topic], body=query.body)
        return shown, with_history

    async def _told(self, place: int, query: ListQuery, leads: Leads) -> MessageView | None:
        """Show a message that has a history. None if it does not stand at this place in a wanted state any more."""
        store, at = self._store, np.array([place], np.uint64)
        if store.state_only(at)[0] == UNKNOWN:
            return None
        home, record = int(store.homes(at)[0]), store.records(at)[0]
        try:
            found, told = await tell(store, encode_id(store.group, home, record.random))
        except Problem as gone:
            if gone.code != "unknown-message":
                raise
            return None
        term = leads()
        if found.place != place:
            return None
        view = view_message(
            store,
            found if query.body else found._replace(record=msgspec.structs.replace(record, body=b"")),
            encode_id(store.group, home, record.random),
            stands=next(place_states(store, at, term.term)),
            topic=store.catalog.topic_by_number(record.topic),
            now_ms=self._clock.now_ms(),
            term=term.term,
            told=told,
            leads=True,
            leased_ahead=term.handing_over.strict.leased_ahead(place),
        )
        return view if view.state in query.states else None


def _pieces(size: U32) -> Iterator[slice]:
    """Yield rows of records of these sizes, some at a time: up to SHOWN_AT_ONCE, or SHOWN_BYTES."""
    first = 0
    while first < len(size):
        bytes_to = np.cumsum(size[first : first + SHOWN_AT_ONCE], dtype=np.int64)
        most = max(1, int(np.searchsorted(bytes_to, SHOWN_BYTES, side="right")))
        yield slice(first, first + most)
        first += most


def _read_all(
    pages: list[HourPage], behind: PageStart | None, most: int, stopped: Callable[[], bool]
) -> tuple[_Found, list[tuple[HourPage, Corrupt]]]:
    """Read pages until `most` messages are found. Return the messages, and the pages that found damaged data, with
    their errors. `behind` is where the hours behind these pages begin."""
    places, found = [np.empty(0, np.uint64)], [np.empty(0, UNIT)]
    damaged: list[tuple[HourPage, Corrupt]] = []
    rest, count, looked = behind, 0, 0
    left = deque(pages)
    while left and count < most and not stopped():
        page = left.popleft()
        looked += page.units
        try:
            listed = page.run(stopped)
        except Corrupt as error:
            damaged.append((page, error))
            continue
        units = listed.units[: most - count]
        found.append(units)
        places.append(units["global_index"] | np.uint64(page.source.number << INDEX_BITS))
        count += len(units)
        if len(units) < len(listed.units):
            last = int(units["due_ms"][-1]), int(units["global_index"][-1])
            rest = PageStart.behind(last[0], pack(page.source.number, last[1]))
            break
        if listed.next is not None:
            rest = listed.next
            break
    else:
        if left:
            rest = PageStart.at_hour(left[0].source.number)
    for page in left:
        page.close()
    hours = len(pages) - len(left)
    return _Found(np.concatenate(places), join_rows(found, UNIT), rest, looked, hours), damaged
