"""How this node came to lead, and what former leaders may have handed over without a record of it.

    founds     no node led before: nothing to doubt
    given      the former leader gave leadership away, and its own Promotion is in the log: all it did is there
    elected    messages that were there, and can have been due by its clock, are in doubt (storage/catalog/doubt.py)

Clocks of two nodes are not compared. The bound is the latest due time that a right clock can have reached when a former
leader used it. Right clocks differ by at most a known span.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import numpy as np

from api.port.problem import Problem
from node.runtime.clock import NodeClock
from node.write.proposer import Proposer
from replication.apply.machine import Machine
from replication.apply.message.doubtful import DOUBTFUL_FIELD, doubtful_at
from replication.command.promotion import HANDED_ON, Promotion
from storage.catalog.doubt import CLOCKS_MS, NO_DOUBT, Doubt
from storage.format.level import has
from storage.format.position import HOUR_MS, MS_PER_TICK
from storage.record.record import Record
from storage.store import Store

#: Between two tries to propose it, because a refusal may come at once.
AGAIN_S: Final = 0.02


class Promoted:
    """The promotion of one term. Made when all entries of earlier terms are applied, and of this term only the no-op
    and the founding of the cluster."""

    def __init__(
        self, term: int, store: Store, proposer: Proposer, latest_ms: int, *, founds: bool, given: bool
    ) -> None:
        """`latest_ms`: units due later were not due for any former leader. `founds`: the cluster is founded in this
        term. `given`: leadership was given to this node. `until_ms`: the time in the Promotion."""
        self._term, self._store, self._proposer = term, store, proposer
        known = founds or (given and store.doubt.term == term - 1)
        self.until_ms = HANDED_ON if known else latest_ms
        self._doubt = NO_DOUBT if known else Doubt.at(store.span, latest_ms)

    async def say(self, over: Callable[[], bool]) -> None:
        """Put the Promotion into the log, from the level on that knows it. `over`: True if the term is over."""
        while has(self._store.level, "doubt") and self._store.doubt.term < self._term and not over():
            try:
                await self._proposer.propose_single(Promotion(self.until_ms))
            except Problem:  # the outcome is unknown, and a second one says the same
                await asyncio.sleep(AGAIN_S)

    def doubts(self, home: int, place: int, record: Record) -> bool:
        """True if a former leader may have handed this message over without a record of it. The log judges plans: one
        that has not begun is taken back in the entry of the command that asks."""
        if DOUBTFUL_FIELD in record.extension:
            return True
        places = [place] if has(self._store.level, "doubt") else [home, place]
        return any(
            doubtful_at(self._store, doubt, np.array(places, np.uint64), heard=True).any()
            for doubt in (self._store.doubt, self._doubt)
        )


def latest_due_ms(clock: NodeClock, machine: Machine, some_right_ms: float) -> int:
    """The latest due time that any former leader may have reached, or the end of the last hour that has units, if that
    comes first. `some_right_ms`: a right clock may be so far ahead of this node's.

    If one clock of two is hours ahead, no node can say which is right. A doubt knows which messages of its last two
    hours are new, and takes new ones of earlier hours for old. So the time goes no further than it has to.
    """
    by_clocks_ms = clock.own_ms() + round(some_right_ms)
    latest_ms = max(by_clocks_ms, machine.dispatched.now_ms, machine.tick * MS_PER_TICK) + CLOCKS_MS
    hours = machine.store.hours(end=latest_ms // HOUR_MS + 1)
    return min(latest_ms, (hours[-1] + 1) * HOUR_MS - 1 if hours else 0)
