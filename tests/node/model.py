"""A random cluster in virtual time: replicas with real stores, a log, and one leader after another with its dispatcher.

What can happen: messages, cancels, pulls, acks, pauses, commits that take 1 to 300 ms, checkpoints, restarts, leaders
that die with an entry in flight (which may survive or not), successors whose clocks are off by up to two seconds, and
clocks that go back a little under a leader. Everything is drawn from one seed.

The model keeps its own book of what the log says of each unit (tests/node/book.py), and judges every hand-over and
every dispatch state against it: `Model.check_hand_over`, `check_state`, `check_complete`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from node.dispatcher import Dispatcher, DispatchOptions
from node.lease_book import HandOver
from replication.command import Cancel, Command, PutTopic, Settle
from replication.envelope import encode_entry
from replication.machine import Applied
from tests.node.book import RecordingWheel, Unit, record
from tests.node.leader import GENESIS, HOUR_MS, T0, Replica, messages

STOP_MS = 50
TOPICS = ("a", "b", "c")
SKEW_MAX_MS = 2_000
GRID_MS = 1_000  # a lease that ended is found at the latest this long after


@dataclass(slots=True)
class Flight:
    """An entry on its way to a majority."""

    entry: bytes
    commands: list[Command]
    commit_ms: int
    with_leases: bool
    held: list[int]


@dataclass(slots=True)
class Reign:
    """One leader's term."""

    term: int
    replica: int
    dispatcher: Dispatcher
    promoted_index: int
    start_ms: int = 0
    latest_ms: int = 0  # the latest time it was stepped at
    hand_overs: list[HandOver] = field(default_factory=list)
    uncommitted: dict[int, int] = field(default_factory=dict)  # position -> hand-over time
    reads: list[tuple[int, Any]] = field(default_factory=list)  # slots read and not given to the dispatcher yet


