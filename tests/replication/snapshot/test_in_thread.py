"""Work in a thread outlives no caller: who is cancelled, however often, waits for its end."""

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable

import pytest

from replication.snapshot.in_thread import NICE, in_thread, in_thread_behind, in_thread_until


class Work:
    """Something that takes until it is told to end."""

    def __init__(self) -> None:
        self.began, self.may_end, self.ended = threading.Event(), threading.Event(), False

    def run(self) -> int:
        """Begin, wait, end."""
        self.began.set()
        assert self.may_end.wait(20)
        self.ended = True
        return 7


async def cancelled(work: Work, call: Callable[[], Awaitable[int]], times: int) -> bool:
    """Whether the work had ended when its caller did, which was cancelled so many times."""

    async def caller() -> bool:
        try:
            await call()
        except asyncio.CancelledError:
            return work.ended
        raise AssertionError("it was not cancelled")

    task = asyncio.ensure_future(caller())
    assert await asyncio.to_thread(work.began.wait, 20)
    for _ in range(times):
        task.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not task.done()
    work.may_end.set()
    return await task


@pytest.mark.parametrize("times", [1, 2, 3])
def test_who_is_cancelled_waits_for_the_thread(times: int) -> None:
    """A second cancel used to leave the thread behind: it went on while others believed it over."""
    work = Work()
    assert asyncio.run(cancelled(work, lambda: in_thread(work.run), times))


def test_the_end_of_the_loop_waits_for_it_too() -> None:
    """asyncio.run cancels every task when its main one has ended."""
    work, seen = Work(), []

    async def caller() -> None:
        try:
            await in_thread(work.run)
        finally:
            seen.append(work.ended)

    async def main() -> asyncio.Task[None]:
        task = asyncio.ensure_future(caller())
        assert await asyncio.to_thread(work.began.wait, 20)
        asyncio.get_running_loop().call_soon(lambda: asyncio.get_running_loop().call_soon(work.may_end.set))
        return task

    asyncio.run(main())
    assert seen == [True]


def test_a_cancel_stops_what_can_be_stopped() -> None:
    """The caller goes when the thread has ended; without a cancel nothing is stopped."""

    def wait(began: threading.Event, stop: threading.Event, ended: list[int]) -> int:
        began.set()
        stopped = stop.wait(20)
        ended.append(1)
        return int(stopped)

    async def scene() -> None:
        began, stop, ended = threading.Event(), threading.Event(), list[int]()
        task = asyncio.ensure_future(in_thread_until(stop, wait, began, stop, ended))
        assert await asyncio.to_thread(began.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == [1]
        stop = threading.Event()
        assert await in_thread_until(stop, lambda: 7) == 7
        assert not stop.is_set()

    asyncio.run(scene())


def test_a_failure_counts_for_more_than_a_cancel() -> None:
    """What ends the node is not lost because its caller went away."""
    began, may_end = threading.Event(), threading.Event()

    def fail() -> None:
        began.set()
        assert may_end.wait(20)
        raise OSError("gone")

    async def scene() -> None:
        task = asyncio.ensure_future(in_thread(fail))
        assert await asyncio.to_thread(began.wait, 20)
        task.cancel()
        await asyncio.sleep(0)
        may_end.set()
        with pytest.raises(OSError, match="gone"):
            await task

    asyncio.run(scene())


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads have no priority of their own")
def test_long_work_stands_behind_and_nobody_else_does() -> None:
    """A thread cannot raise its priority again, so it shares no threads with what is waited for."""

    def priority() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    async def look() -> tuple[int, int]:
        return await in_thread_behind(priority), await in_thread(priority)

    before = priority()
    assert asyncio.run(look()) == (max(before, NICE), before)
    assert priority() == before
