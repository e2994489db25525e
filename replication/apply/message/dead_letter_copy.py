"""Copies of dead messages in the dead-letter topic that their own topic names.

The message itself stays where it died until that hour is unlinked. Until then it can be redriven. The copy is a message
of its own: born now and due now. It has a new id, whose random bits the leader drew. The field "dead" of its extension
describes the original.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from replication.apply.apply_notifier import Fresh
from replication.command.entry import Envelope
from storage.format.array import U16, U32, U64
from storage.format.batches import UnitBatch
from storage.format.message_id import encode_ids
from storage.format.rows import Units
from storage.record.record import Record, encode_records
from storage.record.record_rewrite import drafts_of, pack_map
from storage.store import Store
from storage.tables.topic import Topic

HOPS_MAX = 8
"""Dead-letter topics may have dead-letter topics of their own. A message is copied at most this many times in a row."""


class Copies(NamedTuple):
    """The new messages of `copy_dead`, and the numbers of the topics that were created for them."""

    fresh: Fresh
    created_topics: list[int]


def copy_dead(
    store: Store,
    place: U64,
    envelope: Envelope,
    *,
    floor_ms: int,
    code: U16,
    attempt: U16,
    random: U64,
    errors: Sequence[str],
) -> Copies | None:
    """Append copies of the dead messages at these places whose topic has a dead-letter topic. None if no message is
    copied.

    The arguments beside `place` have a value or row for each message. `code` and `errors` say why it died. `attempt`
    counts its hand-overs; the unit at its place may know of more. `random` has the random bits of its copy's id.
    `floor_ms` is the earliest due time that a copy may have.
    """
    units = store.units(place)
    sources = _with_dead_letter(store, units["topic"])
    rows = np.array([row for row, number in enumerate(units["topic"].tolist()) if number in sources], np.intp)
    if not len(rows):
        return None
    records = store.records(place[rows])
    kept = [at for at, record in enumerate(records) if _may_go_on(record, sources[record.topic])]
    if not kept:
        return None
    rows, records = rows[kept], [records[at] for at in kept]
    total = np.maximum(attempt[rows], units["attempt"][rows])
    extensions = [
        pack_map({"dead": _about(record, sources[record.topic], reason, count, errors[row])})
        for record, reason, count, row in zip(records, code[rows].tolist(), total.tolist(), rows.tolist(), strict=True)
    ]
    numbers, created = _topic_numbers(store, sources, records, envelope)
    fresh = _append(store, records, extensions, units[rows], numbers, random[rows], envelope, floor_ms)
    return Copies(fresh, created)


def _with_dead_letter(store: Store, numbers: U32) -> dict[int, Topic]:
    topics = [store.catalog.topic_by_number(number) for number in sorted(set(numbers.tolist()))]
    return {topic.number: topic for topic in topics if topic is not None and _target(topic)}


def _target(topic: Topic) -> str:
    """The name of the topic's dead-letter topic, "" if the topic has none."""
    name = topic.settings.get("dead_letter")
    return name if isinstance(name, str) else ""


def _path(record: Record) -> list[str]:
    """The topics in which the originals of this copy died, the first one first. Empty for a message that is no copy."""
    dead = record.extension.get("dead")
    return [*dead.get("path", []), dead["topic"]] if dead else []


def _may_go_on(record: Record, source: Topic) -> bool:
    """True if the message may be copied. No copy goes to a topic in which it or an original died, and HOPS_MAX bounds
    the chain.
    """
    path = _path(record)
    return _target(source) not in (source.name, *path) and len(path) < HOPS_MAX


def _about(record: Record, source: Topic, reason: int, attempts: int, error: str) -> dict[str, Any]:
    """The map "dead" of a copy, which describes the original. `reason` is the code of the last failure. The map has the
    API's word for it.
    """
    at = np.array([record.position], np.uint64)
    (name,) = encode_ids(record.group, at, np.array([record.random], np.uint64)).tolist()
    about: dict[str, Any] = {
        "id": name.decode(),
        "topic": source.name,
        "reason": reason,
        "attempts": attempts - record.attempt,
        "error": error or record.extension.get("error", ""),
    }
    if path := _path(record):
        about["path"] = path
    return about


def _topic_numbers(
    store: Store, sources: dict[int, Topic], records: Sequence[Record], envelope: Envelope
) -> tuple[U32, list[int]]:
    """The number of each copy's topic, and the topics created here. A dead-letter topic that does not exist is created
    with default settings.
    """
    numbers: dict[int, int] = {}
    created: list[int] = []
    for record in records:
        if record.topic in numbers:
            continue
        source = sources[record.topic]
        topic = store.catalog.topic(_target(source), source.namespace)
        if topic is None:
            topic = store.catalog.put_topic(_target(source), {}, now_ms=envelope.now_ms, namespace=source.namespace)
            created.append(topic.number)
        numbers[record.topic] = topic.number
    return np.array([numbers[record.topic] for record in records], np.uint32), created


def _append(
    store: Store,
    records: Sequence[Record],
    extensions: Sequence[bytes],
    units: Units,
    topic: U32,
    random: U64,
    envelope: Envelope,
    floor_ms: int,
) -> Fresh:
    """Append new messages with body, tags, headers, content type and priority of these records. The copies have no key,
    no target and no retry policy.
    """
    count = len(records)
    drafts = replace(
        drafts_of(records),
        asked_due_ms=np.full(count, envelope.now_ms),
        random=random,
        keys=None,
        targets=None,
        order_keys=None,
        extensions=extensions,
        attempts=None,
        expiry_ms=None,
    )
    encoded = encode_records(drafts)
    batch = UnitBatch(
        due_ms=np.full(count, max(envelope.now_ms, floor_ms)),
        size=encoded.size,
        topic=topic,
        tags=units["tags"],
        kind=units["kind"],
        priority=units["priority"],
        attempt=np.zeros(count, np.uint16),
        flags=np.zeros(count, np.uint32),
        records=encoded.blob,
        created_ms=envelope.now_ms,
    )
    return Fresh(store.append(batch), batch.due_ms, batch.topic, batch.tags, batch.priority)
