"""One open message keeps the bytes of its whole hour: the metrics say so, and what ends it frees them."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from node.cluster.values import Values
from node.runtime.clock import NodeClock
from node.runtime.config import StorageOptions
from node.upkeep.checkpointer import Checkpointer
from node.upkeep.retention import Retention
from replication.apply.machine import Machine
from replication.command.dispatch import DispatchState
from replication.command.entry import Command, encode_entry
from replication.command.genesis import Genesis
from replication.command.message import Cancel
from replication.command.schedule import Schedule
from replication.command.unlink import Unlink
from storage.file.disk import Disk
from storage.record.record import Drafts, encode_records
from storage.store import Store

HOUR_MS = 3_600_000
T0 = 472_222 * HOUR_MS
MESSAGES = 5_000
BODY = b"x" * 1024
LATER_MS = T0 + 9_000 * HOUR_MS


class KeptNode:
    """A machine over a real store, its checkpointer, and the metrics of old hours at any time."""

    def __init__(self, directory: Path) -> None:
        self.machine = Machine(Store.open(directory, disk=Disk()))
        self.now_ms = T0
        journal = SimpleNamespace(written_bytes=0, trim=lambda index: None)
        self.checkpointer = Checkpointer(
            self.machine, cast(Any, journal), StorageOptions(), monotonic=lambda: 0.0, needed_from=lambda: 0
        )

    @property
    def clock(self) -> NodeClock:
        """One that was started at the present time."""
        return NodeClock(wall=lambda: self.now_ms / 1000, monotonic=lambda: 0.0)

    def apply(self, *commands: Command) -> list[Any]:
        """One entry of these commands, at the present time."""
        sections = [command.pack() for command in commands]
        entry = encode_entry(group=0, term=1, node=1, now_ms=self.now_ms, sections=sections)
        return list(self.machine.apply(self.machine.applied_index + 1, 1, entry).results)

    def fill(self) -> Any:
        """Founds the cluster and schedules the messages of one hour; their positions."""
        self.apply(Genesis(b"c" * 16, b"s" * 32, ("n1",), HOUR_MS, HOUR_MS))
        due = np.full(MESSAGES, T0, np.int64)
        seeds = np.arange(MESSAGES, dtype=np.uint64)
        records = encode_records(Drafts(bodies=[BODY] * MESSAGES, asked_due_ms=due, random=seeds))
        topics, keys = np.zeros(MESSAGES, np.uint16), np.empty(0, np.uint64)
        [scheduled] = self.apply(Schedule(("t",), due, records.size, records.blob, topics, keys))
        return scheduled.position

    def metrics(self) -> tuple[float, float]:
        """Oldest hour, in seconds, and bytes kept for what is open."""
        asyncio.run(self.checkpointer.checkpoint())
        absent: Any = None
        parts = (absent, absent, absent, absent, self.machine, absent, self.checkpointer, absent, self.clock)
        values = Values(*parts, others=())._kept()
        return values["hourwheel_oldest_hour_seconds"], values["hourwheel_kept_for_open_bytes"]

    def over(self) -> list[int]:
        """What the leader would unlink."""
        return Retention(self.machine, cast(Any, None), self.clock).over()


def test_one_open_message_shows_what_its_hour_weighs(tmp_path: Path) -> None:
    """All but one of an hour's messages are settled: a year later no Unlink takes it, and the metric has its bytes.
    When the last one is settled too, retention takes the hour, and both metrics are those of an empty store (A7)."""
    node = KeptNode(tmp_path)
    positions = node.fill()
    node.apply(Cancel(positions[1:], np.zeros(MESSAGES - 1, np.uint8)))
    assert node.metrics() == (T0 / 1000, 0)
    node.now_ms = LATER_MS
    node.apply(DispatchState(LATER_MS // 1000, 0, 2))
    assert node.over() == []
    assert node.apply(Unlink(np.array([T0 // HOUR_MS], np.int64))) == [0]
    on_disk = sum(path.stat().st_size for path in (tmp_path / "hours" / str(T0 // HOUR_MS)).iterdir())
    assert node.metrics() == (T0 / 1000, on_disk)
    assert on_disk > MESSAGES * len(BODY)
    node.apply(Cancel(positions[:1], np.zeros(1, np.uint8)))
    assert node.metrics() == (T0 / 1000, 0)
    node.now_ms += 2 * HOUR_MS
    hours = node.over()
    assert hours == [T0 // HOUR_MS]
    assert node.apply(Unlink(np.array(hours, np.int64))) == [1]
    oldest, kept = node.metrics()
    assert np.isnan(oldest)
    assert kept == 0
    node.machine.store.close()


def test_the_metrics_know_what_was_kept_before_the_start(tmp_path: Path) -> None:
    """A node that was started again shows it before its first checkpoint."""
    node = KeptNode(tmp_path)
    node.fill()
    node.now_ms = LATER_MS
    shown = node.metrics()
    node.machine.store.close()
    again = KeptNode(tmp_path)
    assert again.checkpointer.kept.open_bytes(LATER_MS - HOUR_MS) == shown[1] > 0
    assert again.checkpointer.kept.oldest == T0 // HOUR_MS
    again.machine.store.close()
