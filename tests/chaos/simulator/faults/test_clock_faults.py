"""Wrong clocks of a world: one node's, or all together."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.plan.fault_plan import FaultPlan
from chaos.plan.target import FaultTarget
from chaos.simulator.faults.clock_faults import ClockFaults
from chaos.simulator.time.clock import SimClock


@pytest.mark.parametrize(
    ("target", "by_s", "leaps"), [("*", 900.0, [1, 2, 3]), ("*", -900.0, [1, 2, 2]), ("n1", 900.0, [0, 0, 0])]
)
@pytest.mark.parametrize("over", [True, False])
def test_leaps_of_all_clocks_are_counted(target: str, by_s: float, leaps: list[int], over: bool) -> None:
    """When they are set, when they are right again, and at the end of the load."""
    clocks = [SimClock(lambda: 0.0, epoch_s=1e9, zero_s=0.0) for _ in range(2)]
    world: Any = SimpleNamespace(
        leaps=0, processes={f"n{n}": SimpleNamespace(id=f"n{n}", clock=clock) for n, clock in enumerate(clocks, 1)}
    )
    ends: list[Callable[[], None]] = []
    fault_target = FaultTarget(lambda: list(world.processes), lambda: "n1")
    faults = ClockFaults(
        world, fault_target, lambda *_: None, lambda fault, right, process: ends.append(lambda: right(process))
    )
    (fault,) = FaultPlan.parse(f"plan seed=1 nodes=3 seconds=60\n3 jump {target} for=30 by={by_s}\n").faults
    seen = []
    assert faults.jump(fault)
    seen.append(world.leaps)
    if over:
        for end in ends:
            end()
        seen.append(world.leaps)
    faults.heal()
    seen.append(world.leaps)
    assert seen == (leaps if over else [leaps[0], leaps[1]])
    assert [round(clock.skew_s) for clock in clocks] == [max(0.0, by_s) if target == "*" else 0.0] * 2
