"""Calls that read a group's files, as the group closes."""

import asyncio

import pytest

import node.group.at_work
from api.port.problem import Problem
from node.group.at_work import AtWork, closed


async def called(at_work: AtWork, work: asyncio.Future[None]) -> str:
    """What a call comes to."""
    task = at_work.begin()
    try:
        await work
        return "done"
    except asyncio.CancelledError:
        if at_work.is_cut(task):
            raise closed() from None
        raise
    finally:
        at_work.end(task)


def test_what_ends_in_time_ends_well_and_nothing_begins_any_more() -> None:
    """A second is most often enough."""

    async def play() -> None:
        at_work, work = AtWork(), asyncio.get_running_loop().create_future()
        call = asyncio.ensure_future(called(at_work, work))
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(at_work.close())
        await asyncio.sleep(0)
        with pytest.raises(Problem, match="no-leader"):
            await called(at_work, work)
        assert not closing.done()
        work.set_result(None)
        assert await call == "done"
        await closing

    asyncio.run(play())


def test_what_takes_longer_is_cut_and_its_caller_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a refusal, not the end of the caller's task, which may go on."""
    monkeypatch.setattr(node.group.at_work, "CLOSE_S", 0.01)

    async def play() -> None:
        at_work = AtWork()
        work: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def caller() -> str:
            with pytest.raises(Problem, match="no-leader"):
                await called(at_work, work)
            await asyncio.sleep(0)
            return "went on"

        call = asyncio.ensure_future(caller())
        await asyncio.sleep(0)
        await at_work.close()
        assert await call == "went on"

    asyncio.run(play())


def test_who_is_cancelled_by_another_is_not_told_that_the_group_closes() -> None:
    """Its client has gone."""

    async def play() -> None:
        at_work = AtWork()
        work: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        call = asyncio.ensure_future(called(at_work, work))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await at_work.close()

    asyncio.run(play())
