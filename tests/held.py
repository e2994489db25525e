"""No step of a real node may hold its loop for more than BOUND_MS. Every test of real nodes checks this too.

The measure is processor time of the loop's thread, by the pace of the machine (tests/pace.py). On a busy machine the
thread also waits for a processor, a disk or the interpreter's lock. That time is not counted (see
node/runtime/loop_held.py).

- **Nodes in the test's own loop**: every step is measured where asyncio runs it. The watchdog cannot measure here: it
  counts from beat to beat, and three nodes and a test make many steps between two beats. Garbage collection is not
  counted, because the heap belongs to the whole test run. A test's own coroutine may read hundreds of messages in one
  step, so the first OWN_MS of its steps are not counted.
- **Nodes in processes**: their watchdog logs what held the loop, and the logs in the test's directories are read. The
  watchdog may take several short steps for one. So a line counts only if it saw the same place at least twice. The
  pace is that of the test's end.

A test says `@pytest.mark.held(MS, reason="...")` if its nodes may hold their loop for longer.
"""

from __future__ import annotations

import asyncio
import gc
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.pace import slowness

BOUND_MS = 100.0
OWN_MS = 300.0
_TESTS = str(Path(__file__).parent)
SEEN_MIN = 2
LOG = "node.log"
_NOT_SEARCHED = {"data", "hours", "journal", "catalog", "deliveries", "build", "report"}
_HELD = re.compile(r"loop held .*?doing='(?P<doing>[^']*)'.*?samples='(?P<seen>\d+) of.*?work_ms=(?P<work>\d+)")


class Step(NamedTuple):
    """A step of a loop: its processor time in milliseconds, and its name."""

    work_ms: float
    doing: str


def worst(steps: list[Step], bound_ms: float) -> str:
    """A message about the longest step; empty if every step is within the bound."""
    longest = max(steps, default=Step(0.0, ""))
    if longest.work_ms <= bound_ms:
        return ""
    return f"a loop was held for {longest.work_ms:.0f} ms of work, the bound is {bound_ms:.0f}: {longest.doing}"


def at_pace(steps: list[Step], slow: float) -> list[Step]:
    """These steps as they would have been on a machine that is so many times faster."""
    return [Step(step.work_ms / slow, step.doing) for step in steps]


@contextmanager
def measured() -> Iterator[list[Step]]:
    """Collect the steps of event loops in this thread that work for BOUND_MS / 2 or longer."""
    steps: list[Step] = []
    collecting = collected = 0.0
    handle: Any = asyncio.Handle
    run: Callable[[asyncio.Handle], None] = handle._run

    def on_garbage(phase: str, _info: object) -> None:
        nonlocal collecting, collected
        if phase == "start":
            collecting = time.thread_time()
        else:
            collected += time.thread_time() - collecting

    def timed(self: Any) -> None:
        callback = self._callback
        before, garbage = time.thread_time(), collected
        run(self)
        work_ms = (time.thread_time() - before - (collected - garbage)) * 1000
        own_ms = OWN_MS if _is_of_test(callback) else 0.0
        if work_ms - own_ms >= BOUND_MS / 2:
            steps.append(Step(work_ms / slowness() - own_ms, _name(callback)))

    gc.callbacks.append(on_garbage)
    handle._run = timed
    try:
        yield steps
    finally:
        handle._run = run
        gc.callbacks.remove(on_garbage)


def _is_of_test(callback: Any) -> bool:
    task = getattr(callback, "__self__", None)
    code = getattr(task.get_coro(), "cr_code", None) if isinstance(task, asyncio.Task) else None
    return code is not None and code.co_filename.startswith(_TESTS)


def _name(callback: Any) -> str:
    task = getattr(callback, "__self__", None)
    return repr(task.get_coro() if isinstance(task, asyncio.Task) else callback)


class Logs:
    """Reads the logs of nodes in processes. Each call goes on where the one before ended."""

    def __init__(self) -> None:
        self._read: dict[Path, int] = {}

    def steps(self, directories: list[Path]) -> list[Step]:
        """The steps that watchdogs of nodes below these directories have logged since the last call."""
        found: list[Step] = []
        for path in (path for directory in directories for path in logs_below(directory)):
            begin = self._read.get(path, 0)
            with path.open("rb") as file:
                file.seek(begin)
                said = file.read()
            self._read[path] = begin + len(said)
            found += [step for line in said.decode(errors="replace").splitlines() if (step := told(line))]
        return found


def logs_below(directory: Path) -> Iterator[Path]:
    """The logs of nodes below this directory. Data directories are skipped: they are large and hold no log."""
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        if path.is_dir() and not path.is_symlink() and path.name not in _NOT_SEARCHED:
            yield from logs_below(path)
        elif path.name == LOG:
            yield path


def told(line: str) -> Step | None:
    """The step that a line of a node's log tells of; None if there is none, or few samples saw it."""
    found = _HELD.search(line)
    if found is None or int(found["seen"]) < SEEN_MIN:
        return None
    return Step(float(found["work"]), found["doing"])


def bound_of(request: pytest.FixtureRequest) -> float:
    """The bound of a test: the one in its marker `held`, else BOUND_MS."""
    marker = request.node.get_closest_marker("held")
    if marker is None:
        return BOUND_MS
    assert marker.kwargs.get("reason"), "why may the loop be held?"
    return float(marker.args[0])
