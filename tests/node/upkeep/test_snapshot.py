"""Whole nodes that were away for too long, or lost their disk: they take a snapshot over and go on.

Real directories, journals and sockets. So little journal is kept (restarting.STORAGE) that a few thousand messages make
the others trim what the absent node needs.
"""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c

from api.port.port import ANONYMOUS
from api.port.problem import Problem
from node.node import Node
from replication.wire.frame import Message
from storage.directory.snapshot_install import INSTALL
from tests.node.restarting import STORAGE, Nodes, fill, play, strand
from tests.waiting import until

PACED = {**STORAGE, "snapshot_mb_per_s": 16}
"""Slow enough that a snapshot of a few MiB can be met half-way."""


def one_digest(nodes: Nodes) -> bool:
    """Whether all directories, of nodes that are down now, hold the same. What is still committed while the first of
    them stops makes their ends differ: then all run again until they are level, and stop once more."""
    while True:
        found = {nodes.digest(node_id) for node_id in nodes.configs}
        if len({applied_index for _, applied_index in found}) == 1:
            return len(found) == 1
        play(nodes, lambda nodes: nodes.level(*nodes.configs))


async def holds(node: Node, *ids: str) -> None:
    """The node itself has these messages."""
    for id in ids:
        assert (await node.front.message(id, local=True, principal=ANONYMOUS)).state == "scheduled"


async def absent(nodes: Nodes, *, wipe: bool = False) -> tuple[str, list[str]]:
    """A follower that is down and whose next entry no journal has any more; ids from before and after it went."""
    leader = await nodes.leader()
    ids = (await fill(leader, 300))[:1]
    await nodes.level()
    away = nodes.follower(leader)
    index = nodes.alive[away].group.machine.applied_index
    await nodes.stop(away)
    ids += (await fill(leader, 1500))[-1:]
    await strand(nodes, leader, index)
    ids += (await fill(leader, 100))[-1:]
    if wipe:
        nodes.wipe(away)
    return away, ids


async def half_way(nodes: Nodes, node_id: str) -> None:
    """Until this node has fetched some of a snapshot, and not all of it."""

    def fetching() -> bool:
        fetcher = nodes.alive[node_id].group.snapshots.fetcher if node_id in nodes.alive else None
        return fetcher is not None and 0 < fetcher.done_bytes < fetcher.total_bytes

    await until(fetching)


async def taken_over(nodes: Nodes, node_id: str, ids: list[str]) -> None:
    """Until this node has started again in place, caught up, and is no burden to the leader any more."""
    await until(lambda: nodes.reinstalled[node_id] > 0)
    await nodes.level()
    await holds(nodes.alive[node_id], *ids)
    await until(lambda: all(not node.group.snapshots.sender.sendings for node in nodes.alive.values()))
    assert not (nodes.configs[node_id].directory / INSTALL).exists()


def test_a_node_that_was_away_too_long(tmp_path: Path) -> None:
    """It gets a snapshot, starts again in place, has everything, keeps what it promised, and is a voter as before."""
    nodes = Nodes(tmp_path)

    async def scene(nodes: Nodes) -> None:
        away, ids = await absent(nodes)
        nodes.start(away)
        await taken_over(nodes, away, ids)
        leader, node = await nodes.leader(), nodes.alive[away]
        assert (leader.group.snapshots.sender.given_up, nodes.reinstalled[away]) == (0, 1)
        assert node.group.journal.voter
        assert node.group.raft.term == leader.group.raft.term
        assert not leader.group.raft.peers[away].stranded

    play(nodes, scene)
    assert one_digest(nodes)


def test_a_wiped_node(tmp_path: Path) -> None:
    """An empty directory under a known id gets the same, and votes again only when it has caught up."""
    nodes = Nodes(tmp_path)

    async def scene(nodes: Nodes) -> None:
        away, ids = await absent(nodes, wipe=True)
        voting: list[bool] = []
        nodes.made = lambda group: voting.append(group.journal.voter)
        nodes.start(away)
        await taken_over(nodes, away, ids)
        assert voting == [False, False], "neither empty nor with a snapshot alone may it vote"
        await until(lambda: nodes.alive[away].group.journal.voter)

    play(nodes, scene)
    assert one_digest(nodes)


def test_load_all_the_while(tmp_path: Path) -> None:
    """Messages pour in from before it comes back until it has caught up: the snapshot ends all the same, in one go."""
    nodes = Nodes(tmp_path, storage=PACED)

    async def scene(nodes: Nodes) -> None:
        away, ids = await absent(nodes)
        pouring = True

        async def pour() -> None:
            while pouring:
                leader = await nodes.leader()
                with contextlib.suppress(Problem):
                    ids.extend((await fill(leader, 200))[-1:])
                await asyncio.sleep(0.02)

        load = asyncio.ensure_future(pour())
        nodes.start(away)
        await until(lambda: nodes.reinstalled[away] > 0)
        leader = await nodes.leader()
        await until(lambda: not leader.group.snapshots.sender.sendings)
        assert nodes.alive[away].group.machine.applied_index > leader.group.raft.commit_index - 50, (
            "caught up, under load"
        )
        pouring = False
        await load
        await taken_over(nodes, away, ids)
        assert (leader.group.snapshots.sender.given_up, nodes.reinstalled[away]) == (0, 1)

    play(nodes, scene)
    assert one_digest(nodes)


