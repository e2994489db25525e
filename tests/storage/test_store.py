"""The store against a model, whatever is flushed, turned, checkpointed or cut off in between."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import storage.checkpoint.hour_set
import storage.file.hour_file
from storage.directory.verify import digest, verify
from storage.file.disk import Disk
from storage.format.batches import SettleBatch
from storage.format.position import HOUR_MS, INDEX_MAX
from storage.format.rows import UNIT
from storage.format.states import CANCELLED, DEAD, DELIVERED, EXPIRED, FORWARDED, LEASED, RELEASED
from storage.store import Store
from tests.examples import examples
from tests.storage.quick_directory import quick_directory
from tests.storage.small_stage import small_stage
from tests.storage.store_model import Model
from tests.storage.workload import HOUR, batch_of, checkpoint, content, found, move, record_at

HOURS = (0, 1, 2, 3, 4, 9, 40)
UNLINKED = (4, 2)

Step = tuple[str, list[int], int]
"""What to do, numbers that choose units or due times, and one more number."""

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "append",
                "append",
                "append",
                "settle",
                "settle",
                "move",
                "move",
                "end",
                "turn",
                "begin",
                "run",
                "finish",
                "crash",
                "check",
                "unlink",
            ]
        ),
        st.lists(st.integers(0, 10_000), min_size=1, max_size=12),
        st.integers(0, 50),
    ),
    min_size=4,
    max_size=30,
)


class Runner:
    """Applies steps to a store and to the model; the commands among them make the log that a crash replays."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.model = Model()
        self.log: list[Callable[[Store], None]] = []
        self.job: object = None
        self.store = Store.open(directory, disk=Disk())
        self.command(found)

    def command(self, apply: Callable[[Store], None]) -> None:
        """Log and apply."""
        self.log.append(apply)
        apply(self.store)
        self.store.applied_index = len(self.log)

    def step(self, step: Step) -> None:
        """One step."""
        name, numbers, number = step
        getattr(self, f"_{name}")(numbers, number)

    def _append(self, numbers: list[int], number: int) -> None:
        due = self._due(numbers)
        bodies = [b"%d" % n * (n % 5) for n in numbers]
        batch = batch_of(due, topic=7 + number % 2, bodies=bodies)
        expected = self.model.append(batch, bodies)

        def apply(store: Store) -> None:
            assert store.append(batch).tolist() == expected

        self.command(apply)

    @staticmethod
    def _due(numbers: list[int]) -> list[int]:
        return [(HOUR + HOURS[n % len(HOURS)]) * HOUR_MS + n * 7 % 60_000 for n in numbers]

    def _settle(self, numbers: list[int], number: int) -> None:
        """Anything befalls messages that were never moved; the others are leased and released where they live."""
        units = [unit for unit in self.model.units.values() if unit.stayed or (unit.moved and unit.state <= LEASED)]
        if units:
            rows = [(units[n % len(units)], n) for n in numbers]
            what = [n % 7 + 1 if unit.stayed else (LEASED, RELEASED)[n % 2] for unit, n in rows]
            at = [unit.position for unit, _ in rows]
            batch = SettleBatch.of(at, what=what, at_ms=number, when=numbers, term=number, attempt=number, node=1)
            self.model.settle(batch)
            self.command(lambda store: store.settle(batch))

    def _move(self, numbers: list[int], number: int) -> None:
        known = self.model.movable()
        homes = list(dict.fromkeys(known[n % len(known)] for n in numbers)) if known else []
        if homes:
            due = self._due(numbers[::-1])[: len(homes)]
            expected = self.model.move(homes, due, at_ms=number)

            def apply(store: Store) -> None:
                assert move(store, homes, due, at_ms=number).tolist() == expected

            self.command(apply)

    def _end(self, numbers: list[int], number: int) -> None:
        """Messages end where they live, and home is told."""
        homes = [unit.position for unit in self.model.units.values() if unit.state == FORWARDED]
        if homes:
            rows = {homes[n % len(homes)]: (DELIVERED, CANCELLED, DEAD, EXPIRED)[n % 4] for n in numbers}
            at = [*rows, *map(self.model.locate, rows)]
            batch = SettleBatch.of(at, what=[*rows.values()] * 2, at_ms=number, term=2, attempt=number)
            self.model.settle(batch)
            self.command(lambda store: store.settle(batch))

    def _unlink(self, numbers: list[int], number: int) -> None:
        """An hour goes, even with open units in it, but not while a message lives elsewhere than at its home in it."""
        hour = HOUR + UNLINKED[number % 2]
        units = [unit for unit in self.model.units.values() if unit.position >> 40 == hour]
        if not any(unit.state == FORWARDED or (unit.moved and unit.state <= LEASED) for unit in units):
            self.model.unlink(hour)
            self.command(lambda store: store.unlink(hour))

    def _turn(self, numbers: list[int], number: int) -> None:
        self.store.turn(HOUR + number)

    def _begin(self, numbers: list[int], number: int) -> None:
        if self.job is None:
            self.job = self.store.begin_checkpoint(record_at(len(self.log)))
            self.has_run = False

    def _run(self, numbers: list[int], number: int) -> None:
        if self.job is not None and not self.has_run:
            self.job.run()  # type: ignore[attr-defined]
            self.has_run = True

    def _finish(self, numbers: list[int], number: int) -> None:
        if self.job is not None:
            self._run(numbers, number)
            self.job.finish()  # type: ignore[attr-defined]
            self.job = None

    def _crash(self, numbers: list[int], number: int) -> None:
        self.store.close()
        self.job = None
        self.store = Store.open(self.directory, disk=Disk())
        for apply in self.log[self.store.applied_index :]:
            apply(self.store)
        self.store.applied_index = len(self.log)

    def _check(self, numbers: list[int], number: int) -> None:
        self.model.check(self.store)


