"""One run of a plan of faults on real processes: a cluster, clients, a nemesis; then verdicts.

The order is what makes the verdicts sound. Faults come while the load is offered. When it ends all is healed, every
disk that was damaged is replaced, and only then is waited for what is outstanding: what does not come out of a sound
cluster is lost. Then the nodes are stopped in order and their files compared.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from chaos.cluster.cluster import READY_S, Cluster, ClusterFailed
from chaos.cluster.network import Ground
from chaos.history.event import Digest, Fault, HandedOver, Offered
from chaos.history.history import History
from chaos.history.verdict import Verdict
from chaos.hostile.in_turn import CHOSEN, attack_in_turn
from chaos.live.faults.clock import ClockFaults
from chaos.live.faults.disk import DiskFaults
from chaos.live.faults.link import LinkFaults
from chaos.live.faults.nemesis import LiveNemesis
from chaos.live.faults.process import ProcessFaults
from chaos.live.node_disks import NodeDisks
from chaos.live.verdicts import broken, judge, whole
from chaos.load.account import take_account
from chaos.load.webhooks import starts
from chaos.load.workload import Workload
from chaos.plan.fault_plan import FaultPlan
from chaos.plan.load_plan import Plan
from storage.directory.verify import verify

#: For what is outstanding when all is healed: leases of what nobody acked end, pushes are tried again.
DRAIN_S = 90.0
TOLD_S = 5.0
#: Checkpoints come this often, so that faults meet them.
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
    drain_s=DRAIN_S + READY_S,
)
"""Every kind of call, but for rate, length and seed."""


@dataclass(frozen=True)
class Result:
    """What a run ended with. `fired` and `passed` by kind; `not_run`: why this machine cannot do a kind."""

    history: History
    verdicts: list[Verdict]
    fired: dict[str, int]
    passed: dict[str, int]
    reasons: dict[str, int]
    not_run: dict[str, str]
    disks: list[str]
    damages: list[str] = field(default_factory=list)
    fail_stop_ms: list[float] = field(default_factory=list)
    unaccounted_by_power: int = 0
    drained: bool = True

    @property
    def per_second(self) -> dict[str, float]:
        """Messages acknowledged and handed over a second of the load, from the first offer to the last."""
        offered_ms = [event.mono_ms for event in self.history.of(Offered)]
        length_s = max((max(offered_ms) - min(offered_ms)) / 1000, 1.0) if offered_ms else 1.0
        return {
            "offered": round(len(offered_ms) / length_s, 1),
            "acknowledged": round(len(self.history.acknowledged()) / length_s, 1),
            "handed_over": round(len(self.history.hand_overs()) / length_s, 1),
        }

    @property
    def broken(self) -> list[str]:
        """Everything that is wrong, as lines."""
        lines = broken(self.verdicts) + self.disks
        return lines if self.drained else [*lines, "the load did not come to its end: see L"]


class LiveRun:
    """A plan on a ground, its files below `directory`. `say` is told how it goes."""

    def __init__(
        self,
        plan: FaultPlan,
        load: Plan,
        directory: Path,
        ground: Ground,
        no_disks: str,
        say: Callable[[str], None],
        hostile: bool = False,
    ) -> None:
        """`hostile`: beside the load single clients attack."""
        self._plan, self._directory, self._ground, self._say = plan, directory, ground, say
        self._hostile = hostile
        self._load = replace(load, duration_s=plan.seconds, seed=plan.seed)
        self._history = History()
        self._spare = sum(fault.kind == "replace" for fault in plan.faults)
        ids = [f"n{number + 1}" for number in range(plan.nodes + self._spare)]
        self._disks = NodeDisks(directory, ids, no_disks)

    async def run(self) -> Result:
        """From an empty directory to the verdicts. Raises ClusterFailed when the cluster does not heal."""
        try:
            async with self._disks, self._ground:
                allow, storage = {"allow": [self._ground.network]}, {"checkpoint_s": CHECKPOINT_S}
                settings: dict[str, Mapping[str, object]] = {"push": allow, "storage": storage}
                cluster = Cluster(
                    self._directory,
                    self._plan.nodes,
                    settings,
                    slow=True,
                    skewed=True,
                    spare=self._spare,
                    ground=self._ground,
                )
                everybody = [*cluster.nodes.values(), *cluster.spare.values()]
                workload = Workload(everybody, self._load, self._history, self._ground.host)
                async with workload.webhooks, cluster:
                    cluster.start()
                    await cluster.wait_ready()
                    return await self._under_load(cluster, workload)
        finally:
            self._history.write(self._directory / "history.ndjson")

    async def _under_load(self, cluster: Cluster, workload: Workload) -> Result:
        nemesis = LiveNemesis(cluster, self._history, self._plan)
        disk_faults = DiskFaults(nemesis, self._disks.loops, self._disks.lacking)
        nemesis.register(ProcessFaults(nemesis), ClockFaults(nemesis), LinkFaults(nemesis), disk_faults)
        async with nemesis, asyncio.TaskGroup() as tasks:
            telling = tasks.create_task(self._tell(workload))
            load = tasks.create_task(workload.run())
            strikes = tasks.create_task(nemesis.run())
            names = CHOSEN if self._hostile else ()
            attacks = tasks.create_task(attack_in_turn(names, cluster.nodes, nemesis.watch.leader, self._say))
            await asyncio.sleep(self._plan.seconds)
            self._say("healing")
            attacks.cancel()
            workload.stop()
            await nemesis.heal()
            await strikes
            await disk_faults.heal()
            self._say("waiting for what is outstanding")
            drained = await load
            self._say("asking what became of some")
            await take_account(list(cluster.nodes.values()), self._history, self._plan.seed)
            telling.cancel()
        self._say("stopping the nodes in order, comparing their files")
        await self._digests(cluster)
        directories = {name: node.data_path for name, node in (cluster.nodes | cluster.gone).items()}
        begun = await asyncio.to_thread(starts, directories, cluster.kept())
        self._say(f"judging {len(self._history.events):,} events")
        history, unaccounted = whole(self._history, begun, self._load)
        gc.disable()  # millions of events: looking through them again and again takes longer than judging them
        try:
            verdicts = judge(history)
        finally:
            gc.enable()
        return Result(
            history=history,
            verdicts=verdicts,
            fired=dict(nemesis.fired),
            passed=dict(nemesis.passed),
            reasons=dict(nemesis.reasons),
            not_run=nemesis.not_run,
            disks=disk_faults.broken,
            damages=[damage.describe() for damage in disk_faults.damages],
            fail_stop_ms=disk_faults.fail_stop_ms,
            unaccounted_by_power=unaccounted,
            drained=drained,
        )

    async def _digests(self, cluster: Cluster) -> None:
        found = await cluster.digests()
        for node_id, (digest, applied) in found.items():
            damage = (await asyncio.to_thread(verify, cluster.nodes[node_id].data_path)).faults
            mono_ms, wall_ms = self._history.now()
            self._history.record(
                Digest(
                    mono_ms=mono_ms,
                    wall_ms=wall_ms,
                    node=node_id,
                    applied_index=applied,
                    digest=digest,
                    damage=tuple(damage),
                )
            )

    async def _tell(self, workload: Workload) -> None:
        """A line now and then, and one for each fault."""
        counts = {"handed over": 0}
        begun_s = time.monotonic()

        def see(event: object) -> None:
            if isinstance(event, HandedOver):
                counts["handed over"] += 1
            elif isinstance(event, Fault):
                took_s = time.monotonic() - begun_s
                self._say(f"{took_s:7.1f} s  {event.kind} {event.node} {event.phase} {event.detail}".rstrip())

        self._history.listen(see)
        while True:
            await asyncio.sleep(TOLD_S)
            outstanding = workload.outstanding
            self._say(
                f"{time.monotonic() - begun_s:7.1f} s  acknowledged {outstanding.acknowledged_count:,}, handed over "
                f"{counts['handed over']:,}"
            )


def kinds_not_shown(plan: FaultPlan, result: Result, kinds: Sequence[str]) -> list[str]:
    """Kinds that this run says nothing of, a line each with its reason: never skipped in silence."""
    planned = {fault.kind for fault in plan.faults}
    lines = []
    for kind in kinds:
        if kind in result.not_run:
            lines.append(f"{kind}: not run: {result.not_run[kind]}")
        elif kind not in planned:
            lines.append(f"{kind}: not in the plan")
        elif not result.fired.get(kind):
            why = next((reason for reason in result.reasons if reason.startswith(f"{kind}: ")), f"{kind}: not reached")
            lines.append(f"{kind}: passed over: {why.partition(': ')[2]}")
    return lines


__all__ = ["LOAD", "ClusterFailed", "LiveRun", "Result", "kinds_not_shown"]
