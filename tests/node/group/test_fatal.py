"""A node whose disk fails: it ends at once with the reason, and acknowledges nothing afterwards."""

import asyncio
from pathlib import Path

import pytest

from api.port.port import ANONYMOUS, MessageIn, PullIn
from api.port.problem import Problem
from node.node import Node
from storage.file.disk import DiskFailed
from storage.format.rows import Corrupt
from storage.record.record import Record
from tests.node.single_node import run_node


def test_a_failed_fdatasync_ends_the_node_and_acknowledges_nothing(tmp_path: Path) -> None:
    """The message whose write failed is not answered with an id, no later one either, and `run` raises DiskFailed."""
    answers: list[object] = []

    async def play(node: Node) -> None:
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        await node.front.schedule([MessageIn("t", b"1")], ANONYMOUS)

        def fail(fd: int) -> None:
            raise DiskFailed("fdatasync", "the journal", 5)

        node.group.disk.fdatasync = fail  # type: ignore[method-assign]
        for _ in range(3):
            try:
                answers.append(await node.front.schedule([MessageIn("t", b"2")], ANONYMOUS))
            except Problem as problem:
                answers.append(problem.code)
        assert loop.time() - start_s < 5

    with pytest.raises(DiskFailed):
        run_node(tmp_path / "n1", play)
    assert answers[0] == "outcome-unknown"
    assert set(answers[1:]) <= {"no-leader", "outcome-unknown", "draining"}


def test_no_webhook_leaves_once_the_node_has_failed(tmp_path: Path) -> None:
    """From the step in which it failed: one may have waited for its connection."""

    async def play(node: Node) -> None:
        def may_send() -> bool:
            return node.group.leadership.window.covers(node.group.raft.term, 1 << 47, node.group.clock.monotonic())

        seen.append(may_send())
        node.group.life.fatal(DiskFailed("fdatasync", "an hour's index", 5))
        seen.append(may_send())

    seen: list[bool] = []
    with pytest.raises(DiskFailed, match="an hour's index"):
        run_node(tmp_path / "n1", play)
    assert seen == [True, False]


def test_what_fails_while_the_node_stops_in_order_is_raised_and_nothing_is_checkpointed(tmp_path: Path) -> None:
    """A sync that failed beside the stop: a second one, in the last checkpoint, could report success without the data
    being there; and a node that lost its disk did not end in order."""
    checkpoints: list[object] = []

    async def play(node: Node) -> None:
        async def fail() -> None:
            raise DiskFailed("fdatasync", "an hour's index", 5)

        node.group.store.begin_checkpoint = checkpoints.append  # type: ignore[method-assign, assignment]
        node.life.stop()
        node.group.life.spawn(fail())

    with pytest.raises(DiskFailed, match="an hour's index"):
        run_node(tmp_path / "n1", play)
    assert checkpoints == []


def test_a_damaged_message_ends_the_node_that_was_asked_for_it(tmp_path: Path) -> None:
    """A checksum that does not match is no answer of 500: the node stops, and the message is the next leader's."""

    async def play(node: Node) -> None:
        placed = await node.front.schedule([MessageIn("t", b"1")], ANONYMOUS)
        id = placed.ids[0].decode()

        def damaged(positions: object, units: object = None) -> list[Record]:
            raise Corrupt("1/log", 64, "payload checksum", "1", "2")

        node.group.store.records = damaged  # type: ignore[method-assign]
        node.group.store.record_rows = damaged  # type: ignore[method-assign, assignment]
        with pytest.raises(Corrupt):
            await ask(node, id)

    for ask in (read, take):
        with pytest.raises(Corrupt, match="payload checksum"):
            run_node(tmp_path / ask.__name__, play)


async def read(node: Node, id: str) -> None:
    """GET /v1/messages/{id}."""
    await node.front.message(id, local=True, principal=ANONYMOUS)


async def take(node: Node, id: str) -> None:
    """POST .../pull."""
    await node.front.pull(PullIn("t", max=1, wait_ms=5_000, lease_ms=None), ANONYMOUS)
