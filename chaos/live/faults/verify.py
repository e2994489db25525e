"""The result of `hourwheel verify` for a data directory whose node is down."""

import subprocess
import sys
from pathlib import Path

from chaos.cluster.cluster import ClusterFailed
from cli.local.local_nodes import this_build
from node.runtime.exit_code import ExitCode
from storage.directory.verify import UNWRITTEN


def verify_command(data: Path) -> subprocess.CompletedProcess[str]:
    """Run `hourwheel verify` as an operator does. Raises ClusterFailed if the result is another than sound or
    damaged."""
    command = [sys.executable, "-P", "-m", "cli", "verify", str(data)]
    said = subprocess.run(command, capture_output=True, text=True, check=False, env=this_build())
    if said.returncode not in (ExitCode.OK, ExitCode.DATA):
        raise ClusterFailed(f"hourwheel verify {data} ended with {said.returncode}: {said.stderr[-500:]}")
    return said


def unwritten_rows(data: Path) -> str:
    """The note on rows of the delivery log that were never written, or whose page was lost. Empty without any."""
    return unwritten_in(verify_command(data))


def unwritten_in(said: subprocess.CompletedProcess[str]) -> str:
    """The same note from a result of `verify`."""
    return next((line for line in said.stdout.splitlines() if UNWRITTEN in line), "")
