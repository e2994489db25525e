"""Seeds in every build."""

import pytest

from chaos.plan.draw import draw_plan
from chaos.plan.draw_answers import with_asks
from chaos.simulator.run import run_plan

#: (seed, seconds)
SEEDS = ((2, 40), (7, 45))


@pytest.mark.parametrize(("seed", "seconds"), SEEDS)
def test_seed_breaks_no_promise(seed: int, seconds: int) -> None:
    """Load and faults, clients who ask, and, with 7, older builds; enough happens for the verdicts to say
    something."""
    run = run_plan(with_asks(draw_plan(seed, seconds)))
    again = f"hourwheel chaos sim --seed {seed} --seconds {seconds}"
    assert not run.broken, "\n".join([*run.broken, run.plan.render(), again])
    assert run.counts, (run.hand_overs, run.changes)
