"""Decides when to checkpoint, and trims the journal after a checkpoint.

A checkpoint bounds how much a restart replays, and how much memory far hours hold. Its cheap parts run on the loop.
Writing and syncing run in a thread, so that no hand-over waits for a disk.

The order, and why: the journal has everything already, because the group applies an entry only when this disk has it.
Then the files are synced, then LMDB's one transaction. Only then segments of the journal are unlinked, and only those
that no node needs (journal_trim.py).

Nodes that start together and take the same entries would checkpoint together, every time. The journals of a majority
would wait for busy disks at once. So each node has its own phase, and its own limits:

    time     moments `checkpoint_s` apart, from the start on, whatever else asks for checkpoints; idle ones pass unused
    bytes    the configured limits less half the phase: nodes that checkpoint together once do not do so again
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from node.runtime.config import StorageOptions
from replication.apply.machine import Machine
from replication.journal.journal import Journal
from replication.snapshot.in_thread import in_thread
from replication.wire.periodic import next_look
from storage.checkpoint.job import CheckpointJob
from storage.checkpoint.kept_hours import KeptHours

_MB = 1 << 20
CHECK_S = 0.25


class Checkpointer:
    """Makes a checkpoint of one node's store when a limit is reached, and then trims its journal.

    `needed_from` returns the index of the oldest entry that other nodes may need. `phase` shifts this node's
    checkpoints against those of the others, 0 <= phase < 1 (see `phase_of`).
    """

    def __init__(
        self,
        machine: Machine,
        journal: Journal,
        options: StorageOptions,
        *,
        monotonic: Callable[[], float],
        needed_from: Callable[[], int],
        phase: float = 0.0,
    ) -> None:
        self._machine = machine
        self._journal = journal
        self._options = options
        self._monotonic = monotonic
        self._needed_from = needed_from
        self._due_s = monotonic() + options.checkpoint_s - phase * options.checkpoint_s
        self._bytes_max = int((1 - phase / 2) * options.checkpoint_journal_mb * _MB)
        self._staged_max = int((1 - phase / 2) * options.staged_mb * _MB)
        self._last_bytes = journal.written_bytes
        self.index = machine.applied_index
        self.kept = KeptHours(machine.store.checkpoint)
        """The hours of the last durable checkpoint, for the metrics about old hours."""
        self._one_at_a_time = asyncio.Lock()

    async def run(self) -> None:
        """Checkpoint each time that one of the limits is reached, until cancelled. Raises the error of a checkpoint,
        which ends the process."""
        while True:
            await next_look(CHECK_S)
            if self._wanted():
                await self.checkpoint()

    def _wanted(self) -> bool:
        store = self._machine.store
        late = self._monotonic() >= self._due_s
        if store.cluster_id is None or (self._machine.applied_index == self.index and not store.left_by_start):
            self._pass_moments()
            return False
        return (
            late
            or self._journal.written_bytes - self._last_bytes >= self._bytes_max
            or store.staged_bytes >= self._staged_max
        )

    def _pass_moments(self) -> None:
        """If the time of a checkpoint has come, move it on by whole periods of `checkpoint_s` until it lies in the
        future."""
        late_s = self._monotonic() - self._due_s
        if late_s >= 0:
            self._due_s += (late_s // self._options.checkpoint_s + 1) * self._options.checkpoint_s

    async def checkpoint(self) -> None:
        """Make one checkpoint of all that is applied now. If one is under way, wait for its end first."""
        async with self._one_at_a_time:
            await self._checkpoint()

    async def _checkpoint(self) -> None:
        self._pass_moments()
        self._last_bytes = self._journal.written_bytes
        index = self._machine.applied_index
        job = self._machine.store.begin_checkpoint(self._machine.checkpoint_record())
        try:
            kept = await in_thread(_run, job)
        except asyncio.CancelledError:
            job.finish()  # a stop waited: its own checkpoint comes after this one, and needs the files open
            raise
        job.finish()
        self.index, self.kept = index, kept
        self._journal.trim(min(index, self._needed_from()))


def phase_of(node_id: str, ids: Iterable[str]) -> float:
    """Return the phase of the node `node_id` for its Checkpointer. The nodes' phases are evenly apart. `ids` are all
    nodes that the configuration names."""
    names = sorted({*ids, node_id})
    return names.index(node_id) / len(names)


def _run(job: CheckpointJob) -> KeptHours:
    job.run()
    return KeptHours(job.catalog.record)
