"""One trial: a cluster under load, a script of faults, the verdicts, and the nodes' files compared at the end.

The script waits on what the consumers see (`served`), so that faults come when the service is known to run, however
slow the machine is.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from chaos.cluster.cluster import READY_S, Cluster, ClusterFailed
from chaos.history.bounds import Bounds
from chaos.history.event import Event, HandedOver
from chaos.history.history import History
from chaos.history.verdict import Verdict
from chaos.load.account import take_account
from chaos.load.webhooks import PUSH_SETTINGS, account, starts
from chaos.load.workload import Workload
from chaos.plan.load_plan import Plan
from chaos.scenario.checker import judge
from chaos.scenario.nemesis import Nemesis
from storage.directory.verify import verify

#: So many messages are asked about at the end: a trial is short.
ACCOUNTED = 100


@dataclass(frozen=True)
class Outcome:
    """What a trial ended with: verdicts by promise, digest and applied index by node, faults of files by node."""

    verdicts: dict[str, Verdict]
    digests: dict[str, tuple[str, int]]
    damage: dict[str, list[str]]

    @property
    def broken(self) -> list[str]:
        """Everything that is wrong, as lines."""
        lines = [verdict.describe() for verdict in self.verdicts.values() if not verdict.holds]
        if len(set(self.digests.values())) > 1:
            lines.append(f"H: the nodes' files differ: {self.digests}")
        return lines + [f"{node_id}: {fault}" for node_id, faults in self.damage.items() for fault in faults]

    def describe(self) -> str:
        """All verdicts and the digests, a line each."""
        lines = [verdict.describe() for verdict in self.verdicts.values()]
        return "\n".join(lines + [f"H: {node_id} {value}" for node_id, value in self.digests.items()] + self.broken)


class Trial:
    """A cluster in `directory` under `plan`. Use as `async with`; the script gets the trial."""

    def __init__(
        self,
        directory: Path,
        plan: Plan,
        *,
        slow: bool = False,
        skewed: bool = False,
        settings: Mapping[str, Mapping[str, object]] | None = None,
        spare: int = 0,
    ) -> None:
        self.directory, self.plan = directory, plan
        self.history = History()
        settings = {**PUSH_SETTINGS, **(settings or {})} if plan.push_share else settings
        self.cluster = Cluster(directory, slow=slow, skewed=skewed, settings=settings, spare=spare)
        self.nemesis = Nemesis(self.cluster, self.history)
        everybody = [*self.cluster.nodes.values(), *self.cluster.spare.values()]
        self.workload = Workload(everybody, plan, self.history)
        self._served = 0
        self._more = asyncio.Event()
        self.history.listen(self._count)

    async def __aenter__(self) -> Self:
        await self.workload.webhooks.__aenter__()
        await self.cluster.__aenter__()
        self.cluster.start()
        await self.cluster.wait_ready()
        if self.plan.strict:  # below, a topic that is made strict is in doubt of its first second
            await self.cluster.wait_raised()
        return self

    async def __aexit__(self, *error: object) -> None:
        self.history.write(self.directory / "history.ndjson")
        await self.cluster.__aexit__(None, None, None)
        await self.workload.webhooks.__aexit__()

    def _count(self, event: Event) -> None:
        if isinstance(event, HandedOver):
            self._served += 1
            self._more.set()

    async def served(self, count: int, timeout_s: float = READY_S) -> None:
        """Until `count` more messages were handed over. Raises ClusterFailed when none is for so long."""
        until = self._served + count
        while self._served < until:
            self._more.clear()
            try:
                await asyncio.wait_for(self._more.wait(), timeout_s)
            except TimeoutError:
                made = self._served - until + count
                raise ClusterFailed(f"no hand-over for {timeout_s} s, after {made} of {count}") from None

    async def run(self, script: Callable[[Self], Awaitable[None]]) -> None:
        """Runs the script under load; then the load ends and what is outstanding is waited for."""
        async with asyncio.TaskGroup() as tasks:
            load = tasks.create_task(self.workload.run())
            await script(self)
            self.workload.stop()
            await load

    async def judge(self, bounds: Bounds) -> Outcome:
        """Stops all nodes gracefully and judges the history and the files."""
        await take_account(list(self.cluster.nodes.values()), self.history, self.plan.seed, ACCOUNTED)
        digests = await self.cluster.digests()
        if self.plan.push_share:
            everybody = self.cluster.nodes | self.cluster.gone
            data_paths = {node_id: node.data_path for node_id, node in everybody.items()}
            self.history = account(self.history, starts(data_paths, self.cluster.kept()), self.plan)
        damage = {node_id: verify(node.data_path).faults for node_id, node in self.cluster.nodes.items()}
        return Outcome({verdict.promise: verdict for verdict in judge(self.history, bounds)}, digests, damage)
