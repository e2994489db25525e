"""The checkpointer beside a stop, and beside entries that are applied meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from node.runtime.config import StorageOptions
from node.upkeep.checkpointer import Checkpointer, phase_of
from replication.apply.machine import Machine
from replication.group import RaftGroup
from replication.journal.journal import Journal
from replication.raft.options import GroupOptions, NodeReport
from storage.checkpoint.job import CheckpointJob
from storage.file.disk import Disk
from storage.store import Store
from tests.replication.applied_log import GENESIS, T0, Log, schedule
from tests.waiting import turns


def test_a_stop_waits_for_the_checkpoint_under_way() -> None:
    """Cancelled in the middle, it ends when the thread has ended and the store knows: another may begin then."""
    done: list[str] = []
    began, gate = threading.Event(), threading.Event()

    def run() -> None:
        began.set()
        gate.wait(20)
        done.append("run")

    job = SimpleNamespace(run=run, finish=lambda: done.append("finish"), catalog=SimpleNamespace(record=None))
    store = SimpleNamespace(begin_checkpoint=lambda record: job, checkpoint=None)
    machine = SimpleNamespace(applied_index=3, store=store, checkpoint_record=lambda: None)
    journal = SimpleNamespace(written_bytes=0, trim=lambda index: done.append("trim"))

    async def test() -> None:
        checkpointer = Checkpointer(
            cast(Any, machine), cast(Any, journal), StorageOptions(), monotonic=lambda: 0.0, needed_from=lambda: 0
        )
        work = asyncio.create_task(checkpointer.checkpoint())
        assert await asyncio.to_thread(began.wait, 20)
        work.cancel()
        await turns()
        assert not work.done()
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert done == ["run", "finish"]

    asyncio.run(test())


def test_what_is_applied_meanwhile_stays_in_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of the journal end while the checkpoint is under way, and it does not cover them: after a kill the node
    starts with the checkpoint and what is left of the journal."""
    began, gate = threading.Event(), threading.Event()
    run = CheckpointJob.run

    def waits(job: CheckpointJob) -> None:
        began.set()
        assert gate.wait(20)
        run(job)

    monkeypatch.setattr(CheckpointJob, "run", waits)
    (tmp_path / "journal").mkdir()
    log, journal = Log(tmp_path), Journal.open(tmp_path / "journal", disk=Disk(), segment_bytes=2_000)

    def apply(count: int) -> None:
        for _ in range(count):
            log.apply(GENESIS if log.index == 0 else schedule(T0))
            index, term, entry = log.entries[-1]
            journal.add(entry, index, term)
            if index % 10 == 0:  # a segment ends with a sync
                journal.sync_now()

    async def test() -> None:
        checkpointer = Checkpointer(
            log.machine, journal, StorageOptions(), monotonic=lambda: 0.0, needed_from=lambda: journal.last_index
        )
        apply(50)
        work = asyncio.create_task(checkpointer.checkpoint())
        assert await asyncio.to_thread(began.wait, 20)
        apply(50)
        gate.set()
        await work
        journal.sync_now()

    asyncio.run(test())
    journal.close()
    log.store.close()
    store, journal = Store.open(tmp_path, disk=Disk()), Journal.open(tmp_path / "journal", disk=Disk())
    machine = Machine(store)
    group = RaftGroup(
        GroupOptions("n1", ()), journal, lambda events: cast(Any, SimpleNamespace(send=None)), machine.apply,
        monotonic=lambda: 0.0, random=lambda: 0.5, node_report=lambda: NodeReport(0, 1 << 30),
    )  # fmt: skip
    group.start_at(store.applied_index)
    assert 1 < journal.first_index <= store.applied_index == 50
    journal.close()
    store.close()


def test_checkpoints_are_made_until_what_a_kill_left_is_gone(tmp_path: Path) -> None:
    """A cluster in which nothing happens makes no checkpoint, but for directories that one is to remove."""
    (tmp_path / "journal").mkdir()
    log, journal = Log(tmp_path), Journal.open(tmp_path / "journal", disk=Disk())
    log.apply(GENESIS)
    log.store.close()
    for hour in range(3):
        (tmp_path / "hours" / f"{hour}.1").mkdir()
    store = Store.open(tmp_path, disk=Disk())
    machine, now_s = Machine(store), 0.0
    index, term, entry = log.entries[-1]
    machine.apply(index, term, entry)

    async def test() -> None:
        nonlocal now_s
        checkpointer = Checkpointer(
            machine, journal, StorageOptions(), monotonic=lambda: now_s, needed_from=lambda: journal.last_index
        )
        wanted = []
        for _ in range(3):
            now_s += StorageOptions().checkpoint_s
            wanted.append(checkpointer._wanted())
            if wanted[-1]:
                await checkpointer.checkpoint()
        assert wanted == [True, False, False]
        assert list((tmp_path / "hours").iterdir()) == []

    asyncio.run(test())
    journal.close()
    store.close()


