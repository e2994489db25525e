"""Periodic looks happen together: one wake-up of the loop serves all that are due.

An idle node should cost next to nothing. The wake-up costs, not the look.
"""

import asyncio
import math


def until_next_s(every_s: float) -> float:
    """How long until the loop's clock shows a multiple of this again.

    Never so short that a timer which came a moment early comes twice.
    """
    now_s = asyncio.get_running_loop().time()
    left_s = (math.floor(now_s / every_s) + 1) * every_s - now_s
    return left_s if left_s > every_s / 8 else left_s + every_s


async def next_look(every_s: float) -> None:
    """Wait until the loop's clock shows a multiple of this again."""
    await asyncio.sleep(until_next_s(every_s))
