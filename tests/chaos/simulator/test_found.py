"""What the simulator has found: each with the plan that shows it."""

import pytest

from chaos.fault_plan import FaultPlan
from chaos.simulator.loop import TimeStandsStill
from chaos.simulator.run import Running, run_plan
from node.reign import Reign


def test_leader_without_trust_does_not_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pushes that are refused for lack of trust wait: the pump woke the dispatcher, the dispatcher turned the pump, as
    fast as the processor allowed, for as long as a leader was cut off. A step a millisecond is plenty.
    """
    steps = 0
    step = Reign._step

    def counted(self: Reign) -> int | None:
        nonlocal steps
        steps += 1
        return step(self)

    monkeypatch.setattr(Reign, "_step", counted)
    run = run_plan(FaultPlan.parse("plan seed=1 nodes=3 seconds=10\n5 partition leader|* for=2\n"))
    assert not run.broken
    assert steps < 1_000 * run.simulated_s


def test_simulation_that_fails_is_a_broken_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time that stands still ends its own run, not a range of seeds: an hour's count would be gone with it."""

    def fails(self: Running) -> list[str]:
        raise TimeStandsStill("at 3.25 s")

    monkeypatch.setattr(Running, "run", fails)
    run = run_plan(FaultPlan.parse("plan seed=1 nodes=3 seconds=10\n"))
    assert "end" in run.promises
    assert "TimeStandsStill: at 3.25 s" in run.broken[0]
