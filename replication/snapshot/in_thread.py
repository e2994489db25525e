"""Blocking work off the event loop, for callers that may be cancelled."""

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
"""A third of the usual weight. With much less, a thread that holds the interpreter would keep its own loop waiting."""


async def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `call` in a thread and wait for it.

    A caller that is cancelled meanwhile still waits, and is cancelled then. So nothing goes on in a directory that a
    caller believes to be closed.
    """
    return await _run(None, partial(call, *args, **kwargs))


async def _run(executor: ThreadPoolExecutor | None, call: Callable[[], T]) -> T:
    running = asyncio.get_running_loop().run_in_executor(executor, call)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await _ended(running)
        running.result()  # its own failure counts more
        raise


async def in_thread_until(stop: threading.Event, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The same for a `call` that ends early once `stop` is set. A cancel sets `stop`; the result or failure is then
    dropped.
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
    """Wait for the end, even if the caller is cancelled again.

    A slow stop is followed by the end of the loop, which cancels every task. So `running` is no task.
    """
    while not running.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([running])


async def in_thread_behind(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """As `in_thread`, for long work that no client waits for.

    On a busy machine it stands behind urgent work: the own loop and other processes. It has threads of its own, since a
    thread may lower its priority and not raise it again.
    """
    return await _run(_BEHIND, partial(call, *args, **kwargs))


def _step_back() -> None:
    if sys.platform == "linux":  # elsewhere priorities are of processes
        thread = threading.get_native_id()
        with suppress(OSError):  # a process that runs at a lower priority anyway stays there
            os.setpriority(os.PRIO_PROCESS, thread, max(NICE, os.getpriority(os.PRIO_PROCESS, thread)))


_BEHIND: Final = ThreadPoolExecutor(2, "behind", _step_back)
