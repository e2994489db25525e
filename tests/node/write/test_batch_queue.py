"""The queue of atomic batches: one an entry, and the messages that it changes are held."""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from api.port.problem import Problem
from node.write.batch_queue import ATOMIC_BYTES_MAX, Batch, BatchOrder, BatchQueue
from replication.command.schedule import Schedule
from replication.command.supersede import ScheduleAll

ROOM = 1_024


def batch_of(size: int, *holders: int) -> Batch:
    """A batch of no messages whose records take so many bytes."""
    none = np.empty(0, np.uint64)
    due_ms, sizes, topic = none.view(np.int64), none.astype(np.uint32), none.astype(np.uint16)
    return Batch(ScheduleAll(Schedule((), due_ms, sizes, bytes(size), topic, none)), holders)


def test_one_batch_an_entry_and_its_holders_are_held() -> None:
    """In the step in which the entry is put together, until the result is known."""
    held: list[tuple[list[int], asyncio.Future[Any]]] = []

    def hold(holders: Sequence[int], result: asyncio.Future[Any]) -> None:
        held.append(([*holders], result))

    async def play() -> None:
        queue, stamps = BatchQueue(), list[int]()

        def make(now_ms: int) -> Batch:
            stamps.append(now_ms)
            return batch_of(ROOM, 7, 8)

        first, second = (queue.add(BatchOrder(make, hold)) for _ in range(2))
        assert held == []
        ((_, give),) = queue.take(5)
        assert (held, stamps) == ([([7, 8], first)], [5])
        give(None, "not-leader", 0)
        with pytest.raises(Problem, match="no-leader"):
            await first
        assert not second.done()
        assert len(queue.take(6)) == 1
        assert (stamps, queue.take(7)) == ([5, 6], [])

    asyncio.run(play())


def test_a_batch_that_cannot_be_written_lets_the_next_one_go() -> None:
    """It gets its refusal, and holds nothing."""

    async def play() -> None:
        queue = BatchQueue()

        def refused(now_ms: int) -> Batch:
            raise Problem("no-leader", "the term is over")

        def hold(holders: Sequence[int], result: asyncio.Future[Any]) -> None:
            raise AssertionError("it changes nothing")

        over = queue.add(BatchOrder(refused, hold))
        large = queue.add(BatchOrder(lambda now_ms: batch_of(ATOMIC_BYTES_MAX, 7), hold))
        fits = queue.add(BatchOrder(lambda now_ms: batch_of(ROOM), hold))
        assert len(queue.take(5)) == 1
        for future, code in ((over, "no-leader"), (large, "too-large")):
            with pytest.raises(Problem, match=code):
                await future
        queue.refuse()
        assert not fits.done()

    asyncio.run(play())
