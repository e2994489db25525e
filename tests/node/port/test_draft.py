"""Drafts: made without a clock and without chance, cut and joined without a loss, refused where columns differ."""

from typing import Any

import msgpack
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.contract.checker import pack_headers
from api.port.message import Target
from api.port.port import MessageIn
from node.port.codec import decode, encode
from node.port.draft import Draft, check_draft, encode_draft, join_drafts, part_of, rows_of
from node.port.plain import BadColumns
from node.write.stamp_drafts import stamp_draft, stamp_messages

NOW = 1_700_000_000_000
TEXT = st.text(min_size=1, max_size=20)
MESSAGES = st.lists(
    st.builds(
        MessageIn,
        topic=st.sampled_from(["a", "b", "c"]),
        body=st.binary(max_size=40),
        content_type=st.sampled_from(["", "text/plain"]),
        due_ms=st.none() | st.integers(0, NOW + 10_000),
        tags=st.lists(TEXT, max_size=3).map(tuple),
        headers=st.dictionaries(TEXT, TEXT, max_size=3).map(lambda some: pack_headers(some) if some else b""),
        key=st.none() | TEXT,
        on_conflict=st.sampled_from(["reject", "keep"]),
        target=st.none() | st.just(Target(url="https://x/")),
        extension=st.sampled_from([b"", msgpack.packb({"retry": {"max_attempts": 3}})]),
    ).flatmap(
        lambda message: st.integers(0, 10_000).map(
            lambda delay_ms: message if message.due_ms is not None else replaced(message, delay_ms=delay_ms)
        )
    ),
    min_size=1,
    max_size=12,
)


def replaced(message: MessageIn, **fields: Any) -> MessageIn:
    """The same with other fields."""
    return msgspec.structs.replace(message, **fields)


def stamped(draft: Draft) -> Any:
    """What its Schedule is packed to."""
    random = np.arange(1, len(draft) + 1, dtype=np.uint64)
    return stamp_draft(draft, now_ms=NOW, random=random).pack()


def told(draft: Draft) -> list[Any]:
    """What its Schedule says of each row."""
    random = np.arange(1, len(draft) + 1, dtype=np.uint64)
    schedule = stamp_draft(draft, now_ms=NOW, random=random)
    tags = schedule.tags.tolist() or [0] * len(draft)
    edges = [0, *np.cumsum(schedule.size).tolist()]
    keys = {key.row: (key.key, key.fingerprint, key.on_conflict) for key in schedule.keys}
    return [
        (
            schedule.topics[topic],
            schedule.due_ms[row],
            schedule.blob[edges[row] : edges[row + 1]],
            tags[row],
            keys.get(row),
        )
        for row, topic in enumerate(schedule.topic.tolist())
    ]


@given(MESSAGES)
def test_a_draft_becomes_the_schedule_that_its_messages_do(messages: list[MessageIn]) -> None:
    """Byte for byte, whichever way they come; by the codec too, and joined of drafts of one message each."""
    random = np.arange(1, len(messages) + 1, dtype=np.uint64)
    expected = stamp_messages(messages, now_ms=NOW, random=random).pack()
    draft = encode_draft(messages)
    check_draft(draft)
    assert decode(Draft, encode(draft)) == draft
    assert stamped(draft) == expected
    ones = [encode_draft([message]) for message in messages]
    for one in ones:
        check_draft(one)
    assert stamped(join_drafts(ones)) == expected


@given(MESSAGES, st.data())
def test_rows_of_a_draft_are_the_draft_of_those_rows(messages: list[MessageIn], data: st.DataObject) -> None:
    """Cut anywhere, and picked one by one."""
    start = data.draw(st.integers(0, len(messages) - 1))
    stop = data.draw(st.integers(start + 1, len(messages)))
    draft = encode_draft(messages)
    part = part_of(draft, start, stop)
    check_draft(part)
    assert told(part) == told(encode_draft(messages[start:stop]))
    assert set(part.topics) == {message.topic for message in messages[start:stop]}
    rows = sorted(data.draw(st.sets(st.integers(0, len(messages) - 1), min_size=1)))
    assert told(rows_of(draft, rows)) == told(encode_draft([messages[row] for row in rows]))


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("topics", (), "Draft.topic: a row names topic 0 of 0"),
        ("topic", b"\x09\0", "Draft.topic"),
        ("due_ms", b"", "Draft.due_ms: 0 bytes"),
        ("size", b"1234", "Draft.(size|records)"),
        ("records", b"", "Draft.records: 0 bytes"),
        ("relative", b"\x02", "Draft.(relative|topic)"),
        ("tags", b"1", "Draft.tags: 1 bytes, none or"),
        ("fields", b"1", "Draft.fields: 1 bytes, none or"),
        ("targeted", b"12", "Draft.targeted: 2 bytes, none or"),
    ],
)
def test_columns_that_do_not_agree_are_named(count: int, column: str, value: Any, says: str) -> None:
    """One row or several: what would be read as another message is refused."""
    draft = encode_draft([MessageIn("t", b"1", tags=("x",), target=Target(url="https://x/"))] * count)
    with pytest.raises(BadColumns, match=says):
        check_draft(msgspec.structs.replace(draft, **{column: value}))


def test_a_draft_without_rows_and_a_key_of_a_row_that_is_not_there_are_refused() -> None:
    """By name."""
    with pytest.raises(BadColumns, match="a draft has a row at least"):
        check_draft(Draft((), b"", b"", b"", b"", b""))
    draft = encode_draft([MessageIn("t", b"1", key="k")])
    with pytest.raises(BadColumns, match=r"Draft\.keys: one names row 1 of 1"):
        check_draft(msgspec.structs.replace(draft, keys=(msgspec.structs.replace(draft.keys[0], row=1),)))


@pytest.mark.parametrize("count", [1, 2])
def test_a_record_that_is_no_record_is_refused(count: int) -> None:
    """Its due time would be written into its neighbour, or past the end."""
    whole = encode_draft([MessageIn("t", b"1")])
    short = msgspec.structs.replace(whole, size=(8).to_bytes(4, "little"), records=bytes(8))
    with pytest.raises(BadColumns, match=r"Draft\.records"):
        check_draft(join_drafts([short, whole][:count]))


@pytest.mark.parametrize("count", [1, 3])
def test_what_no_front_makes_and_no_entry_takes_is_refused(count: int) -> None:
    """A record of 9 MB, more topics than rows, and two keys of one row ended the group that joined them with others."""
    draft = encode_draft([MessageIn("t", b"1", key=f"k{row}") for row in range(count)])
    with pytest.raises(BadColumns, match=r"Draft\.topics: 4 of"):
        check_draft(msgspec.structs.replace(draft, topics=("t", "u", "v", "w")))
    large = encode_draft([MessageIn("t", bytes(9_000_000))] * count)
    with pytest.raises(BadColumns, match=r"Draft\.records: one of 9"):
        check_draft(large)
    with pytest.raises(BadColumns, match=r"Draft\.keys: one names row 0 of"):
        check_draft(msgspec.structs.replace(draft, keys=(draft.keys[0], draft.keys[0])))
