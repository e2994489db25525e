"""What an hour costs that nobody looks at: counted in bytes, steps and calls of the disk, never in seconds."""

import errno
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

import storage.checkpoint.hour_set
from storage.catalog.hour_lengths import LENGTHS_ROW, HourRows
from storage.directory.verify import verify
from storage.file.disk import Disk, DiskFailed
from storage.format.array import I64
from storage.format.batches import SettleBatch
from storage.format.position import HOUR_MS
from storage.format.rows import Corrupt
from storage.format.states import DELIVERED, LEASED
from storage.hour.hour_table import Extents
from storage.store import Store
from tests.storage.workload import HOUR, batch_of, checkpoint, found, move, record_at, settle

FIRST = HOUR + 10


class OpeningDisk(Disk):
    """Counts what is asked of it."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.syncs = True

    def fdatasync(self, fd: int) -> None:
        """Refused if told to."""
        if not self.syncs:
            raise DiskFailed("fdatasync", "", errno.EIO)
        super().fdatasync(fd)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        """See Disk."""
        self.calls["bytes"] += size
        return super().read(fd, size, offset)

    def open_read(self, path: Path) -> int:
        """See Disk."""
        self.calls["open"] += "hours" in path.parts
        return super().open_read(path)

    def open_write(self, path: Path) -> int:
        """See Disk."""
        self.calls["open"] += "hours" in path.parts
        return super().open_write(path)

    def exists(self, path: Path) -> bool:
        """See Disk."""
        self.calls["exists"] += 1
        return super().exists(path)

    def make_directory(self, path: Path) -> None:
        """See Disk."""
        self.calls["make_directory"] += 1
        super().make_directory(path)


def due(hours: int) -> I64:
    """One message in each of so many far hours."""
    return (np.arange(hours) + FIRST) * HOUR_MS


def open_store(path: Path, disk: Disk | None = None) -> Store:
    """A founded store whose wheel stands at HOUR."""
    path.mkdir(exist_ok=True)
    store = Store.open(path, disk=disk or Disk())
    found(store)
    store.turn(HOUR)
    return store


@contextmanager
def steps() -> Iterator[Counter[str]]:
    """Counts the calls that are made, of Python's functions and of others."""
    counted: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event in ("call", "c_call"):
            counted[event] += 1

    sys.setprofile(count)
    try:
        yield counted
    finally:
        sys.setprofile(None)


def grown(run: Callable[[], object]) -> tuple[int, int]:
    """Bytes that Python holds more after `run`, and at most meanwhile. Of paths nothing counts as held: their names are
    interned, and the interpreter's table of those doubles at some name or other."""
    tracemalloc.start()
    try:
        run()
        _, most = tracemalloc.get_traced_memory()
        held = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(False, "*pathlib*")])
        return sum(trace.size for trace in held.traces), most
    finally:
        tracemalloc.stop()


def test_a_batch_begins_hours_without_objects_and_without_the_disk(quick_path: Path) -> None:
    """FOUND A2: 64 us and 14 KB for each new hour. Now a row of counters, and no call of the disk."""
    disk = OpeningDisk()
    store = open_store(quick_path, disk)
    batch = batch_of(due(4_000))
    disk.calls.clear()
    held, _ = grown(lambda: store.append(batch))
    assert disk.calls.total() == 0
    assert (held - store.staged_bytes) / 4_000 < 400
    with steps() as counted:
        store.append(batch_of(due(8_000)))
    assert counted.total() < 8_000 * 10
    store.close()


def test_a_checkpoint_holds_the_heads_of_few_hours(quick_path: Path) -> None:
    """FOUND A2: 29 KB stayed for each hour that a checkpoint wrote, 2.5 GB at 87,600."""
    store = open_store(quick_path)
    for round_ in range(2):
        store.append(batch_of(due(2_000) + round_))
        store.applied_index = round_ + 1
        job = store.begin_checkpoint(record_at(round_ + 1))
        held, most = grown(job.run)
        assert held < 2_000 * 500
        assert most < 12 << 20
        job.finish()
    store.close()
    assert verify(quick_path).sound