IDS = ("n3", "n1", "n2")
MB = 1 << 20
Load = Callable[[int], int]
"""MB that are written between a moment and the one before, by its number."""


async def checkpoints(*, seconds: int, journal: Load, staged: Load, ask: int = 0) -> list[tuple[int, str]]:
    """When each of three nodes that start together checkpoints, looked at every second; they take the same entries at
    the same moments. In the second `ask` all are asked to, as by a backup."""
    now, options = 0, StorageOptions(checkpoint_journal_mb=240, staged_mb=60)
    made: list[tuple[int, str]] = []
    log = SimpleNamespace(written_bytes=0, trim=lambda index: None)
    stores: dict[str, Any] = {}
    nodes: dict[str, Any] = {}
    for node_id in IDS:
        job = SimpleNamespace(run=lambda: None, finish=lambda: None, catalog=SimpleNamespace(record=None))
        stores[node_id] = store = SimpleNamespace(
            begin_checkpoint=lambda record, job=job: job,
            checkpoint=None,
            cluster_id=b"id",
            staged_bytes=0,
            left_by_start=0,
        )
        nodes[node_id] = Checkpointer(
            cast(Any, SimpleNamespace(applied_index=1, store=store, checkpoint_record=lambda: None)),
            cast(Any, log),
            options,
            monotonic=lambda: float(now),
            needed_from=lambda: 0,
            phase=phase_of(node_id, IDS),
        )
    for now in range(1, seconds + 1):
        log.written_bytes += journal(now) * MB
        for node_id, node in nodes.items():
            stores[node_id].staged_bytes += staged(now) * MB
            node._machine.applied_index += bool(journal(now) or staged(now))
            if node._wanted() or now == ask:
                made.append((now, node_id))
                await node.checkpoint()
                stores[node_id].staged_bytes = 0
    return made


def some(mb: int) -> Load:
    """Always so much."""
    return lambda now: mb


BY_TIME = [(10, "n3"), (20, "n2"), (30, "n1"), (40, "n3"), (50, "n2"), (60, "n1"), (70, "n3"), (80, "n2"), (90, "n1")]


def test_nodes_that_start_together_checkpoint_a_third_of_the_time_apart() -> None:
    """Of `checkpoint_s`, from the first one on; an idle time, which is no multiple of it, changes nothing."""
    little = checkpoints(seconds=90, journal=some(1), staged=some(0))
    assert asyncio.run(little) == BY_TIME
    later = checkpoints(seconds=90, journal=lambda now: int(now > 44), staged=some(0))
    assert asyncio.run(later) == BY_TIME[4:]


@pytest.mark.parametrize(("journal", "staged"), [(100, 0), (0, 25)])
def test_a_burst_leaves_each_node_its_time(journal: int, staged: int) -> None:
    """Five seconds in which limits of bytes are reached; and a backup of all nodes at once."""
    burst = range(42, 47)
    load = checkpoints(
        seconds=90,
        journal=lambda now: journal if now in burst else 1,
        staged=lambda now: staged if now in burst else 0,
        ask=55,
    )
    made = asyncio.run(load)
    assert len([node for at, node in made if at in burst]) >= 5
    assert [each for each in made if each[0] not in (*burst, 55)] == BY_TIME


@pytest.mark.parametrize(("journal", "staged"), [(8, 0), (0, 2)])
def test_nodes_reach_limits_of_bytes_apart(journal: int, staged: int) -> None:
    """240 MB of journal at 8 MB/s, 60 MB staged at 2 MB/s: after 30 s, 25 s and 20 s; two that meet part again."""
    made = asyncio.run(checkpoints(seconds=60, journal=some(journal), staged=some(staged)))
    of_bytes = [each for each in made if each not in BY_TIME]
    assert of_bytes, "the limits of bytes were never reached"
    met = [at for at in range(61) if len({node for when, node in made if when == at}) > 1]
    assert not any(after - at < 10 for at, after in pairwise(met)), made


def test_a_node_that_its_configuration_does_not_name_has_a_phase() -> None:
    """One that joins by another file."""
    assert phase_of("n4", ("n1", "n2", "n3")) == 0.75
    assert phase_of("n1", ()) == 0.0
