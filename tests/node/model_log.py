"""The random cluster's lower half: replicas with real stores, a log, and terms that begin and end.

Leaders die with an entry in flight, which may survive or not; successors' clocks are off by up to two seconds; a
replica restarts from its last checkpoint. Everything is drawn from one seed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from node.handover.lease_book import HandOver
from node.leader.dispatcher import Dispatcher, DispatchOptions
from node.ready.rule import Rule
from replication.apply.machine import Applied
from replication.command.entry import Command, encode_entry
from replication.command.schedule import Schedule
from replication.command.topic import PutTopic
from storage.format.array import U16, U64
from storage.tables.topic import Subscription, subscription_of
from tests.node.book import Book
from tests.node.one_leader import GENESIS, HOUR_MS, T0, Replica

STOP_MS = 50
TOPICS = ("a", "b", "c")
SKEW_MAX_MS = 2_000
UNLIMITED = 1_000


@dataclass(slots=True)
class Flight:
    """An entry on its way to a majority."""

    entry: bytes
    commands: list[Command]
    commit_ms: int
    with_leases: bool
    held: list[int]


@dataclass(slots=True)
class SeenTerm:
    """One leader's term."""

    term: int
    replica: int
    dispatcher: Dispatcher
    promoted_index: int
    start_ms: int = 0
    latest_ms: int = 0  # the latest time it was stepped at
    hand_overs: list[HandOver] = field(default_factory=list)
    uncommitted: dict[int, int] = field(default_factory=dict)  # position -> hand-over time
    staged: dict[str, list[int]] = field(default_factory=lambda: {topic: [] for topic in TOPICS})
    leased_ahead: list[HandOver] = field(default_factory=list)  # strict ones whose Lease may begin them
    reads: list[tuple[int, Any]] = field(default_factory=list)  # slots read and not given to the dispatcher yet


@dataclass(slots=True)
class Limit:
    """The same number of attempts for all (node.handover.attempt_limit.AttemptLimit)."""

    most: int

    def over(self, topic: int, positions: U64, attempts: U16) -> npt.NDArray[np.bool_]:
        """See AttemptLimit."""
        assert (attempts > 1).all()
        return attempts > self.most


