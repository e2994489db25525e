"""A scene on the simulator's event loop: an hour of waiting takes no time, and no load makes it longer.

For what waits on timers, tasks and threads; there are no sockets. A thread's work takes effect between two timers.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from chaos.simulator.time.clock import SimClock
from chaos.simulator.time.loop import Scheduler, SimLoop

T = TypeVar("T")

JOB_S = 0.001
"""What a thread's work takes."""


def virtually(main: Callable[[], Coroutine[Any, Any, T]], within_s: float = 3600.0) -> T:
    """Run `main` to its end, within so much virtual time. What its tasks and callbacks fail with fails the test."""
    scheduler = Scheduler()
    complaints: list[dict[str, Any]] = []
    loop = SimLoop(  # type: ignore[abstract]
        scheduler,
        SimClock(lambda: scheduler.now, epoch_s=1e9, zero_s=500.0),
        name="test",
        chance=random.Random(1),
        complain=complaints.append,
        job_s=lambda: JOB_S,
    )
    tasks: list[asyncio.Task[T]] = []
    loop.arrive(lambda: tasks.append(loop.create_task(main())))
    ended = scheduler.run(within_s, lambda: bool(tasks and tasks[0].done()))
    loop.die()
    loop.bury()
    assert ended, f"not at its end after {within_s} s of virtual time"
    result = tasks[0].result()
    assert not complaints, complaints
    return result


async def passes(seconds: float) -> None:
    """So much time passes. On virtual time only: a test that sleeps for real waits for something, or for nothing."""
    assert isinstance(asyncio.get_running_loop(), SimLoop), "time passes by itself: wait for what it brings"
    await asyncio.sleep(seconds)
