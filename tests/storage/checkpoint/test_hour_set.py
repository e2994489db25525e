"""An hour that was unlinked and is begun again: one number, two directories, and never a mixture."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import storage.checkpoint.states_due
import storage.state.files
from storage.catalog.hour_lengths import HourRows
from storage.directory.verify import digest, verify
from storage.file.disk import Disk
from storage.format.batches import SettleBatch
from storage.format.position import HOUR_MS
from storage.format.states import DELIVERED, LEASED, UNKNOWN
from storage.hour.hour_table import FROZEN, HourTable
from storage.query.count import DueTally, HourCount
from storage.query.selection import Selection
from storage.store import Store
from tests.storage.quick_directory import quick_directory
from tests.storage.store_model import OPEN
from tests.storage.workload import HOUR, batch_of, checkpoint, content, found, move, record_at

DUE = HOUR * HOUR_MS
NEAR = pytest.mark.parametrize("near", [True, False])


def _open(path: Path, *, near: bool) -> Store:
    store = Store.open(path, disk=Disk())
    found(store)
    store.turn(HOUR if near else HOUR + 50)
    return store


def _directories(path: Path) -> list[str]:
    return sorted(directory.name for directory in (path / "hours").iterdir())


@NEAR
def test_begun_again_at_once(quick_path: Path, near: bool) -> None:
    """A node that made a checkpoint after the unlink and one that did not give the new units the same positions, and
    have the same bytes and digest in the end."""
    with quick_directory() as other:
        results = []
        for path, checkpoints in ((quick_path, True), (other, False)):
            store = _open(path, near=near)
            store.append(batch_of([DUE, DUE + 1, DUE + 2]))
            checkpoint(store, 1)
            store.unlink(HOUR)
            if checkpoints:
                checkpoint(store, 2)
            assert store.append(batch_of([DUE + 9, DUE + 8])).tolist() == [HOUR << 40 | 3, HOUR << 40 | 4]
            checkpoint(store, 3)
            assert [record.asked_due_ms for record in store.records(_positions(2, 3))] == [DUE + 9, DUE + 8]
            assert set(store.states(_positions(3)).state.tolist()) == {UNKNOWN}
            store.close()
            assert verify(path).faults == []
            results.append((content(path), digest(path)))
        assert results[0] == results[1]
        assert (_directories(quick_path), _directories(other)) == ([f"{HOUR}"], [f"{HOUR}.1"])


@NEAR
def test_a_crash_finds_the_old_hour_whole(quick_path: Path, near: bool) -> None:
    """What is written to the new hour touches no byte of the old one, to which a crash goes back."""
    store = _open(quick_path, near=near)
    store.append(batch_of([DUE, DUE + 1]))
    checkpoint(store, 1)
    before = content(quick_path)
    store.unlink(HOUR)
    store.append(batch_of([DUE + 500, DUE + 600, DUE + 700]))
    store.settle(SettleBatch.of(_positions(3, 2), what=DELIVERED, at_ms=1))
    store.close()
    again = Store.open(quick_path, disk=Disk())
    assert [record.asked_due_ms for record in again.records(_positions(2))] == [DUE, DUE + 1]
    assert (again.unsettled(HOUR), again.unit_count) == (2, 2)
    checkpoint(again, 1)  # removes what is left over of the new one
    again.close()
    assert content(quick_path) == before


@NEAR
@pytest.mark.parametrize("when", ["begun", "run"])
def test_begun_again_during_a_checkpoint(quick_path: Path, near: bool, when: str) -> None:
    """A checkpoint that froze the old hour, or is removing it, neither writes into the new one nor makes it forget."""
    store = _open(quick_path, near=near)
    steps: list[Callable[[], object]] = [lambda: store.append(batch_of([DUE, DUE + 1])), lambda: store.unlink(HOUR)]
    for round_, step in enumerate(steps):
        step()
        job = store.begin_checkpoint(record_at(round_ + 1))
        if when == "run":
            job.run()
        store.unlink(HOUR)
        store.append(batch_of([DUE + 500 + round_]))
        if when == "begun":
            job.run()
        job.finish()
        assert [record.asked_due_ms for record in store.records(_positions(1, 2 + round_))] == [DUE + 500 + round_]
    checkpoint(store, 3)
    assert store.staged_bytes == 0
    store.close()
    assert verify(quick_path).faults == []
    again = Store.open(quick_path, disk=Disk())
    assert [record.asked_due_ms for record in again.records(_positions(1, 3))] == [DUE + 501]
    again.close()
    assert len(_directories(quick_path)) == 1


def test_begun_again_during_a_checkpoint_it_has_no_states_files(
    quick_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint made the old hour's go up to its fourth settle record. None of the new one's is in them."""
    for module in (storage.state.files, storage.checkpoint.states_due):
        monkeypatch.setattr(module, "TAIL_MIN", 2)
    store = _open(quick_path, near=True)
    store.append(batch_of([DUE, DUE + 1]))
    for attempt in (1, 2):
        store.settle(SettleBatch.of(_positions(2), what=LEASED, at_ms=1, when=5, term=1, attempt=attempt))
    job = store.begin_checkpoint(record_at(1))
    job.run()
    store.unlink(HOUR)
    again = store.append(batch_of([DUE + 500]))
    store.settle(SettleBatch.of(again, what=LEASED, at_ms=1, when=5, term=1, attempt=1))
    job.finish()
    hour = store.hour(HOUR)
    assert hour is not None
    assert hour.states_held is not None
    assert (hour.settles, hour.states_held.filed) == (1, 0)
    store.close()


