"""Hours that are over: the leader proposes to unlink them, and every node does at the same entry.

An hour is over when the tick has passed it, every unit in it is settled and the last of them longer ago than both
retentions. The machine checks the same again when it applies; looking first only saves entries. One directory is
removed per hour, whatever it held, when a checkpoint without it is durable: nothing is rewritten.

Where hours are exported the leader also waits until it has exported the hour as it stands (node/export.py). That is its
own to know and no part of the log: hours are the same on all nodes, so one export of one is enough.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from node.clock import NodeClock
from node.proposer import Proposer
from replication.command import Unlink
from replication.machine import Machine

#: Hours in one command; the rest goes in the next round.
HOURS_MAX = 100


class Retention:
    """Asked now and then by the leader."""

    def __init__(
        self,
        machine: Machine,
        proposer: Proposer,
        clock: NodeClock,
        exported: Callable[[int], bool] = lambda hour: True,
    ) -> None:
        self._machine = machine
        self._exported = exported
        self._proposer = proposer
        self._clock = clock

    def over(self) -> list[int]:
        """The hours to unlink now, oldest first."""
        store = self._machine.store
        genesis = store.catalog.genesis
        if genesis is None:
            return []
        kept_ms = max(genesis.retention_ms, genesis.key_retention_ms)
        past = (hour for hour in store.hours() if (hour + 1) * 3600 <= self._machine.tick)
        now_ms = self._clock.now_ms()
        over = (h for h in past if not store.unsettled(h) and store.settled_ms(h) + kept_ms < now_ms)
        return [h for h in over if self._exported(h)][:HOURS_MAX]

    async def propose(self) -> int:
        """Unlink what is over; how many hours went."""
        hours = self.over()
        return int(await self._proposer.propose_single(Unlink(np.array(hours, np.int64)))) if hours else 0
