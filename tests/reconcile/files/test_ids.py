"""Ids by the column: what the service's own codec says, and what is none."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from reconcile.files.ids import decode_ids, id_column
from storage.format.message_id import BadId, decode_id, encode_ids
from tests.examples import examples

U64 = np.uint64
HOMES = st.integers(0, (1 << 63) - 1)
RANDOMS = st.integers(0, (1 << 50) - 1)


@examples(100)
@given(st.lists(st.tuples(HOMES, RANDOMS), max_size=20), st.integers(0, 4095))
def test_there_and_back(named: list[tuple[int, int]], group: int) -> None:
    """Ids written by the column are those of storage.format.message_id, and come back as they went."""
    homes, randoms = (np.array(column, U64) for column in zip(*named, strict=True)) if named else ([], [])
    homes, randoms = np.asarray(homes, U64), np.asarray(randoms, U64)
    texts = id_column(group, homes, randoms)
    assert texts.to_pylist() == [text.decode() for text in encode_ids(group, homes, randoms).tolist()]
    back = decode_ids(texts, group)
    assert back[0].tolist() == homes.tolist()
    assert back[1].tolist() == randoms.tolist()
    assert back[2].all()


@examples(100)
@given(st.lists(st.one_of(st.none(), st.text(max_size=30), st.text("0123456789ABCDEFGHJKMNPQRSTVWXYZabcu", min_size=26, max_size=26)), max_size=20))  # fmt: skip  # noqa: E501
def test_what_is_an_id_is_what_the_service_takes_for_one(texts: list[str | None]) -> None:
    """Any text is an id here if and only if the service's decoder accepts it, and says the same of it."""
    homes, randoms, sound = decode_ids(pa.array(texts, pa.string()), 0)
    for row, text in enumerate(texts):
        try:
            expected = decode_id(text or "")
        except BadId:
            assert not sound[row]
            continue
        assert bool(sound[row]) == (expected.group == 0)
        if sound[row]:
            assert (int(homes[row]), int(randoms[row])) == (expected.position, expected.random)


def test_a_slice_of_a_column_is_decoded_as_such() -> None:
    """Arrow columns may begin inside their buffers."""
    texts = id_column(0, np.arange(5, dtype=U64), np.arange(5, dtype=U64))
    homes, _, sound = decode_ids(texts.slice(2, 2), 0)
    assert homes.tolist() == [2, 3]
    assert sound.all()
