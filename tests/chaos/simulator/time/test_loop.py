"""The event loop on virtual time: it keeps asyncio's promises, pauses and dies."""

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from chaos.simulator.time.clock import SimClock
from chaos.simulator.time.cost import Meter
from chaos.simulator.time.loop import RESTLESS_S, ROUNDS_MAX, Gone, Scheduler, SimLoop, TimeStandsStill
from tests.virtual_time import passes


class Lab:
    """A scheduler and a loop on it."""

    def __init__(self, *, job_s: float = 0.01, zero_s: float = 500.0) -> None:
        self.scheduler = Scheduler()
        self.clock = SimClock(lambda: self.scheduler.now, epoch_s=1e9, zero_s=zero_s)
        self.complaints: list[dict[str, Any]] = []
        self.seen: list[tuple[float, object]] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.loop = SimLoop(  # type: ignore[abstract]
            self.scheduler,
            self.clock,
            name="n1",
            chance=random.Random(1),
            complain=self.complaints.append,
            job_s=lambda: job_s,
        )

    def see(self, what: object) -> None:
        """Remember it with the time."""
        self.seen.append((round(self.scheduler.now, 6), what))

    def begin(self, work: Callable[[], Any]) -> list[asyncio.Task[Any]]:
        """Make a task of this coroutine function on the loop, now."""
        self.loop.arrive(lambda: self.tasks.append(self.loop.create_task(work())))
        return self.tasks


def test_sleeps_end_at_their_time_and_in_order() -> None:
    """Tasks wake at the virtual second they asked for, whatever order they were made in."""
    lab = Lab()

    async def sleeper(seconds: float) -> None:
        await passes(seconds)
        lab.see(seconds)

    for seconds in (3.0, 1.0, 2.0):
        lab.begin(partial(sleeper, seconds))
    lab.scheduler.run(10)
    assert lab.seen == [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]
    assert lab.scheduler.now == 10


def test_what_asyncio_offers_on_top_works() -> None:
    """Timeouts, wait_for, gather, shield, events, locks and threads are built on the loop, and hold on this one."""
    lab = Lab(job_s=0.5)

    async def work() -> list[object]:
        event = asyncio.Event()
        asyncio.get_running_loop().call_later(1, event.set)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.25):
                await event.wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(event.wait(), 0.25)
        await event.wait()
        async with asyncio.Lock():
            both = await asyncio.gather(asyncio.sleep(1, "a"), asyncio.shield(asyncio.to_thread(lambda: "b")))
        return [round(lab.scheduler.now, 6), *both, asyncio.get_running_loop() is lab.loop]

    tasks = lab.begin(work)
    lab.scheduler.run(10)
    assert tasks[0].result() == [2.0, "a", "b", True]


def test_a_thread_s_work_takes_effect_once_and_takes_time() -> None:
    """A job runs at one moment between its start and its end, and its error reaches who waits."""
    lab = Lab(job_s=0.5)

    def fail() -> None:
        lab.see("ran")
        raise ValueError("no")

    async def work() -> None:
        with pytest.raises(ValueError, match="no"):
            await asyncio.to_thread(fail)
        lab.see("told")

    lab.begin(work)
    lab.scheduler.run(1)
    (ran_s, ran), (told_s, told) = lab.seen
    assert (ran, told, told_s) == ("ran", "told", 0.5)
    assert 0 <= ran_s <= 0.5


def test_a_paused_loop_does_nothing_until_it_wakes() -> None:
    """Timers and arrivals of a pause are met at its end, all of them, once."""
    lab = Lab()
    lab.loop.arrive(lambda: lab.loop.call_later(1, lab.see, "timer"))
    lab.scheduler.run(0.5)
    lab.loop.pause()
    lab.scheduler.at(2, lab.loop.arrive, lab.see, "arrived")
    lab.scheduler.at(5, lab.loop.resume)
    lab.scheduler.run(10)
    assert sorted(lab.seen, key=str) == [(5.0, "arrived"), (5.0, "timer")]