def test_begin_and_finish_of_a_checkpoint_take_no_step_for_each_hour(quick_path: Path) -> None:
    """FOUND A2: begin_checkpoint held the loop for 1.1 s at 87,600 hours."""
    taken = []
    for hours in (500, 4_000):
        store = open_store(quick_path / str(hours))
        store.append(batch_of(due(hours)))
        with steps() as first:
            job = store.begin_checkpoint(record_at(1))
        job.run()
        with steps() as second:
            job.finish()
            store.open_hours()
            store.turn(HOUR + 1)
            pin = store.pin()
        assert pin is not None
        pin.release()
        taken.append((first.total(), second.total()))
        store.close()
    (begin_few, finish_few), (begin_many, finish_many) = taken
    assert begin_many <= begin_few + 50
    assert finish_many <= finish_few + 50


def test_a_start_opens_no_file_of_an_hour(quick_path: Path) -> None:
    """FOUND A2: 11 s at 87,600 hours. A start asks for the length of each file and opens those that are too long."""
    disk = OpeningDisk()
    store = open_store(quick_path, disk)
    store.append(batch_of(due(300)))
    checkpoint(store, 1)
    store.append(batch_of(due(4) + 1))
    disk.syncs = False
    with pytest.raises(DiskFailed):  # written, not committed
        checkpoint(store, 2)
    store.close()
    disk = OpeningDisk()
    store = Store.open(quick_path, disk=disk)
    assert disk.calls["open"] == 4 * 2
    assert store.unit_count == 300
    disk.calls.clear()
    assert len(store.records(np.array([FIRST << 40], np.uint64))) == 1
    assert disk.calls["open"] == 2
    store.close()


@pytest.mark.parametrize("name", ["log", "index", "settle"])
def test_damage_at_an_end_stops_the_first_use_of_the_hour(quick_path: Path, name: str) -> None:
    """What a start does not look at any more: header and last row of each file."""
    store = open_store(quick_path)
    store.append(batch_of(due(3)))
    settle(LEASED, (10, 0))(store)
    checkpoint(store, 1)
    store.close()
    path = quick_path / "hours" / str(FIRST) / name
    data = bytearray(path.read_bytes())
    data[20 if name == "log" else -10] ^= 1
    path.write_bytes(data)
    store = Store.open(quick_path, disk=Disk())
    assert store.open_hours() == [FIRST, FIRST + 1, FIRST + 2]
    assert len(store.records(np.array([(FIRST + 1) << 40], np.uint64))) == 1
    with pytest.raises(Corrupt, match=f"{FIRST}/{name}"):
        store.states(np.array([FIRST << 40], np.uint64))
    store.close()


def test_an_hour_begun_again_is_not_compared_with_the_one_before(quick_path: Path) -> None:
    """Neither its directory nor its number tells the two apart once the first one's is gone: its first unit does."""
    store = open_store(quick_path)
    store.append(batch_of([*due(1).tolist(), int(due(1)[0]) + 5]))
    checkpoint(store, 1)
    store.close()
    store = Store.open(quick_path, disk=Disk())
    store.unlink(FIRST)
    checkpoint(store, 2)
    store.append(batch_of(due(1)))
    checkpoint(store, 3)
    assert len(store.records(np.array([FIRST << 40 | 2], np.uint64))) == 1
    store.close()
    assert verify(quick_path).sound


def test_an_hour_that_somebody_holds_stays_as_it_is(quick_path: Path) -> None:
    """A ledger holds an hour across turns of the loop: what is appended, written and settled meanwhile is in it."""
    store = open_store(quick_path)
    store.append(batch_of(due(100)))
    hour = store.hour(FIRST)
    assert hour is not None
    store.append(batch_of(due(100) + 1))
    assert (hour.units, hour.saved_units) == (2, 0)
    checkpoint(store, 1)
    assert (hour.units, hour.saved_units) == (2, 2)
    settle(LEASED, (10, 0))(store)
    store.states(np.arange(FIRST + 1, FIRST + 90, dtype=np.uint64) << np.uint64(40))  # it is not warm any more
    assert store.hour(FIRST) is hour
    checkpoint(store, 2)
    assert (hour.settles, hour.saved_settles) == (1, 1)
    assert store.lengths(FIRST) == hour.lengths()
    store.close()


