"""Measure the processor time of a message, stage by stage: `python -m bench.stages`.

This process calls every stage of a message's way through the leader, as the node calls it. It does so with 1, 64 and
1,000 messages at a time: a lone request, 64 waiting requests together, a batch. There is no network, no other node and
no wait for a disk. The figure is the processor time of this process, user and system, divided by the messages. It is
the median of many calls, so a page fault or a neighbour on the machine does not count. A checkpoint finishes the work
of many calls, so its figure is its whole time divided by the messages of them all.

Of these stages a follower runs `apply`, `leases` and `apply acks`, and its checkpoints.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np
from rich.console import Console
from rich.table import Table

from api.port.port import Limits, MessageIn, ScheduleResult
from api.read.batch import BatchIn, read_batch, render_batch
from api.routes.pull import render_pull
from bench.client.load import FAR_MS, line
from node.front.delivered import make_deliveries
from node.leader.dispatcher import Dispatcher, DispatchOptions
from node.port.codec import decode, encode
from node.port.draft import Draft, check_draft, encode_draft, join_drafts
from node.port.receipt import ReceiptColumns, Receipts
from node.pull.delivery import deliveries_of
from node.runtime.memory import settle_memory
from node.write.stamp_drafts import stamp_draft, stamp_messages
from replication.apply.machine import Applied, Machine
from replication.command.entry import Command, encode_entry
from replication.command.genesis import Genesis
from replication.command.handover import Settle
from storage.file.disk import Disk
from storage.format.array import U64
from storage.format.message_id import encode_ids
from storage.format.pieces import at_once
from storage.format.position import HOUR_MS
from storage.store import Store
from storage.tables.topic import subscription_of

SIZES = (1, 64, 1_000)
SINGLES_MAX = 64  # up to this many at a time come from as many clients
NOW_MS = 497_222 * HOUR_MS  # the start of an hour
TERM = 1
LEASE_MS = 30_000
SECRET = bytes(32)
ROUNDS = 200
MESSAGES_MAX = 100_000
"""ROUNDS: calls of a stage. MESSAGES_MAX: the most messages that a stage sees."""


@dataclass
class Times:
    """The processor seconds of each call, by stage. Stages are in the order of their first calls. Each call handles
    `rows` messages."""

    rows: int
    spent: dict[str, list[float]] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure the processor time of the block, as one call of this stage."""
        start = time.process_time_ns()
        yield
        self.spent.setdefault(name, []).append((time.process_time_ns() - start) / 1e9)

    def each_us(self) -> dict[str, float]:
        """Return the median of the calls in microseconds a message, by stage."""
        return {name: 1e6 * median(spent) / self.rows for name, spent in self.spent.items()}


class Leader:
    """A state machine on a real store, and its dispatcher. There is no Raft group: this process leads, and applies
    proposed commands at once."""

    def __init__(self, directory: Path) -> None:
        self.store = Store.open(directory, disk=Disk())
        self._machine = Machine(self.store)
        nodes = ("n1", "n2", "n3")
        self.propose(NOW_MS, Genesis(bytes(16), SECRET, nodes, retention_ms=HOUR_MS, key_retention_ms=HOUR_MS))
        self.dispatcher = Dispatcher(self.store, term=TERM, options=DispatchOptions(pace_per_step=MESSAGES_MAX))
        assert self.dispatcher.promote(NOW_MS, self._machine.tick) is None
        self._machine.told.listener = self.dispatcher

    def entry(self, now_ms: int, *commands: Command) -> bytes:
        """Return an entry with these commands."""
        return encode_entry(
            group=0, term=TERM, node=1, now_ms=now_ms, sections=[command.pack() for command in commands]
        )

    def apply(self, entry: bytes) -> Applied:
        """Apply the next entry of the log."""
        return self._machine.apply(self._machine.applied_index + 1, TERM, entry)

    def propose(self, now_ms: int, *commands: Command) -> Applied:
        """Make an entry of these commands and apply it."""
        return self.apply(self.entry(now_ms, *commands))

    def schedule(self, count: int, first_ms: int, spread_ms: int) -> None:
        """Schedule messages due from `first_ms` on, in batches."""
        for first in range(0, count, SIZES[-1]):
            rows = min(SIZES[-1], count - first)
            batch = at_once(read_batch(_batch(rows, first_ms, spread_ms, first), NOW_MS, Limits()))
            bits = np.random.default_rng(first).integers(0, 1 << 50, rows, dtype=np.uint64)
            self.propose(NOW_MS, stamp_messages(batch.messages, now_ms=NOW_MS, random=bits))

    def checkpoint(self) -> None:
        """Run all three steps of a checkpoint."""
        job = self.store.begin_checkpoint(self._machine.checkpoint_record())
        job.run()
        job.finish()

    def step(self, now_ms: int) -> None:
        """Let the dispatcher take steps until it has nothing left to do at this time."""
        while self.dispatcher.step(now_ms) == 0:
            pass


def _batch(rows: int, first_ms: int, spread_ms: int, seed: int) -> bytes:
    due_ms = first_ms + np.random.default_rng(seed).integers(0, spread_ms, rows)
    return b"\n".join(line(int(due)) for due in due_ms)