@examples(60)
@given(STEPS)
def test_store_against_model(steps: list[Step]) -> None:
    """Whatever is appended and settled, the store answers as the model does; and its files are those of a store that
    was given the same commands and nothing else."""
    with quick_directory() as directory, quick_directory() as plain_directory:
        with small_stage():
            runner = Runner(directory)
            for step in steps:
                runner.step(step)
            runner.step(("finish", [], 0))
            runner.step(("check", [], 0))
            checkpoint(runner.store, len(runner.log))
            runner.step(("crash", [], 0))
            runner.step(("check", [], 0))
            runner.store.close()
        plain = Store.open(plain_directory, disk=Disk())
        for apply in runner.log:
            apply(plain)
        checkpoint(plain, len(runner.log))
        plain.close()
        assert content(directory) == content(plain_directory)
        assert digest(directory) == digest(plain_directory)
        assert verify(directory).faults == []


@pytest.fixture(scope="module", autouse=True)
def _small_blocks() -> Iterator[None]:
    """Passes over a file go in blocks of 5 rows, so that a dozen units already take several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage.file.hour_file, "BLOCK_ROWS", 5)
        yield


@pytest.fixture
def store(quick_path: Path) -> Store:
    """A founded store in an empty directory."""
    store = Store.open(quick_path, disk=Disk())
    found(store)
    return store


def _due(*ms: int) -> list[int]:
    return [HOUR * HOUR_MS + each for each in ms]


def test_positions_follow_from_the_due_hour(store: Store) -> None:
    """A position is the due hour and the ordinal in it, in the batch's order whatever its hours are."""
    positions = store.append(batch_of(_due(0, HOUR_MS, 1, 3 * HOUR_MS, HOUR_MS + 1)))
    assert [(p >> 40, p & 0xFF) for p in positions.tolist()] == [
        (HOUR, 0), (HOUR + 1, 0), (HOUR, 1), (HOUR + 3, 0), (HOUR + 1, 1),
    ]  # fmt: skip
    assert len(store.append(batch_of([]))) == 0
    store.close()


