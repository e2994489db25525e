"""The result of `hourwheel verify` for a data directory whose node is down."""

import subprocess
import sys
from pathlib import Path

from chaos.cluster.cluster import ClusterFailed
from cli.local.local_nodes import this_build
from node.runtime.exit_code import ExitCode
from storage.directory.verify import UNWRITTEN


def verify_command(data: Path) -> subprocess.CompletedProcess[str]:
    """Run `hourwheel verify` as an operator does, and return its result. Raises ClusterFailed if it says something else
    than that the directory is sound or damaged."""
    command = [sys.executable, "-P", "-m", "cli", "verify", str(data)]
    said = subprocess.run(command, capture_output=True, text=True, check=False, env=this_build())
    if said.returncode not in (ExitCode.OK, ExitCode.DATA):
        raise ClusterFailed(f"hourwheel verify {data} ended with {said.returncode}: {said.stderr[-500:]}")
    return said


def unwritten_rows(data: Path) -> str:
    """Run `hourwheel verify`. Return its line about rows of the delivery log that were never written, or whose page was
    lost. "" without such a line."""
    return unwritten_in(verify_command(data))


def unwritten_in(said: subprocess.CompletedProcess[str]) -> str:
    """Return the line that `unwritten_rows` returns, from a `verify` that was run before."""
    return next((line for line in said.stdout.splitlines() if UNWRITTEN in line), "")
