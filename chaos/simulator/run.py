"""One simulated run: a plan of faults under a load, then healing, then the checkers.

    cluster up, topics made --> load and faults for `seconds` --> all healed; far messages moved near --> each message
    has ended --> nodes at one index --> digests, verdicts

A run is a function of its plan: same plan, same trace.
"""

from __future__ import annotations

import contextlib
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

import node.operation.work
import node.pull.settling
import node.settle.former_leader_outcomes
from api.port.port import ANONYMOUS, TopicChange
from chaos.client.changer import Changer, Changes
from chaos.client.consumer import Consumer
from chaos.client.many_cancels import ManyCancels
from chaos.client.many_moves import ManyMoves
from chaos.history.bounds import Bounds
from chaos.history.event import (
    Acked,
    Answered,
    Begun,
    Cancelled,
    Crashed,
    DeadLettered,
    Digest,
    Event,
    Gone,
    HandedOver,
    Held,
)
from chaos.history.history import History
from chaos.history.totals import totals_of
from chaos.plan.fault_plan import FaultPlan
from chaos.simulator.build.mutant import Patch, patched
from chaos.simulator.faults.door_probe import DoorProbe
from chaos.simulator.faults.nemesis import Nemesis
from chaos.simulator.faults.upgrade import Upgrade, risen
from chaos.simulator.judge import ANY_TIME, BOUNDS, changes_of_leader, counts, judge
from chaos.simulator.load.asker import Asker
from chaos.simulator.load.client import TIMEOUT_S, Tasks, caller_of
from chaos.simulator.load.consumer import consumer
from chaos.simulator.load.crowd import TURN_S, Crowd, CrowdShape, crowd_of
from chaos.simulator.load.load import DEAD, IDLE, PULL, STRICT_PULL, Producer, Shape, shape_of, topic_settings
from chaos.simulator.load.probe import Probe
from chaos.simulator.load.proposal_probe import ProposalProbe
from chaos.simulator.load.targets import Targets
from chaos.simulator.restorer import Restorer
from chaos.simulator.result import Run
from chaos.simulator.world.world import World
from node.group.group import Group
from node.node import Node
from storage.format.array import U64
from storage.format.level import LEVELS, has
from storage.format.message_id import decode_id
from storage.format.states import LEASED, UNKNOWN
from storage.store import Store

START_S: Final = 20.0
ACCOUNTS_S: Final = 240.0
#: In a run with an asker, an entry takes only this many messages of a request. So some requests take several entries.
PIECES: Final[list[Patch]] = [
    (node.pull.settling, "ENTRY_MOVES_MAX", 3),
    (node.operation.work, "CHUNK_MOVES", 3),
    (node.settle.former_leader_outcomes, "ENTRY_MOVES_MAX", 3),
    (node.operation.work, "CHUNK_ROWS", 1),
]
DRAIN_S: Final = 90.0
#: The nodes get this long to come to rest, after each message has ended and before their files are compared.
QUIET_S: Final = 2.0
#: After that the nodes have to be at one index within this time. A snapshot goes file by file, so a crowd's thousands
#: of hours take longer.
LEVEL_S: Final = 30.0
LEVEL_CROWD_S: Final = 150.0
#: Right clocks differ by less than this, and strict pushes are leased ahead by less.
LEASE_AHEAD_MS: Final = 3_000
#: Steps with this charge or more are recorded.
TOLD_S: Final = 0.005


def config_of(plan: FaultPlan) -> dict[str, dict[str, Any]]:
    """The tables of the nodes' configuration. Times are so short that a minute sees checkpoints, unlinked hours and
    forgotten keys. A producer gives a message up before its key is forgotten.

    With odd seeds the journal keeps nothing before the checkpoint, so a node that was away needs a snapshot. With older
    builds, every second pair of seeds raises the level only when a client asks.
    """
    storage = {"checkpoint_s": 2, "retention_ms": 4_000, "key_retention_ms": 20_000}
    asked: dict[str, dict[str, Any]] = {"raft": {"upgrade": "asked"}} if plan.older and plan.seed % 4 > 1 else {}
    return {"storage": storage | ({"journal_keep_mb": 0} if plan.seed % 2 else {})} | asked


