"""Blocking work off the event loop, for callers that may be cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `call` in a thread and wait for it. A caller that is cancelled meanwhile waits all the same, and is cancelled
    then: nothing goes on in a directory that somebody believes to be closed."""
    running = asyncio.ensure_future(asyncio.to_thread(call, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        running.result()  # its own failure counts for more
        raise
