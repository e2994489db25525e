"""Which hours the leader proposes to unlink: those that the machine will then agree are over."""

import os
from pathlib import Path

import numpy as np

from node.runtime.clock import NodeClock
from node.upkeep.retention import Retention
from replication.apply.machine import Machine
from replication.command.dispatch import DispatchState
from replication.command.entry import encode_entry
from replication.command.genesis import Genesis
from replication.command.message import Cancel
from replication.command.schedule import Schedule
from storage.file.disk import Disk
from storage.record.record import Drafts, encode_records
from storage.store import Store

HOUR_MS = 3_600_000
T0 = 472_222 * HOUR_MS


def test_only_hours_past_tick_settled_and_past_retention_are_over(tmp_path: Path) -> None:
    """Four hours: one over, one with a pending unit, one settled lately, one that the tick has not passed. Where hours
    are exported the one that is over waits for it."""
    store = Store.open(tmp_path, disk=Disk())
    machine = Machine(store)
    now_ms = T0

    def apply(command: Genesis | Schedule | Cancel | DispatchState, at_ms: int) -> object:
        entry = encode_entry(group=0, term=1, node=1, now_ms=at_ms, sections=[command.pack()])
        return machine.apply(machine.applied_index + 1, 1, entry).results[0]

    apply(Genesis(b"c" * 16, b"s" * 32, ("n1",), HOUR_MS, HOUR_MS), T0)
    due = np.array([T0 + hour * HOUR_MS for hour in range(4)], np.int64)
    records = encode_records(Drafts(bodies=[b"1"] * 4, asked_due_ms=due, random=np.arange(4, dtype=np.uint64)))
    none = np.empty(0, np.uint64)
    scheduled = apply(Schedule(("t",), due, records.size, records.blob, np.zeros(4, np.uint16), none), T0)
    position = scheduled.position  # type: ignore[attr-defined]
    apply(DispatchState((T0 + 3 * HOUR_MS) // 1000, 0, 2), T0)
    for row, at_ms in ((0, T0), (2, T0 + 5 * HOUR_MS), (3, T0)):
        apply(Cancel(position[[row]], np.zeros(1, np.uint8)), at_ms)
    clock = NodeClock(wall=lambda: now_ms / 1000, monotonic=lambda: 0.0)
    retention = Retention(machine, None, clock)  # type: ignore[arg-type]
    assert retention.over() == []
    now_ms = T0 + HOUR_MS + 1
    clock = NodeClock(wall=lambda: now_ms / 1000, monotonic=lambda: 0.0)
    assert Retention(machine, None, clock).over() == [T0 // HOUR_MS]  # type: ignore[arg-type]
    exported: set[int] = set()
    waiting = Retention(machine, None, clock, exported.__contains__)  # type: ignore[arg-type]
    assert waiting.over() == []
    exported.add(T0 // HOUR_MS)
    assert waiting.over() == [T0 // HOUR_MS]
    store.close()


class ReadCounter(Disk):
    """Counts reads."""

    def __init__(self) -> None:
        self.reads = 0

    def read(self, fd: int, size: int, offset: int) -> bytes:
        """Read, and count it."""
        self.reads += 1
        return super().read(fd, size, offset)


def _kept(path: Path, disk: Disk, hours: int) -> tuple[Machine, Retention]:
    """A machine with so many hours of one settled unit each, all past the tick and none past retention."""
    machine = Machine(Store.open(path, disk=disk))
    due = np.array([T0 + hour * HOUR_MS for hour in range(hours)], np.int64)
    records = encode_records(Drafts(bodies=[b"1"] * hours, asked_due_ms=due, random=np.arange(hours, dtype=np.uint64)))
    none = np.empty(0, np.uint64)
    positions = due.astype(np.uint64) // np.uint64(HOUR_MS) << np.uint64(40)
    if machine.applied_index == 0:
        for command in (
            Genesis(b"c" * 16, b"s" * 32, ("n1",), 1000 * HOUR_MS, HOUR_MS),
            Schedule(("t",), due, records.size, records.blob, np.zeros(hours, np.uint16), none),
            Cancel(positions, np.zeros(hours, np.uint8)),
            DispatchState((T0 + hours * HOUR_MS) // 1000, 0, 2),
        ):
            entry = encode_entry(group=0, term=1, node=1, now_ms=T0, sections=[command.pack()])
            machine.apply(machine.applied_index + 1, 1, entry)
        job = machine.store.begin_checkpoint(machine.checkpoint_record())
        job.run()
        job.finish()
    clock = NodeClock(wall=lambda: (T0 + hours * HOUR_MS) / 1000, monotonic=lambda: 0.0)
    return machine, Retention(machine, None, clock)  # type: ignore[arg-type]


def test_a_look_reads_no_hour_twice_and_makes_none_warm(tmp_path: Path) -> None:
    """A year of kept hours was opened and read at every look, which drove out the states of hours in use (A3)."""
    machine, _ = _kept(tmp_path, Disk(), 200)
    machine.store.close()
    disk = ReadCounter()
    machine, retention = _kept(tmp_path, disk, 200)
    store = machine.store
    used = store._hours.use(T0 // HOUR_MS)
    assert used is not None
    held = used.states()
    before, descriptors = disk.reads, len(os.listdir("/proc/self/fd"))
    assert retention.over() == []
    assert len(os.listdir("/proc/self/fd")) <= descriptors, (
        "each hour kept its descriptors: with a year of them none are left"
    )
    assert disk.reads - before <= 200 * 7  # a first look at an hour checks its files
    before = disk.reads
    assert retention.over() == []
    assert disk.reads == before
    assert used.states_held is held
    assert len(store._hours._warm) == 1
    store.close()


def test_a_look_is_taken_in_short_steps(tmp_path: Path) -> None:
    """No step of the loop looks at more than a few hours, however many are kept (A3)."""
    machine, retention = _kept(tmp_path, Disk(), 200)
    asked = 0

    def settled_ms(hour: int) -> int:
        nonlocal asked
        asked += 1
        return T0

    machine.store.settled_ms = settled_ms  # type: ignore[method-assign]
    for known, expected in ((False, (1, 201)), (True, (64, 4))):
        machine.store.settled_known = (lambda hour: True) if known else (lambda hour: False)  # type: ignore[method-assign]
        most = steps = 0
        for _ in retention.steps():
            most, asked, steps = max(most, asked), 0, steps + 1
        assert (most, steps) == expected
    machine.store.close()
