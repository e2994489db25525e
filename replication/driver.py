"""Runs a RaftGroup with asyncio: takes a step when something has happened, and writes the journal off the loop.

Latency is one step. Each event (a message, a proposal, a finished write, a timer) asks for a step. All requests before
the loop comes round make one step. That step sends the entries, counts the acknowledgements that came together, and
collects one write of the journal. Nothing waits for a timer. The timer is only for heartbeats and elections, and the
group says for how long it needs no step (`rest_s`).

The step hands the journal's bytes to a thread for write and fdatasync (journal/writer.py), and goes on. When they are
durable, the thread reports that on the loop. The next step releases the messages that waited for it (raft/outbox.py).
One write is under way at a time. Entries that come meanwhile go with the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from replication.group import APPLY_LATER, RaftGroup
from replication.journal.sync import Sync
from replication.journal.writer import Writer, WriterThread
from replication.raft.proposal import Outcome

LEAST_S = 0.0005
"""The shortest time for which the timer is set. With less, the timer's rounding would make it go off twice."""

PUT_OFF_S = 0.03
"""A timer that could go off later is set again only if it gains this much, because setting it has a cost."""


class Service(Protocol):
    """The transport: the driver starts it before the group and closes it after the group."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...


class GroupDriver:
    """Runs one group on the running loop from `start` to `close`. `on_fatal` is called when the group fails, and has to
    end the process.
    """

    def __init__(
        self,
        group: RaftGroup,
        transport: Service,
        *,
        on_fatal: Callable[[BaseException], None],
        writer: Writer | None = None,
    ) -> None:
        self.group = group
        self.on_step: Callable[[], object] = lambda: None
        """Called at the begin of every step."""
        self._transport = transport
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stepping = False  # a step is asked for, so no other is taken: it would ask for a step too
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = 0.0
        self._syncing: Sync | None = None
        self._closing = False
        self._stepped_by: asyncio.Future[None] | None = None  # set by the next step; None while no caller waits for it
        self._idle = asyncio.Event()
        self._idle.set()
        self._writer = writer or WriterThread()
        group.on_wake = self.wake
        group.on_fatal = on_fatal

    async def start(self) -> None:
        """Start the transport and the journal's thread, and take the first step. Raises OSError if the address is not
        available.
        """
        self._loop = asyncio.get_running_loop()
        await self._transport.start()
        self._writer.start(self._written)
        self._step()

    async def close(self) -> None:
        """Stop the group and the transport. Open proposals get `unknown`. The last write is finished, even if the
        caller is cancelled.

        The journal stays open. Its owner closes it.
        """
        self._closing = True
        self.group.close()
        if self._timer is not None:
            self._timer.cancel()
        self._tell_step()
        try:
            await self._transport.close()
            if self.group.failure is None:
                await self._idle.wait()
        finally:
            self._loop = None
            self._writer.close()

    def wake(self) -> None:
        """Ask for a step. Many calls before the loop comes round make one step."""
        if not self._stepping and self._loop is not None:
            self._stepping = True
            self._loop.call_soon(self._stepped)

    async def propose(self, blob: bytes) -> Outcome:
        """Propose a command and wait for the outcome. If the caller is cancelled, the command may still be applied."""
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def done(outcome: Outcome) -> None:
            if not answer.done():
                answer.set_result(outcome)

        self.group.propose(blob, done)
        return await answer

    async def applied(self) -> None:
        """Wait until all entries that are in the log now are applied here. Returns also when the node stops leading."""
        index = self.group.last_index
        while self.group.is_leader and self.group.applied_index < index and not self._closing:
            if self._stepped_by is None:
                self._stepped_by = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._stepped_by,))

    def _tell_step(self) -> None:
        if self._stepped_by is not None:
            self._stepped_by.set_result(None)
            self._stepped_by = None

    def _tick(self) -> None:
        self._timer = None
        if self._loop is not None and not self._stepping:
            self._step()

    def _arm(self) -> None:
        """Set the timer to the time at which the group needs a step. The timer stays as it is if it would ring less
        than PUT_OFF_S too early.

        Each heartbeat that a follower hears moves its timer to a later time. So while there is a leader the timer never
        rings.
        """
        if self._loop is None or self._closing:
            return
        at_s = self._loop.time() + max(LEAST_S, self.group.rest_s())
        if self._timer is not None:
            if self._timer_s <= at_s < self._timer_s + PUT_OFF_S:
                return
            self._timer.cancel()
        self._timer, self._timer_s = self._loop.call_at(at_s, self._tick), at_s

    def _stepped(self) -> None:
        self._stepping = False
        self._step()

    def _step(self) -> None:
        self.on_step()
        group = self.group
        sync = self._collect()
        if sync is not None and group.commit_index - group.applied_index > APPLY_LATER:
            self._writer.put(sync)  # the disk works while this step applies committed entries
            sync = None
        if group.tick(writing=self._syncing is not None):
            self.wake()
        self._tell_step()
        self._arm()
        # The write comes last if the step is short: a thread that wakes sooner has to wait for the interpreter.
        sync = sync or self._collect()
        if sync is not None:
            self._writer.put(sync)

    def _collect(self) -> Sync | None:
        """The next write of the journal, if one may begin now. None if there is nothing to write, if a write is under
        way, or if the driver closes or the group has failed.

        The caller hands the write to the thread. It counts as under way from here on.
        """
        if self._syncing is not None or self._closing or self.group.failure is not None:
            return None
        try:
            sync = self.group.journal.collect()
        except Exception as error:
            self.group.fail(error)
            return None
        if sync is not None:
            self._syncing = sync
            self._idle.clear()
        return sync

    def _written(self, sync: Sync, error: BaseException | None) -> None:
        self._syncing = None
        self._idle.set()
        if error is not None:
            self.group.fail(error)
            return
        self.group.journal.done(sync)
        if not self._stepping:
            self._step()
