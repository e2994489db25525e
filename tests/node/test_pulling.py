"""Pulls on a whole node: who waits is woken for what it wants, and for nothing else."""

import asyncio
from pathlib import Path
from typing import Any

from api.port import ANONYMOUS, MessageIn, PullIn, TopicChange
from node.server import Node
from tests.node.single_node import run_node


def test_each_consumer_gets_what_its_filter_wants(tmp_path: Path) -> None:
    """Two that wait with different filters are both served, whatever stands before; what nobody wants wakes nobody."""

    async def play(node: Node) -> None:
        service = node.service

        def pull(*groups: tuple[str, ...]) -> asyncio.Task[Any]:
            return asyncio.ensure_future(service.pull(PullIn("t", 10, 5_000, None, groups), ANONYMOUS))

        await service.schedule([MessageIn("t", b"0", tags=("asia",)) for _ in range(50)], ANONYMOUS)
        eu, us = pull(("eu", "vip")), pull(("us",), ("ca",))
        await asyncio.sleep(0.1)
        assert node.reign is not None
        dispatcher = node.reign.dispatcher
        tries = 0
        hand_over = dispatcher.hand_over

        def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal tries
            tries += 1
            return hand_over(*args, **kwargs)

        dispatcher.hand_over = counted  # type: ignore[method-assign]
        await asyncio.sleep(0.3)
        assert tries == 0, "a pull looks again at what it does not want"
        messages = [
            MessageIn("t", b"1", tags=("eu",)),
            MessageIn("t", b"2", tags=("ca",)),
            MessageIn("t", b"3", tags=("vip", "x", "eu")),
        ]
        await service.schedule(messages, ANONYMOUS)
        assert [each.body for each in await us] == [b"2"]
        assert [each.body for each in await eu] == [b"3"]
        assert len(await service.pull(PullIn("t"), ANONYMOUS)) == 51

    run_node(tmp_path / "n1", play)


def test_a_refused_pull_is_not_tried_again_at_once(tmp_path: Path) -> None:
    """While leadership is not trusted, or hand-overs wait to be committed, a pull that waits costs next to nothing; it
    gets its message soon after."""

    async def play(node: Node) -> None:
        service, reign = node.service, node.reign
        assert reign is not None
        await service.put_topic("t", TopicChange(), create=True, if_match=None, principal=ANONYMOUS)
        waiting = asyncio.ensure_future(service.pull(PullIn("t", 1, 5_000), ANONYMOUS))
        asks = 0
        trusted = reign.trusted

        def distrusted() -> bool:
            nonlocal asks
            asks += 1
            return False

        await service.schedule([MessageIn("t", b"0", delay_ms=50)], ANONYMOUS)
        reign.trusted = distrusted  # type: ignore[method-assign]
        await asyncio.sleep(0.5)
        reign.trusted = trusted  # type: ignore[method-assign]
        assert 1 <= asks <= 50, asks
        assert len(await waiting) == 1

    run_node(tmp_path / "n1", play)
