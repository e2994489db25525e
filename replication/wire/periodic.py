"""Makes parts that look at something again and again do so at the same times. So one wake-up of the loop serves all
that are due. An idle node should cost next to nothing, and most of the cost is the wake-up.
"""

import asyncio
import math


def until_next_s(every_s: float) -> float:
    """Seconds until the loop's clock next shows a multiple of `every_s`. If that is an eighth of `every_s` away or
    less, the multiple after it counts. So a timer that came a moment early does not come twice.
    """
    now_s = asyncio.get_running_loop().time()
    left_s = (math.floor(now_s / every_s) + 1) * every_s - now_s
    return left_s if left_s > every_s / 8 else left_s + every_s


async def next_look(every_s: float) -> None:
    """Wait until the loop's clock next shows a multiple of `every_s`."""
    await asyncio.sleep(until_next_s(every_s))
