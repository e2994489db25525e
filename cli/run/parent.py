"""A process that shall not outlive the one that started it, even when that is killed with -9."""

import ctypes
import os
import signal
import sys

from cli.failure import Failure
from node.runtime.exit_code import ExitCode

_PR_SET_PDEATHSIG = 1


def end_with(parent: int) -> None:
    """Asks the kernel for SIGTERM when the parent dies (Linux); raises Failure if it is gone already."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        raise Failure(ExitCode.FAILED, f"the process that started this one ({parent}) is gone")
