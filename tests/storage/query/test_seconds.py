"""The seconds of an hour, held against a plain count of its messages."""

from collections import Counter
from unittest.mock import Mock, patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import storage.query.seconds
from storage.file.disk import Disk
from storage.format.batches import SettleBatch
from storage.format.position import HOUR_MS
from storage.format.states import CANCELLED, LEASED
from storage.query.seconds import HourSeconds
from storage.store import Store
from tests.storage.quick_directory import quick_directory
from tests.storage.workload import HOUR, batch_of, checkpoint, found, move

DUE = HOUR * HOUR_MS


def seconds(store: Store, topic: int | None = None) -> list[tuple[int, int, int]]:
    """Second, open units and all units, of each used second of HOUR."""
    hour = store.hour(HOUR)
    assert hour is not None
    return rows(HourSeconds(hour, topic, DUE))


def rows(look: HourSeconds) -> list[tuple[int, int, int]]:
    """The seconds that a look finds."""
    return list(zip(*(column.tolist() for column in look.run()), strict=True))


@given(
    counters=st.booleans(),
    gather_rows=st.integers(1, 9),
    gather_cost=st.sampled_from([0, 4, 1 << 40]),
    offsets=st.lists(st.integers(0, 3_599).map(lambda n: n * 1000 + n % 1000), min_size=1, max_size=60),
    ended=st.sets(st.integers(0, 59)),
    moved=st.sets(st.integers(0, 59), max_size=4),
    near=st.booleans(),
    on_disk=st.booleans(),
    topic=st.none() | st.sampled_from([7, 8]),
)
def test_seconds_are_a_plain_count(
    counters: bool,
    gather_rows: int,
    gather_cost: int,
    offsets: list[int],
    ended: set[int],
    moved: set[int],
    near: bool,
    on_disk: bool,
    topic: int | None,
) -> None:
    """Of all units and of the open ones, whichever way they are counted and wherever the hour stands. What has moved
    away is a unit and not open; where it went it is both."""
    least = 0 if counters else 1 << 40
    with (
        quick_directory() as directory,
        patch.multiple(
            storage.query.seconds, CHAIN_UNITS_MIN=least, _GATHER_ROWS=gather_rows, _GATHER_COST=gather_cost
        ),
    ):
        store = Store.open(directory, disk=Disk())
        found(store)
        store.turn(HOUR if near else HOUR + 50)
        parts = [offsets[:20], offsets[20:40], offsets[40:]]  # far and not on disk, each stands in a part of its own
        at = np.concatenate([store.append(batch_of([DUE + ms for ms in part], topic=7)) for part in parts if part])
        gone = [row for row in sorted(ended) if row < len(offsets)]
        if gone:
            store.settle(SettleBatch.of(at[gone], what=CANCELLED, at_ms=1))
        left = [row for row in sorted(moved) if row < len(offsets) and row not in ended]
        if left:
            move(store, at[left].tolist(), [DUE + 5] * len(left), at_ms=2)
        if on_disk:
            checkpoint(store, 1)
        units = Counter(ms // 1000 for ms in offsets) + Counter([0] * len(left))
        opened = units - Counter(offsets[row] // 1000 for row in [*gone, *left])
        wanted = [(each, opened[each], units[each]) for each in sorted(units)]
        assert seconds(store, topic) == (wanted if topic != 8 else [])
        store.close()


@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize("least", [0, 1 << 40])
def test_a_look_keeps_its_moment(store: Store, monkeypatch: pytest.MonkeyPatch, near: bool, least: int) -> None:
    """What happens between its two steps does not show."""
    monkeypatch.setattr(storage.query.seconds, "CHAIN_UNITS_MIN", least)
    store.turn(HOUR if near else HOUR + 50)
    first = store.append(batch_of([DUE + 5, DUE + 3, DUE + 2_000]))
    store.settle(SettleBatch.of(first[:1], what=LEASED, at_ms=1, when=DUE - 1))  # over, and still open
    hour = store.hour(HOUR)
    assert hour is not None
    look = HourSeconds(hour, None, DUE)
    store.settle(SettleBatch.of(first[:2], what=CANCELLED, at_ms=2))
    store.append(batch_of([DUE + 1]))
    checkpoint(store, 1)
    assert rows(look) == [(0, 2, 2), (2, 1, 1)]
    assert seconds(store) == [(0, 1, 3), (2, 1, 1)]
    store.close()


@pytest.mark.parametrize("least", [0, 1 << 40])
def test_a_look_that_is_stopped_ends(store: Store, monkeypatch: pytest.MonkeyPatch, least: int) -> None:
    """Before the next piece is read."""
    monkeypatch.setattr(storage.query.seconds, "CHAIN_UNITS_MIN", least)
    store.turn(HOUR)
    first = store.append(batch_of([DUE, DUE + 1000, DUE + 2000] * 8))
    store.settle(SettleBatch.of(first[:1], what=CANCELLED, at_ms=1))
    hour = store.hour(HOUR)
    assert hour is not None
    stopped = Mock(return_value=True)
    HourSeconds(hour, None, DUE).run(stopped)
    assert stopped.call_count == 1
    store.close()
