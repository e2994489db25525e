"""Much work, and many calls at once: a little each time the loop comes round."""

import asyncio
from collections import Counter

import pytest

import api.loop_turn
from api.loop_turn import CROWD_A_TURN, Crowd, Pieces, in_turns
from tests.waiting import until


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


def test_large_requests_share_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six batches of 13 MiB held the loop for six pieces each time it came round. One goes on a time, in order, and one
    that is cancelled meanwhile is passed over."""
    monkeypatch.setattr(api.loop_turn, "HELD_MAX_S", 0.0)

    async def story() -> None:
        rounds, went = 0, list[tuple[int, str]]()

        def work(name: str) -> Pieces[str]:
            for _ in range(4):
                went.append((rounds, name))
                yield
            return name

        async def count() -> None:
            nonlocal rounds
            while True:
                rounds += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        tasks = [asyncio.create_task(in_turns(work(name))) for name in "abcd"]
        await until(lambda: len(went) >= 8)
        tasks[3].cancel()
        assert await asyncio.gather(*tasks[:3]) == ["a", "b", "c"]
        counting.cancel()
        begun, others = went[:4], went[4:]
        assert [name for _, name in begun] == ["a", "b", "c", "d"]
        assert max(Counter(number for number, _ in others).values()) == 1
        assert "".join(name for _, name in others).startswith("abcdabc")

    asyncio.run(story())
