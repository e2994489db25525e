"""Wrong clocks: one node's, or all together."""

from __future__ import annotations

from collections.abc import Callable

from chaos.plan.fault_plan import Fault
from chaos.plan.target import FaultTarget
from chaos.simulator.world.process import Process
from chaos.simulator.world.world import World


class ClockFaults:
    """The clock faults of one world: at most one node's clock is wrong at a time, or all together. `mark(kind,
    node_id)` records the begin of a fault. `after(fault, call, *args)` makes the call at the fault's end. `ahead_s` is
    the farthest that all clocks together were set ahead."""

    def __init__(
        self, world: World, fault_target: FaultTarget, mark: Callable[[str, str], None], after: Callable[..., None]
    ) -> None:
        self.ahead_s = 0.0
        self._world, self._fault_target, self._mark, self._after = world, fault_target, mark, after
        self._wrong: str | None = None

    def jump(self, fault: Fault) -> bool:
        """Step the wall clock of one node, or of all, and step it back at the fault's end. False if another clock is
        wrong now: then nothing is done."""
        return self._put_wrong(fault, lambda process: process.clock.jump(fault.number("by")))

    def drift(self, fault: Fault) -> bool:
        """Let one node's crystal run fast or slow until the fault's end. False if another clock is wrong now: then
        nothing is done."""
        return self._put_wrong(fault, lambda process: process.clock.drift(fault.number("ppm")))

    def heal(self) -> None:
        """Set all clocks right. If all clocks together were ahead once, set them that far ahead again, and leave them
        there."""
        self._world.leaps += bool(self.ahead_s) or self._wrong == "*"
        for process in self._world.processes.values():
            process.clock.drift(0.0)
            process.clock.true()
            process.clock.jump(self.ahead_s)

    def _put_wrong(self, fault: Fault, move: Callable[[Process], None]) -> bool:
        nodes = self._fault_target.nodes(fault.target)
        if fault.target == "*" and fault.kind == "jump":
            return self._all_clocks(fault)
        if self._wrong is not None or len(nodes) != 1:
            return False
        process = self._world.processes[nodes[0]]
        self._wrong = process.id
        self._mark(fault.kind, process.id)
        move(process)
        self._after(fault, self._right, process)
        return True

    def _all_clocks(self, fault: Fault) -> bool:
        """Let all clocks jump together, so that no node can tell. Messages whose due times lie before the new time
        become due. At the fault's end the clocks are set right. Leases and due times given meanwhile then lie in the
        future, so `heal` makes the clocks jump again, and leaves them there. False if a clock is wrong already."""
        if self._wrong is not None:
            return False
        self._wrong = "*"
        by_s = fault.number("by")
        self.ahead_s = max(self.ahead_s, by_s)
        self._world.leaps += 1
        for process in self._world.processes.values():
            process.clock.jump(by_s)
            self._after(fault, self._right, process)
        return True

    def _right(self, process: Process) -> None:
        self._world.leaps += self._wrong == "*"
        process.clock.drift(0.0)
        process.clock.true()
        self._wrong = None