class LoggedModel:
    """`propose` and `commit` move the log, `crash` ends a term; what is in the log is in `book`."""

    rules: tuple[Rule, ...] = ()  # that the leader asks

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.true_ms = T0 + self.random.choice([1_000, HOUR_MS - 8_000, 2 * HOUR_MS - 700])
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self.replicas = [Replica(directory / f"n{i}") for i in range(2)]
        self.skew_ms = [0, 0]
        self.log: list[tuple[bytes, int]] = []
        self.book = Book()
        self.numbers: dict[str, Subscription] = {}  # of each topic, its only subscription
        self.queue: list[Command] = []
        self.queue_tags: list[tuple[tuple[str, ...], ...]] = []  # of the Schedules in `queue`
        self.flight_tags: list[tuple[tuple[str, ...], ...]] = []
        self.holding: list[int] = []  # held for the commands in `queue`
        self.flight: Flight | None = None
        self.spans_ms: list[int] = []  # of the hand-overs that each dead leader took with it
        self.limit = Limit(self.random.choice([1, 2, 3, UNLIMITED, UNLIMITED]))
        self.options = DispatchOptions(
            window_per_topic=self.random.choice([3, 10, 1000]),
            window_total=self.random.choice([1000, 2000]),
            pace_per_step=self.random.choice([2, 1000]),
            inline_reads=self.random.random() < 0.7,
        )
        if self.options.window_per_topic == 3:
            self.options = DispatchOptions(window_per_topic=3, window_total=5, pace_per_step=2)
        self.leader_term = self._first_reign()

    def close(self) -> None:
        """Close all stores."""
        for replica in self.replicas:
            replica.store.close()

    @property
    def now_ms(self) -> int:
        """The leader's clock."""
        return self.true_ms + self.skew_ms[self.leader_term.replica]

    # -- terms

    def _first_reign(self) -> SeenTerm:
        self.leader_term = SeenTerm(0, 0, Dispatcher(self.replicas[0].store, term=0), 0)
        self._apply_committed(self._entry([GENESIS, *(PutTopic("default", t, {}, replace=False) for t in TOPICS)]))
        for name in TOPICS:
            topic = self.replicas[0].store.catalog.topic(name)
            assert topic is not None
            self.numbers[name] = subscription_of(topic.number)
            self.book.topics[topic.number] = name
        return self._promoted(0)

    def _promoted(self, replica: int) -> SeenTerm:
        """The replica applies the whole log and leads."""
        self._catch_up(replica)
        node_ = self.replicas[replica]
        term = self.leader_term.term + 1
        dispatcher = Dispatcher(node_.store, term=term, options=self.options, attempts=self.limit, rules=self.rules)
        leader_term = SeenTerm(dispatcher.term, replica, dispatcher, node_.machine.applied_index)
        self.leader_term = leader_term
        self.book.dispatcher = dispatcher
        for unit in self.book.units.values():
            unit.outlive()
        tick = node_.machine.tick
        realign = dispatcher.promote(self.now_ms, tick)
        assert (realign is not None) == (tick * 1000 > self.now_ms + 500)
        leader_term.start_ms = leader_term.latest_ms = max(self.now_ms, tick * 1000)
        if realign is not None:
            self._apply_committed(self._entry([realign]))
            dispatcher.realigned(self.now_ms)
            leader_term.start_ms = leader_term.latest_ms = self.now_ms
            leader_term.promoted_index += 1
        return leader_term

    def busy(self) -> None:
        """What a leader does in its last moments."""

    def crash(self) -> None:
        """The leader dies, maybe busy; what was in flight survives or not; somebody leads after a while."""
        for _ in range(self.random.choice([0, 20])):
            self.busy()
            self.true_ms += self.random.choice([0, 1, 6])
        dead = self.leader_term
        dead.dispatcher.stop()
        self.book.dispatcher = None
        self.queue.clear()
        self.queue_tags.clear()
        self.holding.clear()
        if self.flight is not None and self.random.random() < 0.5:
            self._record(self._to_log(self.flight.entry, dead.replica), self.flight)
        self.flight, self.flight_tags = None, []
        lost = list(dead.uncommitted.values())
        self.spans_ms.append(max(lost) - min(lost) if lost else 0)
        assert self.spans_ms[-1] < STOP_MS, f"term {dead.term}: failover duplicates span {self.spans_ms[-1]} ms"
        if self.random.random() < 0.4:
            self._restart(dead.replica)
        self.true_ms += self.random.choice([0, 300, 1_500, 20_000])
        successor = self.random.randrange(2)
        bound = self.random.choice([0, 300, SKEW_MAX_MS])
        self.skew_ms[successor] = self.random.randint(-bound, bound)
        self.leader_term = self._promoted(successor)

    def _restart(self, replica: int) -> None:
        """From its last checkpoint, with the log replayed when it is needed."""
        self.replicas[replica].store.close()
        self.replicas[replica] = Replica(self.directory / f"n{replica}")

    def checkpoint(self) -> None:
        """Any replica makes what it applied durable."""
        replica = self.random.choice(self.replicas)
        job = replica.store.begin_checkpoint(replica.machine.checkpoint_record())
        job.run()
        job.finish()

    # -- the log

    def _entry(self, commands: list[Command]) -> bytes:
        sections = [command.pack() for command in commands]
        return encode_entry(group=0, term=self.leader_term.term, node=1, now_ms=self.now_ms, sections=sections)

    def _to_log(self, entry: bytes, replica: int) -> Applied:
        """The entry is committed and applied by one replica, which tells the book."""
        self.log.append((entry, self.leader_term.term))
        self.book.tagged, self.flight_tags = self.flight_tags, []
        machine = self.replicas[replica].machine
        machine.told.listener = self.book
        applied = self.replicas[replica].apply(entry, self.leader_term.term)
        machine.told.listener = None
        return applied

    def _apply_committed(self, entry: bytes) -> Applied:
        return self._to_log(entry, self.leader_term.replica)

    def _catch_up(self, replica: int) -> None:
        machine = self.replicas[replica].machine
        for entry, term in self.log[machine.applied_index :]:
            self.replicas[replica].apply(entry, term)

    def propose(self, *, going: bool | None = None) -> None:
        """Put what waits and what rides in an entry; one is in flight at a time."""
        if self.flight is not None:
            return
        riding = self.leader_term.dispatcher.collect(self.now_ms, going=bool(self.queue) if going is None else going)
        if riding.state is not None:
            self.check_state()
        commands = sorted([*riding.commands(), *self.queue], key=lambda command: command.pack()[0])
        held, self.holding, self.queue = self.holding, [], []
        if commands:
            assert [c for c in commands if isinstance(c, Schedule)] or not self.queue_tags
            self.flight_tags, self.queue_tags = self.queue_tags, []
            commit_ms = self.true_ms + self.random.choice([1, 5, 30, 300])
            self.flight = Flight(self._entry(commands), commands, commit_ms, riding.awaited, held)

    def check_state(self) -> None:
        """Judge the dispatch state that is about to be proposed."""

    def commit(self) -> None:
        """The entry in flight is committed and applied, once its time has come."""
        if self.flight is None or self.true_ms < self.flight.commit_ms:
            return
        flight, self.flight = self.flight, None
        self._record(self._apply_committed(flight.entry), flight)
        if flight.with_leases:
            self.leader_term.leased_ahead += self.leader_term.dispatcher.committed()
        self.leader_term.dispatcher.handing_over.release(flight.held)

    def _record(self, applied: Applied, flight: Flight) -> None:
        for position in self.book.record(flight.commands, applied):
            self.leader_term.uncommitted.pop(position, None)

    def settle_flight(self) -> None:
        """Let all that waits be committed."""
        while self.flight is not None or self.queue or self.leader_term.dispatcher.entry_due_ms() is not None:
            self.propose(going=True)
            if self.flight is None:
                break
            self.flight.commit_ms = self.true_ms
            self.commit()

    @property
    def held(self) -> set[int]:
        """Names of what commands on their way hold."""
        return {*self.holding, *(self.flight.held if self.flight else ())}
