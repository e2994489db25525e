"""Measure steps of the event loop that should cost little: `python -m bench.looks`.

Each line is one step, in processor time of this process, with its bound beside:

- the search for hours that retention may remove, with a year of kept hours
- the entry that unlinks an hour of a million keys, and the entries after it, which drop these keys
- a GET, an ack and a repeated key of one message, in an old hour of ten million
- the promotion of a leader that has to go through that hour
- a start with a journal of a gigabyte of small entries.

First a store is built in a temporary directory. With the default sizes that takes 4 GB and some minutes.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from node.leader.dispatcher import Dispatcher
from node.leader.takeover import Takeover
from node.runtime.clock import NodeClock
from node.runtime.memory import settle_memory
from node.upkeep.retention import Retention
from replication.apply.machine import Machine
from replication.command.dispatch import DispatchState
from replication.command.entry import Command, encode_entry
from replication.command.genesis import Genesis
from replication.command.unlink import Unlink
from replication.journal.journal import Journal
from storage.file.disk import Disk
from storage.format.batches import SettleBatch, UnitBatch
from storage.format.position import HOUR_MS
from storage.format.states import DELIVERED, LEASED
from storage.record.record import KIND_MESSAGE, Drafts, encode_records
from storage.store import Store
from storage.tables.key import DROPPED_MAX, KeyEntry

HOUR = 490_000
BATCH = 50_000
BODY = b"x" * 100
ENTRY_BYTES = 300
DAY_MS = 86_400_000


def timed(call: Callable[[], object]) -> float:
    """Return the processor time of a call, ms."""
    begun = time.process_time()
    call()
    return (time.process_time() - begun) * 1000


class Bench:
    """A state machine on a store of its own. It gets entries as if they came from the Raft log. `rows` are the measured
    steps: name, longest ms, bound in ms, a note."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.rows: list[tuple[str, float, float, str]] = []
        self.open()
        self.apply(Genesis(bytes(16), bytes(32), ("n1",), DAY_MS, DAY_MS))
        self.store.level = 2

    def open(self) -> None:
        """Open the store, as after a restart."""
        self.store = Store.open(self.directory, disk=Disk())
        self.machine = Machine(self.store)

    def restart(self) -> None:
        """Make a checkpoint and open the store again."""
        job = self.store.begin_checkpoint(self.machine.checkpoint_record())
        job.run()
        job.finish()
        self.store.close()
        self.open()

    def apply(self, *commands: Command, now_ms: int = HOUR * HOUR_MS) -> None:
        """Make an entry of these commands and apply it as the next one."""
        sections = [command.pack() for command in commands]
        entry = encode_entry(group=0, term=1, node=1, now_ms=now_ms, sections=sections)
        self.machine.apply(self.machine.applied_index + 1, 1, entry)

    def note(self, what: str, spent_ms: Iterable[float], bound_ms: float) -> None:
        """Add a row: the longest of these steps beside its bound."""
        steps = list(spent_ms)
        self.rows.append((what, max(steps), bound_ms, f"{len(steps)} steps, {sum(steps):.0f} ms in all"))

    def append(
        self, due_ms: "np.ndarray[tuple[int], np.dtype[np.int64]]"
    ) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
        """Append to the store a unit for each of these due times. Return their positions."""
        count = len(due_ms)
        records = encode_records(Drafts([BODY] * count, due_ms, np.arange(count, dtype=np.uint64)))
        none = np.zeros(count, np.uint16)
        batch = UnitBatch(
            due_ms=due_ms,
            size=records.size,
            topic=np.ones(count, np.uint32),
            tags=np.zeros(count, np.uint64),
            kind=np.full(count, KIND_MESSAGE, np.uint8),
            priority=np.zeros(count, np.uint8),
            attempt=none,
            flags=np.zeros(count, np.uint32),
            records=records.blob,
            created_ms=HOUR * HOUR_MS,
        )
        return self.store.append(batch)

    def retention(self, hours: int) -> None:
        """Measure the search for hours that may be removed, with `hours` kept hours of one settled unit each."""
        positions = self.append(np.arange(HOUR - hours, HOUR, dtype=np.int64) * HOUR_MS)
        self.store.settle(SettleBatch.of(positions, what=DELIVERED, at_ms=HOUR * HOUR_MS))
        self.apply(DispatchState(HOUR * 3600, 0, 1))
        self.restart()
        clock = NodeClock(wall=lambda: HOUR * HOUR_MS / 1000, monotonic=lambda: 0.0)
        retention = Retention(self.machine, None, clock)  # type: ignore[arg-type]
        for name in ("first look for hours that are over", "a later look"):
            steps, spent = retention.steps(), []
            while True:
                begun = time.process_time()
                done = next(steps, None) is None
                spent.append((time.process_time() - begun) * 1000)
                if done:
                    break
            self.note(f"{name}, {hours:,} kept hours", spent, 2)

    def unlink(self, keys: int) -> None:
        """Measure the entry that unlinks an hour with `keys` keys, and the entries after it, which drop these keys."""
        hour = HOUR + 1
        for first in range(0, keys, BATCH):
            positions = self.append(np.full(min(BATCH, keys - first), hour * HOUR_MS, np.int64))
            self.store.settle(SettleBatch.of(positions, what=DELIVERED, at_ms=hour * HOUR_MS))
            for row, position in enumerate(positions.tolist(), first):
                self.store.catalog.put_key(1, b"order %032d" % row, KeyEntry(position, row, bytes(16), hour * HOUR_MS))
        state = DispatchState((hour + 1) * 3600, 0, 1)
        self.apply(state)
        self.restart()
        now_ms = (hour + 50) * HOUR_MS
        unlink = Unlink(np.array([hour], np.int64))
        self.note(
            f"the entry that unlinks an hour with {keys:,} keys", [timed(lambda: self.apply(unlink, now_ms=now_ms))], 20
        )
        spent = []
        for number in range(keys // DROPPED_MAX + 2):
            spent.append(timed(lambda: self.apply(state, now_ms=now_ms)))
            if number % 1_000 == 999:  # a checkpoint every 30 s, 33 entries a second
                self.restart()
        self.note("the entries behind it", spent, 20)

    def old_hour(self, units: int) -> None:
        """Measure a GET, an ack and a repeated key of one message, in an hour of `units` of which all but a few are
        delivered. Then measure a promotion over that hour."""
        hour = HOUR + 2
        for first in range(0, units, BATCH):
            due_ms = np.arange(first, first + BATCH, dtype=np.int64) * 7919 % HOUR_MS + hour * HOUR_MS
            positions = self.append(due_ms)
            end_ms = hour * HOUR_MS
            self.store.settle(SettleBatch.of(positions, what=LEASED, at_ms=0, when=end_ms, term=1, attempt=1))
            ended = positions[positions % np.uint64(99_991) > 0]
            self.store.settle(SettleBatch.of(ended, what=DELIVERED, at_ms=hour * HOUR_MS, term=1, attempt=1))
            if first % (20 * BATCH) == 0:
                self.restart()
        self.restart()
        at = np.array([hour << 40 | units // 3], np.uint64)
        ack = SettleBatch.of(at, what=DELIVERED, at_ms=hour * HOUR_MS, term=1, attempt=1)
        looks: list[tuple[str, Callable[[], object]]] = [
            ("GET of one message", lambda: (self.store.states(at), self.store.history(int(at[0])))),
            ("ack of one message", lambda: self.store.settle(ack)),
            ("a key that is asked again, in apply", lambda: self.store.settled_at(int(at[0]))),
        ]
        for name, look in looks:
            self.restart()
            self.note(f"{name} of an old hour of {units:,}", [timed(look)], 20)
        self.restart()
        takeover = Takeover(2, 0.0)
        takeover.begin([hour])
        spent = []
        while takeover.carrying:
            spent.append(timed(lambda: takeover.carry(self.store, 0)))
        self.note(f"leases that a promotion notes of an old hour of {units:,}", spent, 20)
        self.restart()
        now_ms = (hour + 30) * HOUR_MS
        dispatcher = Dispatcher(self.store, term=2)
        dispatcher.promote(now_ms, now_ms // 1000)
        waits: list[int | None] = [0]
        spent.clear()
        while waits[-1] == 0:
            spent.append(timed(lambda: waits.append(dispatcher.step(now_ms))))
        self.note("steps of a promotion over that hour", spent, 20)

    def journal(self, megabytes: int) -> None:
        """Measure a start with a journal of `megabytes` MiB."""
        directory = self.directory / "journal"
        directory.mkdir()
        journal = Journal.open(directory, disk=Disk())
        for index in range(1, (megabytes << 20) // (ENTRY_BYTES + 32) + 1):
            journal.add(b"%0300d" % index, index, 1)
            if index % 20_000 == 0:
                journal.sync_now()
        journal.close()
        opened: list[Journal] = []
        spent = timed(lambda: opened.append(Journal.open(directory, disk=Disk())))
        self.note(f"opening a journal of {megabytes:,} MiB, {ENTRY_BYTES} bytes an entry", [spent], 5000)
        opened[0].close()


def main() -> None:
    """Measure all steps and print them as a table, with `--json` also into a file."""
    parser = argparse.ArgumentParser(prog="python -m bench.looks", description=__doc__)
    parser.add_argument("--hours", type=int, default=8_760)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--units", type=int, default=10_000_000)
    parser.add_argument("--journal-mb", type=int, default=1_024)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    settle_memory()  # as a node does: the collector is no part of a node's step
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory))
        bench.journal(options.journal_mb)
        bench.retention(options.hours)
        bench.unlink(options.keys)
        bench.old_hour(options.units)
    table = Table("what", "worst step, CPU ms", "bound", "")
    for what, worst, bound, more in bench.rows:
        table.add_row(what, f"{worst:.2f}", f"{bound:g}" if worst <= bound else f"[red]{bound:g}", more)
    Console().print(table)
    if options.json:
        options.json.write_text(
            json.dumps([dict(zip(("what", "worst_ms", "bound_ms", "more"), row, strict=True)) for row in bench.rows])
        )


if __name__ == "__main__":
    main()
