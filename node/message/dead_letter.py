"""Messages that were given up: lists them page by page.

A message's end is recorded at its home. So the dead messages of an hour are found among those born in it, wherever they
died. They are looked for hour by hour, in pieces. Between two pieces the loop does other work, and this node checks
that it still leads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, NamedTuple

import numpy as np

from api.port.problem import FieldFault, Problem
from api.port.queries import DeadMessage, DeadPage, DeadQuery
from node.handover.term import Leads
from node.settle.move_size import move_pieces, move_weights
from node.settle.retry import reason_of
from storage.format.array import U64
from storage.format.message_id import encode_ids
from storage.format.position import GONE, INDEX_BITS
from storage.format.predicate import tags_mask
from storage.format.states import DEAD
from storage.record.record import Record
from storage.store import Store
from storage.tables.topic import Topic

#: So many homes are looked at in one piece, and records of such a weight are read (as in node/settle/move_size.py).
LOOK_ROWS: Final = 65_536
READ_WEIGHT: Final = 256


class _Dead(NamedTuple):
    """A dead message: its home, the position where it died, and its record there."""

    home: int
    place: int
    record: Record


class DeadLetters:
    """Lists dead messages on one node. The caller has checked that the node leads. `leads` returns the
    term, and raises a Problem unless the node may answer as leader at this moment."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def page(self, topic: Topic, query: DeadQuery, leads: Leads) -> DeadPage:
        """Return the first `query.limit` dead messages that match, of those behind the query's cursor."""
        found: list[DeadMessage] = []
        homes: list[int] = []
        async with aclosing(self._matching(topic, query, _read_cursor(query.cursor), leads)) as pieces:
            async for piece in pieces:
                found += self._shown(piece)  # before the next piece: later some may be gone, and records take memory
                homes += [dead.home for dead in piece]
                if len(found) > query.limit:
                    return DeadPage(found[: query.limit], f"{homes[query.limit - 1]:016x}")
        return DeadPage(found)

    async def _matching(self, topic: Topic, query: DeadQuery, after: int, leads: Leads) -> AsyncGenerator[list[_Dead]]:
        """Yield all dead messages that match and whose homes are greater than `after`, in pieces. No piece is empty."""
        for hour in self._store.ended_hours(max(after, 0) >> INDEX_BITS):
            begin, end = self._store.span(hour)
            for first in range(max(begin, after + 1), end, LOOK_ROWS):
                await asyncio.sleep(0)
                leads()
                homes = self._store.born_in_state(first, min(first + LOOK_ROWS, end), DEAD)
                candidates = self._candidates(topic, query, homes)
                for rows in move_pieces(move_weights(self._store, candidates), READ_WEIGHT):
                    piece = self._read(query, candidates[rows])
                    if piece:
                        yield piece
                    await asyncio.sleep(0)
                    leads()

    def _candidates(self, topic: Topic, query: DeadQuery, homes: U64) -> U64:
        """The homes of those messages at `homes` that are still dead, of the topic, and may have the query's tag by
        their units' tag masks."""
        homes = self._still_dead(homes)
        units = self._store.units(homes)
        rows = units["topic"] == topic.number
        if query.tag is not None:
            mask = np.uint64(tags_mask([query.tag.encode()]))
            rows &= (units["tags"] & mask) == mask
        candidates: U64 = homes[rows]
        return candidates

    def _read(self, query: DeadQuery, homes: U64) -> list[_Dead]:
        """Read the records of the messages at these homes that are still dead. Return the messages that match."""
        store = self._store
        homes = self._still_dead(homes)
        places = store.last_places(homes)
        there = places != np.uint64(GONE)
        homes, places = homes[there], places[there]
        found = map(_Dead, homes.tolist(), places.tolist(), store.records(places))
        return [dead for dead in found if _matches(query, dead.record)]

    def _still_dead(self, homes: U64) -> U64:
        """Those of `homes` whose messages are still dead. The loop did other work since they were found, so some
        messages may have been redriven, or their hour unlinked."""
        dead: U64 = homes[self._store.state_only(homes) == DEAD]
        return dead

    def _shown(self, found: list[_Dead]) -> list[DeadMessage]:
        store = self._store
        homes = np.array([dead.home for dead in found], np.uint64)
        places = np.array([dead.place for dead in found], np.uint64)
        ids = encode_ids(store.group, homes, np.array([dead.record.random for dead in found], np.uint64))
        units, ends = store.units(places), store.newest(homes)
        attempts = np.maximum(store.states(places).attempt, units["attempt"])
        columns = (ids, units["due_ms"], ends["at_ms"], ends["code"], attempts)
        return [
            DeadMessage(
                id=id.decode(),
                due_ms=due_ms,
                asked_due_ms=record.asked_due_ms,
                died_ms=died_ms,
                reason=reason_of(code),
                attempts=attempt,
                tags=record.tags,
                key=record.key.decode() if record.key else None,
            )
            for (_, _, record), id, due_ms, died_ms, code, attempt in zip(
                found, *(column.tolist() for column in columns), strict=True
            )
        ]


def _matches(query: DeadQuery, record: Record) -> bool:
    return (
        (query.from_ms is None or record.asked_due_ms >= query.from_ms)
        and (query.to_ms is None or record.asked_due_ms < query.to_ms)
        and (query.tag is None or query.tag in record.tags)
    )


def _read_cursor(cursor: str | None) -> int:
    """The home of the last message of the page before; -1 for the first page."""
    if cursor is None:
        return -1
    if len(cursor) == 16 and set(cursor) <= set("0123456789abcdef"):
        return int(cursor, 16)
    detail = "the cursor is not one of a page of dead messages; send next_cursor as it came"
    raise Problem("invalid-field", detail, errors=[FieldFault("", detail, parameter="cursor")])
