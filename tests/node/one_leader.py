"""A leader for tests: the real machine on a real store in a directory, and its dispatcher."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from node.handover.attempt_limit import AttemptLimit
from node.handover.lease_book import HandOver
from node.leader.dispatcher import Dispatcher, DispatchOptions
from node.ready.rule import Rule
from replication.apply.machine import Applied, Machine
from replication.apply.message.cancel import Cancelled
from replication.command.dispatch import Realign
from replication.command.entry import Command, encode_entry
from replication.command.genesis import Genesis
from replication.command.handover import DEAD, RETRY, Fail, Settle
from replication.command.message import Cancel, Reschedule
from replication.command.schedule import Schedule
from replication.command.topic import PutTopic
from storage.file.disk import Disk
from storage.format.predicate import TagFilter, tags_mask
from storage.record.record import Drafts, encode_records
from storage.store import Store
from storage.tables.topic import Subscription, subscription_of

HOUR_MS = 3_600_000
T0 = 472_222 * HOUR_MS  # the start of an hour
LEASE_MS = 30_000
GENESIS = Genesis(b"c" * 16, b"s" * 32, ("n1", "n2", "n3"), retention_ms=60_000, key_retention_ms=60_000)


class Replica:
    """A node's machine and store, fed with entries."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self.store = Store.open(directory, disk=Disk())
        self.machine = Machine(self.store)

    def apply(self, entry: bytes, term: int) -> Applied:
        """The next entry of the log, appended in `term`."""
        applied = self.machine.apply(self.machine.applied_index + 1, term, entry)
        assert applied.refused is None
        return applied