def test_records_of_different_sizes_and_hours(store: Store) -> None:
    """Bodies of any size, moved to their hours in one gather, stay with their messages."""
    rng = np.random.default_rng(5)
    due = _due(*(rng.integers(0, 30, 300) * HOUR_MS + rng.integers(0, HOUR_MS, 300)).tolist())
    bodies = [rng.bytes(int(size)) for size in rng.integers(0, 5_000, 300)]
    store.turn(HOUR + 3)
    positions = store.append(batch_of(due, bodies=bodies))
    assert [record.body for record in store.records(positions)] == bodies
    assert [record.asked_due_ms for record in store.records(positions[::-1])] == due[::-1]
    checkpoint(store, 1)
    assert [record.body for record in store.records(positions)] == bodies
    store.close()


def test_a_slot_read_keeps_its_moment(store: Store) -> None:
    """What a slot read captured on the loop it gives from any thread later: no unit twice, none torn."""
    store.turn(HOUR)
    for _ in range(3):
        store.append(batch_of(_due(5_000, 5_001, 40 * HOUR_MS + 5_000)))
    near, far = store.slot_read(HOUR * 3600 + 5), store.slot_read((HOUR + 40) * 3600 + 5)
    assert near is not None
    assert far is not None
    store.append(batch_of(_due(5_002, 40 * HOUR_MS + 5_002)))
    checkpoint(store, 1)
    store.turn(HOUR + 40)
    in_near, in_far = near.run(), far.run()
    assert [index & INDEX_MAX for index in in_near.position.tolist()] == [0, 2, 4, 1, 3, 5]
    assert (in_near.due_ms - HOUR * HOUR_MS).tolist() == [5_000] * 3 + [5_001] * 3
    assert [index & INDEX_MAX for index in in_far.position.tolist()] == [0, 1, 2]
    assert len(store.second(HOUR * 3600 + 5)) == 7
    assert store.slot_read(1) is None
    store.close()


def test_what_the_machine_asks(store: Store) -> None:
    """When a unit or an hour was settled, and the code a cancel left."""
    positions = store.append(batch_of(_due(1, 2, 3, HOUR_MS)))
    assert store.settled_ms(HOUR) == 0
    store.settle(SettleBatch.of(positions[:2], what=[LEASED, CANCELLED], at_ms=[10, 11], when=[500, 0], code=[0, 2]))
    assert [store.settled_at(position) for position in positions.tolist()] == [None, 11, None, None]
    assert store.cancel_priors(positions[1:3]).tolist() == [2, 0]
    store.settle(SettleBatch.of(positions[0], what=DELIVERED, at_ms=20))
    assert (store.settled_ms(HOUR), store.settled_at(int(positions[0]))) == (20, 20)
    store.unlink(HOUR)
    assert store.settled_at(int(positions[0])) == 0
    assert (store.unit_count, store.settled_ms(HOUR), store.unsettled(HOUR)) == (1, 0, 0)
    store.close()


