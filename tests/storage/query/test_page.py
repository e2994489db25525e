"""The pages of an hour, held against a sort of all its messages."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import storage.query.page
from storage.file.disk import Disk
from storage.format.batches import SettleBatch
from storage.format.position import HOUR_MS, INDEX_MAX
from storage.format.predicate import Predicate
from storage.format.states import CANCELLED, LEASED
from storage.query.page import HourPage, Listed, PageStart
from storage.query.selection import Selection
from storage.store import Store
from tests.storage.query.tagged import Tagged, tagged_batch
from tests.storage.quick_directory import quick_directory
from tests.storage.store_model import ENDED, OPEN
from tests.storage.workload import HOUR, batch_of, checkpoint, found, move

DUE = HOUR * HOUR_MS


def page(store: Store, selection: Selection, begin: PageStart, most: int, now_ms: int = DUE) -> Listed:
    """A page of HOUR."""
    hour = store.hour(HOUR)
    assert hour is not None
    return HourPage(hour, selection, now_ms, begin, most).run()


def pages(store: Store, selection: Selection, most: int) -> list[tuple[int, int]]:
    """All messages of HOUR, page by page: (due_ms, at)."""
    rows: list[tuple[int, int]] = []
    begin: PageStart | None = PageStart.at_hour(HOUR)
    while begin is not None:
        listed = page(store, selection, begin, most)
        assert len(listed.units["global_index"]) == most or listed.next is None or selection.which.tags is not None
        rows += zip(listed.units["due_ms"].tolist(), listed.units["global_index"].tolist(), strict=True)
        assert listed.next is None or listed.next > begin
        begin = listed.next
    return rows


WINDOW = st.none() | st.integers(0, 10_000)


@given(
    chains=st.booleans(),
    offsets=st.lists(st.integers(0, 40).map(lambda n: n * 250), min_size=1, max_size=60),
    ended=st.sets(st.integers(0, 59)),
    most=st.integers(1, 9),
    near=st.booleans(),
    on_disk=st.booleans(),
    from_ms=WINDOW,
    to_ms=WINDOW,
)
def test_pages_are_a_sort_of_what_is_selected(
    chains: bool,
    offsets: list[int],
    ended: set[int],
    most: int,
    near: bool,
    on_disk: bool,
    from_ms: int | None,
    to_ms: int | None,
) -> None:
    """By (due, place), each once, whatever the page holds and wherever the hour stands."""
    least = 0 if chains else 1 << 40
    with quick_directory() as directory, patch.multiple(storage.query.page, CHAIN_UNITS_MIN=least, _SECOND_COST=0):
        store = Store.open(directory, disk=Disk())
        found(store)
        store.turn(HOUR if near else HOUR + 50)
        parts = [offsets[:20], offsets[20:40], offsets[40:]]  # far and not on disk, each stands in a part of its own
        positions = np.concatenate([store.append(batch_of([DUE + ms for ms in part])) for part in parts if part])
        gone = positions[[row for row in sorted(ended) if row < len(offsets)]]
        if len(gone):
            store.settle(SettleBatch.of(gone, what=CANCELLED, at_ms=1))
        if on_disk:
            checkpoint(store, 1)
        low, high = from_ms or 0, HOUR_MS if to_ms is None else to_ms
        selection = Selection(
            OPEN, Predicate(from_ms=None if from_ms is None else DUE + low, to_ms=None if to_ms is None else DUE + high)
        )
        wanted = sorted(
            (DUE + ms, int(position) & INDEX_MAX)
            for row, (ms, position) in enumerate(zip(offsets, positions.tolist(), strict=True))
            if row not in ended and low <= ms < high
        )
        assert pages(store, selection, most) == wanted
        store.close()


@pytest.mark.parametrize("near", [True, False])
def test_a_page_keeps_its_moment(store: Store, near: bool) -> None:
    """What happens between its two steps does not show."""
    store.turn(HOUR if near else HOUR + 50)
    first = store.append(batch_of([DUE + 5, DUE + 3, DUE + 3]))
    hour = store.hour(HOUR)
    assert hour is not None
    look = HourPage(hour, Selection(OPEN), DUE, PageStart.at_hour(HOUR), 10)
    store.settle(SettleBatch.of(first[:2], what=CANCELLED, at_ms=1))
    store.append(batch_of([DUE + 1]))
    checkpoint(store, 1)
    listed = look.run()
    assert listed.units["due_ms"].tolist() == [DUE + 3, DUE + 3, DUE + 5]
    assert listed.next is None
    store.close()


def test_a_page_that_the_first_chains_fill_goes_on(store: Store) -> None:
    """Exactly: there are further seconds, so there is a next page."""
    store.turn(HOUR)
    due = [DUE + 1000 * second for second in range(40)]
    store.append(batch_of(due))
    with patch.multiple(storage.query.page, CHAIN_UNITS_MIN=0, _SECOND_COST=0):
        assert [due_ms for due_ms, _ in pages(store, Selection(OPEN), 1)] == [
            DUE + 1000 * second for second in range(40)
        ]
    store.close()


@pytest.mark.parametrize("most", [1, 3, 7])
def test_what_comes_first_in_a_later_part_is_kept(store: Store, most: int) -> None:
    """A pass forgets what is behind the first ones so far, and nothing before."""
    store.turn(HOUR + 50)
    for part in range(6):
        store.append(batch_of([DUE + 100 * row + 5 - part for row in range(20)]))
    assert [due_ms for due_ms, _ in pages(store, Selection(OPEN), most)] == sorted(
        DUE + 100 * row + 5 - part for part in range(6) for row in range(20)
    )
    store.close()


def test_each_message_stands_where_it_lives(store: Store) -> None:
    """A moved one at its place, an ended one where it ended; a home that it left is none."""
    homes = store.append(batch_of([DUE + 1, DUE + 2]))
    place = move(store, homes[:1].tolist(), [DUE + 9], at_ms=1)
    assert page(store, Selection(OPEN), PageStart.at_hour(HOUR), 10).units["due_ms"].tolist() == [DUE + 2, DUE + 9]
    store.settle(SettleBatch.of(np.array([place[0], homes[1]], np.uint64), what=CANCELLED, at_ms=2))
    assert page(store, Selection(ENDED), PageStart.at_hour(HOUR), 10).units["due_ms"].tolist() == [DUE + 2, DUE + 9]
    store.close()


def test_a_leased_one_is_listed(store: Store) -> None:
    """As leased, and as pending when its lease is over."""
    first = store.append(batch_of([DUE, DUE]))
    store.settle(SettleBatch.of(first[:1], what=LEASED, at_ms=1, when=DUE + 5))
    leased = Selection(frozenset((LEASED,)))
    assert page(store, leased, PageStart.at_hour(HOUR), 10, DUE + 4).units["global_index"].tolist() == [
        int(first[0]) & INDEX_MAX
    ]
    assert not len(page(store, leased, PageStart.at_hour(HOUR), 10, DUE + 5).units["global_index"])
    store.close()


def test_a_large_hour_whose_first_seconds_are_enough(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an hour of 70,000 the chains of few seconds are read, and the index never: a page that goes on further reads
    it once, and says the same."""
    monkeypatch.setattr(storage.query.page, "_SECOND_COST", 1)
    store.turn(HOUR)
    for _ in range(7):
        store.append(batch_of([DUE + ms * 300 for ms in range(10_000)]))
    passes = []
    blocks = HourPage.blocks

    def counted(self: HourPage) -> object:
        passes.append(1)
        return blocks(self)

    monkeypatch.setattr(HourPage, "blocks", counted)
    few = page(store, Selection(OPEN), PageStart.at_hour(HOUR), 1_000)
    assert not passes
    assert few.units["due_ms"].tolist() == sorted(list(range(DUE, DUE + 143 * 300, 300)) * 7)[:1_000]
    many = page(store, Selection(OPEN), PageStart.at_hour(HOUR), 30_000)
    assert passes == [1]
    assert many.units["due_ms"][:1_000].tolist() == few.units["due_ms"].tolist()
    assert np.array_equal(many.units["global_index"][:1_000], few.units["global_index"])
    assert many.next == PageStart.behind(
        int(many.units["due_ms"][-1]), HOUR << 40 | int(many.units["global_index"][-1])
    )
    store.close()


@pytest.mark.parametrize("most", [1, 2, 3, 50])
@pytest.mark.parametrize("tags", [["eu", "us", "else", "asia"], ["else", "eu", "eu", "eu"]])
def test_by_tag(store: Store, most: int, tags: list[str]) -> None:
    """Where masks collide the record decides. Every message is on one page, though pages may be short."""
    store.append(tagged_batch(tags * 10))
    with_tag = [due_ms for due_ms, _ in pages(store, Selection(OPEN, Predicate(tags=Tagged("eu"))), most)]
    assert with_tag == [DUE + row for row, tag in enumerate(tags * 10) if tag == "eu"]
    assert pages(store, Selection(OPEN, Predicate(tags=Tagged("zone"))), most) == []
    store.close()