def test_heads_of_a_thousand_hours_and_more_are_kept(quick_path: Path) -> None:
    """FOUND A8: past 1,024 far hours each checkpoint read the whole index of every hour that it wrote to."""
    disk = OpeningDisk()
    store = open_store(quick_path, disk)
    hours = np.repeat(due(1_100), 300)
    store.append(batch_of(hours + np.tile(np.arange(300) * 7_000, 1_100)))
    checkpoint(store, 1)
    for index in (2, 3):
        store.append(batch_of(due(1_100) + index))
        disk.calls.clear()
        checkpoint(store, index)
        assert disk.calls["bytes"] == 0
    store.close()
    assert verify(quick_path).sound


def test_an_hour_becomes_near_without_reading_its_index(quick_path: Path) -> None:
    """FOUND A10: after a restart the turn read all of the index on the loop, 3.3 s for 100 M units. The checkpoint's
    thread reads the heads of the hours that come next."""
    store = open_store(quick_path)
    count = 50_000
    store.append(batch_of(np.full(count, (HOUR + 4) * HOUR_MS) + np.arange(count) % 3_600_000))
    checkpoint(store, 1)
    store.close()
    disk = OpeningDisk()
    store = Store.open(quick_path, disk=disk)
    store.turn(HOUR)
    store.append(batch_of([(HOUR + 9) * HOUR_MS]))
    checkpoint(store, 2)
    store.append(batch_of([(HOUR + 9) * HOUR_MS]))
    disk.calls.clear()
    store.turn(HOUR + 2)
    assert disk.calls["bytes"] <= 4 * 64
    assert store.due_seconds(HOUR + 4).tolist() == [(HOUR + 4) * 3600 + second for second in range(50)]
    store.append(batch_of([(HOUR + 4) * HOUR_MS + 6]))
    checkpoint(store, 3)
    store.close()
    assert verify(quick_path).sound


