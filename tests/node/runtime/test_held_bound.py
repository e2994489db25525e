"""A test fails if a real node holds its loop for too long, and the failure names the step (tests/held.py)."""

import asyncio
import gc
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.held import LOG, OWN_MS, Logs, Step, measured, told, worst

LINE = "12:00:00 [warning] loop held blocked_ms=3 doing='{}' held_ms={} samples='{} of 7' unscheduled_ms=0 work_ms={}\n"


@pytest.fixture(autouse=True)
def pace(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Set how slow the machine is: as usual, unless a test says otherwise."""

    def set_to(slow: float) -> None:
        monkeypatch.setattr("tests.held.slowness", lambda: slow)

    set_to(1.0)
    return set_to


def work(seconds: float) -> None:
    """Use so many seconds of processor time, however busy the machine is."""
    end_s = time.thread_time() + seconds
    while time.thread_time() < end_s:
        pass


def steps_of(hold: Callable[[float], None], *seconds: float) -> list[Step]:
    """Run these steps, each in a turn of its own as a node's step would be, and return those that were measured."""

    async def whole() -> None:
        loop = asyncio.get_running_loop()
        for each in seconds:
            loop.call_soon(hold, each)
            await asyncio.sleep(0)

    with measured() as steps:
        asyncio.run(whole())
    return steps


def test_a_step_that_works_is_told_by_its_name() -> None:
    """A step that works past the bound is told by its name. Many short steps are not told."""
    (step,) = steps = steps_of(work, 0.15)
    assert 150 <= step.work_ms < 250
    assert "work" in worst(steps, 100)
    assert not worst(steps_of(work, *[0.03] * 8), 100)
    assert not worst(steps_of(work, 0.15), 400)


def test_a_slow_machine_takes_longer_for_the_same_step(pace: Callable[[float], None]) -> None:
    """On a machine that is half as fast a step may work for twice as long, and what a test does itself too."""
    pace(2.0)
    (step,) = steps_of(work, 0.3)
    assert 150 <= step.work_ms < 250

    async def whole() -> None:
        await asyncio.sleep(0)
        work(2 * OWN_MS / 1000 + 0.3)

    with measured() as steps:
        asyncio.run(whole())
    (step,) = steps
    assert 150 <= step.work_ms < 250


def test_waiting_and_collecting_garbage_are_not_counted() -> None:
    """A garbage collection within a step does not count as its work: the heap belongs to all tests."""

    def collected(seconds: float) -> None:
        end_s = time.thread_time() + seconds
        while time.thread_time() < end_s:
            gc.collect()

    assert not worst(steps_of(collected, 0.3), 100)
    assert asyncio.Handle._run.__module__ == "asyncio.events"


def test_what_a_test_does_itself_is_left_out() -> None:
    """The first OWN_MS of a step of a test's own coroutine are not counted. What goes beyond is."""

    async def whole(seconds: float) -> None:
        await asyncio.sleep(0)
        work(seconds)

    with measured() as steps:
        asyncio.run(whole(0.15))
        assert steps == []
        asyncio.run(whole(OWN_MS / 1000 + 0.15))
    (step,) = steps
    assert 150 <= step.work_ms < 250


def test_logs_are_read_on(tmp_path: Path) -> None:
    """Each line of a log is read once, whatever directory it is in. A step that was seen only once is left out."""
    (tmp_path / "trial" / "n1").mkdir(parents=True)
    path, logs = tmp_path / "trial" / "n1" / LOG, Logs()
    path.write_text("12:00:00 [info     ] serving\n" + LINE.format("storage/a.py:1 f < node/b.py:2 g", 130, 4, 127))
    assert logs.steps([tmp_path]) == [Step(127.0, "storage/a.py:1 f < node/b.py:2 g")]
    assert logs.steps([tmp_path]) == []
    with path.open("a") as file:
        file.write(LINE.format("not seen", 300, 0, 290).replace("samples='0 of 7'", "samples='0 of 0'"))
        file.write(LINE.format("storage/c.py:9 h", 110, 3, 108))
    assert logs.steps([tmp_path, tmp_path / "none"]) == [Step(108.0, "storage/c.py:9 h")]
    assert told("12:00:00 [warning  ] loop not scheduled blocked_ms=0 doing='x' samples='3 of 3' work_ms=290") is None