def test_killed_while_fetching(tmp_path: Path) -> None:
    """It dies half-way, twice: the old state opens as it was, and what was fetched before is not sent again."""
    nodes = Nodes(tmp_path, storage=PACED)

    async def scene(nodes: Nodes) -> None:
        away, ids = await absent(nodes)
        leader = await nodes.leader()
        for _ in range(2):
            nodes.start(away)
            await half_way(nodes, away)
            await holds(nodes.alive[away], ids[0])
            await nodes.crash(away)
        nodes.start(away)
        await taken_over(nodes, away, ids)
        whole = nodes.alive[away].group.store.checkpoint
        assert whole is not None
        size = sum(lengths.log_len for lengths in whole.hours.values())
        assert leader.group.snapshots.sender.sent_bytes < 2 * size, "each piece about once"

    play(nodes, scene)
    assert one_digest(nodes)


def test_the_leader_dies_while_sending(tmp_path: Path) -> None:
    """The next leader offers its own; what is there already counts. Without it nothing could be committed at all: the
    node that lacks everything is needed for a majority."""
    nodes = Nodes(tmp_path, storage=PACED)

    async def scene(nodes: Nodes) -> None:
        away, ids = await absent(nodes)
        nodes.start(away)
        await half_way(nodes, away)
        old = await nodes.leader()
        await nodes.crash(old.config.node_id)
        await until(lambda: nodes.reinstalled[away] > 0)
        new = await nodes.leader(term_above=old.group.raft.term)
        ids += (await fill(new, 50))[-1:]
        nodes.start(old.config.node_id)
        await taken_over(nodes, away, ids)

    play(nodes, scene)
    assert one_digest(nodes)


def test_leadership_moves_while_sending(tmp_path: Path) -> None:
    """The new leader goes on where the old one was: most of it is there already, and is known by its checksum."""
    nodes = Nodes(tmp_path, storage=PACED)

    async def scene(nodes: Nodes) -> None:
        away, ids = await absent(nodes)
        nodes.start(away)
        await half_way(nodes, away)
        old = await nodes.leader()
        to = next(node_id for node_id in nodes.configs if node_id not in (away, old.config.node_id))
        await old.front.transfer(to, principal=ANONYMOUS)
        await taken_over(nodes, away, ids)
        first, second = old.group.snapshots.sender, nodes.alive[to].group.snapshots.sender
        assert first.sent_bytes > 0
        assert second.sent_bytes > 0
        assert first.given_up + second.given_up == 0

    play(nodes, scene)
    assert one_digest(nodes)


def damaged(node: Node, spoil: Callable[[int, Message], Message]) -> None:
    """What the node reads for a follower passes through `spoil`, with the number of the piece."""
    sender: Any = node.group.snapshots.sender
    read, count = sender._read, 0

    def spoiled(sending: Any, pull: Message) -> Message:
        nonlocal count
        count += 1
        return spoil(count, read(sending, pull))

    sender._read = spoiled


def flipped(piece: Message) -> Message:
    """One bit of it is another."""
    return piece | {"data": bytes([piece["data"][0] ^ 1]) + piece["data"][1:]} if piece["data"] else piece


def test_a_damaged_piece_is_asked_for_again(tmp_path: Path) -> None:
    """A piece that does not match its checksum is not written; the next answer is."""
    nodes = Nodes(tmp_path)

    async def scene(nodes: Nodes) -> None:
        away, ids = await absent(nodes)
        damaged(await nodes.leader(), lambda count, piece: flipped(piece) if count in (2, 4) else piece)
        nodes.start(away)
        await taken_over(nodes, away, ids)
        assert nodes.reinstalled[away] == 1

    play(nodes, scene)
    assert one_digest(nodes)


def test_a_snapshot_that_does_not_verify_is_not_taken_over(tmp_path: Path) -> None:
    """Bytes that are wrong though their checksum is right are found when all is read back: the old state stays and goes
    on being read, the try is thrown away whole, and the next one comes through."""
    nodes = Nodes(tmp_path)

    async def scene(nodes: Nodes) -> None:
        away, ids = await absent(nodes)
        sound = False

        def spoil(count: int, piece: Message) -> Message:
            if sound or not piece["file"]:
                return piece
            wrong = flipped(piece)
            return wrong | {"crc": google_crc32c.value(wrong["data"])}

        damaged(await nodes.leader(), spoil)
        nodes.start(away)
        await until(lambda: away in nodes.alive)
        node = nodes.alive[away]
        await until(lambda: node.group.snapshots.fetcher.failures == 1)
        assert not (node.config.directory / INSTALL).exists()
        await holds(node, ids[0])
        sound = True
        await taken_over(nodes, away, ids)

    play(nodes, scene)
    assert one_digest(nodes)


def test_the_journal_of_those_that_stay_is_bounded(tmp_path: Path) -> None:
    """A node that is away does not make the others' journals grow: they keep what the settings say, and some segments
    that a checkpoint does not cover yet: 8 MiB soon after each round, of 4 MiB and more."""
    nodes = Nodes(tmp_path)

    async def scene(nodes: Nodes) -> None:
        leader = await nodes.leader()
        await nodes.stop(nodes.follower(leader))
        for _ in range(4):
            index = leader.group.raft.commit_index
            await fill(leader, 3000)
            await strand(nodes, leader, index)
            await until(lambda: all(node.group.journal.kept_bytes < 8 << 20 for node in nodes.alive.values()))

    play(nodes, scene)