class Model:
    """`run` plays a history; every check raises AssertionError."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.true_ms = T0 + self.random.choice([1_000, HOUR_MS - 8_000, 2 * HOUR_MS - 700])
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self.replicas = [Replica(directory / f"n{i}") for i in range(2)]
        self.skew_ms = [0, 0]
        self.log: list[tuple[bytes, int]] = []
        self.units: dict[int, Unit] = {}
        self.numbers: dict[str, int] = {}
        self.paused: set[str] = set()
        self.queue: list[Command] = []
        self.holding: list[int] = []  # held for the cancels in `queue`
        self.flight: Flight | None = None
        self.spans_ms: list[int] = []  # of the hand-overs that each dead leader took with it
        self.options = DispatchOptions(
            window_per_topic=self.random.choice([3, 10, 1000]),
            window_total=self.random.choice([1000, 2000]),
            pace_per_step=self.random.choice([2, 1000]),
            inline_reads=self.random.random() < 0.7,
        )
        if self.options.window_per_topic == 3:
            self.options = DispatchOptions(window_per_topic=3, window_total=5, pace_per_step=2)
        self.reign = self._first_reign()

    def close(self) -> None:
        """Close all stores."""
        for replica in self.replicas:
            replica.store.close()

    # -- time and terms

    @property
    def now_ms(self) -> int:
        """The leader's clock."""
        return self.true_ms + self.skew_ms[self.reign.replica]

    def _first_reign(self) -> Reign:
        self.reign = Reign(0, 0, Dispatcher(self.replicas[0].store, term=0), 0)
        self._apply_committed(self._entry([GENESIS, *(PutTopic("default", t, {}, replace=False) for t in TOPICS)]))
        for name in TOPICS:
            topic = self.replicas[0].store.catalog.topic(name)
            assert topic is not None
            self.numbers[name] = topic.number
        return self._promoted(0)

    def _promoted(self, replica: int) -> Reign:
        """The replica applies the whole log and leads."""
        self._catch_up(replica)
        node_ = self.replicas[replica]
        dispatcher = Dispatcher(node_.store, term=self.reign.term + 1, options=self.options)
        reign = Reign(dispatcher.term, replica, dispatcher, node_.machine.applied_index)
        self.reign = reign
        node_.machine.listener = dispatcher
        tick = node_.machine.tick
        realign = dispatcher.promote(self.now_ms, tick)
        assert (realign is not None) == (tick * 1000 > self.now_ms + 500)
        reign.start_ms = reign.latest_ms = max(self.now_ms, tick * 1000)
        if realign is not None:
            self._apply_committed(self._entry([realign]))
            dispatcher.realigned(self.now_ms)
            reign.start_ms = reign.latest_ms = self.now_ms
            reign.promoted_index += 1
        return reign

    def crash(self) -> None:
        """The leader dies, maybe busy; what was in flight survives or not; somebody leads after a while."""
        for _ in range(self.random.choice([0, 20])):
            self.step()
            self.pull()
            self.true_ms += self.random.choice([0, 1, 6])
        dead = self.reign
        dead.dispatcher.stop()
        self.replicas[dead.replica].machine.listener = None
        self.queue.clear()
        self.holding.clear()
        if self.flight is not None and self.random.random() < 0.5:
            self._record(self._to_log(self.flight.entry, dead.replica), self.flight)
        self.flight = None
        lost = list(dead.uncommitted.values())
        self.spans_ms.append(max(lost) - min(lost) if lost else 0)
        assert self.spans_ms[-1] < STOP_MS, f"term {dead.term}: failover duplicates span {self.spans_ms[-1]} ms"
        if self.random.random() < 0.4:
            self._restart(dead.replica)
        self.true_ms += self.random.choice([0, 300, 1_500, 20_000])
        successor = self.random.randrange(2)
        bound = self.random.choice([0, 300, SKEW_MAX_MS])
        self.skew_ms[successor] = self.random.randint(-bound, bound)
        self.reign = self._promoted(successor)

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
        return encode_entry(group=0, term=self.reign.term, node=1, now_ms=self.now_ms, sections=sections)

    def _to_log(self, entry: bytes, replica: int) -> Applied:
        """The entry is committed and applied by one replica."""
        self.log.append((entry, self.reign.term))
        return self.replicas[replica].apply(entry, self.reign.term)

    def _apply_committed(self, entry: bytes) -> Applied:
        return self._to_log(entry, self.reign.replica)

    def _catch_up(self, replica: int) -> None:
        machine = self.replicas[replica].machine
        for entry, term in self.log[machine.applied_index :]:
            self.replicas[replica].apply(entry, term)

    def propose(self) -> None:
        """Put what waits and what rides in an entry; one is in flight at a time."""
        if self.flight is not None:
            return
        lease, state = self.reign.dispatcher.collect(self.now_ms, going=bool(self.queue))
        if state is not None:
            self.check_state()
        riding: list[Command] = [command for command in (state, lease) if command is not None]
        commands = sorted([*riding, *self.queue], key=lambda command: command.pack()[0])
        held, self.holding, self.queue = self.holding, [], []
        if commands:
            commit_ms = self.true_ms + self.random.choice([1, 5, 30, 300])
            self.flight = Flight(self._entry(commands), commands, commit_ms, lease is not None, held)

    def commit(self) -> None:
        """The entry in flight is committed and applied, once its time has come."""
        if self.flight is None or self.true_ms < self.flight.commit_ms:
            return
        flight, self.flight = self.flight, None
        self._record(self._apply_committed(flight.entry), flight)
        if flight.with_leases:
            self.reign.dispatcher.committed()
        self.reign.dispatcher.release(flight.held)

    def _record(self, applied: Applied, flight: Flight) -> None:
        for position in record(self.units, self.paused, flight.commands, applied):
            self.reign.uncommitted.pop(position, None)

    # -- what clients do

    def schedule(self) -> None:
        """Up to 40 messages, due at a few interesting times."""
        now_ms = self.now_ms
        edges = (0, 0, 5, 60, 900, 9_990, 14_000, HOUR_MS - now_ms % HOUR_MS, HOUR_MS - now_ms % HOUR_MS + 700)
        delays = [self.random.choice(edges) + self.random.randint(-3, 40) for _ in range(self._few())]
        self.queue.append(messages([now_ms + max(0, delay) for delay in delays], self.random.choice(TOPICS)))

    def _few(self) -> int:
        return self.random.choice([1, 3, 40])

    def pull(self) -> HandOver:
        """One pull of some topic."""
        topic = self.random.choice(TOPICS)
        lease_ms = self.random.choice([1_000, 3_000, 30_000, 100_000])
        return self.hand_over(topic, self.random.choice([1, 4, 100]), lease_ms)

    def hand_over(self, topic: str, most: int, lease_ms: int) -> HandOver:
        """One pull, judged."""
        found = self.reign.dispatcher.hand_over(self.numbers[topic], most, lease_ms, self.now_ms, trusted=True)
        self.check_hand_over(topic, found)
        if len(found):
            self.reign.hand_overs.append(found)
        return found

    def ack(self) -> None:
        """A hand-over of this term, committed or not, is acked."""
        if self.reign.hand_overs:
            done = self.random.choice(self.reign.hand_overs)
            n = len(done)
            terms = np.full(n, self.reign.term, np.uint32)
            self.queue.append(Settle(done.position, terms, done.attempt, np.zeros(n, np.uint16)))

    def cancel(self) -> None:
        """A unit that was not settled when last seen is cancelled, held from now to the result."""
        known = [position for position, unit in self.units.items() if not unit.settled]
        if known:
            chosen = self.random.sample(known, min(len(known), self._few()))
            self.reign.dispatcher.hold(chosen)
            self.holding += chosen
            self.queue.append(Cancel(np.array(chosen, np.uint64), np.zeros(len(chosen), np.uint8)))

    def pause(self) -> None:
        """A topic is paused or goes on."""
        name = self.random.choice(TOPICS)
        settings = {"paused": self.random.random() < 0.3}
        self.queue.append(PutTopic("default", name, settings, replace=False))

    # -- the leader's loop

    def step(self) -> int | None:
        """One step, judged; slots are read by the caller where the options say so, and answered late."""
        dispatcher, now_ms = self.reign.dispatcher, self.now_ms
        wait_ms = dispatcher.step(now_ms)
        if now_ms >= self.reign.start_ms:
            self.reign.latest_ms = max(self.reign.latest_ms, now_ms)
        if not self.options.inline_reads:
            store = self.replicas[self.reign.replica].store
            self.reign.reads += [(tick, store.second(tick)) for tick in dispatcher.loads(now_ms)]
        self.check_state()
        return wait_ms

    def answer_reads(self) -> None:
        """What was read reaches the dispatcher."""
        for tick, slot in self.reign.reads:
            self.reign.dispatcher.loaded(tick, slot)
        self.reign.reads.clear()

    def wait(self) -> None:
        """Time passes."""
        self.true_ms += self.random.choice([1, 2, 9, 30, 200, 1_100, 10_000])

    def wobble(self) -> None:
        """The leader's clock goes a little back or forth."""
        self.skew_ms[self.reign.replica] += self.random.choice([-60, -5, 3, 40])

    # -- what must hold

    def check_hand_over(self, topic: str, found: HandOver) -> None:
        """In its window, once: due by this clock, neither settled nor leased nor held, not in flight, and newer."""
        held = {*self.holding, *(self.flight.held if self.flight else ())}
        for position, attempt in zip(found.position.tolist(), found.attempt.tolist(), strict=True):
            unit = self.units[position]
            assert unit.open_at(self.now_ms), f"{position} at {self.now_ms}: {unit}"
            assert unit.topic == topic, f"{position} of {unit.topic} went out for {topic}"
            assert topic not in self.paused, f"{topic} is paused"
            assert position not in held, f"{position} is held"
            assert position not in self.reign.uncommitted, f"{position} is handed over twice"
            assert (self.reign.term, attempt) > unit.seen, f"{position}: attempt {attempt} after {unit.seen}"
            unit.seen = self.reign.term, attempt
            self.reign.uncommitted[position] = self.now_ms
        times = self.reign.uncommitted.values()
        assert not times or max(times) - min(times) < STOP_MS, f"hand-overs at {sorted(times)} are uncommitted"

    def check_state(self) -> None:
        """Every unit that the dispatch state names left the wheel, or was ready when this leader began, or is done."""
        dispatcher = self.reign.dispatcher
        state = dispatcher.dispatch_state()
        given = dispatcher._wheel.given if isinstance(dispatcher._wheel, RecordingWheel) else set()
        known = [(unit.due_ms, position) for position, unit in self.units.items() if unit.index <= state.applied_index]
        slot = sorted(key for key in known if key[0] // 1000 == state.tick)
        assert len(slot) >= state.local_index
        named = [key for key in known if key[0] // 1000 < state.tick] + slot[: state.local_index]
        for due_ms, position in named:
            unit = self.units[position]
            assert due_ms <= self.reign.latest_ms, f"{position}, due {due_ms}, is named before it is due: {state}"
            overdue = due_ms <= self.reign.start_ms and unit.index <= self.reign.promoted_index
            assert overdue or position in given or unit.settled or unit.leased, f"{position} {unit} named by {state}"

    def check_complete(self) -> None:
        """Drain at one moment, give or take the pace: after it nothing that is ready by the records is left."""
        self.true_ms += max(0, self.reign.latest_ms - self.now_ms)
        self.settle_flight()
        for _ in range(2_000):
            self.true_ms += 10
            while self.step() == 0 or self.reign.reads:
                self.answer_reads()
            count = sum(len(self.hand_over(topic, 1000, 100_000)) for topic in TOPICS)
            self.settle_flight()
            if not count and not self._more():
                break
        left = {
            position: unit
            for position, unit in self.units.items()
            if unit.topic not in self.paused and unit.open_at(self.now_ms - 11 - (GRID_MS if unit.leased else 0))
        }
        assert not left, f"ready at {self.now_ms} and not handed over: {left}"

    def _more(self) -> bool:
        """Whether a window or a backlog says that there is more to hand over."""
        lanes = self.reign.dispatcher._ready.lanes
        going = {self.numbers[name] for name in TOPICS if name not in self.paused}
        return any(going & (lane.windows.keys() | lane.begins.keys()) for lane in lanes)

    def settle_flight(self) -> None:
        """Let all that waits be committed."""
        while self.flight is not None or self.queue or self.reign.dispatcher.entry_due_ms() is not None:
            if self.flight is None:
                lease, state = self.reign.dispatcher.collect(self.now_ms)
                commands = sorted(
                    [command for command in (state, lease, *self.queue) if command is not None],
                    key=lambda command: command.pack()[0],
                )
                held, self.holding, self.queue = self.holding, [], []
                if not commands:
                    break
                self.flight = Flight(self._entry(commands), commands, self.true_ms, lease is not None, held)
            self.flight.commit_ms = self.true_ms
            self.commit()

    def run(self, events: int) -> None:
        """Play `events` random events, then let everything come out and be acked: nothing may be left."""
        weighted: list[tuple[Callable[[], object], int]] = [
            (self.wait, 20), (self.step, 20), (self.propose, 14), (self.commit, 14), (self.pull, 16), (self.ack, 4),
            (self.schedule, 6), (self.cancel, 2), (self.pause, 1), (self.wobble, 2), (self.answer_reads, 6),
            (self.checkpoint, 1), (self.crash, 1), (self.check_complete, 1),
        ]  # fmt: skip
        kinds, weights = zip(*weighted, strict=True)
        for event in self.random.choices(kinds, weights, k=events):
            event()
        self.crash()
        self.queue += [PutTopic("default", name, {"paused": False}, replace=False) for name in TOPICS]
        self.check_complete()
        last_ms = max((unit.due_ms for unit in self.units.values()), default=0)
        while last_ms > self.now_ms - 200_000:
            self.check_complete()
            for hand_over in self.reign.hand_overs:
                n = len(hand_over)
                terms = np.full(n, self.reign.term, np.uint32)
                self.queue.append(Settle(hand_over.position, terms, hand_over.attempt, np.zeros(n, np.uint16)))
            self.reign.hand_overs.clear()
            wait_ms = self.reign.dispatcher.step(self.now_ms)
            self.true_ms += 60_000 if wait_ms is None else min(60_000, max(10, wait_ms))
        self.settle_flight()
        lost = {position: unit for position, unit in self.units.items() if not unit.settled}
        assert not lost, f"never handed over and acked: {lost}"
