"""The watchdog says how long the event loop was held, whether by our work or by the machine, and at which line."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from node.node import Node
from node.runtime.loop_held import BUCKETS_MS, Hold, LoopHeld
from node.runtime.watchdog import LoopWatchdog, stack_of
from tests.node.single_node import run_node
from tests.waiting import turns, until

pytestmark = pytest.mark.held(1_000, reason="the tests hold their loops themselves")

HELD_MS = 40
BEAT_S = 0.01

Logged = list[Any]


@pytest.fixture(autouse=True)
def no_garbage() -> Iterator[None]:
    """The heap of a run of tests is many times a node's: one look through it holds a loop for longer than HELD_MS."""
    gc.disable()
    yield
    gc.enable()


def work(seconds: float) -> None:
    """Use so much processor time, whatever else the machine does."""
    end_s = time.thread_time() + seconds
    while time.thread_time() < end_s:
        pass


def watched(step: Callable[[], object], seconds: float = 0.1) -> tuple[LoopWatchdog, Logged]:
    """A loop that beats and is watched, and carries out one step."""

    async def run() -> LoopWatchdog:
        loop = asyncio.get_running_loop()
        beats, count = 0, round(seconds / BEAT_S)
        with LoopWatchdog(HELD_MS) as watchdog:

            def beat() -> None:
                nonlocal beats
                beats += 1
                watchdog.beat()
                loop.call_later(BEAT_S, beat)

            beat()
            await until(lambda: beats >= count)
            step()
            await until(lambda: beats >= 2 * count)
        return watchdog

    with structlog.testing.capture_logs() as logged:
        return asyncio.run(run()), logged


def sums(held: LoopHeld) -> dict[str, float]:
    """Seconds in all, by what held the loop."""
    (family,) = held.collect()
    return {each.labels["by"]: each.value for each in family.samples if each.name.endswith("_sum")}


def test_a_step_that_works_is_told_with_its_line() -> None:
    """Processor time of the loop's own thread is `work`, and the log says where it went."""
    watchdog, logged = watched(lambda: work(0.3))
    held = max((each for each in logged if each["event"] == "loop held"), key=lambda each: each["work_ms"])
    assert 280 <= held["work_ms"] <= 400
    assert "tests/node/runtime/test_watchdog.py:" in held["doing"], "the whole path of a file of ours"
    assert " < asyncio/runners.py:" in held["doing"], "of others the folder that it lies in"
    assert " work < " in held["doing"]
    assert sums(watchdog.held)["work"] >= 0.28


def test_files_of_others_are_told_short_also_where_they_lie_below_ours() -> None:
    """In a checkout the environment does: their paths were told whole."""

    def frame(path: str) -> Any:
        return SimpleNamespace(f_code=SimpleNamespace(co_filename=path, co_name="f"), f_lineno=7, f_back=None)

    root = Path(__file__).parents[3]
    assert stack_of(frame(f"{root}/.venv/lib/python3.11/site-packages/aiohttp/web.py")) == ("aiohttp/web.py:7 f",)
    assert stack_of(frame(f"{root}/node/push/feed.py")) == ("node/push/feed.py:7 f",)
    assert stack_of(frame("/usr/lib/python3.11/asyncio/runners.py")) == ("asyncio/runners.py:7 f",)


def test_a_step_that_waits_is_blocked_not_working() -> None:
    """A read that takes long holds the loop without processor time."""
    watchdog, logged = watched(lambda: time.sleep(0.3))
    found = sums(watchdog.held)
    assert found["blocked"] >= 0.1
    assert found["work"] < 0.1
    assert any(each["event"] == "loop held" and "lambda" in each["doing"] for each in logged)


def test_an_idle_loop_is_not_held() -> None:
    """Waiting for something to do is no hold, and is not logged."""
    watchdog, logged = watched(lambda: None, 0.3)
    assert sums(watchdog.held)["work"] == 0
    assert not [each for each in logged if each["event"] == "loop held"]


def test_many_short_steps_are_no_hold() -> None:
    """A loop that is busy and comes round all the time keeps nobody waiting."""

    async def run() -> LoopWatchdog:
        with LoopWatchdog(HELD_MS) as watchdog:
            for _ in range(300):
                work(0.002)
                await asyncio.sleep(0)
                watchdog.beat()
        return watchdog

    with structlog.testing.capture_logs() as logged:
        asyncio.run(run())
    assert not [each for each in logged if each["event"] == "loop held"]