def test_memory_is_bounded_without_checkpoints(store: Store, quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Staged bytes past the bound are written at once, and the files are the same as if they had waited."""
    monkeypatch.setattr(storage.checkpoint.hour_set, "_STAGED_BYTES_MAX", 100_000)
    with quick_directory() as other:
        patient = Store.open(other, disk=Disk())
        found(patient)
        for round_ in range(20):
            due = _due(*(hour * HOUR_MS + round_ * 977 for hour in range(100)))
            store.append(batch_of(due))
            assert store.staged_bytes <= 100_000 + 100 * 1_000
            monkeypatch.setattr(storage.checkpoint.hour_set, "_STAGED_BYTES_MAX", 1 << 40)
            patient.append(batch_of(due))
            monkeypatch.setattr(storage.checkpoint.hour_set, "_STAGED_BYTES_MAX", 100_000)
        assert patient.staged_bytes > 400_000
        for each in (store, patient):
            checkpoint(each, 1)
            assert each.staged_bytes == 0
            each.close()
        assert content(quick_path) == content(other)


def test_an_hour_that_comes_and_goes_during_a_checkpoint(store: Store, quick_path: Path) -> None:
    """An hour that was frozen, became near, was left and staged again keeps what came after the freeze."""
    first = store.append(batch_of(_due(1, 2)))
    store.settle(SettleBatch.of(first, what=LEASED, at_ms=1, when=9))
    job = store.begin_checkpoint(record_at(1))
    store.turn(HOUR)
    assert store.staged_bytes == 0
    store.turn(HOUR + 10)
    second = store.append(batch_of(_due(3, 4)))
    store.settle(SettleBatch.of(second[:1], what=DELIVERED, at_ms=2))
    job.run()
    job.finish()
    assert store.staged_bytes > 0
    assert store.states(np.concatenate((first, second))).state.tolist() == [LEASED, LEASED, DELIVERED, 0]
    assert [record.asked_due_ms for record in store.records(second)] == _due(3, 4)
    checkpoint(store, 2)
    assert store.staged_bytes == 0
    store.close()
    assert verify(quick_path).faults == []
    assert verify(quick_path).units == 4


def test_what_comes_during_a_checkpoint_is_the_next_ones(store: Store, quick_path: Path) -> None:
    """Units and settle records of an hour that the checkpoint writes: they stay staged, and are in the files then."""
    first = store.append(batch_of(_due(1, 2)))
    job = store.begin_checkpoint(record_at(1))
    second = store.append(batch_of(_due(3)))
    store.settle(SettleBatch.of(first[:1], what=DELIVERED, at_ms=2))
    job.run()
    job.finish()
    assert store.staged_bytes > 0
    checkpoint(store, 2)
    assert store.staged_bytes == 0
    store.close()
    assert (verify(quick_path).faults, verify(quick_path).units) == ([], 3)
    again = Store.open(quick_path, disk=Disk())
    assert again.states(np.concatenate((first, second))).state.tolist() == [DELIVERED, 0, 0]
    assert [record.asked_due_ms for record in again.records(second)] == _due(3)
    again.close()


def test_descriptors_are_bounded(store: Store) -> None:
    """Reading many far hours does not keep them all open, and the near ones are let go when the wheel turns."""
    positions = store.append(batch_of(_due(*(hour * HOUR_MS for hour in range(300)))))
    checkpoint(store, 1)
    before = len(os.listdir("/proc/self/fd"))
    assert len(store.records(positions)) == 300
    store.settle(SettleBatch.of(positions, what=LEASED, at_ms=1, when=5))
    assert store.leased(HOUR + 200).lease_end_ms.tolist() == [5]
    assert len(os.listdir("/proc/self/fd")) - before <= 3 * 64
    store.close()
    assert len(os.listdir("/proc/self/fd")) < before


def test_staged_units_say_so(store: Store) -> None:
    """A unit that waits for a checkpoint has no chain yet and says so; then it has."""
    position = store.append(batch_of(_due(7)))
    assert store.units(position)["pre_global_index"].tolist() == [-2]
    checkpoint(store, 1)
    assert store.units(position)["pre_global_index"].tolist() == [-1]
    assert store.units(position[:0]).dtype == UNIT
    store.close()


def test_a_sound_directory_opens_again(store: Store, quick_path: Path) -> None:
    """What a checkpoint held is there again; what came after it is not, until the journal is replayed."""
    store.turn(HOUR)
    first = store.append(batch_of(_due(1, 90 * HOUR_MS)))
    checkpoint(store, 17)
    second = store.append(batch_of(_due(2, 91 * HOUR_MS)))
    store.close()
    again = Store.open(quick_path, disk=Disk())
    assert again.applied_index == 17
    assert again.cluster_id == store.cluster_id
    assert again.states(np.concatenate((first, second))).state.tolist() == [0, 0, 255, 255]
    assert again.append(batch_of(_due(2, 91 * HOUR_MS))).tolist() == second.tolist()
    again.close()
