"""Messages to be written, in columns, as a front can make them without a clock and without chance.

    front: messages -- encode_draft --> Draft --> group: node/write/stamp_drafts.py fills in due times and random bits

A draft also has columns (TO_COME) for kinds of message that a later build will have. A group refuses a draft that fills
one of them, as `not-supported-yet`. This build does not know what such a column means, and no message may be taken for
one of another kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Annotated, Final

import msgpack
import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from api.port.message import Target
from api.port.port import EXTEND_DEFAULTS, MessageIn
from node.port.plain import U32, BadColumns, Ms, Plain
from storage.format.array import I64, U64
from storage.format.predicate import tags_mask
from storage.format.schedule_status import ON_CONFLICT
from storage.record.record import (
    RECORD_HEADER_SIZE,
    Drafts,
    RecordColumns,
    encode_one_record,
    encode_records,
    record_edges,
)

_topics = attrgetter("topic")
_keys = attrgetter("key")
_tags = attrgetter("tags")
_headers = attrgetter("headers")
_content_types = attrgetter("content_type")
_targets = attrgetter("target")
_extensions = attrgetter("extension")


class DraftKey(Plain, frozen=True):
    """The idempotency key of the message in row `row`. `on_conflict` is an index into ON_CONFLICT. `max_wait_ms` and
    `due_only` are those of an extend (replication/command/supersede.py)."""

    row: U32
    key: Annotated[bytes, Meta(min_length=1, max_length=255)]
    fingerprint: Annotated[bytes, Meta(min_length=16, max_length=16)]
    on_conflict: Annotated[int, Meta(ge=0, lt=len(ON_CONFLICT))]
    max_wait_ms: Ms = 0
    due_only: bool = False


class Draft(Plain, frozen=True):
    """New messages: n rows, one per message. Columns are little endian. A column that no message uses is empty."""

    topics: tuple[str, ...]  # the different topics
    topic: bytes  # n * u16, index into `topics`
    due_ms: bytes  # n * i64, a time, or a delay that begins when the entry is written
    relative: bytes  # n * u8, 1: `due_ms` is a delay
    size: bytes  # n * u32, bytes of each record, multiples of 8
    records: bytes  # one behind the other, with zeros for due time, random bits and id
    tags: bytes = b""  # n * u64, masks of the tags
    fields: bytes = b""  # n * u16, number of tags and headers
    targeted: bytes = b""  # n * u8, 1: has a target of its own
    keys: tuple[DraftKey, ...] = ()
    priority: bytes = b""
    expiry_ms: bytes = b""
    order_key: tuple[bytes, ...] = ()
    window: tuple[bytes, ...] = ()
    transaction: tuple[bytes, ...] = ()
    atomic: bool = False

    def __len__(self) -> int:
        return len(self.relative)


#: Columns of kinds of message that this build does not know.
TO_COME: Final = ("priority", "expiry_ms", "order_key", "window", "transaction", "atomic")


#: Bytes of one record: the largest body that can be set (`[limits] max_body_bytes`), and as many for everything else.
RECORD_BYTES_MAX: Final = 2 * 1024 * 1024
#: The columns of a draft of one row.
_FIRST_TOPIC: Final = bytes(2)
_ABSOLUTE, _RELATIVE, _TARGETED = b"\0", b"\1", b"\1"

#: Bytes a row of each column, and of the columns that may be empty.
_WIDTH: Final = {"topic": 2, "due_ms": 8, "relative": 1, "size": 4}
_OPTIONAL: Final = {"tags": 8, "fields": 2, "targeted": 1}


def check_draft(draft: Draft) -> None:
    """Raise BadColumns for a draft whose columns do not fit together. A draft of one row, as most are, is checked
    without an array."""
    rows = len(draft)
    if rows == 1 and _is_sound_one(draft):
        return
    for name, width in _WIDTH.items():
        if len(getattr(draft, name)) != rows * width:
            raise BadColumns(f"Draft.{name}: {len(getattr(draft, name))} bytes, {rows * width} expected")
    for name, width in _OPTIONAL.items():
        if len(getattr(draft, name)) not in (0, rows * width):
            raise BadColumns(f"Draft.{name}: {len(getattr(draft, name))} bytes, none or {rows * width} expected")
    if not rows:
        raise BadColumns("Draft.relative: a draft has a row at least")
    sizes = np.frombuffer(draft.size, np.uint32)
    topic, size = int(np.frombuffer(draft.topic, np.uint16).max()), int(sizes.sum(dtype=np.uint64))
    odd = bool((sizes % 8).any()) or int(sizes.min()) < RECORD_HEADER_SIZE
    if max(draft.relative) > 1:
        raise BadColumns(f"Draft.relative: {max(draft.relative)} is neither 0 nor 1")
    if topic >= len(draft.topics):
        raise BadColumns(f"Draft.topic: a row names topic {topic} of {len(draft.topics)}")
    if len(draft.topics) > rows:
        raise BadColumns(f"Draft.topics: {len(draft.topics)} of {rows} rows")
    if odd or size != len(draft.records):
        said = f"{size} by their sizes, each a multiple of 8 and a header at least"
        raise BadColumns(f"Draft.records: {len(draft.records)} bytes, {said}")
    if int(sizes.max()) > RECORD_BYTES_MAX:
        raise BadColumns(f"Draft.records: one of {int(sizes.max())} bytes; the limit is {RECORD_BYTES_MAX}")
    before = -1
    for key in draft.keys:
        if not before < key.row < rows:
            raise BadColumns(f"Draft.keys: one names row {key.row} of {rows}, behind one of row {before}")
        before = key.row


def _is_sound_one(draft: Draft) -> bool:
    """True if the columns of this draft of one row fit together. False also if it has rare fields: then the checks for
    drafts of any size decide."""
    size = len(draft.records)
    fixed = len(draft.due_ms) == 8 and len(draft.size) == 4 and draft.topic == _FIRST_TOPIC and len(draft.topics) == 1
    if not fixed or int.from_bytes(draft.size, "little") != size or size & 7 or size < RECORD_HEADER_SIZE:
        return False
    if size > RECORD_BYTES_MAX:
        return False
    if draft.relative[0] > 1 or draft.keys:
        return False
    return len(draft.tags) in (0, 8) and len(draft.fields) in (0, 2) and len(draft.targeted) in (0, 1)


def part_of(draft: Draft, start: int, stop: int) -> Draft:
    """Return a draft with the rows from `start` to before `stop`, and only the topics that they name."""
    if (start, stop) == (0, len(draft)):
        return draft
    return rows_of(draft, range(start, stop))


def rows_of(draft: Draft, rows: Sequence[int]) -> Draft:
    """Return a draft with these rows, given in ascending order, and only the topics that they name."""
    at = np.array(rows, np.intp)
    edges = 8 * record_edges(np.frombuffer(draft.size, np.uint32))
    begins, ends = edges[at].tolist(), edges[at + 1].tolist()
    used, topic = np.unique(np.frombuffer(draft.topic, np.uint16)[at], return_inverse=True)
    columns = {}
    for name, width in (_WIDTH | _OPTIONAL).items():
        data = getattr(draft, name)
        columns[name] = np.frombuffer(data, f"V{width}")[at].tobytes() if data else data
    columns["topic"] = topic.astype(np.uint16).tobytes()
    new_row = {row: number for number, row in enumerate(rows)}
    return msgspec.structs.replace(
        draft,
        **columns,
        topics=tuple(draft.topics[number] for number in used.tolist()),
        records=b"".join([draft.records[begin:end] for begin, end in zip(begins, ends, strict=True)]),
        keys=tuple(msgspec.structs.replace(key, row=new_row[key.row]) for key in draft.keys if key.row in new_row),
    )


def rows_alone(draft: Draft, rows: Sequence[int]) -> Iterator[Draft]:
    """Yield a draft of each of these rows alone. The columns are read once, however many rows there are."""
    edges: list[int] = (8 * record_edges(np.frombuffer(draft.size, np.uint32))).tolist()
    topic: list[int] = np.frombuffer(draft.topic, np.uint16).tolist()
    keys = {key.row: (msgspec.structs.replace(key, row=0),) for key in draft.keys}
    for row in rows:
        columns = {
            name: getattr(draft, name)[row * width : (row + 1) * width] for name, width in (_WIDTH | _OPTIONAL).items()
        }
        columns["topic"] = _FIRST_TOPIC
        records = draft.records[edges[row] : edges[row + 1]]
        yield msgspec.structs.replace(
            draft, **columns, topics=(draft.topics[topic[row]],), records=records, keys=keys.get(row, ())
        )


def join_drafts(drafts: Sequence[Draft]) -> Draft:
    """Join all rows of all drafts, in their order. The rows of a large draft are not touched one by one. Columns in
    TO_COME are left out, since a group refuses a draft that fills one."""
    if len(drafts) == 1:
        return drafts[0]
    topics: dict[str, int] = {}
    topic, keys, first = [], list[DraftKey](), 0
    for draft in drafts:
        numbers = [topics.setdefault(name, len(topics)) for name in draft.topics]
        if len(numbers) == 1:
            topic.append(numbers[0].to_bytes(2, "little") * len(draft))
        else:
            topic.append(np.array(numbers, np.uint16)[np.frombuffer(draft.topic, np.uint16)].tobytes())
        keys += [msgspec.structs.replace(key, row=key.row + first) for key in draft.keys]
        first += len(draft)

    def joined(name: str) -> bytes:
        return b"".join(map(attrgetter(name), drafts))

    def joined_if_any(name: str) -> bytes:
        parts, width = list(map(attrgetter(name), drafts)), _OPTIONAL[name]
        if not any(parts):
            return b""
        return b"".join(part or bytes(width * len(draft)) for part, draft in zip(parts, drafts, strict=True))

    return Draft(
        topics=tuple(topics),
        topic=b"".join(topic),
        due_ms=joined("due_ms"),
        relative=joined("relative"),
        size=joined("size"),
        records=joined("records"),
        tags=joined_if_any("tags"),
        fields=joined_if_any("fields"),
        targeted=joined_if_any("targeted"),
        keys=tuple(keys),
    )


def encode_draft(messages: Sequence[MessageIn]) -> Draft:
    """Encode messages in one pass over the fields that they have. A column that no message uses is not built."""
    count = len(messages)
    if count == 1:
        return _draft_of_one(messages[0])
    topics, topic = topics_of(messages)
    relative = np.fromiter((m.due_ms is None for m in messages), np.uint8, count)
    due_ms = np.fromiter((m.delay_ms or 0 if m.due_ms is None else m.due_ms for m in messages), np.int64, count)
    records, tags = encode_messages(messages, np.zeros(count, np.int64), np.zeros(count, np.uint64))
    targeted = np.fromiter((m.target is not None for m in messages), np.uint8, count)
    fields = np.fromiter((len(m.tags) + headers_in(m.headers) for m in messages), np.uint16, count)
    return Draft(
        topics=topics,
        topic=topic.tobytes(),
        due_ms=due_ms.tobytes(),
        relative=relative.tobytes(),
        size=records.size.tobytes(),
        records=records.blob,
        tags=tags.tobytes(),
        fields=fields.tobytes() if fields.any() else b"",
        targeted=targeted.tobytes() if targeted.any() else b"",
        keys=draft_keys(messages),
    )


def _draft_of_one(message: MessageIn) -> Draft:
    """Encode one message, as most requests have, without an array."""
    m, due_ms = message, message.due_ms
    tags = tuple(tag.encode() for tag in m.tags)
    record = encode_one_record(
        m.body,
        content_type=m.content_type.encode(),
        tags=tags,
        headers=m.headers,
        key=b"" if m.key is None else m.key.encode(),
        target=b"" if m.target is None else encode_target(m.target),
        extension=m.extension,
    )
    fields = len(tags) + headers_in(m.headers)
    return Draft(
        (m.topic,),
        _FIRST_TOPIC,
        (due_ms if due_ms is not None else m.delay_ms or 0).to_bytes(8, "little", signed=True),
        _RELATIVE if due_ms is None else _ABSOLUTE,
        len(record).to_bytes(4, "little"),
        record,
        tags_mask(tags).to_bytes(8, "little") if tags else b"",
        fields.to_bytes(2, "little") if fields else b"",
        b"" if m.target is None else _TARGETED,
        () if m.key is None else draft_keys((m,)),
    )


def topics_of(messages: Sequence[MessageIn]) -> tuple[tuple[str, ...], npt.NDArray[np.uint16]]:
    """Return the different topics of the messages, and for each message the index of its topic among them."""
    names = list(map(_topics, messages))
    topics = {name: number for number, name in enumerate(dict.fromkeys(names))}
    if len(topics) == 1:
        return tuple(topics), np.zeros(len(names), np.uint16)
    return tuple(topics), np.fromiter(map(topics.__getitem__, names), np.uint16, len(names))


def keys_of(messages: Sequence[MessageIn]) -> list[tuple[int, bytes, bytes, int]]:
    """Return row, key, fingerprint and index of `on_conflict` for each message that has a key."""
    if not _any_key(messages):
        return []
    return [
        (row, m.key.encode(), m.fingerprint or bytes(16), ON_CONFLICT.index(m.on_conflict))
        for row, m in enumerate(messages)
        if m.key is not None
    ]


def draft_keys(messages: Sequence[MessageIn]) -> tuple[DraftKey, ...]:
    """Return the keys of the messages, with what an extend says."""
    keys = keys_of(messages)
    extends = [messages[row].extend or EXTEND_DEFAULTS for row, *_ in keys]
    return tuple(DraftKey(*key, each.max_wait_ms, each.due_only) for key, each in zip(keys, extends, strict=True))


def _any_key(messages: Sequence[MessageIn]) -> bool:
    return list(map(_keys, messages)).count(None) < len(messages)


def encode_messages(messages: Sequence[MessageIn], asked_due_ms: I64, random: U64) -> tuple[RecordColumns, U64]:
    """Return the records of the messages, one behind the other, and for each message the bit-or of its tags' hashes.
    The latter is empty if no message has tags."""
    tags = [tuple(tag.encode() for tag in m.tags) for m in messages] if any(map(_tags, messages)) else None
    records = encode_records(
        Drafts(
            bodies=[m.body for m in messages],
            asked_due_ms=asked_due_ms,
            random=random,
            content_types=[m.content_type.encode() for m in messages] if any(map(_content_types, messages)) else None,
            tags=tags,
            headers=[m.headers for m in messages] if any(map(_headers, messages)) else None,
            keys=[(m.key or "").encode() for m in messages] if _any_key(messages) else None,
            targets=(
                [encode_target(m.target) if m.target else b"" for m in messages]
                if any(map(_targets, messages))
                else None
            ),
            extensions=[m.extension for m in messages] if any(map(_extensions, messages)) else None,
        )
    )
    return records, np.array([tags_mask(each) for each in tags or ()], np.uint64)


def encode_target(target: Target) -> bytes:
    """Return a message's own target as its record keeps it: a msgpack map of the fields that are set."""
    packed: bytes = msgpack.packb(
        {name: value for name, value in msgspec.structs.asdict(target).items() if value is not None}
    )
    return packed


def headers_in(packed: bytes) -> int:
    """Count the entries of a msgpack map of less than 65,536. The count stands in the map's first byte, or in the two
    bytes behind it."""
    if not packed:
        return 0
    return packed[0] & 0x0F if packed[0] & 0xF0 == 0x80 else int.from_bytes(packed[1:3], "big")
