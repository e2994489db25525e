"""Seeds in every build, and that a seed is a run: the same one however the interpreter hashes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.ask_draw import with_asks
from chaos.fault_draw import draw_plan
from chaos.simulator.run import run_plan

ROOT = Path(__file__).parents[3]
SECONDS = 60.0
SEEDS = (2, 11)


@pytest.mark.parametrize("seed", SEEDS)
def test_seed_breaks_no_promise(seed: int) -> None:
    """A minute of load and faults, clients who ask, and, with 11, older builds; enough happens for the verdicts to say
    something."""
    run = run_plan(with_asks(draw_plan(seed, SECONDS)))
    again = f"hourwheel chaos sim --seed {seed} --seconds {SECONDS:g}"
    assert not run.broken, "\n".join([*run.broken, run.plan.render(), again])
    assert run.counts, (run.hand_overs, run.changes)


def test_trace_is_that_of_the_seed_whatever_the_hash_seed() -> None:
    """Two interpreters with different hash seeds go through the same events: network, disks, processes, receivers."""
    program = (
        "from chaos.fault_draw import draw_plan\n"
        "from chaos.simulator.run import run_plan\n"
        "run = run_plan(draw_plan(3, 12))\n"
        "print(run.trace, run.hand_overs, run.changes, sorted(run.fired.items()))\n"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("1", "2")
    ]
    told = {process.communicate(timeout=120)[0] for process in running}
    assert all(process.returncode == 0 for process in running)
    assert len(told) == 1
