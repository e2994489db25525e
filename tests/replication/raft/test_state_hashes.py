"""The ring of rolling hashes: what was noted is there until it is overwritten, and nothing else is."""

from hypothesis import given
from hypothesis import strategies as st

from replication.raft.state_hashes import StateHashes


@given(
    st.lists(st.integers(1, 3 * StateHashes.SIZE), unique=True, min_size=1, max_size=50).map(sorted),
    st.integers(0, 10**6),
)
def test_a_hash_is_found_by_its_index_alone(indexes: list[int], asked: int) -> None:
    """Indexes have gaps (no-ops are not applied): in a gap, before the first and past the last there is nothing."""
    sums = StateHashes()
    for index in indexes:
        sums.note(index, index.to_bytes(16, "big"))
    assert sums.newest == indexes[-1]
    for index in (*indexes, asked):
        kept = index in indexes and not any(
            other % StateHashes.SIZE == index % StateHashes.SIZE for other in indexes if other > index
        )
        assert sums.at(index) == (index.to_bytes(16, "big") if kept else None)


def test_before_the_first_there_is_nothing() -> None:
    """Index 0 is no entry, although its slot looks like one."""
    assert StateHashes().at(0) is None
    assert StateHashes().newest == 0
