"""Acks, nacks and extensions on a whole node: what holds whatever else happens meanwhile."""

import asyncio
from pathlib import Path

from api.port import ANONYMOUS, MessageIn, PullIn
from node.server import Node
from tests.node.single_node import run_node


def test_a_message_given_back_is_not_handed_over_before_that_is_known(tmp_path: Path) -> None:
    """Its lease ends while the nack waits for an entry: handed over then, it would bear the attempt that the hand-over
    after the nack bears too."""

    async def play(node: Node) -> None:
        await node.service.schedule([MessageIn("t", b"1")], ANONYMOUS)
        (first,) = await node.service.pull(PullIn("t", 1, 5_000, 1_000), ANONYMOUS)
        fails = node.proposer._fails
        take = fails.take
        fails.take = lambda now_ms: []  # type: ignore[method-assign]

        def let_go() -> None:
            """The entry is put together only when the lease has long ended."""
            fails.take = take  # type: ignore[method-assign]
            node.proposer.kick()

        asyncio.get_running_loop().call_later(1.6, let_go)
        waiting = node.service.pull(PullIn("t", 1, 8_000), ANONYMOUS)
        nacking = node.service.nack("t", [first.receipt], delay_ms=500, principal=ANONYMOUS)
        results = asyncio.ensure_future(nacking)
        (second,) = await waiting
        assert await results == ["nacked"]
        assert second.attempt == 2
        assert second.handed_over_ms >= second.due_ms
        view = await node.service.message(first.id, local=False, principal=ANONYMOUS)
        assert [event.event for event in view.history] == ["scheduled", "leased", "moved", "leased"]
        assert [event.attempt for event in view.history if event.event == "leased"] == [1, 2]

    run_node(tmp_path / "n1", play)
