"""The queue of messages that replace or extend the holders of their keys. An entry takes out one Supersede."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from api.port.problem import Problem
from node.port.draft import Draft, join_drafts
from node.runtime.entropy import Entropy
from node.write.command_queues import ENTRY_MOVES_MAX, MOVE_AGAIN_WEIGHT, Section, WaitingQueue, problem_of, resolve
from node.write.stamp_drafts import stamp_draft
from replication.apply.message.supersede import Superseded
from replication.command.supersede import Changes, Supersede
from storage.format.position import GONE

#: So many messages may wait, and so many bytes of their records.
WAITING_MAX: Final = 20_000
WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
UNKNOWN_DETAIL: Final = (
    "the leader or the disks failed meanwhile; look the message of this key up before you send again"
)
#: What a look at a holder weighs, beside the move. So an entry has 140 small messages, in 60 ms of the loop.
LOOK_WEIGHT: Final = 6


class Looked(NamedTuple):
    """The holder of a key: its home, GONE if nobody has the key. `doubtful` is as in CancelOrder. `weight` is that of a
    move of the larger of the two messages (node/settle/move_size.py)."""

    holder: int
    doubtful: bool
    weight: int


class SupersedeOrder(NamedTuple):
    """One message with its key. `look` finds the holder of the key, and is called when the entry is put together.
    `hold` then holds this message until the outcome is known."""

    draft: Draft
    look: Callable[[], Looked]
    hold: Callable[[Sequence[int], asyncio.Future[Any]], None]


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
        """Return a Supersede of the messages that have waited longest, as many as ENTRY_MOVES_MAX allows. Their holders
        are looked up here, when all earlier entries are applied. So a message rarely names another holder than its key
        has, and messages with the same key take effect in their order."""
        looked = self._look()
        taken = self._take(len(looked))
        if not taken:
            return []
        for (order, future), found in zip(taken, looked, strict=True):
            if found.holder != GONE:
                order.hold([found.holder], future)
        draft = join_drafts([order.draft for order, _ in taken])
        self._bytes -= len(draft.records)
        changes = Changes(
            holder=np.array([found.holder for found in looked], np.uint64),
            doubtful=np.array([found.doubtful for found in looked], np.uint8),
            max_wait_ms=np.array([key.max_wait_ms for key in draft.keys], np.int64),
            due_only=np.array([key.due_only for key in draft.keys], np.uint8),
        )
        messages = stamp_draft(draft, now_ms=now_ms, random=self._entropy.id_bits(len(taken)))
        command = Supersede(messages, changes)

        def give(results: Superseded | None, error: str | None, index: int) -> None:
            columns = None if results is None else [column.tolist() for column in results]
            for row, (_, future) in enumerate(taken):
                if error is not None and problem_of(error).code == "outcome-unknown" and not future.done():
                    future.set_exception(Problem("outcome-unknown", UNKNOWN_DETAIL))
                    continue
                resolve(future, None if columns is None else Outcome(*[column[row] for column in columns]), error)

        return [(command.pack(), give)]

    def _look(self) -> list[Looked]:
        """Look up the holders for the messages that go into the next entry, from the first on."""
        looked: list[Looked] = []
        names: set[tuple[str, bytes]] = set()
        room = ENTRY_MOVES_MAX
        for order, _ in self._waiting:
            found, name = order.look(), (order.draft.topics[0], order.draft.keys[0].key)
            room -= LOOK_WEIGHT + found.weight + MOVE_AGAIN_WEIGHT * (name in names)
            if looked and room < 0:
                break
            looked.append(found)
            names.add(name)
        return looked
