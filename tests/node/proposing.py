"""What tests of the proposer share: a group that answers as told, riders, a loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from node.runtime.clock import NodeClock
from node.runtime.entropy import Entropy
from node.write.leader_commands import LeaderCommands
from node.write.proposer import Proposer
from replication.command.dispatch import DispatchState
from replication.command.entry import decode_entry
from replication.command.handover import Lease
from replication.group import RaftGroup
from replication.raft.options import GroupOptions
from replication.raft.proposal import Done, Outcome

OPTIONS = GroupOptions("n1", ())


def real_loop(main: Callable[[], Any]) -> None:
    """On a loop whose time is the clock's."""
    asyncio.run(main())


class Group:
    """Keeps what is proposed; the test says what became of it. Refuses what the real one refuses."""

    established = True
    number = 0
    term = 3

    def __init__(self) -> None:
        self.applied_index = 0
        self.open: list[tuple[bytes, Done]] = []

    def propose(self, blob: bytes, done: Done) -> None:
        assert 2 <= len(blob) <= OPTIONS.max_entry_bytes
        self.open.append((blob, done))

    def answer(self, error: str | None = None, index: int = 0) -> None:
        """The oldest proposal has this outcome, with an empty result for each of its sections."""
        blob, done = self.open.pop(0)
        applied = SimpleNamespace(refused=None, results=(None,) * len(decode_entry(blob).sections))
        done(Outcome(applied if error is None else None, error, index))

    def answer_with(self, *results: Any, index: int = 1) -> None:
        """The oldest proposal is applied with these results."""
        _, done = self.open.pop(0)
        done(Outcome(SimpleNamespace(refused=None, results=results), None, index))


class Riders:
    """Has Leases for one entry each time it is loaded; notes what it is told."""

    def __init__(self) -> None:
        self.loaded = 0
        self.moving = False
        self.told: list[str] = []

    def collect(self, now_ms: int, *, going: bool) -> LeaderCommands:
        if not self.loaded:
            return LeaderCommands(state=DispatchState(1, 2, 3) if self.moving else None)
        self.loaded -= 1
        one = np.ones(1, np.int64)
        return LeaderCommands(Lease(one.astype(np.uint64), one.astype(np.uint16), one, one))

    def committed(self) -> None:
        self.told.append("committed")

    def returned(self) -> None:
        self.told.append("returned")


def run(test: Callable[[Proposer, Group, Riders], Any], on: Callable[[Any], object] = real_loop) -> None:
    """Run a test on a loop of its own, or on virtual time."""

    async def go() -> None:
        group, riders = Group(), Riders()
        proposer = Proposer(cast(RaftGroup, group), NodeClock(), Entropy(), node=1, waiting_max=200_000, fatal=failed)
        proposer.riders = riders
        await test(proposer, group, riders)

    on(go)


def failed(error: BaseException) -> None:
    """A flush must not fail."""
    raise error


async def turns() -> None:
    """Let what was asked for in this iteration of the loop happen."""
    for _ in range(5):
        await asyncio.sleep(0)
