"""How many steps of the group the loop takes before it comes round: one, whatever asks for them."""

import asyncio
from collections.abc import Callable
from typing import cast

from replication.driver import GroupDriver
from replication.group import RaftGroup
from replication.journal.sync import Sync
from replication.journal.writer import Written


class Backlog:
    """In the place of a RaftGroup: one with much to apply, a slice in each step, and a journal that always has more."""

    def __init__(self, slices: int) -> None:
        self.slices = slices
        self.steps: list[int] = []
        self.turn = 0
        self.on_wake: Callable[[], None] = lambda: None
        self.on_fatal: Callable[[BaseException], None] = lambda error: None
        self.failure: BaseException | None = None
        self.journal = self
        self.commit_index = self.applied_index = 0

    def tick(self, *, writing: bool = False) -> bool:
        """A slice."""
        if self.slices > 0:
            self.steps.append(self.turn)
        self.slices -= 1
        return self.slices > 0

    def rest_s(self) -> float:
        """The timer is always due."""
        return 0.0

    def collect(self) -> Sync:
        """Something to write."""
        return cast(Sync, object())

    def done(self, sync: Sync) -> None:
        """It is durable."""

    def close(self) -> None:
        """The end."""


class QuickWriter:
    """Each write is done when the loop comes round."""

    def start(self, written: Written) -> None:
        """See Writer."""
        self._written = written

    def put(self, sync: Sync) -> None:
        """See Writer."""
        asyncio.get_running_loop().call_soon(self._written, sync, None)

    def close(self) -> None:
        """See Writer."""


class NoTransport:
    """Nobody to talk to."""

    async def start(self) -> None:
        """See Service."""

    async def close(self) -> None:
        """See Service."""


def test_a_backlog_is_applied_a_slice_at_a_time() -> None:
    """Each write that ends while a step is on its way to the loop added a chain of steps of its own: after twenty the
    loop was held for twenty slices, 0.4 s."""
    backlog = Backlog(200)

    async def scene() -> None:
        driver = GroupDriver(cast(RaftGroup, backlog), NoTransport(), on_fatal=print, writer=QuickWriter())
        await driver.start()
        while backlog.slices > 0:
            backlog.turn += 1
            backlog.on_wake()  # as a message does
            await asyncio.sleep(0)
        driver._closing = True

    asyncio.run(scene())
    assert len(backlog.steps) == 200
    assert max(backlog.steps.count(turn) for turn in set(backlog.steps)) <= 2, (
        "one, and one on either side of the count"
    )
