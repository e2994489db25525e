"""How this node came to lead, and what the leaders before may have handed over without a record of it.

    founds     nobody led before: nothing to doubt
    given      the leader before gave leadership away, and its own first word is in the log: all it did is there
    elected    what was there, and can have been due by its clock, is in doubt (storage/catalog/doubt.py)

No clock of one node is compared with another's: the bound is a time that no right clock of the nodes had passed by so
much that two of them may be apart.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import numpy as np

from api.port.problem import Problem
from replication.apply.doubtful import DOUBTFUL_FIELD, doubtful_at
from replication.command.promotion import HANDED_ON, Promotion
from storage.catalog.doubt import CLOCKS_MS, NO_DOUBT, Doubt
from storage.catalog.level import has
from storage.format.position import MS_PER_TICK
from storage.format.record import Record

if TYPE_CHECKING:
    from node.leader.leader_term import Reign
    from node.server import Node

#: Between two tries to say it: a refusal may come at once.
AGAIN_S: Final = 0.02


class Promoted:
    """One reign's; made when all entries of earlier terms are applied, and none of this one but the no-op and what
    founds the cluster. `founds`: it is founded in this term."""

    def __init__(self, node: Node, term: int, *, founds: bool = False) -> None:
        self._node, self._store, self._term = node, node.store, term
        known = founds or (node.group.given and node.store.doubt.term == term - 1)
        self._until_ms = HANDED_ON if known else _latest_ms(node)
        self._doubt = NO_DOUBT if known else Doubt.at(node.store.span, self._until_ms)

    async def say(self, reign: Reign) -> None:
        """Put it into the log, from the level on at which that says so."""
        while has(self._store.level, "doubt") and self._store.doubt.term < self._term and not reign.over:
            try:
                await self._node.proposer.propose_single(Promotion(self._until_ms))
            except Problem:  # not known to have happened: said twice, it says the same
                await asyncio.sleep(AGAIN_S)

    def doubts(self, home: int, place: int, record: Record) -> bool:
        """Whether a leader before this one may have handed this message over, or not, though nothing tells of it. Plans
        are the log's to judge: one that has not begun is taken back in the entry of what asks."""
        if DOUBTFUL_FIELD in record.extension:
            return True
        places = [place] if has(self._store.level, "doubt") else [home, place]
        return any(
            doubtful_at(self._store, doubt, np.array(places, np.uint64), heard=True).any()
            for doubt in (self._store.doubt, self._doubt)
        )


def _latest_ms(node: Node) -> int:
    """What was not due by then was not due for any leader before this one."""
    by_clocks_ms = node.clock.own_ms() + round(node.skew.some_right_ms())
    return max(by_clocks_ms, node.machine.now_ms, node.machine.tick * MS_PER_TICK) + CLOCKS_MS
