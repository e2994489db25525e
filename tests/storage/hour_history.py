"""An hour of a store beside all that was ever said of its units."""

from pathlib import Path
from random import Random

import numpy as np
import pytest

from storage.catalog.catalog import Frozen
from storage.file.disk import Disk
from storage.format.array import U64
from storage.format.batches import SettleBatch
from storage.format.position import HOUR_MS
from storage.format.rows import SETTLE
from storage.format.states import CANCELLED, DEAD, DELIVERED, EXPIRED, FORWARDED, LEASED, RELEASED
from storage.state.unit_states import States
from storage.store import Store
from tests.storage.faulty_disk import Stopped
from tests.storage.workload import HOUR, batch_of, checkpoint, found, record_at

WHAT = (LEASED, LEASED, DELIVERED, CANCELLED, DEAD, EXPIRED, RELEASED, FORWARDED)
UNITS = 300


def _kill(*_: object) -> None:
    raise Stopped


def kill_checkpoint(store: Store, index: int) -> None:
    """A checkpoint that writes all its files and is not durable. Close the store then."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Frozen, "commit", _kill)
        job = store.begin_checkpoint(record_at(index))
        with pytest.raises(Stopped):
            job.run()


class HourHistory:
    """One hour of a store, and all that was said of its units."""

    def __init__(self, directory: Path, random: Random, *, again: bool) -> None:
        self.directory, self.random = directory, random
        self.store = Store.open(directory, disk=Disk())
        found(self.store)
        for hour in (HOUR, HOUR + 9):
            self.store.append(batch_of([hour * HOUR_MS + 7 * n for n in range(40)]))
        if again:  # its units go on where those of the former one ended
            self.store.unlink(HOUR)
            checkpoint(self.store, 1)
            self.store.append(batch_of([HOUR * HOUR_MS + 7 * n for n in range(UNITS)]))
        else:
            self.store.append(batch_of([HOUR * HOUR_MS + 7 * n for n in range(UNITS - 40)]))
        checkpoint(self.store, 1)
        self.positions = np.arange(*self.store.span(HOUR), dtype=np.uint64)
        self.durable: list[SettleBatch] = []
        self.batches: list[SettleBatch] = []
        self.count = 1

    def settle(self) -> None:
        """Something befalls some units, mostly neighbours."""
        first = self.random.randrange(UNITS)
        some = [int(self.positions[(first + n * self.random.choice((1, 1, 7))) % UNITS]) for n in range(12)]
        what = [self.random.choice(WHAT) for _ in some]
        term = len(self.batches) + 1
        batch = SettleBatch.of(
            some, what=what, at_ms=term, when=[n * 5 for n in range(12)], term=term, attempt=term % 9
        )
        self.batches.append(batch)
        self.store.settle(batch)

    def end(self) -> None:
        """Many neighbours end, two blocks' worth."""
        first = self.random.randrange(UNITS)
        for start in range(first, first + 144, 12):
            some = [int(self.positions[n % UNITS]) for n in range(start, start + 12)]
            term = len(self.batches) + 1
            what = [self.random.choice((DELIVERED, CANCELLED, DEAD, EXPIRED)) for _ in some]
            self.batches.append(SettleBatch.of(some, what=what, at_ms=term, when=[0] * 12, term=term, attempt=term % 9))
            self.store.settle(self.batches[-1])

    def save(self) -> None:
        """A checkpoint, during which more may happen."""
        self.count += 1
        job = self.store.begin_checkpoint(record_at(self.count))
        kept = list(self.batches)
        if self.random.randrange(2):
            self.settle()
        job.run()
        if self.random.randrange(2):
            self.settle()
        self.look()
        job.finish()
        self.durable = kept

    def reopen(self) -> None:
        """A crash, and the journal again."""
        self.store.close()
        self.store = Store.open(self.directory, disk=Disk())
        for batch in self.batches[len(self.durable) :]:
            self.store.settle(batch)

    def killed(self) -> None:
        """A crash in the middle of a checkpoint, and the journal again."""
        self.count += 1
        kill_checkpoint(self.store, self.count)
        self.reopen()

    def killed_replaying(self) -> None:
        """A crash, and a checkpoint while the journal is replayed."""
        self.store.close()
        self.store = Store.open(self.directory, disk=Disk())
        self.store.turn(HOUR)
        batches, done = self.batches, self.random.randint(len(self.durable), len(self.batches))
        for batch in batches[len(self.durable) : done]:
            self.store.settle(batch)
        self.count += 1
        checkpoint(self.store, self.count)
        self.durable = batches[:done]
        for batch in batches[done:]:
            self.store.settle(batch)

    def cool(self) -> None:
        """Other hours are used."""
        self.store.states(np.array([(HOUR + 9) << 40], np.uint64))

    def turn(self) -> None:
        """It becomes near, or far again."""
        self.store.turn(self.random.choice((HOUR, HOUR + 100)))

    def look(self) -> None:
        """A few units are asked for."""
        some = self.positions[[self.random.randrange(UNITS) for _ in range(self.random.choice((1, 1, 5)))]]
        if self.random.randrange(2):
            self._same_state(some)
        else:
            self._same(some)

    def check(self) -> None:
        """All of them are."""
        whole = self._whole()
        for state in (LEASED, DEAD, FORWARDED):
            index = whole.in_state(state, 0, UNITS + 40)
            found = self.store.born_in_state(HOUR << 40, (HOUR + 1) << 40, state)
            assert found.tolist() == [HOUR << 40 | each for each in index.tolist()]
        assert self.store.leased(HOUR).position.tolist() == [HOUR << 40 | each for each in whole.leased().tolist()]
        low, high = sorted(self.random.sample(range(UNITS), 2))
        base = int(self.positions[0]) & 0xFFFFFF
        expected = [HOUR << 40 | each for each in whole.in_state(LEASED, base + low, base + high).tolist()]
        first, end, pieces = int(self.positions[low]), int(self.positions[high]), []
        while first < end:
            piece, first = self.store.leased_piece(first, end)
            pieces += piece.tolist()
        assert (pieces, first) == (expected, end)
        states = whole.at((self.positions & np.uint64(0xFFFFFF)).astype(np.int64)).state
        assert sorted(self.store.pending(HOUR).position.tolist()) == self.positions[states == 0].tolist()
        self._same_state(self.positions)
        self._same(self.positions)

    def _whole(self) -> States:
        states, first = States(int(self.positions[0]) & 0xFFFFFF), 0
        for batch in self.batches:
            rows = np.zeros(len(batch), SETTLE)
            rows["global_index"] = batch.position & np.uint64(0xFFFFFF)
            for name in ("when", "term", "attempt", "what"):
                rows[name] = getattr(batch, name)
            states.enter(rows, first)
            first += len(rows)
        return states

    def _same_state(self, positions: U64) -> None:
        whole, at = self._whole(), (positions & np.uint64(0xFFFFFF)).astype(np.int64)
        assert self.store.state_only(positions).tolist() == whole.at(at).state.tolist()
        hour = self.store._hours.use(HOUR)
        assert hour is not None
        assert hour.states().newest_of(at).run().tolist() == whole.newest_at(at).tolist()

    def _same(self, positions: U64) -> None:
        whole, at = self._whole(), (positions & np.uint64(0xFFFFFF)).astype(np.int64)
        found, expected = self.store.states(positions), whole.at(at)
        for name in ("state", "attempt", "term", "lease_end_ms"):
            assert getattr(found, name).tolist() == getattr(expected, name).tolist()
        newest = self.store.newest(positions)
        assert newest["term"].tolist() == [
            self.batches[(each - 1) // 12].term.tolist()[(each - 1) % 12] if each else 0
            for each in whole.newest_at(at).tolist()
        ]
