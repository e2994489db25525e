"""Finds hours that may be unlinked. The leader proposes to unlink them, and every node does so at the same entry.

An hour is over when the tick has passed it and every unit in it ended longer ago than both retentions. The state
machine checks the same again when it applies the command. The leader's search only avoids useless entries. One
directory is removed per hour, whatever it held, when a checkpoint without it is durable. No file is rewritten.

If hours are exported, the leader also waits until it has exported all present rows of the hour (node/upkeep/export.py).
Exports are not in the log, and only the leader itself knows of its own. Hours are the same on all nodes, so one export
of one node is enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import numpy as np

from node.runtime.clock import NodeClock
from node.write.proposer import Proposer
from replication.apply.machine import Machine
from replication.command.unlink import Unlink

#: Most hours in one command. Other hours go with later commands.
HOURS_MAX = 100
#: Hours that are checked in one step of the loop.
LOOK_HOURS = 64
#: Hours whose files are read in one step of the loop. The first look at an hour after a start opens its files, which
#: takes a third of a millisecond to two.
READ_HOURS = 1


class Retention:
    """Finds hours that are over, and proposes to unlink them. Only a leader uses it, every RETENTION_S or more often.
    `exported` returns true for an hour that no export needs any more."""

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
        """Return the hours to unlink now, oldest first, HOURS_MAX at most."""
        return [hour for found in self.steps() for hour in found][:HOURS_MAX]

    def steps(self) -> Iterator[list[int]]:
        """Search the hours that are past, and yield those that are over, a few at a time. Each step is short, however
        many hours are kept."""
        store = self._machine.store
        genesis = store.catalog.genesis
        if genesis is None:
            return
        before_ms = self._clock.now_ms() - max(genesis.retention_ms, genesis.key_retention_ms)
        past = store.hours(0, self._machine.tick // 3600)
        over: list[int] = []
        looked = read = 0
        for hour in past:
            if not store.unsettled(hour):
                read += not store.settled_known(hour)
                if store.settled_ms(hour) < before_ms and self._exported(hour):
                    over.append(hour)
            looked += 1
            if looked == LOOK_HOURS or read == READ_HOURS:
                yield over
                over, looked, read = [], 0, 0
        yield over

    async def propose(self) -> int:
        """Propose to unlink hours that are over, HOURS_MAX at most. Return the number of hours that were unlinked.
        Raises a Problem if the leader changes."""
        hours: list[int] = []
        for found in self.steps():
            hours += found
            if len(hours) >= HOURS_MAX:
                break
            await asyncio.sleep(0)
        command = Unlink(np.array(hours[:HOURS_MAX], np.int64))
        return int(await self._proposer.propose_single(command)) if hours else 0
