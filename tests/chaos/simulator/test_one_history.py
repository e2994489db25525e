"""A seed is a run: the same one however the interpreter hashes."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
#: Several runs by one interpreter, each a line: what happened and what was broken.
PROGRAM = """
import sys
from chaos.plan.draw_answers import with_asks
from chaos.plan.draw import draw_plan
from chaos.plan.fault_plan import FaultPlan
from chaos.simulator.load.crowd import CrowdShape
from chaos.simulator.run import run_plan
for plan in (with_asks(draw_plan(3, 10)), FaultPlan.parse(sys.argv[1])):
    run = run_plan(plan, crowd=CrowdShape(hours=60, keyed=60))
    print(run.trace, run.hand_overs, run.changes, sorted(run.fired.items()), sorted(run.promises - {"held"}))
"""
TWO_BUILDS = """plan seed=3 nodes=3 seconds=12 older=3
2 version n1 for=0.3 to=newer
3 stranger * for=5 knows=nodes
4 stranger * for=3 knows=cluster
6 kill n3 for=3
7 version n2 for=0.3 to=newer
"""


def test_a_seed_is_one_history_whatever_the_hash_seed() -> None:
    """Two interpreters with different hash seeds go through the same events: network, disks, processes, receivers,
    clients who ask, what is charged for a crowd, strangers, and two builds."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, TWO_BUILDS],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("1", "2")
    ]
    told = [process.communicate(timeout=800)[0].splitlines() for process in running]
    assert all(process.returncode == 0 for process in running)
    assert told[0] == told[1]
    assert len(told[0]) == 2
    assert all(line.endswith(" []") for line in told[0])
