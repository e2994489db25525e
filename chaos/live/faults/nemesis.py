"""Carries out a plan of faults on the processes of a cluster, and reports the result of each.

Each fault is a task. It waits for the time that the plan gives it, or until the service is calm. Its target (such as
`leader`) is resolved at that moment. The handler of its kind puts the fault on. It takes the fault off when its time is
over or all is healed. A test that is written in code puts its faults on with `on`.

Every fault is in the history with its begin and its end. A fault that would break an assumption is passed over. A fault
that this machine cannot carry out is not run. The report has both with their reasons: it says what a run did not show.

The assumptions are the simulator's: at most one node's disk is in doubt at a time, and at most one node's clock is
wrong. A disk is in doubt from the decision on a fault that empties or damages it. The doubt ends after the fault, when
a leader counts the node as a voter that has caught up. If the node itself led, that has to be a leader of a later term.
What a node said before the fault tells nothing about the disk that it has now.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal, Self

from chaos.cluster.cluster import READY_S, Cluster, ClusterFailed
from chaos.history.event import Fault as Seen
from chaos.history.history import History
from chaos.live.faults.handler import Handler, Handlers, NotRun, PassedOver
from chaos.live.faults.leader_watch import Watch
from chaos.live.faults.process_holds import ProcessHolds
from chaos.live.faults.service import Service
from chaos.plan.fault_plan import KINDS, Fault, FaultPlan
from chaos.plan.target import FaultTarget

#: A node that ends by itself this often after all was healed will not come back.
ENDS_MAX: Final = 2

Role = Literal["leader", "follower"]
_ENDS: Final = re.compile(r"[-|>,]")


@dataclass(slots=True)
class Doubt:
    """The doubt about one node's disk. `faults` counts the faults that empty or damage the disk now. When the last of
    them is over, `index` is set to the leader's commit index; None until it is known. A leader of a term above `term`
    ends the doubt, once the node has applied all up to `index`."""

    term: int
    faults: int = 0
    index: int | None = None


class LiveNemesis:
    """Puts the faults of `plan` on `cluster`, whose nodes run. Use as `async with`, `register` handlers, then `run` and
    `heal`.

    `rate` is the number of messages a second that the load offers, by which calm is measured. The load goes on for
    `after_s` after the last fault that waits for calm. By then all that this fault excuses is over, so its end is
    judged too.

    - `fired` and `passed` count the faults by kind that were put on, and that were passed over.
    - `not_run` says by kind why this machine cannot carry it out.
    - `reasons` says why faults were passed over.
    - `fell_short` lists what differed from the plan.
    """

    def __init__(
        self, cluster: Cluster, history: History, plan: FaultPlan, rate: float = 0.0, after_s: float = 0.0
    ) -> None:
        self.cluster, self.history, self.plan = cluster, history, plan
        self.holds = ProcessHolds(cluster, history)
        self.watch = Watch(cluster, history)
        self.fault_target = FaultTarget(lambda: list(cluster.nodes), self.watch.leader)
        self.fired: Counter[str] = Counter()
        self.passed: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.not_run: dict[str, str] = {}
        self.fell_short: list[str] = []
        self.service = Service(history, rate, self._serves)
        self._after_s = after_s
        self.turns_over = asyncio.Event()
        """Set when the last fault that waits for calm is over, the service was calm again, and the load went on for
        `after_s`."""
        self._doubts: dict[str, Doubt] = {}
        self.rotten: set[str] = set()
        """Nodes whose files were damaged and not emptied since. Their disks are in doubt, even if they run well."""
        self._doubting = asyncio.Lock()
        self._handlers: dict[str, Handler] = {}
        self._begun: dict[int, list[tuple[str, Role]]] = {}  # by id(fault): a plan may hold two that are equal
        self._beside: list[Fault] = []  # faults of this turn that are not over; the first to end is the last
        self._healed = asyncio.Event()
        self._strikes: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self.watch.__aenter__()
        self.holds.start(*self.cluster.nodes)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._healed.set()
        try:
            await self.rest()  # a node that is down stays down: the nodes are about to be stopped
        finally:
            for strike in self._strikes:
                strike.cancel()
            await asyncio.gather(*self._strikes, return_exceptions=True)

    def register(self, *several: Handlers | Mapping[str, Handler]) -> None:
        """Add handlers to the table. A later handler replaces an earlier one of its kind."""
        for handlers in several:
            table = handlers if isinstance(handlers, Mapping) else handlers.handlers()
            assert table.keys() <= KINDS.keys(), f"no kinds of the language: {table.keys() - KINDS.keys()}"
            self._handlers |= table

    async def run(self) -> None:
        """Put on every fault: at its moment, counted from now, or when the service is calm, if the fault waits for
        that. Return when all have ended. Raises an ExceptionGroup of the handlers' failures, with ClusterFailed in it
        when calm does not come."""
        begin_s = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as tasks:
            timed = [fault for fault in self.plan.faults if not fault.begins]
            self._strikes = [tasks.create_task(self._at(begin_s + fault.at_s, fault)) for fault in timed]
            self._strikes.append(tasks.create_task(self._in_turn(self.plan.in_turn)))

    async def heal(self, timeout_s: float = READY_S) -> None:
        """End all faults now. Return when every node runs, hears all others and is ready. Raises ClusterFailed if that
        does not happen, or if a node ends by itself ENDS_MAX times."""
        self._healed.set()
        self.holds.ends_alone.clear()
        await asyncio.gather(*self._strikes, return_exceptions=True)  # `run` has raised their exceptions
        if self.cluster.cluster_network.links is not None:
            self.cluster.cluster_network.links.heal()
        self.holds.start(*self.cluster.nodes)
        ready = asyncio.create_task(self.cluster.wait_ready(*self.cluster.nodes, timeout_s=timeout_s))
        ended = asyncio.create_task(self.holds.ended_alone(ENDS_MAX))
        try:
            await asyncio.wait((ready, ended), return_when=asyncio.FIRST_COMPLETED)
            if not ready.done():
                raise ClusterFailed(f"after all was healed {ended.result()}")
            ready.result()
        finally:
            ready.cancel()
            ended.cancel()
            await asyncio.gather(ready, ended, return_exceptions=True)

    async def rest(self) -> None:
        """Stop watching the nodes: they are about to be stopped."""
        await self.holds.rest()
        await self.watch.__aexit__()

    # -- for handlers, and tests in code

    @asynccontextmanager
    async def on(self, fault: Fault) -> AsyncIterator[tuple[str, ...]]:
        """Put the fault on for the block. The fault's own moment and length (`at_s`, `for_s`) do not matter here. Yield
        the nodes that it hits. Raises PassedOver or NotRun."""
        handler = self._handlers.get(fault.kind)
        if handler is None:
            raise NotRun("nothing here carries it out")
        nodes = tuple(self.fault_target.nodes(fault.target)) if KINDS[fault.kind].shape == "node" else ()
        if KINDS[fault.kind].shape == "node" and not nodes:
            raise PassedOver(f"there is no {fault.target}")
        try:
            async with handler(fault, nodes):
                self.begun(fault, nodes)
                self.fired[fault.kind] += 1
                yield nodes
        finally:
            if id(fault) in self._begun:
                self._mark(fault, "end")
                del self._begun[id(fault)]

    async def until_over(self, fault: Fault) -> None:
        """Wait as long as the plan lets this fault last, which is on now. Return earlier if all is healed."""
        if not fault.ends:
            await self.lasts(fault.for_s)
            return
        await self._calm(fault.for_s, lambda: any(each is fault for each in self._beside[:-1]))

    def begun(self, fault: Fault, nodes: tuple[str, ...]) -> None:
        """Record the begin of a fault, if the history does not have it yet. A handler that waits afterwards calls this
        at the moment of the signal. For all other handlers the nemesis calls it when the fault is on."""
        if id(fault) in self._begun:
            return
        leader = self.watch.leader() or self.fault_target.leader
        if KINDS[fault.kind].shape == "node":
            hit: list[tuple[str, Role]] = [(name, "leader" if name == leader else "follower") for name in nodes]
        else:
            target = self.fault_target.named(fault.target)
            touched = {leader, "*"} & set(_ENDS.split(target))
            hit = [(target, "leader" if touched else "follower")]
        self._begun[id(fault)] = hit
        self._mark(fault, "begin")

    @asynccontextmanager
    async def doubt(self, node_id: str) -> AsyncIterator[bool]:
        """Wrap a fault that empties or damages the disk of this node, and the node's start after it. Yield True if the
        disk was in doubt already: no other node relies on it then. Raises PassedOver while another node's disk is in
        doubt."""
        async with self._doubting:
            for other in sorted(self._doubts):
                if await self._over(other):
                    del self._doubts[other]
            already = node_id in self._doubts
            if (self._doubts.keys() | self.rotten) - {node_id}:
                raise PassedOver("the disk of another node is in doubt")
            doubt = self._doubts.setdefault(node_id, Doubt(0))
            known = self.watch.leadership()
            led = known is None or known.node_id == node_id
            doubt.term = max(doubt.term, self.watch.term - (not led))
            doubt.faults += 1
            doubt.index = None
        try:
            yield already
        finally:
            doubt.faults -= 1
        if (page := await self._leaders_page()) is not None:
            doubt.index = int(page["commit_index"])

    async def _over(self, node_id: str) -> bool:
        """True if no fault damages the node's disk any more and a leader counts the node."""
        doubt = self._doubts[node_id]
        if doubt.faults or node_id in self.rotten:
            return False
        return node_id not in self.cluster.nodes or await self._caught_up(node_id, doubt)

    async def _caught_up(self, node_id: str, doubt: Doubt) -> bool:
        """True if a leader of a later term counts the node as a voter that has applied all up to the doubt's index. The
        node has to say the same. How far the node is behind says nothing: an empty disk lacks all that was committed,
        even if that is little."""
        page, own = await self._leaders_page(), await self.cluster.status(node_id)
        if page is None or own is None or int(page["term"]) <= doubt.term:
            return False
        if doubt.index is None:
            doubt.index = int(page["commit_index"])
        return all(_counts(each, node_id, doubt.index) for each in (page, own))

    async def _leaders_page(self) -> dict[str, Any] | None:
        """The cluster page of the leader. None if no node says that it leads."""
        leader = self.watch.leader()
        page = await self.cluster.status(leader) if leader in self.cluster.nodes else None
        return page if page is not None and page["leader"] == leader else None

    # -- one fault

    async def _at(self, at_s: float, fault: Fault) -> None:
        if await self.lasts(at_s - asyncio.get_running_loop().time()):
            await self._strike(fault)

    async def _in_turn(self, faults: Sequence[Fault]) -> None:
        """Put on the faults that wait for calm, each when the one before is over and the service is calm. End early if
        all is healed."""
        starts = [place for place, fault in enumerate(faults) if fault.begins == "+"]
        for begin, end in pairwise([*starts, len(faults)]):
            await self.cluster.wait_ready(*self.cluster.nodes)
            if not await self._beside_each_other(faults[begin:end]):
                return
        if faults:
            await self.cluster.wait_ready(*self.cluster.nodes)
            if not (await self._calm(faults[-1].at_s) and await self.lasts(self._after_s)):
                return
        self.turns_over.set()

    async def _beside_each_other(self, faults: Sequence[Fault]) -> bool:
        """Put on the first fault once the service is calm. Put on each later one while those before it are on, once the
        service is calm beside them. Return when all have ended. False if all was healed before the last one came."""
        self._beside = list(faults)
        async with asyncio.TaskGroup() as tasks:
            for place, fault in enumerate(faults):
                if not await self._calm(fault.at_s):
                    return False
                await self.watch.wait_leader()
                if place and not any(each is faults[place - 1] for each in self._beside):
                    line = " ".join(fault.render().split())
                    self.fell_short.append(f"{line}: the fault that it was to be beside was over")
                tasks.create_task(self._turn(fault))
        return True

    async def _turn(self, fault: Fault) -> None:
        try:
            await self._strike(fault)
        finally:
            self._beside = [each for each in self._beside if each is not fault]

    async def _calm(self, seconds: float, waits: Callable[[], bool] = lambda: False) -> bool:
        """Wait until the service was calm for this long (see Service). False if all was healed before."""
        calm = asyncio.create_task(self.service.calm(seconds, waits=waits))
        healed = asyncio.create_task(self._healed.wait())
        try:
            await asyncio.wait((calm, healed), return_when=asyncio.FIRST_COMPLETED)
            if calm.done():
                calm.result()
            return not healed.done()
        finally:
            calm.cancel()
            healed.cancel()
            await asyncio.gather(calm, healed, return_exceptions=True)

    async def _strike(self, fault: Fault) -> None:
        try:
            async with self.on(fault):
                await self.until_over(fault)
        except NotRun as why:
            self.not_run.setdefault(fault.kind, str(why))
        except PassedOver as why:
            self.passed[fault.kind] += 1
            self.reasons[f"{fault.kind}: {why}"] += 1

    def _serves(self) -> bool:
        """True if a node leads that no fault holds."""
        leader = self.watch.leader()
        return leader is not None and not self.holds.away(leader)

    async def lasts(self, seconds: float) -> bool:
        """Wait this long and return True. Return False at once when all faults are being healed (`heal`)."""
        try:
            async with asyncio.timeout(max(seconds, 0.0)):
                await self._healed.wait()
        except TimeoutError:
            return True
        return False

    def _mark(self, fault: Fault, phase: Literal["begin", "end"]) -> None:
        detail = " ".join(fault.render().split()[3:])
        mono_ms, wall_ms = self.history.now()
        for node, role in self._begun[id(fault)]:
            self.history.record(
                Seen(
                    mono_ms=mono_ms, wall_ms=wall_ms, kind=fault.kind, node=node, role=role, phase=phase, detail=detail
                )
            )


def _counts(page: Mapping[str, Any], node_id: str, index: int) -> bool:
    """True if this page has the node as a voter that has applied all up to `index`."""
    for row in page["nodes"]:
        if row["id"] == node_id:
            applied = row["applied_index"]
            return applied is not None and int(applied) >= index and row["role"] != "learner"
    return False
