"""Blocking work off the event loop, for callers that may be cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `call` in a thread and wait for it. A caller that is cancelled meanwhile waits all the same, and is cancelled
    then: nothing goes on in a directory that somebody believes to be closed."""
    running = asyncio.get_running_loop().run_in_executor(None, partial(call, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await _ended(running)
        running.result()  # its own failure counts for more
        raise


async def in_thread_until(stop: threading.Event, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The same for a `call` that ends early once `stop` is set. A cancel sets it; nobody reads what comes of it then,
    a failure neither."""
    running = asyncio.get_running_loop().run_in_executor(None, partial(call, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        await _ended(running)
        running.exception()
        raise


async def _ended(running: asyncio.Future[T]) -> None:
    """The caller may be cancelled again meanwhile: a stop that takes long is followed by the end of the loop. That
    cancels every task, so `running` is none."""
    while not running.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([running])
