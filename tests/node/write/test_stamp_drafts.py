"""From messages to a Schedule: due times, topics, tags and keys end in the right columns and records."""

import numpy as np

from api.contract.checker import pack_headers
from api.port.port import MessageIn
from node.write.stamp_drafts import stamp_messages
from replication.command.schedule import Schedule
from storage.format.predicate import tags_mask
from storage.record.record import decode_records, patch

NOW = 1_700_000_000_000


def encode(*messages: MessageIn) -> Schedule:
    """The Schedule of these messages, and their records as they stand before apply."""
    random = np.arange(1, len(messages) + 1, dtype=np.uint64)
    return stamp_messages(messages, now_ms=NOW, random=random)


def test_due_times_are_absolute_and_never_before_now() -> None:
    """Delay, instant, neither, and an instant in the past."""
    schedule = encode(
        MessageIn("a", b"1", delay_ms=5),
        MessageIn("a", b"1", due_ms=NOW + 7),
        MessageIn("a", b"1"),
        MessageIn("a", b"1", due_ms=NOW - 7),
    )
    assert schedule.due_ms.tolist() == [NOW + 5, NOW + 7, NOW, NOW]
    all_at = encode(MessageIn("a", b"1", due_ms=NOW - 1), MessageIn("a", b"1", due_ms=NOW + 1))
    assert all_at.due_ms.tolist() == [NOW, NOW + 1]


def test_topics_are_numbered_once() -> None:
    """Distinct names, and each row's index into them."""
    schedule = encode(MessageIn("b", b"1"), MessageIn("a", b"1"), MessageIn("b", b"1"))
    assert (schedule.topics, schedule.topic.tolist()) == (("b", "a"), [0, 1, 0])


def test_optional_columns_are_there_only_when_used() -> None:
    """Tags give each row a mask; keys name their row, fingerprint and rule."""
    plain = encode(MessageIn("a", b"1"))
    assert (len(plain.tags), plain.keys) == (0, ())
    schedule = encode(
        MessageIn("a", b"1"),
        MessageIn("a", b"1", tags=("eu", "vip"), key="k", fingerprint=b"f" * 16, on_conflict="keep"),
    )
    assert schedule.tags.tolist() == [0, tags_mask((b"eu", b"vip"))]
    assert schedule.tags[1] == tags_mask((b"eu",)) | tags_mask((b"vip",))
    (key,) = schedule.keys
    assert (key.row, key.key, key.fingerprint, key.on_conflict) == (1, b"k", b"f" * 16, 1)


def test_records_hold_what_was_sent() -> None:
    """Body, content type, tags, headers and key come back from the record, byte for byte."""
    message = MessageIn(
        "a",
        b'{"x": 1 }',
        content_type="text/plain",
        tags=("eu",),
        headers=pack_headers({"h": "v"}),
        key="ä",
        fingerprint=b"f" * 16,
    )
    schedule = encode(message, MessageIn("a", b"2"))
    words = np.frombuffer(schedule.blob, np.uint64).copy()
    ones = np.ones(2, np.int64)
    starts = patch(
        words, schedule.size, group=0, hour=ones, global_index=ones, topic=ones.astype(np.uint32), created_ms=NOW
    )
    one, two = decode_records(words.tobytes(), (starts * 8).tolist(), "log", (starts * 8).tolist())
    assert (one.body, one.content_type, one.tags, one.headers) == (b'{"x": 1 }', "text/plain", ("eu",), {"h": "v"})
    assert (one.key.decode(), two.body, two.key, two.tags) == ("ä", b"2", b"", ())
