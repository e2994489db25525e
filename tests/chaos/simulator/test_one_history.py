"""A seed is a run: the same one however the interpreter hashes."""

import os
import subprocess
import sys
from pathlib import Path

from tests.chaos.simulator.test_strangers import ONE_AWAY
from tests.chaos.simulator.test_upgrade import LAST, THERE_AND_BACK

ROOT = Path(__file__).parents[3]
#: Several runs by one interpreter, each a line: what happened and what was broken.
PROGRAM = """
import sys
from chaos.ask_draw import with_asks
from chaos.fault_draw import draw_plan
from chaos.fault_plan import FaultPlan
from chaos.simulator.crowd import CrowdShape
from chaos.simulator.run import run_plan
runs = [run_plan(with_asks(draw_plan(3, 10))), run_plan(draw_plan(6, 10), crowd=CrowdShape(hours=60, keyed=60))]
runs += [run_plan(FaultPlan.parse(plan)) for plan in sys.argv[1:]]
for run in runs:
    print(run.trace, run.hand_overs, run.changes, sorted(run.fired.items()), sorted(run.promises - {"held"}))
"""


def test_a_seed_is_one_history_whatever_the_hash_seed() -> None:
    """Two interpreters with different hash seeds go through the same events: network, disks, processes, receivers,
    clients who ask, what is charged for a crowd, strangers, and two builds."""
    plans = [ONE_AWAY, THERE_AND_BACK.format(seed=2) + LAST]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *plans],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("1", "2")
    ]
    told = [process.communicate(timeout=240)[0].splitlines() for process in running]
    assert all(process.returncode == 0 for process in running)
    assert told[0] == told[1]
    assert len(told[0]) == 4
    assert all(line.endswith(" []") for line in told[0])
