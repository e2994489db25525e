"""When a leader steps: soon after a poke, and no later than it said; never after its end."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from node.runtime.clock import NodeClock
from node.runtime.step_alarm import LOOK_S, StepAlarm
from tests.waiting import turns, until


class Told:
    """Steps at a real clock; each says what `next_ms` is then, and is noted with the time it was made at."""

    def __init__(self) -> None:
        self.clock = NodeClock()
        self.made_ms: list[int] = []
        self.failures: list[Exception] = []
        self.next_ms: list[int | None] = []
        self.fails = False
        self.steps = StepAlarm(self.clock, self._step, self.failures.append)

    def _step(self) -> int | None:
        self.made_ms.append(self.clock.now_ms())
        if self.fails:
            raise ValueError("a defect")
        return self.next_ms.pop(0) if self.next_ms else None


def play(what: Callable[[Told], Awaitable[None]]) -> None:
    """On a loop."""

    async def on_loop() -> None:
        await what(Told())

    asyncio.run(on_loop())


def test_pokes_of_one_iteration_are_one_step() -> None:
    """And the step that says nothing is followed by none."""

    async def pokes(told: Told) -> None:
        for _ in range(3):
            told.steps.poke()
        await turns()
        assert len(told.made_ms) == 1

    play(pokes)


def test_it_steps_at_the_time_that_the_step_before_it_said() -> None:
    """Not before that millisecond has come; what is past already is stepped to at once."""

    async def alarms(told: Told) -> None:
        at_ms = told.clock.now_ms() + 30
        told.next_ms = [at_ms, at_ms - 10]
        told.steps.poke()
        await until(lambda: len(told.made_ms) == 3)
        assert told.made_ms[0] < at_ms <= told.made_ms[1] <= told.made_ms[2]

    play(alarms)


def test_the_earliest_of_several_times_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later one does not put the step off, an earlier one comes before it and takes its place."""
    monkeypatch.setattr("node.runtime.step_alarm.LOOK_S", 1e6)

    async def alarms(told: Told) -> None:
        at_ms = told.clock.now_ms() + 40
        for each_ms in (at_ms + 60_000, at_ms, at_ms + 30_000):
            told.steps.by(each_ms)
        await until(lambda: told.made_ms)
        assert at_ms <= told.made_ms[0] < at_ms + 30_000
        told.next_ms = [told.clock.now_ms() + 60_000]
        told.steps.poke()
        await turns()
        told.steps.by(told.clock.now_ms() + 20)
        await until(lambda: len(told.made_ms) == 3)

    play(alarms)


def test_a_clock_that_leaves_the_loops_behind_is_followed() -> None:
    """It is held back no more, or the machine has slept: what is due by now comes soon, not when the alarm that was set
    before would ring. An alarm that is set anew is not put off for that of before."""

    async def jumps(told: Told) -> None:
        told.clock.bound(-60_500)  # a minute behind
        at_ms = told.clock.now_ms() + 30_000
        told.steps.by(at_ms)
        told.clock.bound(0)
        began_s = asyncio.get_running_loop().time()
        await until(lambda: told.made_ms)
        assert told.made_ms[0] >= at_ms
        assert asyncio.get_running_loop().time() - began_s < 10 * LOOK_S
        told.steps.by(told.clock.now_ms() + 60_000)
        told.clock.bound(-60_500)
        soon_ms = told.clock.now_ms() + 20
        told.steps.by(soon_ms)
        await until(lambda: len(told.made_ms) == 2)
        assert soon_ms <= told.made_ms[1] < soon_ms + 30_000

    play(jumps)


def test_an_alarm_that_rings_before_its_time_is_set_again() -> None:
    """A step that is far off has none before it."""

    async def waits(told: Told) -> None:
        at_ms = told.clock.now_ms() + round(2.5 * LOOK_S * 1000)
        told.steps.by(at_ms)
        await until(lambda: told.made_ms)
        assert told.made_ms[0] >= at_ms

    play(waits)


def test_a_poke_comes_before_the_alarm_and_silences_it() -> None:
    """The step says anew when the next is due."""

    async def alarms(told: Told) -> None:
        told.steps.by(told.clock.now_ms() + 20)
        told.steps.poke()
        await turns()
        assert len(told.made_ms) == 1
        at_ms = told.clock.now_ms() + 60
        told.steps.by(at_ms)
        await until(lambda: len(told.made_ms) == 2)
        assert told.made_ms[1] >= at_ms

    play(alarms)


def test_none_comes_after_the_end() -> None:
    """Neither what was poked nor what was to come, nor anything that is told later."""

    async def ends(told: Told) -> None:
        told.steps.by(told.clock.now_ms() + 5)
        told.steps.poke()
        told.steps.end()
        told.steps.poke()
        told.steps.by(told.clock.now_ms() + 5)
        other = Told()
        other.steps.by(other.clock.now_ms() + 20)
        await until(lambda: other.made_ms)
        assert not told.made_ms

    play(ends)


def test_a_defect_in_a_step_is_told() -> None:
    """A callback's exception would only be logged."""

    async def fails(told: Told) -> None:
        told.fails = True
        told.steps.poke()
        await turns()
        assert [str(failure) for failure in told.failures] == ["a defect"]

    play(fails)
