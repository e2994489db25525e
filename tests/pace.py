"""How a test asks what code costs, on machines of any speed: in lines of Python, or in time by the machine's own pace.

A count of lines is the same on every machine and under every load. So what guards the shape of code counts lines: a
Python loop where there was none shows at once. What must be a time is divided by how much slower than usual the
machine is at that moment: shared machines give a processor that is three times slower on some days.
"""

import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

_TURNS = 50_000
_USUAL_S = 0.0015
"""What so many turns of a loop take on the machines that the bounds of tests were measured on."""


def slowness() -> float:
    """How many times slower than usual this machine is now; at least 1. Takes some milliseconds of processor time.

    The fastest of three looks counts: a look that was disturbed would excuse slow code."""
    return max(1.0, min(_turns_s() for _ in range(3)) / _USUAL_S)


def _turns_s() -> float:
    begun_s = time.thread_time()
    total = 0
    for turn in range(_TURNS):
        total += turn
    return time.thread_time() - begun_s


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of Python this work runs, in all functions that it calls in this thread."""
    count = 0

    def each_line(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return each_line

    before = sys.gettrace()
    sys.settrace(each_line)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
