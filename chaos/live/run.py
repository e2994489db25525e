"""One run of a plan of faults on real processes: a cluster, clients, a nemesis; then verdicts.

The order makes the verdicts sound. Faults come while the load is offered. When it ends all is healed, and every damaged
disk is replaced. Only then the run waits for outstanding messages: a message that a sound cluster does not deliver is
lost. Then the nodes are stopped in order and their files compared.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self

from chaos.cluster.cluster import READY_S, Cluster, ClusterFailed
from chaos.cluster.network import ClusterNetwork
from chaos.history.bounds import Bounds
from chaos.history.event import Digest, Fault, HandedOver
from chaos.history.history import History
from chaos.history.verdict import Verdict
from chaos.hostile.in_turn import CHOSEN, attack_in_turn
from chaos.live.faults.clock import CLOCK_KINDS, ClockFaults
from chaos.live.faults.disk import DISK_KINDS, DiskFaults
from chaos.live.faults.link import LinkFaults
from chaos.live.faults.nemesis import LiveNemesis
from chaos.live.faults.process import ProcessFaults
from chaos.live.node_disks import NodeDisks
from chaos.live.result import Result
from chaos.live.verdicts import BOUNDS, ONE_BY_ONE, Checker, judge, whole
from chaos.load.account import SAMPLE, take_account
from chaos.load.webhooks import starts
from chaos.load.workload import Workload
from chaos.plan.fault_plan import FaultPlan
from chaos.plan.load_plan import Plan
from storage.directory.verify import verify

#: The wait for outstanding messages when all is healed: unacked leases end, pushes are tried again.
DRAIN_S = 90.0
TOLD_S = 5.0
#: Checkpoints come this often, so that faults hit them.
CHECKPOINT_S = 5

LOAD = Plan(
    batch=20,
    delay_ms=(200, 3_000),
    cancel_share=0.02,
    reschedule_share=0.02,
    push_share=0.3,
    push_fail_share=0.02,
    lease_ms=5_000,
    twice_share=0.02,
    late_share=0.005,
    forget_share=0.01,
    nack_share=0.02,
    extend_share=0.02,
    once_share=0.02,
    wishes=True,
    sets=12,
    drain_s=DRAIN_S + READY_S,
)
"""A load with every kind of call. Each run sets its own rate, length and seed."""


@dataclass(frozen=True)
class Setup:
    """The settings with which a run is made and judged, apart from its plan and its load."""

    settings: Mapping[str, Mapping[str, object]] = field(
        default_factory=lambda: {"storage": {"checkpoint_s": CHECKPOINT_S}}
    )
    """Further tables of the nodes' configuration."""
    bounds: Bounds = BOUNDS
    further: tuple[Checker, ...] = ()
    """Checkers of further promises of this run."""
    accounted: int = SAMPLE
    """The number of messages that the run asks about at the end."""
    hostile: bool = False
    """True: attacks of single clients run beside the load."""
    no_disks: str = ""
    """The reason why nodes have no disks of their own, if known."""
    kinds: frozenset[str] = frozenset()
    """Kinds of faults that a Story puts on, beside those of the plan."""
    spare: int = 0
    """The number of nodes that may join, beside one for each `replace` of the plan."""
    older: Path | None = None
    """The directory of another build that all nodes start with."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of every process."""


PLAIN: Final = Setup(
    settings={}, bounds=ONE_BY_ONE, accounted=100, no_disks="disk of its own: nodes have plain directories here"
)
"""For faults that come one after the other, on loopback and without root."""


