"""How this node came to lead, and which hand-overs of former leaders may be missing from the Raft log.

    founds     no node led before: nothing is in doubt
    given      the former leader gave leadership away, and its own Promotion is applied: all its hand-overs are in the
               log
    elected    messages that were there, and can have been due by the former leader's clock, are in doubt
               (storage/catalog/doubt.py)

The clocks of two nodes are not compared. A message is in doubt if it was due by the latest time that a right clock of a
former leader can have shown. Right clocks differ by at most a known span.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from api.port.problem import Problem
from node.runtime.clock import NodeClock
from node.write.proposer import Proposer
from replication.apply.machine import Machine
from replication.apply.message.doubtful import DOUBTFUL_FIELD, doubtful_at
from replication.command.dispatch import HANDED_ON, Promotion
from storage.catalog.doubt import CLOCKS_MS, NO_DOUBT, Doubt
from storage.format.array import U64, Mask
from storage.format.level import has
from storage.format.position import HOUR_MS, MS_PER_TICK
from storage.record.record import Record
from storage.store import Store

#: The pause before the Promotion is proposed again. A refusal may come at once, and without it the loop would spin.
AGAIN_S: Final = 0.02


class Promoted:
    """The promotion of one term. Make it when all entries of earlier terms are applied, and of this term at most the
    no-op and the Genesis."""

    def __init__(
        self, term: int, store: Store, proposer: Proposer, latest_ms: int, *, founds: bool, given: bool
    ) -> None:
        """`latest_ms`: no former leader can have taken a unit for due whose due time is later. `founds`: the cluster is
        founded in this term. `given`: the former leader gave leadership to this node. The attribute `until_ms` is the
        time in the Promotion command: `latest_ms`, or HANDED_ON if nothing is in doubt."""
        self._term, self._store, self._proposer = term, store, proposer
        known = founds or (given and store.doubt.term == term - 1)
        self.until_ms = HANDED_ON if known else latest_ms
        self._doubt = NO_DOUBT if known else Doubt.at(store.span, latest_ms)

    async def say(self, over: Callable[[], bool]) -> None:
        """Propose the Promotion again and again until it is applied. Do nothing if the cluster's level does not have
        this command. `over` returns True once the term is over."""
        while has(self._store.level, "doubt") and self._store.doubt.term < self._term and not over():
            try:
                await self._proposer.propose_single(Promotion(self.until_ms))
            except Problem:  # the outcome is unknown, and a second one says the same
                await asyncio.sleep(AGAIN_S)

    def doubts(self, homes: U64, places: U64, records: Sequence[Record]) -> Mask:
        """See Term. A lease ahead that has not begun raises no doubt, because the caller's command takes it back in the
        same entry."""
        doubtful: Mask = np.array([DOUBTFUL_FIELD in record.extension for record in records], np.bool_)
        for at in (places,) if has(self._store.level, "doubt") else (homes, places):
            units = self._store.units(at)
            for doubt in (self._store.doubt, self._doubt):
                doubtful |= doubtful_at(self._store, doubt, at, heard=True, units=units)
        return doubtful


def latest_due_ms(clock: NodeClock, machine: Machine, some_right_ms: float) -> int:
    """The latest due time that the clock of a former leader may have reached. If no later hour has units, it is at most
    the end of the last hour that has some. `some_right_ms` says how far ahead of this node's clock a right clock may
    be.

    If one of two clocks is hours ahead, no node can say which is right. The time is kept as early as possible. In all
    hours before its last two, a doubt also covers messages that came after the change of leader.
    """
    by_clocks_ms = clock.own_ms() + round(some_right_ms)
    latest_ms = max(by_clocks_ms, machine.dispatched.now_ms, machine.tick * MS_PER_TICK) + CLOCKS_MS
    hours = machine.store.hours(end=latest_ms // HOUR_MS + 1)
    return min(latest_ms, (hours[-1] + 1) * HOUR_MS - 1 if hours else 0)
