"""Requests of several entries whose leader loses leadership in the middle: FOUND D6 and D7. The answer never says that
nothing happened, so nobody asks the next leader from the start and takes its count for the whole."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from api.port.port import ANONYMOUS, MessageIn, PullIn, TopicChange
from api.port.problem import Problem
from node.node import Node
from node.settle.in_parts import in_parts
from node.write.command_queues import ENTRY_MOVES_MAX
from replication.command.handover import Fail
from tests.node.single_node import run_node

COUNT = ENTRY_MOVES_MAX + 200


async def receipts_of(node: Node) -> list[str]:
    """As many messages as go into two entries, handed over."""
    change = TopicChange(retry={"max_attempts": 1})
    await node.front.put_topic("t", change, create=True, if_match=None, principal=ANONYMOUS)
    await node.front.schedule([MessageIn("t", b"1")] * COUNT, ANONYMOUS)
    receipts: list[str] = []
    while len(receipts) < COUNT:
        receipts += [each.receipt for each in await node.front.pull(PullIn("t", 1_000, 5_000), ANONYMOUS)]
    return receipts


def refusal(code: str = "no-leader") -> Problem:
    """Of an entry that was not proposed, or whose outcome is not known."""
    return Problem(code, "this node stopped leading before the request was written; nothing happened")


def test_a_nack_that_was_done_in_part_says_so_by_receipt(tmp_path: Path) -> None:
    """Of 1,200 receipts 1,000 went in the first entry. Asked again the rest is done, and nothing twice."""

    async def play(node: Node) -> None:
        receipts = await receipts_of(node)
        leader_term = node.group.leader_term
        assert leader_term is not None
        before, calls = leader_term.fail, 0

        def losing(fail: Fail) -> asyncio.Future[Any]:
            nonlocal calls
            calls += 1
            if calls == 1:
                return before(fail)
            refused = asyncio.get_running_loop().create_future()
            refused.set_exception(refusal())
            return refused

        leader_term.fail = losing  # type: ignore[method-assign]
        with pytest.raises(Problem) as caught:
            await node.front.nack("t", receipts, delay_ms=0, principal=ANONYMOUS)
        assert (caught.value.status, caught.value.code) == (504, "outcome-unknown")
        results = caught.value.extra["results"]
        assert [each["receipt"] for each in results] == receipts
        words = [each["result"] for each in results]
        assert words == ["nacked"] * ENTRY_MOVES_MAX + ["unknown"] * (COUNT - ENTRY_MOVES_MAX)
        calls = 1
        with pytest.raises(Problem, match="no-leader"):  # nothing of this one was done
            await node.front.nack("t", receipts, delay_ms=0, principal=ANONYMOUS)
        leader_term.fail = before  # type: ignore[method-assign]
        assert set(await node.front.nack("t", receipts, delay_ms=0, principal=ANONYMOUS)) == {"nacked"}

    run_node(tmp_path / "n1", play)


def test_what_is_no_refusal_is_raised_and_refusals_alone_too() -> None:
    """A part whose outcome is unknown may have been done."""

    async def outcome(*parts: int | BaseException) -> list[int | Problem]:
        futures: list[asyncio.Future[int]] = []
        for part in parts:
            future = asyncio.get_running_loop().create_future()
            if isinstance(part, BaseException):
                future.set_exception(part)
            else:
                future.set_result(part)
            futures.append(future)
        return await in_parts(futures)

    async def go() -> None:
        refused, unknown = refusal(), refusal("outcome-unknown")
        assert await outcome(1, refused) == [1, refused]
        assert await outcome(refused, unknown) == [refused, unknown]
        assert await outcome() == []
        with pytest.raises(Problem, match="no-leader"):
            await outcome(refused, refused)
        with pytest.raises(ValueError, match="bug"):
            await outcome(1, refused, ValueError("bug"))

    asyncio.run(go())
