"""The delivery logs tell which node led in which term, and how that ended."""

import asyncio
from pathlib import Path

import pytest

from api.port.port import ANONYMOUS, MessageIn, PullIn
from node.node import Node
from storage.file.delivery_file import delivery_files, read_delivery_file
from storage.file.disk import Disk, DiskFailed
from storage.record.delivery_record import HANDED_ON, LOST, START, STOPPED, TERM_BEGUN, TERM_ENDED
from tests.node.single_node import run_node
from tests.node.three_nodes import leader_of, run_nodes

Told = list[tuple[int, int, int]]


def told(directory: Path) -> Told:
    """(kind, term, how) of each record of a node's log that is no end of a hand-over, in order."""
    disk, found = Disk(), []
    for file in delivery_files(directory / "deliveries", disk):
        for rows, _ in read_delivery_file(directory / "deliveries" / file.name, disk):
            found += [(int(row["kind"]), int(row["term"]), int(row["code"])) for row in rows]
    return [row for row in found if row[0] in (START, TERM_BEGUN, TERM_ENDED)]


def test_a_term_is_told_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    """Around its hand-overs; given away by a transfer, lost when its leader steps down by itself, stopped with its
    node."""
    led: dict[str, Told] = {}

    async def scene(nodes: list[Node]) -> None:
        first = await leader_of(nodes)
        await first.front.schedule([MessageIn("t", b"1")], ANONYMOUS)
        await first.front.pull(PullIn("t", 1, 5_000), ANONYMOUS)
        term = first.group.raft.term
        led[first.config.node_id] = [(TERM_BEGUN, term, 0), (START, term, 0), (TERM_ENDED, term, HANDED_ON)]
        await first.front.transfer(None, principal=ANONYMOUS)
        second = await leader_of(nodes, term_above=term)
        term = second.group.raft.term
        led.setdefault(second.config.node_id, []).extend([(TERM_BEGUN, term, 0), (TERM_ENDED, term, LOST)])
        second.group.raft.resign()
        await leader_of(nodes, term_above=term)

    run_nodes(tmp_path, scene)
    for node_id, wanted in led.items():
        assert told(tmp_path / node_id)[: len(wanted)] == wanted


def test_a_node_that_stops_says_so_and_one_that_fails_says_nothing(tmp_path: Path) -> None:
    """After a failure nothing is written any more: such a term ends as that of a killed leader does."""

    async def stop(node: Node) -> None:
        assert node.group.raft.term == 1

    async def fail(node: Node) -> None:
        node.group.life.fatal(DiskFailed("write", "somewhere", 5))
        await asyncio.sleep(0)

    run_node(tmp_path / "n1", stop)
    with pytest.raises(DiskFailed):
        run_node(tmp_path / "n1", fail)
    rows = told(tmp_path / "n1")
    assert rows == [(TERM_BEGUN, 1, 0), (TERM_ENDED, 1, STOPPED), (TERM_BEGUN, rows[-1][1], 0)]
