"""A window is a queue that filters may take from the middle of."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from node.ready.topic_window import Found, Queued, Window
from storage.format.predicate import TagFilter, tags_mask

A, B = TagFilter.of([["a"]]), TagFilter.of([["b"]])
assert A is not None
assert B is not None
FILTERS = (A, B)
TAGS = ("a", "b", "c")


def units(first: int, count: int) -> Queued:
    """Units numbered from `first`, tagged a, b, c in turn, due by their number."""
    at = np.arange(first, first + count, dtype=np.uint64)
    masks = [tags_mask([TAGS[i % 3].encode()]) for i in range(first, first + count)]
    return Queued.of(at, np.array(masks, np.uint64), at.astype(np.int64) - 5)


def listed(queued: Queued) -> list[int]:
    """Positions; every unit has its own mask and due time still."""
    positions: list[int] = queued.position.tolist()
    assert queued.due_ms.tolist() == [i - 5 for i in positions]
    assert queued.tags.tolist() == [tags_mask([TAGS[i % 3].encode()]) for i in positions]
    return positions


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["push", "push", "back", "take", "shed", "find a", "find b", "leave a", "leave b"]),
        st.integers(0, 9),
    ),
    max_size=60,
)


@given(STEPS)
def test_a_window_is_a_queue_with_filtered_takes(steps: list[tuple[str, int]]) -> None:
    """Against a list: pushed behind, taken and put back in front, shed from behind, taken out of the middle. A filter
    finds every unit it wants and has not left there, in order, and never again one it left, unless all begins anew."""
    window, model, fresh = Window(), list[int](), 0
    left: dict[TagFilter, set[int]] = {tags: set() for tags in FILTERS}
    for what, n in steps:
        if what in ("push", "back"):
            new = list(range(fresh, fresh + n))
            fresh += n
            model = model + new if what == "push" else new + model
            (window.push if what == "push" else window.put_back)(units(new[0] if new else 0, n))
            if what == "back" and n:
                left = {tags: set() for tags in FILTERS}
        elif what == "take":
            assert listed(window.take(n)) == model[:n]
            model = model[n:]
        elif what == "shed":
            keep = min(n, len(model))
            assert sorted(listed(window.shed(keep))) == sorted(model[keep:])
            model = model[:keep]
        else:
            tags, index = (FILTERS[0], 0) if what[-1] == "a" else (FILTERS[1], 1)
            found = window.find(tags, n + 1)
            wanted = [i for i in model if i % 3 == index and i not in left[tags]][: n + 1]
            again = [i for i in listed(found.units) if i not in left[tags]]
            assert again == wanted[: len(again)], "in order, none passed over"
            assert len(again) == len(wanted) or len(found.units) == n + 1
            if what.startswith("find"):
                window.remove(found.number)
                gone = set(listed(found.units))
                model = [i for i in model if i not in gone]
            else:
                left[tags] |= set(listed(found.units))
            window.looked(tags, found.upto)
        assert window.count == len(model)
        assert not (any(i % 3 == 0 and i not in left[FILTERS[0]] for i in model) and not any_left(window))
    assert listed(window.take(10_000)) == model


def any_left(window: Window) -> bool:
    """Whether the window says that filter a should look again, or a look has found its end."""
    found: Found = window.find(FILTERS[0], 1)
    return window.fresh(FILTERS[0]) and len(found.units) == 1


def test_what_a_filter_left_it_does_not_see_again_until_something_comes() -> None:
    """A look over a window of others is done once; a new unit is found without looking at the old ones again."""
    window = Window()
    window.push(Queued.of(np.arange(50_000, dtype=np.uint64), *np.zeros((2, 50_000), np.int64)))
    found = window.find(FILTERS[0], 10)
    window.looked(FILTERS[0], found.upto)
    assert len(found.units) == 0
    assert not window.fresh(FILTERS[0])
    assert not window.fresh(FILTERS[1]), "it looks, and there is nothing that it may want"
    window.push(units(60_000, 1))
    assert not window.fresh(FILTERS[1])
    assert window.fresh(FILTERS[0])
    assert listed(window.find(FILTERS[0], 10).units) == [60_000]
    window.put_back(units(0, 3))
    assert listed(window.find(FILTERS[0], 10).units) == [0, 60_000]


def test_units_that_drip_in_do_not_become_a_list_of_tiny_arrays() -> None:
    """Thousands of single pushes leave a few arrays; filtered takes add no more than that."""
    window = Window()
    for i in range(5_000):
        window.push(units(i, 1))
    assert len(window._chunks()) <= 13
    for _ in range(500):
        found = window.find(FILTERS[0], 2)
        window.remove(found.number)
    assert window.count == 4_000
    assert len(window._chunks()) <= 26
    assert listed(window.take(4)) == [1, 2, 4, 5]
