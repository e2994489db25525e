"""Proposes commands that need an entry of their own: a change of the members, or a rise of the level.

They go to the Raft group at once and not through the proposer's queues. Such an entry has one command.
"""

from __future__ import annotations

from collections.abc import Callable

from node.runtime.clock import NodeClock
from replication.command.entry import Packed, encode_entry
from replication.driver import GroupDriver
from replication.group import RaftGroup
from replication.raft.proposal import Outcome
from storage.format.level import FOUNDED


class OwnEntries:
    """Proposes entries of their own on one node. `number` returns the node's number in records."""

    def __init__(self, group: RaftGroup, driver: GroupDriver, clock: NodeClock, number: Callable[[], int]) -> None:
        self._group, self._driver, self._clock, self._number = group, driver, clock, number

    async def propose(self, section: Packed, version: int = FOUNDED) -> Outcome:
        """Propose one packed command. `version` is the level by which the entry is encoded. Return the outcome."""
        entry = encode_entry(
            group=self._group.number,
            term=self._group.term,
            node=self._number(),
            now_ms=self._clock.now_ms(),
            sections=[section],
            version=version,
        )
        return await self._driver.propose(entry)
