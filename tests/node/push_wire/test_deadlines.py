"""Deadlines of attempts: each comes once, not before its time, unless the attempt ended."""

import asyncio
import time

from node.push_wire.answer import Answer
from node.push_wire.connection import Exchange
from node.push_wire.deadlines import GRID_S, STOOD_STILL_S, Deadlines
from tests.node.push_wire.attempt import work
from tests.virtual_time import passes, virtually


def exchange() -> Exchange:
    """An attempt at nobody."""
    return Exchange(work(), b"", 0.0, lambda work, answer, begun_s: None)


def test_they_pass_in_order_and_not_early() -> None:
    """Added in any order; one that ended is not told of."""
    passed: list[tuple[Exchange, float]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def come(late: Exchange) -> None:
            passed.append((late, loop.time()))
            if late is last:
                done.set()

        deadlines = Deadlines(come)
        last, first, ended = exchange(), exchange(), exchange()
        deadlines.add(last, 0.12)
        deadlines.add(first, 0.04)
        deadlines.add(ended, 0.05)
        deadlines.remove(ended)
        ended.end(Answer(200))
        async with asyncio.timeout(10):
            await done.wait()
        assert [each for each, _ in passed] == [first, last]
        assert all(at_s >= each.due_s - GRID_S for each, at_s in passed)

    asyncio.run(main())


def test_after_the_process_stood_still_there_is_a_moment() -> None:
    """And only one: who has not answered by then is late."""
    passed: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def come(late: Exchange) -> None:
            passed.append(loop.time())
            done.set()

        deadlines = Deadlines(come)
        deadlines.add(exchange(), 0.05)
        time.sleep(0.05 + 2 * STOOD_STILL_S)  # noqa: ASYNC251 - the process stands still
        woke_s = loop.time()
        async with asyncio.timeout(10):
            await done.wait()
        assert passed[0] - woke_s >= STOOD_STILL_S - GRID_S

    asyncio.run(main())


def test_none_come_after_clear() -> None:
    """The client was closed."""
    passed: list[Exchange] = []

    async def main() -> None:
        deadlines = Deadlines(passed.append)
        deadlines.add(exchange(), 0.01)
        deadlines.clear()
        await passes(0.1)

    virtually(main)
    assert passed == []