def intake(leader: Leader, times: Times, rounds: int) -> None:
    """Measure the stages of scheduling, from the bytes of a request to the bytes of its answer. The messages are due
    within the hour, then over 30 days."""
    random = np.random.default_rng(1)
    for round_ in range(rounds):
        data = _batch(times.rows, NOW_MS + HOUR_MS // 4, HOUR_MS // 2, round_)
        with times.stage("parse"):
            batch = at_once(read_batch(data, NOW_MS, Limits()))
        bits = random.integers(0, 1 << 50, times.rows, dtype=np.uint64)
        with times.stage("draft: due times, records"):
            schedule = stamp_messages(batch.messages, now_ms=NOW_MS, random=bits)
        _behind_a_front(times, batch.messages, bits)
        with times.stage("entry"):
            entry = leader.entry(NOW_MS, schedule)
        with times.stage("apply, near hours"):
            scheduled = leader.apply(entry).results[0]
        with times.stage("ids"):
            ids = encode_ids(0, scheduled.position, scheduled.random)
        _render(times, batch, ScheduleResult(ids, scheduled.due_ms, scheduled.status))
    for round_ in range(rounds):
        batch = at_once(read_batch(_batch(times.rows, NOW_MS + 3 * HOUR_MS, FAR_MS, round_), NOW_MS, Limits()))
        bits = random.integers(0, 1 << 50, times.rows, dtype=np.uint64)
        entry = leader.entry(NOW_MS, stamp_messages(batch.messages, now_ms=NOW_MS, random=bits))
        with times.stage("apply, over 30 days"):
            leader.apply(entry)


def _behind_a_front(times: Times, messages: Sequence[MessageIn], bits: U64) -> None:
    """Measure a draft that a front encodes as bytes and the leader reads. Each of up to 64 messages is a request of its
    own; 1,000 messages are one batch."""
    requests = [messages] if times.rows > SINGLES_MAX else [[message] for message in messages]
    with times.stage("draft in a front, as bytes"):
        frames = [encode(encode_draft(request)) for request in requests]
    with times.stage("draft read, joined, stamped"):
        drafts = [decode(Draft, frame) for frame in frames]
        for draft in drafts:
            check_draft(draft)
        stamp_draft(join_drafts(drafts), now_ms=NOW_MS, random=bits)


def _render(times: Times, batch: BatchIn, result: ScheduleResult) -> None:
    with times.stage("render the answer"):
        at_once(render_batch(batch, result))


def handed_over(leader: Leader, times: Times, rounds: int) -> None:
    """Measure the stages of a delivery: messages of one second are pulled and acked, `times.rows` a request."""
    count, due_ms, receipts = rounds * times.rows, NOW_MS + 5_000, Receipts(SECRET, lambda: True)
    leader.schedule(count, due_ms, 1_000)
    topic = leader.store.catalog.topic("bench")
    assert topic is not None
    subscription = subscription_of(topic.number)
    now_ms = due_ms + 1_000
    leader.step(now_ms)
    for _ in range(rounds):
        with times.stage("hand over"):
            units = leader.dispatcher.handing_over.hand_over(subscription, times.rows, LEASE_MS, now_ms, trusted=True)
        assert len(units) == times.rows, f"{len(units)} handed over"
        with times.stage("read records, ids, receipts"):
            records = leader.store.record_rows(units.position, units.units)
            made = make_deliveries(deliveries_of(units, records, TERM), leader.store.group, topic.name, receipts)
        with times.stage("render the pull"):
            render_pull(made)
        with times.stage("leases: entry and apply"):
            _commit_leases(leader, now_ms)
        texts = [delivery.receipt for delivery in made]
        with times.stage("read receipts"):
            named = ReceiptColumns.of(receipts.read(texts)[1])
        settle = Settle(named.position, named.term, named.attempt, np.zeros(len(named), np.uint16))
        entry = leader.entry(now_ms, settle)
        with times.stage("apply acks"):
            leader.apply(entry)


def _commit_leases(leader: Leader, now_ms: int) -> None:
    leader.propose(now_ms, *leader.dispatcher.collect(now_ms).commands())
    leader.dispatcher.committed()


def checkpoints(leader: Leader, count: int) -> float:
    """Return the microseconds a message of a checkpoint of `count` messages over 30 days, scheduled in batches. As many
    messages are pending already."""
    for round_ in range(2):
        leader.schedule(count, NOW_MS + 3 * HOUR_MS, FAR_MS)
        start = time.process_time()
        leader.checkpoint()
        spent = time.process_time() - start
        assert leader.store.staged_bytes == 0, f"round {round_} left something"
    return 1e6 * spent / count


def measure(directory: Path, sizes: tuple[int, ...], messages: int) -> dict[str, dict[int, float]]:
    """Return microseconds a message by stage and by messages at a time. Each part has a store of its own."""
    found: dict[str, dict[int, float]] = {}
    parts: tuple[Callable[[Leader, Times, int], None], ...] = (intake, handed_over)
    for rows in sizes:
        for part in parts:
            times = Times(rows)
            with tempfile.TemporaryDirectory(dir=directory) as own:
                leader = Leader(Path(own))
                part(leader, times, min(ROUNDS, max(1, messages // rows)))
                leader.store.close()
            for name, each_us in times.each_us().items():
                found.setdefault(name, {})[rows] = each_us
    with tempfile.TemporaryDirectory(dir=directory) as own:
        leader = Leader(Path(own))
        each_us = checkpoints(leader, max(SIZES[-1], messages))
        leader.store.close()
    found["checkpoint, over 30 days"] = {sizes[-1]: each_us}
    return found


def main() -> None:
    """Print CPU microseconds per message by stage, as a table and one JSON line."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--dir", type=Path, default=None, help="for the stores; default: the system's temporary one")
    parser.add_argument("--messages", type=int, default=MESSAGES_MAX, help="messages a stage sees at most")
    options = parser.parse_args()
    settle_memory()
    found = measure(options.dir, SIZES, options.messages)
    table = Table("stage: CPU us a message", *(f"{rows:,} at a time" for rows in SIZES))
    for name, by_rows in found.items():
        table.add_row(name, *(f"{by_rows[rows]:.2f}" if rows in by_rows else "" for rows in SIZES))
    Console().print(table)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
