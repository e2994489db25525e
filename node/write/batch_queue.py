"""The queue of atomic batches. An entry takes out one, so that each is written in one entry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from api.port.problem import Problem
from node.write.command_queues import Section, WaitingQueue, payload_bytes, resolve
from replication.apply.message.supersede import Superseded
from replication.command.supersede import ScheduleAll

#: Bytes of an atomic batch as it stands in its entry. An entry has room for it beside what was taken before.
ATOMIC_BYTES_MAX: Final = 9 << 19


class Batch(NamedTuple):
    """A command, with the homes of the messages that it is about to change."""

    command: ScheduleAll
    holders: Sequence[int]


class BatchOrder(NamedTuple):
    """An atomic batch. `make` returns its command when the entry is put together, and is given the entry's stamp. It
    may raise a Problem. `hold` then holds the messages that change until the outcome is known."""

    make: Callable[[int], Batch]
    hold: Callable[[Sequence[int], asyncio.Future[Any]], None]


class BatchQueue(WaitingQueue[BatchOrder, Superseded]):
    """Atomic batches that wait."""

    def take(self, now_ms: int) -> list[Section]:
        """Return a section of the batch that has waited longest. One that cannot be written gets its Problem, and the
        next one has its turn."""
        while self._waiting:
            ((order, future),) = self._take(1)
            try:
                batch = order.make(now_ms)
                packed = batch.command.pack()
                if (size := payload_bytes(packed)) > ATOMIC_BYTES_MAX:
                    detail = f"the batch takes {size} bytes of one entry, at most {ATOMIC_BYTES_MAX} may"
                    raise Problem("too-large", f"{detail}; send a smaller one")
            except Problem as problem:
                if not future.done():
                    future.set_exception(problem)
                continue
            if batch.holders:
                order.hold(batch.holders, future)
            return [(packed, _giver(future))]
        return []


def _giver(future: asyncio.Future[Superseded]) -> Callable[[Superseded | None, str | None, int], None]:
    return lambda result, error, index: resolve(future, result, error)
