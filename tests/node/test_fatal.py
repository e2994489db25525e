"""A node whose disk fails: it ends at once with the reason, and acknowledges nothing afterwards."""

import asyncio
from pathlib import Path

import pytest

from api.port import ANONYMOUS, MessageIn
from api.problem import Problem
from node.server import Node
from storage.disk import DiskFailed
from tests.node.single_node import run_node


def test_a_failed_fdatasync_ends_the_node_and_acknowledges_nothing(tmp_path: Path) -> None:
    """The message whose write failed is not answered with an id, no later one either, and `run` raises DiskFailed."""
    answers: list[object] = []

    async def play(node: Node) -> None:
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        await node.service.schedule([MessageIn("t", b"1")], ANONYMOUS)

        def fail(fd: int) -> None:
            raise DiskFailed("fdatasync", "the journal", 5)

        node.disk.fdatasync = fail  # type: ignore[method-assign]
        for _ in range(3):
            try:
                answers.append(await node.service.schedule([MessageIn("t", b"2")], ANONYMOUS))
            except Problem as problem:
                answers.append(problem.code)
        assert loop.time() - start_s < 5

    with pytest.raises(DiskFailed):
        run_node(tmp_path / "n1", play)
    assert answers[0] == "outcome-unknown"
    assert set(answers[1:]) <= {"no-leader", "outcome-unknown", "draining"}