class Running:
    """The parts of one run: its world, history, faults, clients and observers. `run` carries the run out."""

    def __init__(self, plan: FaultPlan, world: World, shape: Shape, crowd: CrowdShape | None = None) -> None:
        self.plan, self.world = plan, world
        self.history = History(now=self._now)
        self.probe = Probe(world, self.history)
        self.upgrade = Upgrade(world, self.history, plan.older)
        door, proposals = DoorProbe(self.history), ProposalProbe(self.history)
        self._watches = (self.probe.watch, door.watch, self.upgrade.watch, proposals.watch)
        world.on_group, world.on_held = self._watch, self._held
        self.nemesis = Nemesis(world, self.history, plan, self.upgrade)
        self.targets = Targets(world, self.history, self.probe)
        changes = Changes(shape.cancel_share, shape.move_share, under_way_s=2 * TIMEOUT_S)
        self.changer = Changer(caller_of(world, "changer"), self.history, changes)
        names = [name for name, _ in shape.topics]
        self.many = (
            ManyCancels(caller_of(world, "many"), self.history, names, shape.many_every_s),
            ManyMoves(caller_of(world, "moves"), self.history, names, shape.moves_every_s),
        )
        self.changer.others_move = True
        self._asker = Asker(world, self.history, self.changer, plan) if plan.skew else None
        if self._asker:
            for many in self.many:
                many.meanwhile, many.to_each = (self.changer.cancel, self.changer.move), self._asker.wishes.again
        self._restorer = Restorer(world, self.history, plan, config_of(plan)) if plan.backup else None
        self.shape = shape
        self._crowd = Crowd(world, crowd) if crowd else None
        self._left: set[int] = set()
        self._over: set[int] = set()
        self.history.listen(self._see)
        self._consumers: list[Consumer] = []
        self._topics: list[tuple[str, float]] = []

    def _now(self) -> tuple[float, int]:
        return self.world.now_s * 1000, self.world.now_ms

    def _watch(self, node_id: str, group: Group) -> None:
        for watch in self._watches:
            watch(node_id, group)

    def _held(self, node_id: str, seconds: float, by: dict[str, float]) -> None:
        node = self.world.processes[node_id].node
        if seconds >= TOLD_S and node is not None:
            lazy_keys, told = has(node.group.machine.level, "lazy-keys"), tuple(by.items())
            held = Held(**self.history.stamp(), node=node_id, held_ms=seconds * 1000, by=told, lazy_keys=lazy_keys)
            self.history.record(held)

    def _see(self, event: Event) -> None:
        """Keep the set of the acknowledged messages that have not ended yet, by this event of the history."""
        if isinstance(event, Answered) and event.outcome == "acknowledged":
            if event.number not in self._over:
                self._left.add(event.number)
        elif (
            isinstance(event, DeadLettered)
            or (isinstance(event, HandedOver) and event.pushed and event.taken)
            or (isinstance(event, Acked) and event.result in ("acked", "unknown"))
            or (isinstance(event, Cancelled) and event.outcome != "refused")
            or isinstance(event, Gone)
        ):
            self._over.add(event.number)
            self._left.discard(event.number)

    def run(self) -> list[str]:
        """Carry out the whole run. Return a line for each step of its course that failed."""
        world = self.world
        world.start()
        if not self._make_topics():
            return ["no leader took the topics: the cluster did not start"]
        if self._asker and not world.run_until(lambda: risen(world), START_S):
            return [f"the cluster did not rise to level {LEVELS[1]}"]
        for topic, nodes in ((PULL, world.ids), (STRICT_PULL, world.ids), (DEAD, world.ids[:1])):
            for node_id in nodes:
                self._consume(node_id, topic)
        producer = Producer(world, self.history, self.shape, self._topics)
        producer.begin()
        self.changer.begin(self.plan.seconds)
        for many in self.many:
            many.begin()
        if self._crowd:
            self._crowd.begin()
        self.upgrade.begin()
        if self._asker:
            self._asker.begin()
        if self._restorer:
            self._restorer.begin()
        self.nemesis.begin()
        world.run(self.plan.seconds)
        producer.end()
        if self._crowd:
            self._crowd.end()
        self.changer.end()
        for many in self.many:
            many.end()
        if self._asker:
            self._asker.end()
            self._consume(world.ids[0], IDLE)
        self.nemesis.heal()
        self.targets.calm()
        for each in self._consumers:
            each.calm = True
        world.run_until(lambda: not producer.in_flight and not self._many_in_flight(), 30)
        for many in self.many:
            many.finish()
        world.run_until(lambda: not self._many_in_flight(), 30)
        self.changer.bring_near(producer.far)
        wrong = [] if world.run_until(self._settled, DRAIN_S) else self._unsettled()
        world.run(QUIET_S)
        if self._asker:
            wrong += self._account(self._asker)
        self.probe.stop()
        wrong += self._compare()
        return wrong + (self._restorer.run() if self._restorer else [])

    def _many_in_flight(self) -> int:
        asked = (self._asker.wishes, self._asker.batches) if self._asker else ()
        return sum(each.in_flight for each in (*self.many, *asked))

    def _consume(self, node_id: str, topic: str) -> None:
        asks = self._asker is not None
        self._consumers.append(consumer(self.world, self.history, self.probe, node_id, topic, asks=asks))
        Tasks(self.world).start(self._consumers[-1].run())

    def _account(self, asker: Asker) -> list[str]:
        """Let the asker ask its questions at the end of the run, and wait for the answers."""
        asker.account()
        over = self.world.run_until(lambda: not asker.in_flight, ACCOUNTS_S)
        return [] if over else [f"{asker.in_flight} messages whose account nobody gave within {ACCOUNTS_S:g} s"]

    def _make_topics(self) -> bool:
        settings = {
            name: change
            for name, change in topic_settings(self.world).items()
            if name != IDLE or IDLE in dict(self.shape.topics)
        }
        caller = caller_of(self.world, "topics")
        made: Counter[str] = Counter()

        async def make(name: str, change: TopicChange) -> None:
            outcome = await caller.insist(
                lambda client: client.call(
                    lambda port: port.put_topic(name, change, create=True, if_match=None, principal=ANONYMOUS), "topic"
                ),
                for_s=START_S,
                again=True,
            )
            made[outcome.kind] += 1
            share = dict(self.shape.topics).get(name)
            if outcome.kind == "ok" and share is not None:
                self._topics.append((name, share))

        for name, change in settings.items():
            caller.runner.start(make(name, change))
        over = self.world.run_until(lambda: made.total() == len(settings), START_S + 5)
        self._topics.sort()
        return over and made["ok"] == len(settings)

    # -- the end

    def _settled(self) -> bool:
        return not self._left and not self.changer.in_flight and not any(each.acks for each in self._consumers)

    def _unsettled(self) -> list[str]:
        """Return a line about the messages that should have ended and did not, none if all have. A leader with a wrong
        clock may have leased a message, or given it a due time, until a moment that is still to come. Such a message is
        left out."""
        _, now_ms = self._now()
        acknowledged = self.history.acknowledged()
        for number in sorted(self._left):
            home = np.array([decode_id(acknowledged[number].message_id).position], np.uint64)
            if all(_next_ms(node.group.store, home) > now_ms for node in self._who_knows(home)):
                self._left.discard(number)
        if not self._left:
            return []
        some = ", ".join(map(str, sorted(self._left)[:10]))
        return [f"{len(self._left)} messages still outstanding {DRAIN_S:g} s after all was healed: {some}"]

    def _who_knows(self, home: U64) -> list[Node]:
        """The nodes that have this message. Fails if there is none, because then the message is lost."""
        found = [node for node in self.world.nodes().values() if node.group.store.states(home).state[0] != UNKNOWN]
        assert found, f"no node knows {home}"
        return found

    def _compare(self) -> list[str]:
        """Wait until all nodes are at one index and level and at rest, and record the digests of their files. Record
        the errors that nodes survived."""
        world = self.world

        def level() -> bool:
            nodes = world.nodes()
            at_rest = not any(node.group.store.catalog.in_checkpoint for node in nodes.values())
            return risen(world) and at_one_index(nodes.values()) and at_rest

        level_s = LEVEL_CROWD_S if self._crowd else LEVEL_S
        if not world.run_until(level, level_s):
            told = {name: node.group.raft.applied_index for name, node in world.nodes().items()}
            levels = {name: node.group.machine.level for name, node in world.nodes().items()}
            return [f"{level_s:g} s after all was healed the nodes are not level: {told}, of levels {levels}"]
        for node_id, (digest, index) in world.digests().items():
            self.history.record(Digest(**self.history.stamp(), node=node_id, applied_index=index, digest=digest))
        for node_id, process in sorted(world.processes.items()):
            for error in process.errors:
                self.history.record(Crashed(**self.history.stamp(), node=node_id, error=_told(error), expected=False))
        return []


