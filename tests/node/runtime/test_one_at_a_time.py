"""OneAtATime: few are under way, more wait, and only past those is refused."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from api.port.problem import Problem
from node.runtime.one_at_a_time import OneAtATime


def test_b16_searches_of_others_wait_and_are_not_refused() -> None:
    """32 clients that searched without end had eight answers under way; the others were refused 2,800 times a second,
    which made pulls and pushes of others late."""

    async def scene() -> None:
        turns = OneAtATime("ledgers", 40, 8)
        under_way: set[int] = set()
        full, ends = asyncio.Event(), asyncio.Event()
        most = 0

        async def search(number: int) -> None:
            nonlocal most
            async with turns.shared():
                under_way.add(number)
                most = max(most, len(under_way))
                if most == 8:
                    full.set()
                await ends.wait()
                under_way.remove(number)

        searches = [asyncio.create_task(search(number)) for number in range(32)]
        await full.wait()
        ends.set()
        await asyncio.gather(*searches)
        assert most == 8

    asyncio.run(scene())


def test_past_those_that_wait_a_request_is_refused() -> None:
    """With the number of those before it; who goes away while it waits makes room."""

    async def scene() -> None:
        turns = OneAtATime("ledgers", 3, 1)
        async with AsyncExitStack() as under_way:
            await under_way.enter_async_context(turns.shared())
            waiting = [asyncio.create_task(under_way.enter_async_context(turns.shared())) for _ in range(2)]
            await asyncio.sleep(0)
            with pytest.raises(Problem, match="3 ledgers are being made"):
                await turns.shared().__aenter__()
            waiting[0].cancel()
            await asyncio.wait(waiting[:1])
            late = asyncio.create_task(under_way.enter_async_context(turns.shared()))
            await asyncio.sleep(0)
            assert not late.done(), "it waits where the other went away"
            for each in (waiting[1], late):
                each.cancel()
            await asyncio.gather(*waiting, late, return_exceptions=True)
        async with turns.shared() as turn:
            assert not turn.locked(), "and all is as at first"

    asyncio.run(scene())


def test_those_under_way_take_turns_by_pieces() -> None:
    """A small answer is made between two pieces of a large one."""

    async def scene() -> None:
        turns = OneAtATime("counts", 4, 2)
        order: list[str] = []

        async def make(name: str, pieces: int) -> None:
            async with turns.shared() as turn:
                for piece in range(pieces):
                    async with turn:
                        order.append(f"{name}{piece}")
                        await asyncio.sleep(0)

        await asyncio.gather(make("large", 4), make("small", 1), make("next", 1))
        assert order[0] == "large0"
        assert order.index("small0") < order.index("large2")
        assert order.index("next0") < order.index("large3")

    asyncio.run(scene())
