"""Many calls at once: a few each time the loop comes round."""

import asyncio

from api.loop_turn import CROWD_A_TURN, Crowd


def test_a_crowd_goes_a_few_at_a_time_and_in_order() -> None:
    """Others run in between; what comes meanwhile stands behind. A client closed 8,600 polls at once, and the leader
    answered nobody until each of them had ended."""

    async def story() -> None:
        crowd = Crowd(asyncio.get_running_loop())
        called: list[int] = []
        for number in range(3 * CROWD_A_TURN):
            crowd.add(lambda number=number: called.append(number))  # type: ignore[misc]
        crowd.add(lambda: crowd.add(lambda: called.append(-1)))
        seen = []
        while -1 not in called:
            await asyncio.sleep(0)
            seen.append(len(called))
        assert seen == [CROWD_A_TURN, 2 * CROWD_A_TURN, 3 * CROWD_A_TURN, 3 * CROWD_A_TURN, 3 * CROWD_A_TURN + 1]
        assert called == [*range(3 * CROWD_A_TURN), -1]
        crowd.add(lambda: called.append(-2))
        await asyncio.sleep(0)
        assert called[-1] == -2

    asyncio.run(story())
