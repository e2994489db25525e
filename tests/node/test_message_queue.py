"""Messages that wait: bounded by their number and by their bytes, and let go of when they are taken."""

import asyncio

import pytest

import node.message_queue
from api.port import MessageIn
from api.problem import Problem
from node.entropy import Entropy
from node.message_queue import MessageQueue


def test_the_bodies_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """200,000 small messages may wait, not as many of 256 KB: those would fill the memory while a disk stands still.
    One request always may; what is taken, or refused, has room again."""
    monkeypatch.setattr(node.message_queue, "WAITING_BYTES_MAX", 1_000)

    async def play() -> None:
        queue = MessageQueue(Entropy(), 200_000)

        def add(size: int, count: int = 1) -> None:
            queue.add([MessageIn("t", b"x" * size, "", None, None)] * count)

        for empty in (lambda: queue.take(0), queue.refuse):
            add(5_000)
            with pytest.raises(Problem, match="over-limit"):
                add(1)
            empty()
            add(400, 2)
            with pytest.raises(Problem, match="over-limit"):
                add(201)
            add(200)
            empty()
            assert queue.rows == 0

    asyncio.run(play())
