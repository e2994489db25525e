"""Finds the messages that hold keys, for new messages that change them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import numpy as np

from api.port.problem import Problem
from node.handover.term import Term
from node.write.supersede_queue import Outcome
from replication.apply.message.message_location import IN_PROGRESS, find_standing
from storage.format.array import I64, U8, U64
from storage.format.message_id import encode_id
from storage.format.position import GONE
from storage.format.states import LIVES_HERE
from storage.store import Store
from storage.tables.operation_row import id_of


class Holders(NamedTuple):
    """The holders of n keys: their homes, GONE if nobody has the key or its message has ended. `doubtful` is as in
    CancelOrder. `size` has the bytes of their records, 0 for none."""

    home: U64
    doubtful: U8
    size: I64


class KeyHolders:
    """Looks at the holders of keys on one node. `refusal` makes the Problem for a message that a command left as it
    is."""

    def __init__(self, store: Store, refusal: Callable[[int, str], Awaitable[Problem]]) -> None:
        self._store, self._left_as_it_is = store, refusal

    def look(self, term: Term, names: Sequence[tuple[str, bytes]]) -> Holders:
        """Find the holders of these keys, each the name of a topic and a key."""
        store, catalog = self._store, self._store.catalog
        topics = {name: catalog.topic(name) for name in {topic for topic, _ in names}}
        known = [(topics[topic], key) for topic, key in names]
        entries = [None if topic is None else catalog.key(topic.number, key) for topic, key in known]
        found = Holders(
            np.array([GONE if entry is None else entry.position for entry in entries], np.uint64),
            np.zeros(len(names), np.uint8),
            np.zeros(len(names), np.int64),
        )
        rows = np.flatnonzero(found.home != GONE)
        standing = find_standing(store, found.home[rows])
        lives = LIVES_HERE[standing.states.state].astype(np.bool_)
        found.home[rows[~lives]] = GONE
        rows, place = rows[lives], standing.place[lives]
        found.size[rows] = store.units(place)["size"]
        found.doubtful[rows] = term.doubts(found.home[rows], place, store.records(place))
        return found

    async def refusal(self, outcome: Outcome) -> Problem:
        """The Problem of a message that did not take effect. It names the holder of its key."""
        if outcome.why == IN_PROGRESS:
            id = id_of(outcome.operation)
            detail = f"operation {id} is about to move the message that has the key; wait for its end, or abort it"
            return Problem("in-progress", detail, operation=id)
        id = encode_id(self._store.group, outcome.previous, outcome.previous_random)
        refused = await self._left_as_it_is(outcome.why, id)
        return Problem(refused.code, f"message {id} has the key: {refused.detail}", **refused.extra | {"id": id})
