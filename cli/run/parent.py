"""Ends a process with the process that started it, even when that one is killed with -9."""

import ctypes
import os
import signal
import threading
import time

from cli.failure import Failure
from node.runtime.exit_code import ExitCode

_PR_SET_PDEATHSIG = 1
_LOOK_S = 0.5


def end_with(parent: int) -> None:
    """Let this process get SIGTERM when its parent ends. On Linux the kernel sends it, elsewhere a thread that looks
    twice a second. Raises Failure if the parent is gone already."""
    prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    else:
        threading.Thread(target=_watch, args=(parent,), name="parent", daemon=True).start()
    if os.getppid() != parent:
        raise Failure(ExitCode.FAILED, f"the process that started this one ({parent}) is gone")


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os.kill(os.getpid(), signal.SIGTERM)
