"""Much work, and many calls at once: a little each time the loop comes round."""

import asyncio
import gc
import weakref
from collections import Counter
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest

import api.port.loop_turn
from api.port.loop_turn import CROWD_A_TURN, HELD_MAX_S, Crowd, Line, LoopTurn, Pieces, in_turns
from tests.waiting import until


def test_a_crowd_goes_a_few_at_a_time_and_in_order() -> None:
    """Others run in between; what comes meanwhile stands behind. A client closed 8,600 polls at once, and the leader
    answered nobody until each of them had ended."""

    async def story() -> None:
        crowd = Crowd(asyncio.get_running_loop())
        called: list[int] = []
        for number in range(3 * CROWD_A_TURN):
            crowd.add(lambda number=number: called.append(number))  # type: ignore[misc]
        crowd.add(lambda: crowd.add(lambda: called.append(-1)))
        seen = []
        while -1 not in called:
            await asyncio.sleep(0)
            seen.append(len(called))
        assert seen == [CROWD_A_TURN, 2 * CROWD_A_TURN, 3 * CROWD_A_TURN, 3 * CROWD_A_TURN, 3 * CROWD_A_TURN + 1]
        assert called == [*range(3 * CROWD_A_TURN), -1]
        crowd.add(lambda: called.append(-2))
        await asyncio.sleep(0)
        assert called[-1] == -2

    asyncio.run(story())


def test_what_the_last_of_a_crowd_adds_goes_a_few_at_a_time() -> None:
    """Its turn was asked for twice, and so was each from then on."""

    async def story() -> None:
        crowd = Crowd(asyncio.get_running_loop())
        called: list[int] = []

        def many() -> None:
            for _ in range(3 * CROWD_A_TURN):
                crowd.add(lambda: called.append(1))

        crowd.add(many)
        seen = [0]
        while len(called) < 3 * CROWD_A_TURN:
            await asyncio.sleep(0)
            seen.append(len(called))
        assert max(after - before for before, after in pairwise(seen)) == CROWD_A_TURN

    asyncio.run(story())


def test_a_crowd_goes_on_behind_a_call_that_fails() -> None:
    """Else no connection would be ended from then on."""

    async def story() -> None:
        loop, called, told = asyncio.get_running_loop(), list[int](), list[object]()
        loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
        crowd = Crowd(loop)
        for number in range(3):
            crowd.add(lambda number=number: called.append(1 // number))  # type: ignore[misc]
        await until(lambda: len(called) == 2)
        assert [type(each) for each in told] == [ZeroDivisionError]

    asyncio.run(story())


def test_large_requests_share_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six batches of 13 MiB held the loop for six pieces each time it came round. One goes on a time, in order, and one
    that is cancelled meanwhile is passed over."""
    monkeypatch.setattr(api.port.loop_turn, "HELD_MAX_S", 0.0)

    async def story() -> None:
        rounds, went = 0, list[tuple[int, str]]()

        def work(name: str) -> Pieces[str]:
            for _ in range(4):
                went.append((rounds, name))
                yield
            return name

        async def count() -> None:
            nonlocal rounds
            while True:
                rounds += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        tasks = [asyncio.create_task(in_turns(work(name))) for name in "abcd"]
        await until(lambda: len(went) >= 8)
        tasks[3].cancel()
        assert await asyncio.gather(*tasks[:3]) == ["a", "b", "c"]
        counting.cancel()
        begun, others = went[:4], went[4:]
        assert [name for _, name in begun] == ["a", "b", "c", "d"]
        assert max(Counter(number for number, _ in others).values()) == 1
        assert "".join(name for _, name in others).startswith("abcdabc")

    asyncio.run(story())


def test_what_comes_in_one_moment_begins_as_there_is_time_for_it() -> None:
    """In order, one at least each time the loop comes round, others in between. Who is cancelled while it waits, or
    when it has been woken, keeps nobody waiting. Time is what the work takes: a machine with other work took some."""

    async def story() -> None:
        loop, now_s = asyncio.get_running_loop(), 0.0
        timed = SimpleNamespace(time=lambda: now_s, create_future=loop.create_future, call_soon=loop.call_soon)
        line = Line(cast(Any, timed))
        rounds, begun, ten = 0, list[tuple[int, int]](), asyncio.Event()

        async def work(number: int, seconds: float) -> None:
            nonlocal now_s
            await line.turn()
            begun.append((rounds, number))
            now_s += seconds
            if len(begun) == 10:
                ten.set()

        async def count() -> None:
            nonlocal rounds
            while True:
                rounds += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        tasks = [asyncio.create_task(work(number, HELD_MAX_S / 2)) for number in range(40)]
        await ten.wait()
        cancelled = tasks[20], tasks[21], tasks[39]
        for task in cancelled:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert [number for _, number in begun] == [each for each in range(40) if tasks[each] not in cancelled]
        assert max(Counter(number for number, _ in begun).values()) <= 3
        del begun[:]
        tasks = [asyncio.create_task(work(number, 0.0)) for number in range(40)]
        await asyncio.gather(*tasks)
        assert len({number for number, _ in begun}) == 1, "what is short does not wait"
        counting.cancel()

    asyncio.run(story())


def test_a_loop_that_has_ended_is_let_go() -> None:
    """Its line kept it for ever, and so a simulated node, and its world: 30 MB a seed."""
    asyncio.set_event_loop(loop := asyncio.new_event_loop())

    async def wait() -> None:
        await LoopTurn()._line.turn(goes_on=True)

    task = loop.create_task(wait())
    loop.call_soon(loop.stop)
    loop.run_forever()
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()
    asyncio.set_event_loop(None)
    ended = weakref.ref(loop)
    del loop, task
    gc.collect()
    assert ended() is None
