"""Waiting for what has to come: the one place in which tests sleep (tests/tidy holds them to it).

A test never sleeps for as long as it hopes something takes. It waits for what it is about, here or on an event, and
fails by name when that does not come. Where nothing but time must pass the test runs on virtual time
(tests/virtual_time.py).
"""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

LOOK_S = 0.005
WITHIN_S = 30.0
"""Far longer than anything takes on a machine that is busy with other things."""


async def until(condition: Callable[[], Any], within_s: float = WITHIN_S, what: object = "") -> Any:
    """Look again and again until `condition` gives something true, awaited if need be; returns that."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + within_s
    while True:
        found = condition()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        assert loop.time() < end_s, f"{what or inspect.getsource(condition).strip()}: not within {within_s} s"
        await asyncio.sleep(LOOK_S)


def wait_until(condition: Callable[[], Any], within_s: float = WITHIN_S, what: object = "") -> Any:
    """The same where there is no event loop."""
    end_s = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < end_s, f"{what or inspect.getsource(condition).strip()}: not within {within_s} s"
        time.sleep(LOOK_S)
    return found


async def turns(count: int = 10) -> None:
    """Let everything that is ready run, so many rounds of the loop."""
    for _ in range(count):
        await asyncio.sleep(0)