def test_past_the_bound_an_append_writes_a_few_hours(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FOUND A10: when much came for far hours during one checkpoint, one append wrote all of it, 0.52 s on the loop."""
    monkeypatch.setattr(storage.checkpoint.hour_set, "_STAGED_BYTES_MAX", 300_000)
    disk = OpeningDisk()
    store = open_store(quick_path, disk)
    store.append(batch_of(due(1_000)))
    assert store.staged_bytes < 300_000
    job = store.begin_checkpoint(record_at(1))
    most = 0
    for round_ in range(1, 40):
        disk.calls.clear()
        store.append(batch_of(due(20) + round_))
        most = max(most, store.staged_bytes)
        assert disk.calls["open"] <= 3 * 64  # index read, log, index
    assert most < 330_000
    settle(LEASED, *[(hour + 10, 0) for hour in range(900)])(store)
    job.run()
    job.finish()
    monkeypatch.setattr(storage.checkpoint.hour_set, "_STAGED_BYTES_MAX", 0)
    for _ in range(20):
        store.settle(SettleBatch.of([FIRST << 40], what=LEASED, at_ms=1))
    assert store.staged_bytes == 0
    checkpoint(store, 2)
    store.close()
    assert verify(quick_path).sound
    store = Store.open(quick_path, disk=Disk())
    assert store.unit_count == 1_000 + 20 * 39
    store.close()


def test_where_a_message_was_born_is_read_of_it_alone(quick_path: Path) -> None:
    """The first that was asked for had all homes of its hour read: the whole index, on the loop."""
    store = open_store(quick_path)
    homes = store.append(batch_of(np.full(5_000, FIRST * HOUR_MS)))
    places = move(store, homes.tolist(), [(FIRST + 1) * HOUR_MS] * 5_000, at_ms=1)
    checkpoint(store, 1)
    store.close()
    disk = OpeningDisk()
    store = open_store(quick_path, disk)
    disk.calls.clear()
    assert store.homes(places[[7, 4_000]]).tolist() == homes[[7, 4_000]].tolist()
    assert disk.calls["bytes"] < 2_000
    more = move(store, homes[:1].tolist(), [(FIRST + 1) * HOUR_MS], at_ms=2)
    disk.calls.clear()
    assert store.homes(more).tolist() == homes[:1].tolist()
    assert not disk.calls.total()  # of what came since, memory tells
    store.close()


def test_an_hour_is_found_among_many_without_a_pass_over_them() -> None:
    """A Python number was compared with as many numbers of its own kind: all hours were converted, 85 us each time."""
    rows = np.zeros(80_000, LENGTHS_ROW)
    rows["hour"] = np.arange(80_000) + FIRST
    found = HourRows(rows)
    assert found.place(FIRST + 70_000) == 70_000
    assert found.place(FIRST - 1) is None
    assert grown(lambda: found.place(FIRST + 70_000))[1] < 2_000


def test_what_came_since_is_known_without_a_look_at_each_hour(quick_path: Path) -> None:
    """Who deletes a topic asked hour by hour, in one step. Of an hour that ended and began again all is new."""
    store = open_store(quick_path)
    store.append(batch_of(due(4_000)))
    before = store.extents()
    with steps() as counted:
        assert [*store.extents().grown_since(before)] == []
    assert counted.total() < 100
    positions = store.append(batch_of(np.array([FIRST, FIRST, FIRST + 3, FIRST + 5_000]) * HOUR_MS))
    assert [*store.extents().grown_since(before)] == [(FIRST, 1, 2), (FIRST + 3, 1, 1), (FIRST + 5_000, 0, 1)]
    last = store.extents()
    settle(DELIVERED, (FIRST + 5_000 - HOUR, 0))(store)
    store.unlink(FIRST + 5_000)
    assert [*store.extents().grown_since(last)] == []
    store.append(batch_of(np.array([FIRST + 5_000]) * HOUR_MS))
    assert [*store.extents().grown_since(last)] == [(FIRST + 5_000, 0, 1)]
    assert len(positions) == 4
    assert [*store.extents().grown_since(Extents(*np.zeros((4, 0), np.int64)))][:1] == [(FIRST, 0, 3)]
    store.close()


@pytest.mark.parametrize("written", [True, False])
def test_settle_records_wait_in_few_hours(quick_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool) -> None:
    """Messages were cancelled one an hour, in many hours, before or after a checkpoint wrote them: one began and ended
    in a step that grew with them, and so did each look for open hours. Now each append writes some of them."""
    monkeypatch.setattr(storage.checkpoint.hour_set, "_SETTLING_HOURS_MAX", 100)
    store = open_store(quick_path)
    positions = store.append(batch_of(due(1_000)))
    if written:
        checkpoint(store, 1)
    for first in range(0, 1_000, 50):
        store.settle(SettleBatch.of(positions[first : first + 50], what=DELIVERED, at_ms=1))
        with steps() as counted:
            assert len(store.open_hours()) == 950 - first
        assert counted.total() < 60
    assert len(store._hours._settling) <= 100 + 50
    checkpoint(store, 2)
    store.close()
    again = Store.open(quick_path, disk=Disk())
    assert again.open_hours() == []
    assert (again.states(positions).state == DELIVERED).all()
    again.close()


def test_an_hour_is_used_at_the_same_cost_however_many_are_warm(quick_path: Path) -> None:
    """Each use of another hour asked all 64 warm ones for the size of their states."""
    store = open_store(quick_path)
    positions = store.append(batch_of(due(300)))
    store.settle(SettleBatch.of(positions, what=LEASED, at_ms=1, when=2, term=1, attempt=1))
    checkpoint(store, 1)
    store.close()
    store = Store.open(quick_path, disk=Disk())  # none is warm
    costs = []
    for first in range(0, 300, 10):
        with steps() as counted:
            store.states(positions[first : first + 10])
        costs.append(counted.total())
    assert max(costs) < 1.4 * costs[1], costs
    store.close()