def test_a_loop_that_never_comes_back_is_told_meanwhile() -> None:
    """The thread logs it: a process that is ended for hanging leaves behind where it hung."""
    told = threading.Event()

    def hang() -> None:
        assert told.wait(20)

    with structlog.testing.capture_logs() as logged:

        async def run() -> None:
            with LoopWatchdog(HELD_MS):
                asyncio.get_running_loop().call_soon(hang)
                await turns()

        thread = threading.Thread(target=asyncio.run, args=(run(),))
        thread.start()
        while not [each for each in logged if each["event"] == "loop is held and does not come back"]:
            assert thread.is_alive()
            thread.join(0.01)
        told.set()
        thread.join()
    assert any("hang" in each.get("doing", "") for each in logged)


CHILD = """
import asyncio, os, sys
from node.node import Node
from node.runtime.watchdog import LoopWatchdog
from tests.node.single_node import run_node
from tests.waiting import turns, until

async def run():
    loop = asyncio.get_running_loop()
    with LoopWatchdog(40) as watchdog:
        def beat():
            watchdog.beat()
            loop.call_later(0.01, beat)
        beat()
        print("up", flush=True)
        await loop.run_in_executor(None, sys.stdin.readline)
        await asyncio.sleep(0.1)
    (family,) = watchdog.held.collect()
    for each in family.samples:
        if each.name.endswith("_sum"):
            print(each.labels["by"], each.value, flush=True)

asyncio.run(run())
"""


def _child(disturb: Callable[[int], None]) -> dict[str, float]:
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None
    assert child.stdout is not None
    with child:
        while (line := child.stdout.readline()) != "up\n":  # beside a load it has logged a hold by then
            assert line.startswith("20"), line
        disturb(child.pid)
        child.stdin.write("\n")
        child.stdin.flush()
        rows = [line.split() for line in child.stdout if not line.startswith("20")]  # of the log
    return {by: float(value) for by, value in rows}


def test_a_process_that_is_stopped_is_not_scheduled() -> None:
    """SIGSTOP, or a machine that stands still, is no work of ours."""

    def stop(pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.6)  # it has to stand still for a while: nothing else tells it
        os.kill(pid, signal.SIGCONT)

    found = _child(stop)
    assert found["unscheduled"] >= 0.3
    assert found["work"] < 0.1
    assert found["blocked"] < 0.1


def test_a_thread_without_a_processor_is_not_scheduled() -> None:
    """Who waits in the run queue behind others does no work, and is not blocked."""

    def crowd(pid: int) -> None:
        (processor, *_) = sorted(os.sched_getaffinity(0))
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(thread), {processor})
            os.sched_setscheduler(int(thread), os.SCHED_IDLE, os.sched_param(0))  # whatever nice the burners have
        burner = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nprint(flush=True)\nwhile True: pass"
        command = [sys.executable, "-c", burner, str(processor)]
        burners = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(4)]
        for each in burners:  # on a busy machine they take a second to begin
            assert each.stdout is not None
            each.stdout.readline()
        time.sleep(1.5)
        for each in burners:
            with each:
                each.kill()

    found = _child(crowd)
    assert found["unscheduled"] >= 0.1, found
    assert found["unscheduled"] > 2 * (found["work"] + found["blocked"]), found


@pytest.mark.parametrize("kind", ["work", "blocked", "unscheduled"])
def test_each_part_counts_by_itself(kind: str) -> None:
    """A hold of three parts is one observation of each that counts, in the bucket of that part."""
    held = LoopHeld()
    held.observe(Hold(300.0, 60.0, 20.0))
    held.observe(Hold(1.0, 1.0, 1.0))
    (family,) = held.collect()
    part_s = {"work": 0.3, "blocked": 0.06, "unscheduled": 0.02}[kind]
    counts = {
        float(each.labels["le"]): each.value
        for each in family.samples
        if each.name.endswith("_bucket") and each.labels["by"] == kind
    }
    assert counts == {le: float(part_s <= le) for le in [*(ms / 1000 for ms in BUCKETS_MS), float("inf")]}


def test_a_node_watches_its_loop(tmp_path: Path) -> None:
    """From when it serves; what it finds is in its metrics."""

    async def play(node: Node) -> None:
        await until(lambda: node.group.driver.on_step == node.watchdog.beat)
        work(0.3)
        await until(lambda: sums(node.watchdog.held)["work"] >= 0.2)
        assert 'hourwheel_loop_held_seconds_sum{by="work"}' in (await node.front.metrics()).decode()

    run_node(tmp_path, play)
