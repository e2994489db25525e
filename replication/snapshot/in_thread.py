"""Runs blocking work in threads, for coroutines that may be cancelled."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

NICE: Final = 5
"""The nice value of threads for long work: they get a third of the usual share of a processor.

With much less, a thread that holds Python's interpreter lock would keep the event loop waiting.
"""


async def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `call` in a thread and wait for its result.

    If the caller is cancelled meanwhile, it still waits for the end of `call`, and then raises CancelledError. So no
    thread works in a directory that the caller believes to be closed.
    """
    return await _run(None, partial(call, *args, **kwargs))


async def _run(executor: ThreadPoolExecutor | None, call: Callable[[], T]) -> T:
    running = asyncio.get_running_loop().run_in_executor(executor, call)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await _ended(running)
        running.result()  # raises the error of `call`, if any, instead of CancelledError
        raise


async def in_thread_until(stop: threading.Event, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """As `in_thread`, for a `call` that ends early once `stop` is set. If the caller is cancelled, this sets `stop`.
    Then the result or error of `call` is dropped.
    """
    running = asyncio.get_running_loop().run_in_executor(None, partial(call, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        await _ended(running)
        running.exception()
        raise


async def _ended(running: asyncio.Future[T]) -> None:
    """Wait until `running` has ended, even if the caller is cancelled again.

    A slow stop is followed by the end of the loop, which cancels every task. `running` is a future and no task, so it
    is not cancelled.
    """
    while not running.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([running])


async def in_thread_behind(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """As `in_thread`, for long work that no client waits for.

    On a busy machine urgent work goes first: the event loop of this node, and other processes. The threads for it are
    used for nothing else, because a thread may lower its priority and not raise it again.
    """
    return await _run(_BEHIND, partial(call, *args, **kwargs))


def _step_back() -> None:
    if sys.platform == "linux":  # elsewhere a priority holds for the whole process
        thread = threading.get_native_id()
        with suppress(OSError):  # a process that runs at a lower priority anyway stays there
            os.setpriority(os.PRIO_PROCESS, thread, max(NICE, os.getpriority(os.PRIO_PROCESS, thread)))


_BEHIND: Final = ThreadPoolExecutor(2, "behind", _step_back)