@NEAR
def test_what_is_numbered_on_is_read_in_every_way(quick_path: Path, near: bool) -> None:
    """Slots, pending units, leases, counts, moves and topics of an hour begun again, before and after a checkpoint and
    a restart: the same as of any hour, at its own positions."""
    store = _open(quick_path, near=near)
    store.append(batch_of([DUE + ms for ms in range(300)]))
    store.unlink(HOUR)
    first = 300
    units = [DUE + 2_000, DUE + 5, DUE + 7, DUE + 6, *(DUE + 9_000 + ms for ms in range(200))]
    assert store.append(batch_of(units)).tolist() == _positions(len(units), first).tolist()
    store.settle(SettleBatch.of(_positions(1, first), what=LEASED, at_ms=1, when=5, term=1, attempt=1))
    for stage in ("staged", "written", "reopened"):
        if stage == "written":
            checkpoint(store, 1)
        elif stage == "reopened":
            store.close()
            store = Store.open(quick_path, disk=Disk())
            store.turn(HOUR if near else HOUR + 50)
        read = store.slot_read(DUE // 1000)
        assert read is not None
        assert read.run().position.tolist() == [HOUR << 40 | first + at for at in (1, 3, 2)]
        assert len(store.pending(HOUR)) == len(units) - 1
        assert store.leased(HOUR).position.tolist() == [HOUR << 40 | first]
        piece, end = store.leased_piece(HOUR << 40, (HOUR + 1) << 40)
        assert (piece.tolist(), end) == ([HOUR << 40 | first], (HOUR + 1) << 40)
        assert store.extents().units.tolist()[0] == len(store.topics_from(HOUR, 0)) == len(units)
        assert len(store.topics_from(HOUR, 200)) == 4
        tally = DueTally(DUE, (HOUR_MS,), 10)
        hour = store.selectable(HOUR, Selection(OPEN))
        count = None if hour is None else HourCount(hour, Selection(OPEN), DUE)
        assert count is not None
        count.run(tally)
        assert sum(tally.counts.values()) == len(units)
    (place,) = move(store, [HOUR << 40 | first + 1], [DUE + 77], at_ms=2).tolist()
    assert place == HOUR << 40 | first + len(units)
    assert store.homes(np.array([place], np.uint64)).tolist() == [HOUR << 40 | first + 1]
    checkpoint(store, 2)
    store.close()
    assert verify(quick_path).faults == []


def _positions(count: int, first: int = 0) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    return np.arange(first, first + count, dtype=np.uint64) + np.uint64(HOUR << 40)


def test_a_checkpoint_tells_nothing_of_an_hour_that_was_written_further_since() -> None:
    """Its settle records were written on the loop, more of them than the checkpoint took along."""
    table = HourTable(HourRows.of({}), np.empty(0, np.int64))
    table.begin([HOUR], [0], [0])
    at = table.find([HOUR])
    table.rows["settles"][at] = 3
    frozen = {name: table.rows[name][at] for name in FROZEN}
    table.rows["settles"][at] = table.rows["saved_settles"][at] = 5
    assert table.save(at, frozen).tolist() == []
    assert table.rows["saved_settles"][at].tolist() == [5]
