"""The checkpointer beside a stop, and beside entries that are applied meanwhile."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from node.checkpointer import Checkpointer, phase_of
from node.config import StorageOptions
from replication.group import RaftGroup
from replication.journal import Journal
from replication.machine import Machine
from replication.options import GroupOptions, Vitals
from storage.checkpoint_job import CheckpointJob
from storage.disk import Disk
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
        monotonic=lambda: 0.0, random=lambda: 0.5, vitals=lambda: Vitals(0, 1 << 30),
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


@pytest.mark.parametrize(
    ("by", "idle", "steps"),
    [
        ("time", 0, [10, 20, 30, 40, 50, 60, 70, 80, 90]),
        ("time", 44, [50, 60, 70, 80, 90]),
        ("bytes", 0, [10, 20, 30, 40, 50, 60, 70, 80, 90]),
        ("staged", 0, [10, 20, 30, 40, 50, 60, 70, 80, 90]),
    ],
)
def test_nodes_that_start_together_checkpoint_apart(by: str, idle: int, steps: list[int]) -> None:
    """Three that take the same entries at the same moments: a third of the time, or of the bytes, lies between one's
    checkpoint and the next one's, from the first on; also if nothing happened for a while, which is no phase of all."""
    options, now, ids = (
        StorageOptions(checkpoint_journal_mb=240, staged_mb=60),
        SimpleNamespace(s=0.0),
        ("n3", "n1", "n2"),
    )
    journal = SimpleNamespace(written_bytes=0, trim=lambda index: None)
    stores: dict[str, SimpleNamespace] = {}
    made: list[tuple[int, str]] = []

    def checkpointer(node_id: str) -> Checkpointer:
        job = SimpleNamespace(run=lambda: None, finish=lambda: None, catalog=SimpleNamespace(record=None))
        stores[node_id] = SimpleNamespace(
            begin_checkpoint=lambda record: job, checkpoint=None, cluster_id=b"id", staged_bytes=0, left_by_start=0
        )
        machine = SimpleNamespace(applied_index=1, store=stores[node_id], checkpoint_record=lambda: None)
        return Checkpointer(
            cast(Any, machine),
            cast(Any, journal),
            options,
            monotonic=lambda: now.s,
            needed_from=lambda: 0,
            phase=phase_of(node_id, ids),
        )

    async def live() -> None:
        nodes = {node_id: checkpointer(node_id) for node_id in ids}
        for step in range(1, 91):
            if by == "time":
                now.s = float(step)
            elif by == "bytes":
                journal.written_bytes = step * 8 << 20
            for node_id, node in nodes.items():
                if by == "staged":
                    stores[node_id].staged_bytes += 2 << 20
                cast(Any, node)._machine.applied_index += step > idle
                if node._wanted():
                    made.append((step, node_id))
                    await node.checkpoint()
                    stores[node_id].staged_bytes = 0

    asyncio.run(live())
    assert [step for step, _ in made] == steps
    assert [node_id for _, node_id in made] == (["n3", "n2", "n1"] * 4)[steps[0] // 10 - 1 :][: len(steps)]


def test_a_node_that_its_configuration_does_not_name_has_a_phase() -> None:
    """One that joins by another file."""
    assert phase_of("n4", ("n1", "n2", "n3")) == 0.75
    assert phase_of("n1", ()) == 0.0
