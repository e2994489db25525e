"""A node whose apply differs by one bit: it is found, stops, and does not come back on that directory."""

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from api.port.port import ANONYMOUS, MessageIn, PullIn
from api.port.problem import Problem
from node.node import Node
from replication.apply.applying import Applying
from replication.apply.registry import CommandRow
from replication.command.entry import Kind
from replication.raft.agreement import OddOneOut, Split
from storage.directory.data_directory import CONDEMNED, DataDirectory, DirectoryRefused
from storage.file.disk import Disk
from storage.format.batches import UnitBatch
from tests.node.three_nodes import leader_of, run_nodes
from tests.waiting import until


def _flip_a_tag(node: Node) -> None:
    """From now on one bit of one column of what is appended is another."""
    append = node.group.store.append

    def off_by_one_bit(batch: UnitBatch) -> object:
        return append(dataclasses.replace(batch, tags=batch.tags ^ np.uint64(1 << 40)))

    node.group.store.append = off_by_one_bit  # type: ignore[method-assign, assignment]


def _move_a_lease(node: Node) -> None:
    """One millisecond in a settle record."""
    settle = node.group.store.settle
    node.group.store.settle = lambda batch: settle(dataclasses.replace(batch, at_ms=batch.at_ms + 1))  # type: ignore[method-assign]


def _misspell_a_topic(node: Node) -> None:
    """A row of the catalog."""
    put = node.group.store.catalog.put_topic
    node.group.store.catalog.put_topic = (  # type: ignore[method-assign]
        lambda name, settings, now_ms, namespace="default": put(name, {**settings, "x": 1}, now_ms, namespace)
    )


def _shift_the_state(node: Node) -> None:
    """Where the dispatch state stands, by one unit."""
    apply_one = node.group.machine._apply_one

    def shifted(row: CommandRow, command: Any, applying: Applying) -> Any:
        result = apply_one(row, command, applying)
        if row.number in (Kind.DISPATCH_STATE, Kind.REALIGN):
            applying.dispatched.local_index += 1
        return result

    node.group.machine._apply_one = shifted  # type: ignore[method-assign]


async def _work(node: Node) -> None:
    """A message scheduled, handed over and acked: units, a topic, leases, settles, dispatch states."""
    await node.front.schedule([MessageIn("t", b"1")], ANONYMOUS)
    (delivery,) = await node.front.pull(PullIn("t", 1, 5_000, 1_000), ANONYMOUS)
    await node.front.ack("t", [delivery.receipt], ANONYMOUS)


@pytest.mark.parametrize("odd_leads", [False, True])
@pytest.mark.parametrize("plant", [_flip_a_tag, _move_a_lease, _misspell_a_topic, _shift_the_state])
def test_a_node_that_differs_by_one_bit_stops_for_good(
    tmp_path: Path, plant: Callable[[Node], None], odd_leads: bool
) -> None:
    """Whatever it was that differs, whoever the node is: it ends with index and hashes in its message, the others go
    on, and it refuses to start again on what it has."""
    odd_id = ""

    async def scene(nodes: list[Node]) -> None:
        nonlocal odd_id
        leader = await leader_of(nodes)
        odd = leader if odd_leads else next(node for node in nodes if node is not leader)
        odd_id = odd.config.node_id
        plant(odd)
        with contextlib.suppress(Problem):  # a leader that stops answers nobody
            await _work(leader)
        await until(lambda: not odd.group.life.serves)
        rest = [node for node in nodes if node is not odd]
        async with asyncio.timeout(10):
            await _work(await leader_of(rest, term_above=leader.group.raft.term if odd_leads else 0))
        assert isinstance(odd.group.raft.failure, OddOneOut)
        assert all(node.group.raft.failure is None for node in rest)

    with pytest.raises(OddOneOut, match="differs from the majority: after entry"):
        run_nodes(tmp_path, scene)
    assert (tmp_path / odd_id / CONDEMNED).exists()
    with pytest.raises(DirectoryRefused, match=f"condemned: node {odd_id} differs .* remove it"):
        DataDirectory.open(tmp_path / odd_id, odd_id, Disk(), bytes(16))


def test_a_doubtful_state_is_not_handed_on(tmp_path: Path) -> None:
    """A leader gives out no checkpoint while nodes differ and no majority agrees: two with its state would be one."""

    async def scene(nodes: list[Node]) -> None:
        leader = await leader_of(nodes)
        await _work(leader)
        job = leader.group.store.begin_checkpoint(leader.group.machine.checkpoint_record())
        job.run()
        job.finish()
        leader.group.raft.agreement.split = Split(7, {"n0": b"a" * 16, "n1": b"b" * 16})
        assert leader.group.snapshots._pin() is None
        leader.group.raft.agreement.split = None
        pin = leader.group.snapshots._pin()
        assert pin is not None
        pin.release()

    run_nodes(tmp_path, scene)
