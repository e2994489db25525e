"""No step of a real node holds its loop for more than BOUND_MS: whoever tests real nodes tests that too.

What a step works is counted, processor time of the loop's thread, and nothing else: on a busy machine a thread that
waits for a processor, a disk or the interpreter's lock is held by others (see node/held.py).

- **Nodes in the test's own loop**: every step of the loop is measured where asyncio runs it. The watchdog cannot say it
  there: it counts from beat to beat, and three nodes and a test make many steps between two beats. A collection of
  garbage is not counted: the heap is that of the whole test run.
- **Nodes in processes**: their watchdog logs what held them, and the logs in the test's directories are read. It may
  take some short steps for one; so only what it saw at the same place at least twice is counted.

A test says `@pytest.mark.held(MS, reason="...")` where its nodes may be held longer.
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

BOUND_MS = 100.0
SEEN_MIN = 2
LOG = "node.log"
_NOT_SEARCHED = {"data", "hours", "journal", "catalog", "deliveries", "build", "report"}
_HELD = re.compile(r"loop held .*?doing='(?P<doing>[^']*)'.*?samples='(?P<seen>\d+) of.*?work_ms=(?P<work>\d+)")


class Step(NamedTuple):
    """What held a loop, and for how many milliseconds of work."""

    work_ms: float
    doing: str


def worst(steps: list[Step], bound_ms: float) -> str:
    """What to say of the longest step, nothing if all are within the bound."""
    longest = max(steps, default=Step(0.0, ""))
    if longest.work_ms <= bound_ms:
        return ""
    return f"a loop was held for {longest.work_ms:.0f} ms of work, the bound is {bound_ms:.0f}: {longest.doing}"


@contextmanager
def measured() -> Iterator[list[Step]]:
    """Steps of event loops in this thread that work for BOUND_MS / 2 or longer."""
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
        if work_ms >= BOUND_MS / 2:
            steps.append(Step(work_ms, _name(callback)))

    gc.callbacks.append(on_garbage)
    handle._run = timed
    try:
        yield steps
    finally:
        handle._run = run
        gc.callbacks.remove(on_garbage)


def _name(callback: Any) -> str:
    task = getattr(callback, "__self__", None)
    return repr(task.get_coro() if isinstance(task, asyncio.Task) else callback)


class Logs:
    """The logs of the nodes that a test started in processes, read on from where they were read last."""

    def __init__(self) -> None:
        self._read: dict[Path, int] = {}

    def steps(self, directories: list[Path]) -> list[Step]:
        """What the watchdogs of the nodes below these directories have told since."""
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
    """Not in data directories: they are large, and no log is there."""
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        if path.is_dir() and not path.is_symlink() and path.name not in _NOT_SEARCHED:
            yield from logs_below(path)
        elif path.name == LOG:
            yield path


def told(line: str) -> Step | None:
    """A line of a node's log that tells of a step that was seen often enough."""
    found = _HELD.search(line)
    if found is None or int(found["seen"]) < SEEN_MIN:
        return None
    return Step(float(found["work"]), found["doing"])


def bound_of(request: pytest.FixtureRequest) -> float:
    """BOUND_MS, or what the test says."""
    marker = request.node.get_closest_marker("held")
    if marker is None:
        return BOUND_MS
    assert marker.kwargs.get("reason"), "why may the loop be held?"
    return float(marker.args[0])
