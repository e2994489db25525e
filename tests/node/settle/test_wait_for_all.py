"""Several results waited for together."""

import asyncio
import gc
from contextlib import suppress
from typing import Any

import pytest

from node.settle.wait_for_all import all_of


def test_results_in_order_or_the_first_error() -> None:
    """An error is told when all have ended, not before."""

    async def go() -> None:
        loop = asyncio.get_running_loop()
        first, second = loop.create_future(), loop.create_future()
        waiting = asyncio.create_task(all_of([first, second]))
        second.set_result(2)
        first.set_result(1)
        assert await waiting == [1, 2]
        first, second, third = (loop.create_future() for _ in range(3))
        waiting = asyncio.create_task(all_of([first, second, third]))
        third.set_exception(ValueError("third"))
        second.set_exception(ValueError("second"))
        await asyncio.sleep(0)
        assert not waiting.done()
        first.set_result(1)
        with pytest.raises(ValueError, match="second"):
            await waiting

    asyncio.run(go())


def test_who_goes_away_takes_nothing_back_and_leaves_no_error() -> None:
    """The nack of a client that hung up before leadership was lost was logged as an exception nobody retrieved (the
    simulator's seed 30, promise `alive`)."""
    told: list[dict[str, Any]] = []

    async def go() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(context))
        part: asyncio.Future[int] = loop.create_future()
        waiting = asyncio.create_task(all_of([part]))
        await asyncio.sleep(0)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        assert not part.cancelled()
        part.set_exception(ValueError("leadership is lost"))
        await asyncio.sleep(0)
        del part, waiting
        gc.collect()

    asyncio.run(go())
    assert not told
