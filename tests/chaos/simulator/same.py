"""A plan run twice, by interpreters that hash differently."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys
from chaos.fault_plan import FaultPlan
from chaos.simulator.run import run_plan
run = run_plan(FaultPlan.parse(sys.stdin.read()))
print(run.trace, run.hand_overs, run.changes, sorted(run.fired.items()), run.broken)
"""


def traces(plan: str) -> set[str]:
    """What two such runs print: their traces, what happened and what was broken. One line each, the same if they are
    one history."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("1", "2")
    ]
    told = {process.communicate(plan, timeout=240)[0] for process in running}
    assert all(process.returncode == 0 for process in running)
    return told
