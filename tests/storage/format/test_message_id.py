"""Ids: positions that read back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.format.message_id import ALPHABET, BadId, decode_id, encode_ids
from storage.format.position import HOUR_MAX, INDEX_MAX, pack


def encode_id(group: int, position: int, random: int) -> str:
    """One id as text."""
    (text,) = encode_ids(group, np.array([position], np.uint64), np.array([random], np.uint64)).tolist()
    return str(text.decode("ascii"))


@given(st.integers(0, 4095), st.integers(0, HOUR_MAX), st.integers(0, INDEX_MAX), st.integers(0, 2**50 - 1))
def test_round_trip(group: int, hour: int, index: int, random: int) -> None:
    """An id gives back all its parts, in either case."""
    text = encode_id(group, pack(hour, index), random)
    assert len(text) == 26
    for form in (text, text.lower()):
        found = decode_id(form)
        assert (found.version, found.group, found.hour) == (1, group, hour)
        assert (found.global_index, found.random) == (index, random)
        assert found.position == pack(hour, index)


def test_a_known_id() -> None:
    """The text of an id is a format: this one must be read for ever."""
    known = "202GEYGG003NQK8NNAN9ANA3RF"
    assert encode_id(5, pack(490_000, 123_456_789), 0x2_AAAA_5555_0F0F) == known
    found = decode_id(known)
    assert (found.hour, found.global_index, found.random) == (490_000, 123_456_789, 0x2_AAAA_5555_0F0F)


def test_batch_is_the_same_as_one_by_one() -> None:
    """Vectorised encoding gives what single encoding gives, in order; more than 50 random bits are cut."""
    rng = np.random.default_rng(3)
    positions = rng.integers(0, 2**63, 500, np.uint64)
    random = rng.integers(0, 2**64, 500, np.uint64, endpoint=False)
    ids = encode_ids(7, positions, random)
    assert ids.dtype == np.dtype("S26")
    for text, position, bits in zip(ids.tolist(), positions.tolist(), random.tolist(), strict=True):
        assert text.decode() == encode_id(7, position, bits & 2**50 - 1)
    assert len(encode_ids(0, positions[:0], random[:0])) == 0


def test_ids_sort_like_positions() -> None:
    """Within a group the text order is the order of positions: the alphabet rises."""
    assert list(ALPHABET) == sorted(ALPHABET)
    positions = np.sort(np.random.default_rng(4).integers(0, 2**63, 200, np.uint64))
    ids = encode_ids(0, positions, np.zeros(200, np.uint64)).tolist()
    assert ids == sorted(ids)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "26 characters"),
        ("2" * 25, "26 characters"),
        ("2" * 27, "26 characters"),
        ("2" + "I" * 25, "'I'"),
        ("2" + "0" * 24 + "o", "'o'"),
        ("2" + "0" * 24 + "é", "'é'"),
        ("2" + "0" * 24 + "-", "'-'"),
        ("0" * 26, "version 0"),
        ("Z" * 26, "version 15"),
    ],
)
def test_bad_ids(text: str, why: str) -> None:
    """What is not an id says why."""
    with pytest.raises(BadId, match=why):
        decode_id(text)
