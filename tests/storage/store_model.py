"""What a store must answer, as plainly as Python can say it: a list of units, each with the list of what befell it."""

from dataclasses import dataclass, field

import numpy as np

from storage.columns import SettleBatch, UnitBatch
from storage.format import LEASED, PENDING, RELEASED
from storage.position import HOUR_MS
from storage.slot import SlotColumns
from storage.store import Store


@dataclass
class Unit:
    """One unit; `history` holds (what, at_ms, when, term, attempt)."""

    position: int
    due_ms: int
    topic: int
    body: bytes
    history: list[tuple[int, int, int, int, int]] = field(default_factory=list)

    @property
    def state(self) -> int:
        """As the last record says."""
        what = self.history[-1][0] if self.history else PENDING
        return PENDING if what == RELEASED else what


class Model:
    """The units in order of arrival."""

    def __init__(self) -> None:
        self.units: dict[int, Unit] = {}
        self.gone: set[int] = set()

    def append(self, batch: UnitBatch, bodies: list[bytes]) -> list[int]:
        """The positions that a store must give."""
        positions = []
        for due_ms, topic, body in zip(batch.due_ms.tolist(), batch.topic.tolist(), bodies, strict=True):
            hour = due_ms // HOUR_MS
            position = hour << 40 | sum(1 for other in self.units if other >> 40 == hour)
            self.units[position] = Unit(position, due_ms, topic, body)
            positions.append(position)
        return positions

    def settle(self, batch: SettleBatch) -> None:
        """Add to the history of each unit."""
        columns = (batch.position, batch.what, batch.at_ms, batch.when, batch.term, batch.attempt)
        for position, *event in zip(*(column.tolist() for column in columns), strict=True):
            self.units[position].history.append((event[0], event[1], event[2], event[3], event[4]))

    def unlink(self, hour: int) -> None:
        """Forget an hour's units."""
        self.units = {position: unit for position, unit in self.units.items() if position >> 40 != hour}
        self.gone.add(hour)

    def pending(self, hour: int) -> list[Unit]:
        """Pending units of an hour by (due_ms, arrival)."""
        units = [unit for unit in self.units.values() if unit.position >> 40 == hour and unit.state == PENDING]
        return sorted(units, key=lambda unit: (unit.due_ms, unit.position))

    def check(self, store: Store) -> None:
        """The store gives the same answers to everything."""
        positions = np.array(list(self.units), np.uint64)
        units = list(self.units.values())
        self._check_states(store, positions, units)
        rows = store.units(positions)
        assert rows["due_ms"].tolist() == [unit.due_ms for unit in units]
        assert rows["topic"].tolist() == [unit.topic for unit in units]
        assert rows["global_index"].tolist() == [unit.position & (1 << 40) - 1 for unit in units]
        records = store.records(positions[::-1])
        assert [(record.position, record.body) for record in records] == [(u.position, u.body) for u in units[::-1]]
        for unit in units[::3]:
            found = store.history(unit.position)
            columns = [found[name].tolist() for name in ("what", "at_ms", "when", "term", "attempt")]
            assert list(zip(*columns, strict=True)) == unit.history
        hours = sorted({unit.position >> 40 for unit in units})
        assert store.hours() == hours
        assert store.unit_count == len(units)
        for hour in hours:
            self._check_hour(store, hour)
        for hour in self.gone:
            assert store.states(np.array([hour << 40], np.uint64)).state.tolist() == [255]
            assert len(store.pending(hour)) == len(store.second(hour * 3600)) == len(store.due_seconds(hour)) == 0

    def _check_states(
        self, store: Store, positions: np.ndarray[tuple[int], np.dtype[np.uint64]], units: list[Unit]
    ) -> None:
        states = store.states(positions)
        assert states.state.tolist() == [unit.state for unit in units]
        last = [unit.history[-1] if unit.history else (PENDING, 0, 0, 0, 0) for unit in units]
        assert states.term.tolist() == [event[3] for event in last]
        assert states.attempt.tolist() == [event[4] for event in last]
        assert states.lease_end_ms.tolist() == [event[2] if event[0] == LEASED else 0 for event in last]
        assert store.newest(positions)["what"].tolist() == [event[0] for event in last]

    def _check_hour(self, store: Store, hour: int) -> None:
        units = [unit for unit in self.units.values() if unit.position >> 40 == hour]
        unsettled = sum(unit.state <= LEASED for unit in units)
        assert store.unsettled(hour) == unsettled
        assert (hour in store.open_hours()) == (unsettled > 0)
        leased = store.leased(hour)
        expected = sorted(unit.position for unit in units if unit.state == LEASED)
        assert leased.position.tolist() == expected
        assert leased.lease_end_ms.tolist() == [self.units[position].history[-1][2] for position in expected]
        pending = self.pending(hour)
        self._check_slots(store.pending(hour), pending, units)
        self._check_slots(store.pending(hour, limit=2), pending[:2], units)
        middle = hour * HOUR_MS + 30_500
        self._check_slots(store.pending(hour, middle), [unit for unit in pending if unit.due_ms < middle], units)
        self._check_slots(store.pending(hour, topic=8), [unit for unit in pending if unit.topic == 8], units)
        seconds = sorted({unit.due_ms // 1000 for unit in units})
        assert store.due_seconds(hour).tolist() == seconds
        for tick in [*seconds[:4], hour * 3600 + 3599]:
            self._check_slots(store.second(tick), [unit for unit in pending if unit.due_ms // 1000 == tick], units)

    @staticmethod
    def _check_slots(found: SlotColumns, expected: list[Unit], units: list[Unit]) -> None:
        assert found.position.tolist() == [unit.position for unit in expected]
        assert found.due_ms.tolist() == [unit.due_ms for unit in expected]
        assert found.topic.tolist() == [unit.topic for unit in expected]
        same = [[other.position for other in units if other.due_ms // 1000 == unit.due_ms // 1000] for unit in expected]
        local = [sorted(second).index(unit.position) for second, unit in zip(same, expected, strict=True)]
        assert found.local_index.tolist() == local
