"""The queue of messages that replace or extend the holders of their keys. An entry takes out one Supersede."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from api.port.problem import Problem
from node.port.draft import Draft, join_drafts
from node.runtime.entropy import Entropy
from node.write.command_queues import ENTRY_MOVES_MAX, MOVE_AGAIN_WEIGHT, Section, WaitingQueue, fitting, resolve
from node.write.stamp_drafts import stamp_draft
from replication.apply.message.supersede import Superseded
from replication.command.supersede import Supersede

#: So many messages may wait, and so many bytes of their records.
WAITING_MAX: Final = 20_000
WAITING_BYTES_MAX: Final = 64 * 1024 * 1024


class SupersedeOrder(NamedTuple):
    """One message with its key. `holder` is the home of the message that is held for it, GONE for none. `doubtful` is
    as in CancelOrder. `weight` is that of a move of it (node/settle/move_size.py)."""

    draft: Draft
    holder: int
    doubtful: bool
    weight: int = 1


class Outcome(NamedTuple):
    """A row of Superseded (replication/apply/message/supersede.py)."""

    status: int
    why: int
    position: int
    random: int
    due_ms: int
    revision: int
    previous: int
    previous_random: int
    attempts: int
    prior: int
    operation: int


class SupersedeQueue(WaitingQueue[SupersedeOrder, Outcome]):
    """Messages that wait. `entropy` draws the random bits of their ids."""

    def __init__(self, entropy: Entropy) -> None:
        super().__init__()
        self._entropy = entropy
        self._bytes = 0  # of the records that wait

    def add(self, thing: SupersedeOrder) -> asyncio.Future[Outcome]:
        """Add a message. Return the future of its outcome. Raises `over-limit` if too many wait."""
        size = len(thing.draft.records)
        if len(self._waiting) >= WAITING_MAX or (self._bytes and self._bytes + size > WAITING_BYTES_MAX):
            detail = f"{len(self._waiting)} messages that change the holder of a key wait to be written; send later"
            raise Problem("over-limit", detail)
        self._bytes += size
        return super().add(thing)

    def refuse(self) -> None:
        """See Queue."""
        self._bytes = 0
        super().refuse()

    def take(self, now_ms: int) -> list[Section]:
        """Return a Supersede of the messages that have waited longest, as many as ENTRY_MOVES_MAX allows."""
        if not self._waiting:
            return []
        taken = self._take(fitting(list(self._weights()), ENTRY_MOVES_MAX))
        orders = [order for order, _ in taken]
        draft = join_drafts([order.draft for order in orders])
        self._bytes -= len(draft.records)
        command = Supersede(
            stamp_draft(draft, now_ms=now_ms, random=self._entropy.id_bits(len(orders))),
            holder=np.array([order.holder for order in orders], np.uint64),
            doubtful=np.array([order.doubtful for order in orders], np.uint8),
            max_wait_ms=np.array([key.max_wait_ms for key in draft.keys], np.int64),
            due_only=np.array([key.due_only for key in draft.keys], np.uint8),
        )

        def give(results: Superseded | None, error: str | None, index: int) -> None:
            columns = None if results is None else [column.tolist() for column in results]
            for row, (_, future) in enumerate(taken):
                resolve(future, None if columns is None else Outcome(*[column[row] for column in columns]), error)

        return [(command.pack(), give)]

    def _weights(self) -> Iterator[int]:
        names: set[tuple[str, bytes]] = set()
        for order, _ in self._waiting:
            name = order.draft.topics[0], order.draft.keys[0].key
            yield order.weight + MOVE_AGAIN_WEIGHT * (name in names)
            names.add(name)