class LiveRun:
    """Carries out a plan of faults on a cluster under load, with all files below `directory`. The nodes are on
    `cluster_network`; None is loopback. `say` gets lines of progress. Use as `async with`: inside, the nodes run. Call
    `run`, then `judge`."""

    nemesis: LiveNemesis
    """Set while `run` lasts."""

    def __init__(
        self,
        plan: FaultPlan,
        load: Plan,
        directory: Path,
        cluster_network: ClusterNetwork | None = None,
        setup: Setup = PLAIN,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._plan, self._directory, self._setup, self._say = plan, directory, setup, say
        self._cluster_network = cluster_network or ClusterNetwork()
        self.load = replace(load, duration_s=plan.seconds, seed=plan.seed)
        self.history = History()
        self._spare = setup.spare + sum(fault.kind == "replace" for fault in plan.faults)
        ids = [f"n{number + 1}" for number in range(plan.nodes + self._spare)]
        self._disks = NodeDisks(directory, ids, setup.no_disks)
        self._disk_faults: DiskFaults | None = None
        self._unfinished: list[str] = []

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            stack.callback(lambda: self.history.write(self._directory / "history.ndjson"))
            await stack.enter_async_context(self._disks)
            await stack.enter_async_context(self._cluster_network)
            self.cluster = self._made()
            everybody = [*self.cluster.nodes.values(), *self.cluster.spare.values()]
            self.workload = Workload(everybody, self.load, self.history, self._cluster_network.host, self._is_member)
            await stack.enter_async_context(self.workload.webhooks)
            await stack.enter_async_context(self.cluster)
            self.cluster.start()
            await self.cluster.wait_ready()
            # At a lower level no message replaces another, and a topic that becomes strict is in doubt for a second.
            if self.load.strict or self.load.wishes:
                await self.cluster.wait_raised()
            self._open = stack.pop_all()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._open.aclose()

    def _is_member(self, node_id: str) -> bool:
        return node_id in self.cluster.nodes  # a leaving node too: it serves until it is gone

    def _made(self) -> Cluster:
        kinds = {fault.kind for fault in self._plan.faults} | self._setup.kinds
        cluster = Cluster(
            self._directory,
            self._plan.nodes,
            {"push": {"allow": [self._cluster_network.network]}, **self._setup.settings},
            slow=bool(kinds & DISK_KINDS),
            skewed=bool(kinds & CLOCK_KINDS),
            spare=self._spare,
            cluster_network=self._cluster_network,
        )
        cluster.environment = dict(self._setup.environment)
        if self._setup.older is not None:
            cluster.other_builds = dict.fromkeys(cluster.nodes, self._setup.older)
        return cluster

    async def run(self, story: Story | None = None) -> None:
        """Carry out the plan under load, and beside it `story`, if there is one. Then heal all and wait for outstanding
        messages. The load ends with the story, if there is one, or else as the plan says. Raises ClusterFailed when the
        cluster does not heal, or the service does not come back."""
        try:
            await self._run(story)
        except ExceptionGroup as several:
            failed: Exception = several.subgroup(ClusterFailed) or several
            while isinstance(failed, ExceptionGroup) and several.subgroup(ClusterFailed) is not None:
                failed = failed.exceptions[0]
            raise failed from several

    async def _run(self, story: Story | None) -> None:
        cluster = self.cluster
        after_s = self._setup.bounds.window_ms / 1000
        nemesis = self.nemesis = LiveNemesis(cluster, self.history, self._plan, self.load.rate, after_s)
        nemesis.register(ProcessFaults(nemesis), ClockFaults(nemesis), LinkFaults(nemesis))
        if cluster.disks is not None:
            self._disk_faults = DiskFaults(nemesis, self._disks.loops, self._disks.lacking)
            nemesis.register(self._disk_faults)
        async with nemesis, asyncio.TaskGroup() as tasks:
            telling = tasks.create_task(self._tell())
            load = tasks.create_task(self.workload.run())
            strikes = tasks.create_task(nemesis.run())
            names = CHOSEN if self._setup.hostile else ()
            attacks = tasks.create_task(attack_in_turn(names, cluster.nodes, nemesis.watch.leader, self._say))
            await self._until_over(story)
            self._say("healing")
            attacks.cancel()
            self.workload.stop()
            await nemesis.heal()
            await strikes
            if self._disk_faults is not None:
                await self._disk_faults.heal()
            self.workload.healed()
            self._say("waiting for what is outstanding")
            if not await load:
                self._unfinished.append("the load did not come to its end: see L")
            self._say("asking what became of some")
            await take_account(list(cluster.nodes.values()), self.history, self._plan.seed, self._setup.accounted)
            telling.cancel()

    async def _until_over(self, story: Story | None) -> None:
        if story is not None:
            await story(self)
        elif self._plan.in_turn:
            try:
                await asyncio.wait_for(self.nemesis.turns_over.wait(), self._plan.seconds)
            except TimeoutError:
                self._unfinished.append(f"the plan was not over after {self._plan.seconds:g} s")
        else:
            await asyncio.sleep(self._plan.seconds)

    async def judge(self) -> Result:
        """Stop the nodes in order, compare their files, and judge it all. Call it after `run`."""
        nemesis, disk_faults = self.nemesis, self._disk_faults
        self._say("stopping the nodes in order, comparing their files")
        try:
            await self._digests()
        except ClusterFailed as why:
            self._unfinished.append(f"the nodes did not end in order: {why}")
        directories = {name: node.data_path for name, node in (self.cluster.nodes | self.cluster.gone).items()}
        begun = await asyncio.to_thread(starts, directories, self.cluster.kept())
        self._say(f"judging {len(self.history.events):,} events")
        self.history, unaccounted = await asyncio.to_thread(whole, self.history, begun, self.load)
        verdicts = await asyncio.to_thread(self._verdicts)
        return Result(
            history=self.history,
            verdicts=verdicts,
            fired=dict(nemesis.fired),
            passed=dict(nemesis.passed),
            reasons=dict(nemesis.reasons),
            not_run=nemesis.not_run,
            fell_short=nemesis.fell_short,
            disks=disk_faults.broken if disk_faults is not None else [],
            damages=[damage.describe() for damage in disk_faults.damages] if disk_faults is not None else [],
            fail_stop_ms=disk_faults.fail_stop_ms if disk_faults is not None else [],
            unaccounted_by_power=unaccounted,
            unfinished=self._unfinished,
        )

    def _verdicts(self) -> list[Verdict]:
        gc.disable()  # millions of events: the garbage collector would take longer than the checkers
        try:
            return judge(self.history, self._setup.bounds, self._setup.further)
        finally:
            gc.enable()

    async def _digests(self) -> None:
        cluster = self.cluster
        found = await cluster.digests()
        for node_id, (digest, applied) in found.items():
            damage = (await asyncio.to_thread(verify, cluster.nodes[node_id].data_path)).faults
            mono_ms, wall_ms = self.history.now()
            self.history.record(
                Digest(
                    mono_ms=mono_ms,
                    wall_ms=wall_ms,
                    node=node_id,
                    applied_index=applied,
                    digest=digest,
                    damage=tuple(damage),
                )
            )

    async def _tell(self) -> None:
        """Say the number of messages every TOLD_S, and a line for each begin and end of a fault."""
        counts = {"handed over": 0}
        begun_s = time.monotonic()

        def see(event: object) -> None:
            if isinstance(event, HandedOver):
                counts["handed over"] += 1
            elif isinstance(event, Fault):
                took_s = time.monotonic() - begun_s
                self._say(f"{took_s:7.1f} s  {event.kind} {event.node} {event.phase} {event.detail}".rstrip())

        self.history.listen(see)
        while True:
            await asyncio.sleep(TOLD_S)
            outstanding = self.workload.outstanding
            self._say(
                f"{time.monotonic() - begun_s:7.1f} s  acknowledged {outstanding.acknowledged_count:,}, handed over "
                f"{counts['handed over']:,}"
            )


Story = Callable[[LiveRun], Awaitable[None]]
"""A test in code that puts on faults of its own beside the plan. It is called with the run that it is part of."""
