"""Commands of operations that cannot be are refused as whole entries, before anything is applied."""

from typing import Any

import numpy as np
import pytest

from replication.command.column import pack_columns, pack_map
from replication.command.entry import EntryRefused, Kind, Section, decode_entry, encode_entry
from replication.command.operation import BeginOperation, OperationChunk

BEGIN: dict[str, Any] = {
    "kind": "cancel", "namespace": "default", "topics": ["orders"], "from_ms": None, "to_ms": None, "tag": None,
    "note": "", "mark": 7,
}  # fmt: skip
CHUNK: dict[str, Any] = {"number": 5, "begin": [0, 0], "end": [0, 9], "last": False}


def section(kind: Kind, value: dict[str, Any], rows: int = 1, places: int = 0) -> Section:
    """A section with this map, and so many places behind it."""
    payload = [pack_map(value), *pack_columns(np.arange(places, dtype=np.uint64))]
    entry = encode_entry(group=0, term=1, node=1, now_ms=1, sections=[(kind, rows, payload)])
    (found,) = decode_entry(entry).sections
    return found


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"kind": "melt"}, "operation 'melt'"),
        ({"kind": None}, r"Expected `str`, got `null` - at `\$.kind`"),
        ({"topics": "orders"}, r"got `str` - at `\$.topics`"),
        ({"topics": [1]}, r"Expected `str`, got `int` - at `\$.topics\[0\]`"),
        ({"from_ms": "now"}, r"got `str` - at `\$.from_ms`"),
        ({"to_ms": True}, r"got `bool` - at `\$.to_ms`"),
        ({"tag": 1}, r"got `int` - at `\$.tag`"),
        ({"note": None}, r"got `null` - at `\$.note`"),
        ({"mark": None}, "mark: int expected"),
    ],
)
def test_a_begin_that_cannot_be(wrong: dict[str, Any], says: str) -> None:
    """Each field by name."""
    assert BeginOperation.unpack(section(Kind.BEGIN_OPERATION, BEGIN)).wish.topics == ("orders",)
    with pytest.raises(EntryRefused, match=says):
        BeginOperation.unpack(section(Kind.BEGIN_OPERATION, BEGIN | wrong))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"number": "5"}, "number: int expected"),
        ({"begin": [0, -1]}, "begin: a due time and a position expected"),
        ({"begin": [0]}, "begin: a due time and a position expected"),
        ({"begin": [0, True]}, "begin: a due time and a position expected"),
        ({"end": None}, "end: list expected"),
        ({"last": 1}, "last: bool expected"),
    ],
)
def test_a_chunk_that_cannot_be(wrong: dict[str, Any], says: str) -> None:
    """Each field by name."""
    assert OperationChunk.unpack(section(Kind.OPERATION_CHUNK, CHUNK, 3, 3)).place.tolist() == [0, 1, 2]
    with pytest.raises(EntryRefused, match=says):
        OperationChunk.unpack(section(Kind.OPERATION_CHUNK, CHUNK | wrong, 3, 3))


def test_a_chunk_of_another_length() -> None:
    """Fewer places than rows, and more."""
    for places in (2, 4):
        with pytest.raises(EntryRefused, match="bytes"):
            OperationChunk.unpack(section(Kind.OPERATION_CHUNK, CHUNK, 3, places))
