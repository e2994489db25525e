"""The skewed clock moves the wall clock of the process it is loaded into, as its control file says, nothing else."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chaos.cluster.faulty_disk import FaultyDisk
from chaos.cluster.preload import together
from chaos.cluster.skewed_clock import SkewedClock

SCRIPT = """
import datetime, os, sys, time
for line in sys.stdin:
    begin = time.monotonic()
    time.sleep(0.05)
    slept = time.monotonic() - begin
    coarse = time.clock_gettime(5)  # CLOCK_REALTIME_COARSE, which Python does not name
    wall = (time.time(), time.time_ns() / 1e9, datetime.datetime.now().timestamp(), coarse)
    print(*wall, time.monotonic(), slept, flush=True)
"""


@contextmanager
def process(environment: dict[str, str]) -> Iterator[Callable[[], list[float]]]:
    """A Python that reads all its clocks when asked: four wall clocks, the monotonic one, and how long 50 ms took."""
    command = [sys.executable, "-c", SCRIPT]
    running = subprocess.Popen(
        command, env=os.environ | environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert running.stdin is not None
    assert running.stdout is not None
    stdin, stdout = running.stdin, running.stdout

    def read() -> list[float]:
        stdin.write("\n")
        stdin.flush()
        return [float(text) for text in stdout.readline().split()]

    with stdin, stdout:
        yield read
    assert running.wait() == 0


def ahead_s(read: Callable[[], list[float]]) -> list[float]:
    """How far each of the process's wall clocks is ahead of the machine's, to a few milliseconds; sleeps stay true."""
    *walls, monotonic, slept = read()
    now, machine = time.monotonic(), time.clock_gettime(time.CLOCK_REALTIME)
    assert abs(monotonic - now) < 0.1, "the monotonic clock was moved"
    assert 0.05 <= slept < 0.5
    return [wall - (machine - (now - monotonic)) for wall in walls]


def test_steps_both_ways_while_the_process_runs(tmp_path: Path) -> None:
    """All wall clocks move together, at once, and back; another node's file changes nothing."""
    clocks = SkewedClock(tmp_path)
    clocks.build()
    with process(clocks.environment("n1")) as read:
        for offset_s in (0, 10, -10, 7200, 0.3, 0):
            clocks.set("n1", offset_s * 1000)
            clocks.set("n2", 5_000)
            assert ahead_s(read) == pytest.approx([offset_s] * 4, abs=0.05)


def test_drift_counts_from_when_it_was_set(tmp_path: Path) -> None:
    """Half as fast again: after a second it is half a second ahead of where it was stepped to."""
    clocks = SkewedClock(tmp_path)
    clocks.build()
    with process(clocks.environment("n1")) as read:
        clocks.set("n1", 1_000, drift_ppm=500_000)
        begun = time.monotonic()
        for _ in range(8):
            found = ahead_s(read)
            assert found == pytest.approx([1 + 0.5 * (time.monotonic() - begun)] * 4, abs=0.1)


def test_it_goes_with_the_faulty_disk(tmp_path: Path) -> None:
    """Both libraries in one process; one that was started without a control file has the machine's clock."""
    clocks, disks = SkewedClock(tmp_path), FaultyDisk(tmp_path)
    clocks.build()
    disks.build()
    clocks.set("n1", 2_000)
    both = together(disks.environment("n1"), clocks.environment("n1"))
    assert both["LD_PRELOAD"].count(".so") == 2
    with process(both) as read:
        assert ahead_s(read) == pytest.approx([2] * 4, abs=0.05)
    with process({"LD_PRELOAD": both["LD_PRELOAD"]}) as read:
        assert ahead_s(read) == pytest.approx([0] * 4, abs=0.05)
    assert together() == {}