class Leader:
    """A replica that leads: whatever is proposed is applied at once."""

    def __init__(self, directory: Path, options: DispatchOptions | None = None) -> None:
        self.replica = Replica(directory)
        self.store, self.machine = self.replica.store, self.replica.machine
        self.options = options or DispatchOptions()
        self.limit: AttemptLimit | None = None
        self.rules: tuple[Rule, ...] = ()
        self.term = 0
        self.propose(GENESIS)
        self.dispatcher = Dispatcher(self.store, term=0, options=self.options)

    def promote(self, now_ms: int, *, tick: int | None = None) -> Realign | None:
        """Lead in a new term. `tick`: the replicated one, by default what it is."""
        self.dispatcher.stop()
        self.term += 1
        self.dispatcher = Dispatcher(
            self.store, term=self.term, options=self.options, attempts=self.limit, rules=self.rules
        )
        realign = self.dispatcher.promote(now_ms, self.machine.tick if tick is None else tick)
        self.machine.told.listener = self.dispatcher
        return realign

    def propose(self, *commands: Command, now_ms: int = T0) -> Applied:
        """One entry, applied at once."""
        sections = [command.pack() for command in commands]
        entry = encode_entry(group=0, term=self.term, node=1, now_ms=now_ms, sections=sections)
        return self.replica.apply(entry, self.term)

    def schedule(self, *due_ms: int, topic: str = "orders", tags: Sequence[Sequence[str]] | None = None) -> list[int]:
        """Messages due at these times, each with its tags; their positions."""
        scheduled = self.propose(messages(due_ms, topic, tags)).results[0]
        positions: list[int] = scheduled.position.tolist()
        return positions

    def topic(self, name: str = "orders") -> int:
        """The topic's number, made if it is not there."""
        topic = self.store.catalog.topic(name)
        if topic is None:
            self.propose(PutTopic("default", name, {}, replace=False))
            topic = self.store.catalog.topic(name)
        assert topic is not None
        return topic.number

    def subscription(self, topic: str = "orders") -> Subscription:
        """The topic's only subscription."""
        return subscription_of(self.topic(topic))

    def pause(self, name: str, paused: bool) -> None:
        """Set the topic's `paused`."""
        self.propose(PutTopic("default", name, {"paused": paused}, replace=False))

    def run(self, now_ms: int) -> int | None:
        """Step until the dispatcher wants to sleep; for how long."""
        for _ in range(10_000):
            wait_ms = self.dispatcher.step(now_ms)
            if wait_ms != 0:
                return wait_ms
        raise AssertionError("the dispatcher never sleeps")

    def hand_over(
        self,
        now_ms: int,
        most: int = 1000,
        *,
        topic: str = "orders",
        lease_ms: int = LEASE_MS,
        tags: TagFilter | None = None,
    ) -> HandOver:
        """One pull."""
        return self.dispatcher.handing_over.hand_over(
            self.subscription(topic), most, lease_ms, now_ms, trusted=True, tags=tags
        )

    def pull(self, now_ms: int, most: int = 1000, *, topic: str = "orders", lease_ms: int = LEASE_MS) -> list[int]:
        """Run, one pull, and its Leases committed: the positions handed over."""
        self.run(now_ms)
        hand_over = self.hand_over(now_ms, most, topic=topic, lease_ms=lease_ms)
        self.commit(now_ms)
        positions: list[int] = hand_over.position.tolist()
        return positions

    def drain(self, now_ms: int, *, topic: str = "orders", lease_ms: int = LEASE_MS) -> list[int]:
        """Pull at one moment until nothing comes, whatever the pace of what is overdue."""
        found: list[int] = []
        while pulled := self.pull(now_ms, topic=topic, lease_ms=lease_ms):
            found += pulled
        return found

    def commit(self, now_ms: int) -> None:
        """An entry with what rides in it, applied."""
        riding = self.dispatcher.collect(now_ms)
        if any(riding.commands()):
            self.propose(*riding.commands(), now_ms=now_ms)
        if riding.awaited:
            self.dispatcher.committed()

    def ack(self, positions: Iterable[int], *, attempt: int = 1, term: int | None = None) -> list[int]:
        """Acks of hand-overs of this term; the results."""
        at = np.fromiter(positions, np.uint64)
        n = len(at)
        settle = Settle(
            at,
            np.full(n, self.term if term is None else term, np.uint32),
            np.full(n, attempt, np.uint16),
            np.zeros(n, np.uint16),
        )
        results: list[int] = self.propose(settle).results[0].tolist()
        return results

    def fail(self, *positions: int, attempt: int, now_ms: int, retry_ms: int | None = None) -> list[int]:
        """Hand-overs of this term failed: tried again at `retry_ms`, or dead; the results."""
        n = len(positions)
        fail = Fail(
            np.array(positions, np.uint64),
            np.full(n, self.term, np.uint32),
            np.full(n, attempt, np.uint16),
            np.full(n, 500, np.uint16),
            np.full(n, DEAD if retry_ms is None else RETRY, np.uint8),
            np.full(n, retry_ms or 0, np.int64),
            np.arange(1, n + 1, dtype=np.uint64),
        )
        results: list[int] = self.propose(fail, now_ms=now_ms).results[0].tolist()
        return results

    def reschedule(self, home: int, due_ms: int, *, now_ms: int) -> int:
        """A message is to be due then; where it stands now."""
        command = Reschedule(np.array([home], np.uint64), np.array([due_ms], np.int64))
        return int(self.propose(command, now_ms=now_ms).results[0].position[0])

    def place(self, home: int) -> int:
        """Where a message stands."""
        return int(self.store.locate(np.array([home], np.uint64))[0])

    def cancel(self, *positions: int, now_ms: int = T0) -> list[int]:
        """Cancels; the results."""
        at = np.array(positions, np.uint64)
        cancelled: Cancelled = self.propose(Cancel(at, np.zeros(len(at), np.uint8)), now_ms=now_ms).results[0]
        results: list[int] = cancelled.result.tolist()
        return results


def messages(due_ms: Iterable[int], topic: str = "orders", tags: Sequence[Sequence[str]] | None = None) -> Schedule:
    """A Schedule of messages due at these times."""
    due = np.fromiter(due_ms, np.int64)
    random = np.arange(1, len(due) + 1, dtype=np.uint64)
    encoded = [tuple(tag.encode() for tag in row) for row in tags] if tags else None
    records = encode_records(Drafts(bodies=[b'"x"'] * len(due), asked_due_ms=due, random=random, tags=encoded))
    masks = np.array([tags_mask(row) for row in encoded or ()], np.uint64)
    return Schedule((topic,), due, records.size, records.blob, np.zeros(len(due), np.uint16), masks)