def at_one_index(nodes: Iterable[Node]) -> bool:
    """True if these nodes have applied all entries of the log, and their logs end at one index. The indexes of the Raft
    log count, not those of the state machine, which gets no no-ops. The newest entry may be a no-op: the leader
    proposes one for a member that has just caught up."""
    return len({index for node in nodes for index in (node.group.raft.applied_index, node.group.raft.last_index)}) == 1


def _next_ms(store: Store, home: U64) -> int:
    """When a message is next handed over: at its due time, or at the end of its lease."""
    place = store.locate(home)
    states = store.states(place)
    due_ms = int(store.units(place)["due_ms"][0])
    return int(states.lease_end_ms[0]) if states.state[0] == LEASED else due_ms


def _told(error: BaseException) -> str:
    """A line about an error: its type and text, the place where it was raised, and its notes."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return " ".join([f"{type(error).__name__}: {error}{place}", *getattr(error, "__notes__", ())])


def bounds_of(plan: FaultPlan, running: Running) -> Bounds:
    """The bounds that judge this run."""
    if running.nemesis.clocks.ahead_s:
        return ANY_TIME
    wrong = any(fault.kind in ("jump", "drift") for fault in plan.faults)
    if wrong or not plan.skew:
        return BOUNDS
    return replace(BOUNDS, clocks_right=True, lease_ahead_ms=LEASE_AHEAD_MS)


def run_plan(
    plan: FaultPlan, shape: Shape | None = None, directory: Path | None = None, crowd: CrowdShape | None = None
) -> Run:
    """Run a plan and judge it. `shape` and `crowd` replace the load and crowd that the plan asks for. If a `directory`
    is given, the nodes' files and the history stay there."""
    began_s = time.process_time()
    crowd = crowd or (crowd_of(plan) if plan.crowd else None)
    more: dict[str, Any] = {"turn_s": TURN_S, "weight": crowd.weight} if crowd else {}
    more |= {"skew_ms": plan.skew}
    few = patched(PIECES) if plan.skew else contextlib.nullcontext()
    with few, World(plan.seed, directory, nodes=plan.nodes, config=config_of(plan), **more) as world:
        running = Running(plan, world, shape or shape_of(plan), crowd)
        try:
            wrong = running.run()
        except Exception:  # an error of the simulation, such as time that stands still, is one seed's, not the range's
            wrong = [traceback.format_exc()]
        history = running.history
        if directory is not None:
            history.write(directory / "history.ndjson")
        return Run(
            plan=plan,
            verdicts=judge(history, bounds_of(plan, running)),
            fired=running.nemesis.fired,
            passed=running.nemesis.passed,
            hand_overs=len(history.of(Begun)),
            changes=changes_of_leader(history),
            counts=counts(history),
            trace=world.trace.hexdigest(),
            simulated_s=world.now_s,
            took_s=time.process_time() - began_s,
            wrong=wrong,
            log=list(world.log.lines),
            totals=totals_of(history),
        )
