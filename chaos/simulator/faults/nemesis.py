"""Puts a plan of faults on a simulated world, and counts how often each kind fired.

It keeps two assumptions of the promises, because a fault against them may break promises without a mistake in the code:

- at most one node's disk is in doubt at a time: wiped or with a flipped bit, and its node not caught up again;
- at most one node's clock is wrong, or all together.

A fault that would break an assumption is passed over, and `passed` counts it.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from api.port.leadership import TransferResult
from api.port.port import ANONYMOUS
from chaos.client.outcome import Outcome
from chaos.history.event import Crashed, Fault, ProcessEnded, Transferred
from chaos.history.history import History
from chaos.plan.fault_plan import Fault as PlannedFault
from chaos.plan.fault_plan import FaultPlan
from chaos.plan.target import FaultTarget
from chaos.simulator.disk.disk import finds_damage
from chaos.simulator.faults.catches import Catches
from chaos.simulator.faults.clock_faults import ClockFaults
from chaos.simulator.faults.drains import Drains
from chaos.simulator.faults.raft_times import TIMES, may_be_older, set_times
from chaos.simulator.faults.stranger import Strangers
from chaos.simulator.faults.upgrade import Upgrade
from chaos.simulator.network.network import DELAY_S
from chaos.simulator.world.process import End, Process
from chaos.simulator.world.world import World
from storage.file.disk import DiskFailed

FREE_BYTES: Final = 50 << 30
#: The free bytes of a disk that the fault `full` fills: inside the reserve.
FULL_BYTES: Final = 256 << 20
#: A process that has ended is started again after this time, if its fault gives no time.
AGAIN_S: Final = 1.0
#: The rounding in sums of seconds.
EPSILON_S: Final = 1e-6
FLIPPED: Final = {"journal": "journal/*", "hours": "hours/*/*", "catalog": "catalog/data.mdb"}
OPERATION: Final = {"write": "write", "sync": "fdatasync"}


class Nemesis:
    """Puts a plan's faults on one world, takes each off at its end, and starts nodes again. `fired` and `passed` count
    faults by kind: those that came, and those passed over. Call `begin` when the load begins, `heal` when it ends."""

    def __init__(self, world: World, history: History, plan: FaultPlan, upgrade: Upgrade) -> None:
        self.fired: Counter[str] = Counter()
        self.passed: Counter[str] = Counter()
        self._world, self._history, self._plan = world, history, plan
        self._chance = world.random("nemesis")
        self._cuts: Counter[tuple[str, str]] = Counter()
        self._wiped: set[str] = set()  # nodes with an emptied disk, not seen as caught-up voters since
        self._flipped: set[str] = set()  # nodes with a flipped bit, whose disk was not emptied since
        self._failing: set[str] = set()  # nodes whose disk is to fail
        self._down_until_s: dict[str, float] = {}
        self._again_s: dict[str, float] = {}  # the time from a node's end to its next start
        self._over = False
        self._fault_target = FaultTarget(lambda: world.ids, world.leader)
        self.clocks = ClockFaults(world, self._fault_target, self._mark, self._after)
        self._strangers, self._upgrade, self._drains = Strangers(world), upgrade, Drains(world)
        world.on_end = self._ended
        self._catches = Catches(world, history, self._kill, self._power)

    def begin(self) -> None:
        """Let the faults strike at the moments of the plan, counted from now."""
        for fault in self._plan.faults:
            self._world.after(fault.at_s, self._strike, fault)

    def heal(self) -> None:
        """End all faults: every node runs on a sound disk with a right clock, and hears all others."""
        self._over = True
        world = self._world
        self._strangers.end()
        self._drains.end_all()
        self._catches.end()
        self._upgrade.end()
        world.network.heal_all()
        self.clocks.heal()
        for node_id, process in sorted(world.processes.items()):
            process.platter.slow_s, process.platter.free_bytes = 0.0, FREE_BYTES
            process.resume()
            if node_id in self._flipped:
                process.kill()
                self._empty(process)
            process.start()

    # -- striking

    def _strike(self, fault: PlannedFault) -> None:
        if self._over:
            return
        if fault.kind != "stranger":
            self._strangers.leave()
        strike: Callable[[PlannedFault], bool] = getattr(self, f"_{fault.kind}")
        if strike(fault):
            self.fired[fault.kind] += 1
        else:
            self.passed[fault.kind] += 1

    def _after(self, fault: PlannedFault, call: Callable[..., object], *args: Any) -> None:
        """Make the call at the fault's end, unless `heal` came before."""

        def end() -> None:
            if not self._over:
                call(*args)

        self._world.after(fault.for_s, end)

    def _mark(self, kind: str, node_id: str) -> None:
        role = "leader" if node_id == self._world.leader() else "follower"
        self._history.record(
            Fault(**self._history.stamp(), kind=kind, node=node_id, role=role, phase="begin")  # type: ignore[arg-type]
        )

    def _each(self, fault: PlannedFault, strike: Callable[[Process], object]) -> bool:
        hit = False
        for node_id in self._fault_target.nodes(fault.target):
            self._mark(fault.kind, node_id)
            hit |= strike(self._world.processes[node_id]) is not False
        return hit

    # -- processes

    def _kill(self, fault: PlannedFault) -> bool:
        def kill(process: Process) -> bool:
            alive = process.alive
            process.kill()
            self._down(fault, process)
            return alive

        return self._each(fault, kill)

    def _times(self, fault: PlannedFault) -> bool:
        """Kill nodes, and start them again at the fault's end with the times of `[raft]` that its argument `to`
        names."""

        def change(process: Process) -> bool:
            times = fault.word("to")
            if process.older and not may_be_older(TIMES[times]["election_min_ms"]):
                return False
            alive = process.alive
            process.kill()
            set_times(process, times)
            self._down(fault, process)
            return alive

        return self._each(fault, change)

    def _version(self, fault: PlannedFault) -> bool:
        """Kill nodes, and start them again at the fault's end as the build that its argument `to` names."""

        def change(process: Process) -> bool:
            process.kill()
            before = process.older
            self._upgrade.change(process, older=fault.word("to") == "older")
            self._down(fault, process)
            return process.older != before

        return self._each(fault, change)

    def _down(self, fault: PlannedFault, process: Process) -> None:
        """Keep the node down until all faults that took it down are over."""
        until_s = self._down_until_s.get(process.id, 0.0)
        self._down_until_s[process.id] = max(until_s, self._world.now_s + fault.for_s)
        self._after(fault, self._up, process)

    def _up(self, process: Process) -> None:
        if self._world.now_s >= self._down_until_s[process.id] - EPSILON_S:
            process.start()

    def _power(self, fault: PlannedFault) -> bool:
        def cut(process: Process) -> None:
            process.power_cut(torn=fault.word("unsynced") == "torn")
            self._down(fault, process)

        return self._each(fault, cut)

    def _crash(self, fault: PlannedFault) -> bool:
        def crash(process: Process) -> bool:
            if not process.alive:
                return False
            self._again_s[process.id] = fault.for_s
            process.crash_at(int(fault.number("operation")), fault.word("files"))
            return True

        return self._each(fault, crash)

    def _pause(self, fault: PlannedFault) -> bool:
        def pause(process: Process) -> bool:
            process.pause()
            self._after(fault, process.resume)
            return process.alive

        return self._each(fault, pause)

    def _stop(self, fault: PlannedFault) -> bool:
        def stop(process: Process) -> bool:
            self._again_s[process.id] = fault.for_s
            process.stop()
            return process.alive

        return self._each(fault, stop)

    def _catch(self, fault: PlannedFault) -> bool:
        return self._each(fault, lambda process: self._catches.wait(process.id, fault))

    def _drain(self, fault: PlannedFault) -> bool:
        def drain(process: Process) -> None:
            self._drains.begin(process.id)
            self._after(fault, self._drains.end, process.id)

        return self._each(fault, drain)

    def _wipe(self, fault: PlannedFault) -> bool:
        def wipe(process: Process) -> bool:
            if not self._may_lose(process.id):
                return False
            process.kill()
            self._empty(process)
            self._after(fault, process.start)
            return True

        return self._each(fault, wipe)

    def _flip(self, fault: PlannedFault) -> bool:
        def flip(process: Process) -> bool:
            if not self._may_lose(process.id):
                return False
            process.kill()
            place, bit = fault.number("at"), self._chance.randrange(8)
            found = process.platter.flip(FLIPPED[fault.word("file")], place, bit)
            if found is not None:
                self._flipped.add(process.id)
            self._after(fault, process.start)
            return found is not None

        return self._each(fault, flip)

    def _may_lose(self, node_id: str) -> bool:
        """True if this node's disk may be damaged or emptied, because no other node's disk is in doubt."""
        for other in sorted(self._wiped):
            node = self._world.processes[other].node
            if node is not None and node.group.raft.role not in ("learner",) and node.group.caught_up():
                self._wiped.discard(other)
        return not (self._wiped | self._flipped) - {node_id}

    def _empty(self, process: Process) -> None:
        process.wipe()
        self._flipped.discard(process.id)
        self._wiped.add(process.id)

    def _ended(self, end: End) -> None:
        """Note the end of a process, and start it again, unless a fault killed it: then the fault starts it at its own
        end.

        A crash becomes a power cut. A node that refuses files with a flipped bit gets an empty disk.
        """
        process, error = self._world.processes[end.node], end.error
        if end.how != "stop":
            self._history.record(ProcessEnded(**self._history.stamp(), node=end.node))
        if end.how == "crash":  # not now: the crash is in the middle of a callback of the process
            self._world.after(0.0, self._lose_power, process)
        self._strangers.leave()
        if end.how == "failure":
            damaged = end.node in self._flipped and finds_damage(error)
            failed = isinstance(error, DiskFailed) and end.node in self._failing
            refused = self._upgrade.refused(end)
            self._failing.discard(end.node)
            told = f"{type(error).__name__}: {error}"
            self._history.record(
                Crashed(**self._history.stamp(), node=end.node, error=told, expected=damaged or failed or refused)
            )
            if damaged:
                self._world.after(0.0, self._replace, process)
        if end.how in ("failure", "crash", "stop"):
            self._world.after(self._again_s.pop(end.node, AGAIN_S), process.start)

    def _lose_power(self, process: Process) -> None:
        if not process.alive:
            process.power_cut(torn=True)

    def _replace(self, process: Process) -> None:
        if not process.alive and process.id in self._flipped:
            self._empty(process)

    # -- the network

    def _partition(self, fault: PlannedFault) -> bool:
        return self._cut_links(fault, self._fault_target.apart(fault.target))

    def _cut(self, fault: PlannedFault) -> bool:
        return self._cut_links(fault, self._fault_target.links(fault.target))

    def _cut_links(self, fault: PlannedFault, links: list[tuple[str, str]]) -> bool:
        """Cut links. Several faults may cut one link: it is whole again when the last of them ends."""
        for link in links:
            self._cuts[link] += 1
            self._world.network.cut(*link)
        self._after(fault, self._mend, links)
        return bool(links)

    def _mend(self, links: list[tuple[str, str]]) -> None:
        for link in links:
            self._cuts[link] -= 1
            if not self._cuts[link]:
                self._world.network.heal(*link)

    def _loss(self, fault: PlannedFault) -> bool:
        links = self._fault_target.links(fault.target)
        for link in links:
            self._world.network.loss(*link, fault.number("share"))
            self._after(fault, self._world.network.loss, *link, 0.0)
        return bool(links)

    def _stranger(self, fault: PlannedFault) -> bool:
        came = [
            self._strangers.come(node_id, fault.word("knows"), fault.for_s)
            for node_id in self._fault_target.nodes(fault.target)
        ]
        return any(came)

    def _delay(self, fault: PlannedFault) -> bool:
        links = self._fault_target.links(fault.target)
        low_s, high_s = sorted((fault.number("low"), fault.number("high")))
        for link in links:
            self._world.network.delay(*link, low_s, high_s)
            self._after(fault, self._world.network.delay, *link, *DELAY_S)
        return bool(links)

    def _duplicate(self, fault: PlannedFault) -> bool:
        self._world.network.duplicate(fault.number("share"))
        self._after(fault, self._world.network.duplicate, 0.0)
        return True

    # -- clocks and disks

    def _jump(self, fault: PlannedFault) -> bool:
        return self.clocks.jump(fault)

    def _drift(self, fault: PlannedFault) -> bool:
        return self.clocks.drift(fault)

    def _slow(self, fault: PlannedFault) -> bool:
        def slow(process: Process) -> None:
            process.platter.slow_s = fault.number("by")
            self._after(fault, setattr, process.platter, "slow_s", 0.0)

        return self._each(fault, slow)

    def _fail(self, fault: PlannedFault) -> bool:
        def fail(process: Process) -> bool:
            if not process.alive:
                return False
            self._failing.add(process.id)
            self._again_s[process.id] = fault.for_s
            process.disk.fail(getattr(errno, fault.word("errno")), OPERATION[fault.word("operation")])
            return True

        return self._each(fault, fail)

    def _full(self, fault: PlannedFault) -> bool:
        def fill(process: Process) -> None:
            process.platter.free_bytes = FULL_BYTES
            self._after(fault, setattr, process.platter, "free_bytes", FREE_BYTES)

        return self._each(fault, fill)

    # -- leadership

    def _transfer(self, fault: PlannedFault) -> bool:
        (to, *_) = self._fault_target.nodes(fault.target) or [self._fault_target.leader]

        def done(outcome: Outcome[Any]) -> None:
            if outcome.kind == "ok":
                self._transferred(outcome.result, to)

        client = self._world.client(self._fault_target.leader)
        client.call(lambda port: port.transfer(to, principal=ANONYMOUS), done, label="transfer", timeout_s=15)
        return True

    def _transferred(self, answer: TransferResult, asked: str) -> None:
        self._history.record(
            Transferred(
                **self._history.stamp(),
                source=answer.from_node,
                target=answer.to_node,
                asked=asked,
                term_before=answer.term_before,
                term_after=answer.term_after,
                took_ms=answer.took_ms,
                repeated=answer.repeated,
            )
        )