def test_the_dead_do_nothing_and_make_no_noise(recwarn: pytest.WarningsRecorder) -> None:
    """After `die` no callback, timer, job or new task runs; coroutines are closed, also those whose finally waits."""
    lab = Lab()

    async def stubborn() -> None:
        try:
            await passes(100)
        finally:
            await passes(1)
            lab.see("after the end")

    async def starts_more() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            asyncio.get_running_loop().create_task(stubborn())
            asyncio.get_running_loop().call_soon(lab.see, "soon")
            raise Gone

    async def waits_for_thread() -> None:
        await asyncio.to_thread(lab.see, "job")

    for work in (stubborn, starts_more, waits_for_thread):
        lab.begin(work)
    jobs = lab.loop.die()
    assert len(jobs) == 1, "the job under way is handed to whoever knows what becomes of it"
    lab.loop.bury()
    lab.loop.arrive(lab.see, "arrived")
    lab.loop.call_later(1, lab.see, "late")
    lab.scheduler.run(1000)
    assert lab.seen == []
    assert lab.complaints == []
    assert not [str(warning.message) for warning in recwarn]


def test_a_task_that_never_began_makes_no_noise_either(recwarn: pytest.WarningsRecorder) -> None:
    """A request came, its client went away, and the node was killed before a step of it."""
    lab = Lab()

    async def answer() -> None:
        lab.see("answered")

    def come_and_go() -> None:
        lab.loop.create_task(answer()).cancel()
        lab.loop.die()

    lab.loop.arrive(come_and_go)
    lab.scheduler.run(1)
    lab.loop.bury()
    assert lab.seen == []
    assert not [str(warning.message) for warning in recwarn]


def test_a_failing_callback_is_told_and_the_loop_goes_on() -> None:
    """What asyncio would log is kept; other callbacks of the turn run."""
    lab = Lab()
    lab.loop.arrive(lambda: [lab.loop.call_soon(int, "x"), lab.loop.call_soon(lab.see, "next")])
    lab.scheduler.run(1)
    assert lab.seen == [(0.0, "next")]
    assert isinstance(lab.complaints[0]["exception"], ValueError)


def test_a_loop_that_never_rests_does_not_stop_the_world() -> None:
    """Time passes for a task that yields and yields."""
    lab = Lab()

    async def restless() -> None:
        for _ in range(10_000):
            await asyncio.sleep(0)
        lab.see("rests")

    lab.begin(restless)
    lab.scheduler.run(1)
    assert lab.seen[0][0] == pytest.approx(10_000 / ROUNDS_MAX * RESTLESS_S, rel=0.1)


def test_what_a_job_does_between_turns_of_the_loop_is_no_one_step() -> None:
    """Seed 5042: a follower applied a backlog in slices of 20 ms, a turn of its loop after each, and was said to be
    held for 67 ms. Each is charged for itself, and what arrives meanwhile is met behind the first."""
    lab = Lab()
    held_ms: list[float] = []
    lab.loop.on_charged = lambda seconds, by: held_ms.append(round(seconds * 1000, 3))

    def slice_of(left: int) -> None:
        assert Meter.running is not None
        Meter.running.charge("entries applied", 25_000)
        lab.see(left)
        if left:
            lab.loop.call_soon(slice_of, left - 1)

    lab.scheduler.at(0.01, lab.loop.arrive, lab.see, "arrived")
    lab.loop.arrive(slice_of, 2)
    lab.scheduler.run(1)
    assert held_ms == [25, 25, 25]
    assert lab.seen == [(0, 2), (0.025, 1), (0.025, "arrived"), (0.05, 0)]


def test_timers_follow_the_host_s_crystal() -> None:
    """A crystal that runs one percent fast ends a second that much sooner."""
    lab = Lab()
    lab.clock.drift(10_000)
    lab.loop.arrive(lambda: lab.loop.call_later(1.01, lab.see, "one"))
    lab.scheduler.run(5)
    assert lab.seen == [(1.0, "one")]


@pytest.mark.parametrize("seed", range(50))
def test_a_timer_never_goes_off_before_its_time(seed: int) -> None:
    """Whatever the host's zero and crystal, the clock shows at least what was asked for: one who sleeps on until then
    would otherwise do so for ever, at one moment of virtual time."""
    drawn = random.Random(seed)
    lab = Lab(zero_s=drawn.uniform(0, 1e4))
    lab.clock.drift(drawn.uniform(-300, 300))
    when = lab.clock.monotonic() + drawn.uniform(0, 100)
    lab.loop.call_at(when, lambda: lab.see(lab.loop.time() >= when))
    lab.scheduler.run(200)
    assert [what for _at_s, what in lab.seen] == [True]


def test_a_world_whose_time_stands_still_is_told() -> None:
    """A timer that sets itself for now, for ever, ends the run instead of hanging it."""
    scheduler = Scheduler()

    def again() -> None:
        scheduler.after(0, again)

    again()
    with pytest.raises(TimeStandsStill):
        scheduler.run(1)
