"""The chain of a second, against a sorted list."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.format.array import I64
from storage.format.chain import Heads, seconds_of, walk
from storage.format.rows import UNIT, Corrupt, Units
from tests.examples import examples


class Index:
    """An index file in memory that counts what is read of it."""

    def __init__(self, batches: Sequence[Sequence[int]]) -> None:
        self.heads = Heads()
        self.units: Units = np.empty(0, UNIT)
        self.reads: list[int] = []
        self.checks: list[int] = []
        for batch in batches:
            units = np.zeros(len(batch), UNIT)
            units["due_ms"] = batch
            units["global_index"] = np.arange(len(self.units), len(self.units) + len(batch))
            if len(batch):
                self.heads.link(units)
            self.units = np.concatenate((self.units, units))

    name = "hour/index"

    def row_bytes(self, row: int) -> bytes:
        """A unit as it stands there."""
        return bytes(self.read_rows(row, 1).tobytes())

    def checked(self, data: bytes, at: I64) -> Units:
        """The units of these bytes."""
        units = np.frombuffer(data, UNIT)
        assert units["global_index"].tolist() == at.tolist()
        self.checks += at.tolist()
        return units

    def read_rows(self, first: int, count: int) -> Units:
        """Rows as the index file would give them."""
        assert first >= 0
        assert first + count <= len(self.units)
        self.reads.append(count)
        return self.units[first : first + count]

    def second(self, second: int) -> Units:
        """Walk one second's chain."""
        return walk(second, *self.heads.second(second), self)


@examples(150)
@given(
    st.lists(st.lists(st.integers(0, 3_599_999), max_size=30), max_size=8),
    st.sampled_from([1, 1_000, 60_000, 3_600_000]),
)
def test_chain_against_a_sorted_list(batches: list[list[int]], width: int) -> None:
    """However units arrive, each second reads back as the list of its units in order of arrival, counted from 0."""
    batches = [[due % width for due in batch] for batch in batches]
    arrived = [due for batch in batches for due in batch]
    index = Index(batches)
    expected: dict[int, list[int]] = {}
    for place, due in enumerate(arrived):
        expected.setdefault(due // 1000, []).append(place)
    assert index.heads.count.sum() == len(arrived)
    for second in {*expected, 0, 3599}:
        units = index.second(second)
        assert units["global_index"].tolist() == expected.get(second, [])
        assert units["local_index"].tolist() == list(range(len(units)))
        assert units["pre_global_index"].tolist() == [-1, *expected.get(second, [])][: len(units)]


@given(st.lists(st.integers(0, 3_599_999), min_size=1, max_size=60), st.integers(1, 59))
def test_batches_do_not_matter(due_ms: list[int], cut: int) -> None:
    """Linked at once or in two batches, units and heads are the same; and heads rebuilt from units are, too."""
    whole, halves = Index([due_ms]), Index([due_ms[:cut], due_ms[cut:]])
    assert whole.units.tobytes() == halves.units.tobytes()
    rebuilt = Heads()
    rebuilt.absorb(whole.units)
    for heads in (halves.heads, rebuilt):
        assert np.array_equal(heads.after, whole.heads.after)
        assert np.array_equal(heads.count, whole.heads.count)


def test_dense_chains_are_read_in_blocks() -> None:
    """A second whose units stand together costs a few reads, whatever it holds."""
    index = Index([[5_000 + place % 1000 for place in range(200_000)]])
    assert len(index.second(5)) == 200_000
    assert len(index.reads) < 15


def test_thin_chains_are_read_link_by_link() -> None:
    """A second whose units stand far apart does not make the walk read what lies between."""
    index = Index([[place % 3600 * 1000 for place in range(360_000)]])
    assert len(index.second(17)) == 100
    assert sum(index.reads) < 1_000
    assert index.checks == [17 + 3600 * turn for turn in range(100)]


def test_a_mixed_chain() -> None:
    """A chain that is thin, dense and thin again is read whole, and with far fewer rows than the file has."""
    thin = [place % 3600 * 1000 for place in range(72_000)]
    index = Index([thin, [17_000] * 5_000, thin])
    units = index.second(17)
    assert len(units) == 5_040
    assert (seconds_of(units["due_ms"]) == 17).all()
    assert sum(index.reads) < 60_000


@pytest.mark.parametrize(
    ("row", "field", "value"),
    [
        (0, "pre_global_index", 3),
        (500, "pre_global_index", -1),
        (500, "pre_global_index", 100),
        (999, "local_index", 3),
        (999, "due_ms", 9_000),
        (500, "due_ms", 9_000),
    ],
)
@pytest.mark.parametrize("step", [1, 100])
def test_a_broken_chain_is_corrupt(row: int, field: str, value: int, step: int) -> None:
    """A link that leads elsewhere, a count that jumps, a unit of another second: the walk stops, never misleads."""
    due = [(17_000 if place % step == 0 else 8_000) for place in range(1_000 * step)]
    index = Index([due])
    index.units[field][row * step] = value
    with pytest.raises(Corrupt, match="chain of second 17"):
        index.second(17)


def test_seconds_of() -> None:
    """Milliseconds round down to their second of the hour."""
    due = np.array([0, 999, 1_000, 3_599_999, 3_600_000, 490_000 * 3_600_000 + 61_001])
    assert seconds_of(due).tolist() == [0, 0, 1, 3599, 0, 61]
