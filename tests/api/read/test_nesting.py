"""The depth of a document: one bound, the same on every interpreter, wherever the brackets stand."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.port.port import Limits
from api.port.problem import Problem
from api.read.document import split_object
from api.read.message import parse_message
from api.read.nesting import NESTING_MAX, nests_within

LIMITS = Limits()
VALUES = st.recursive(
    st.text(alphabet='a"\\[]{}\n', max_size=6) | st.integers() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='a"\\[{', max_size=3), inner, max_size=3)
    ),
    max_leaves=30,
)


def depth(value: object) -> int:
    """The plain way to count."""
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@given(VALUES, st.booleans())
def test_counts_as_the_plain_way_does(value: object, by_msgspec: bool) -> None:
    """Whatever stands in strings and names, escaped or not."""
    data = msgspec.json.encode(value) if by_msgspec else json.dumps(value).encode()
    for levels in range(depth(value) + 3):
        assert nests_within(data, levels) == (depth(value) <= levels)


def nested(levels: int) -> bytes:
    """A message of so many levels, its own included."""
    return b'{"topic":"a","body":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


@pytest.mark.parametrize("space", [b"", b" "])
def test_the_last_level_that_is_taken(space: bytes) -> None:
    """At the limit a message is scheduled, one above it is refused with the limit's name, by either reader."""
    assert parse_message(nested(NESTING_MAX) + space, 0, LIMITS).body == b"[" * 255 + b"]" * 255
    assert split_object(nested(NESTING_MAX))
    for read in (lambda data: parse_message(data, 0, LIMITS), split_object):
        for levels in (NESTING_MAX + 1, 5_000, 100_000):
            with pytest.raises(Problem, match=r"at most 256 levels") as refused:
                read(nested(levels) + space)
            assert refused.value.code == "malformed-json"


@pytest.mark.parametrize("name", ["tags", "target", "retry", "headers", "unknown"])
def test_no_field_hides_levels(name: str) -> None:
    """Nor one that is refused anyway."""
    data = b'{"topic":"a","body":1,"%s":%s}' % (name.encode(), b"[" * 300 + b"]" * 300)
    with pytest.raises(Problem, match="levels"):
        parse_message(data, 0, LIMITS)
