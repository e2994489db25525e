"""What is looked at every now and then is looked at together: one wake-up of the loop serves all that is due.

An idle node is to cost next to nothing, and what costs is to be woken, not to look.
"""

import asyncio
import math


def until_next_s(every_s: float) -> float:
    """How long until the loop's clock shows a multiple of this again; never so short that a timer which came a moment
    early comes twice."""
    now_s = asyncio.get_running_loop().time()
    left_s = (math.floor(now_s / every_s) + 1) * every_s - now_s
    return left_s if left_s > every_s / 8 else left_s + every_s


async def next_look(every_s: float) -> None:
    """Wait for that moment."""
    await asyncio.sleep(until_next_s(every_s))
