"""Which hours the leader proposes to unlink: those that the machine will then agree are over."""

from pathlib import Path

import numpy as np

from node.clock import NodeClock
from node.retention import Retention
from replication.command import Cancel, DispatchState, Genesis, Schedule
from replication.envelope import encode_entry
from replication.machine import Machine
from storage.disk import Disk
from storage.record import Drafts, encode_records
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
