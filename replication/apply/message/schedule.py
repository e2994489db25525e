"""Applies Schedule, which makes units of new messages. It creates topics, looks for keys that are taken, gives each
unit a due time that is not past, and appends the units.

No Python code runs for each message. Only a row with a key costs a look-up in the catalog's table of keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from replication.apply.apply_notifier import Fresh
from replication.apply.applying import Applying
from replication.command.column import Rows
from replication.command.entry import Envelope
from replication.command.schedule import Key, Schedule
from storage.format.array import I64, U8, U32, U64
from storage.format.batches import UnitBatch
from storage.format.position import GONE
from storage.format.rows import UNIT_KEYED
from storage.format.schedule_status import CONFLICT, KEEP, KEPT, NEW, REPLAYED
from storage.format.states import IS_SETTLED, UNKNOWN
from storage.record.record import KIND_MESSAGE, RANDOM_WORD, record_edges
from storage.store import Store
from storage.tables.key import KeyEntry


class Scheduled(NamedTuple):
    """A result per row. `status` is a number of storage/format/schedule_status.py.

    If a row's key is taken (REPLAYED, CONFLICT, KEPT), `position` and `random` are those of the message that holds the
    key. `due_ms` of a REPLAYED row is that of the first answer to the same request. For CONFLICT and KEPT it is the due
    time that the holder has now.
    """

    position: U64
    random: U64
    due_ms: I64
    status: U8


def apply_schedule(applying: Applying, command: Schedule) -> Scheduled:
    """Append the rows that have no key, or a key that is free.

    A unit due before the second of the dispatch state is put into that second. The record in the log keeps the due time
    that the client asked for.
    """
    store, envelope, floor_ms = applying.store, applying.envelope, applying.dispatched.floor_ms
    topic, created = topics_of(store, command, envelope)
    random = random_of(command)
    due_ms = np.maximum(command.due_ms, floor_ms)
    status = np.zeros(len(topic), np.uint8)
    rows: Rows | None = None
    holders: Holders = {}
    if command.keys:
        holders = _holders(store, command, topic, envelope, status)
    if holders:
        rows = np.flatnonzero(status == NEW)
    fresh = append_rows(applying, command, topic, due_ms, rows)
    position = fresh.position
    if holders:
        position = np.zeros(len(topic), np.uint64)
        position[rows] = fresh.position
    _take_keys(store, command, topic, status, position, random, due_ms)
    taken = {row: holder for row, (holder, _) in holders.items() if holder is not None}
    name_holders(store, taken, status, position, random, due_ms)
    for row, (_, of_row) in holders.items():
        if of_row is not None:  # the same key twice in this command: the first row holds it
            position[row], random[row], due_ms[row] = position[of_row], random[of_row], due_ms[of_row]
    applying.told.topics(created)
    applying.told.units(fresh, applying.index)
    return Scheduled(position, random, due_ms, status)


def random_of(command: Schedule) -> U64:
    """The random bits of each row's id, [n]."""
    words: U64 = np.frombuffer(command.blob, np.uint64)
    return words[record_edges(command.size)[:-1] + RANDOM_WORD]


def append_rows(applying: Applying, command: Schedule, topic: U32, due_ms: I64, rows: Rows | None) -> Fresh:
    """Append these rows of the command, or all of them if `rows` is None. `topic` and `due_ms`, [n], have the topic of
    each row and its due time, not before the second `tick`."""
    flags = np.zeros(len(topic), np.uint32)
    if command.keys:
        flags[[key.row for key in command.keys]] |= UNIT_KEYED
    tags = command.tags.copy() if len(command.tags) else np.zeros(len(topic), np.uint64)
    at: Rows | slice = slice(None) if rows is None else rows
    words = np.frombuffer(command.blob, np.uint64) if rows is None else command.records_of(rows)
    n = len(topic[at])
    batch = UnitBatch(
        due_ms=due_ms[at],
        size=command.size[at],
        topic=topic[at],
        tags=tags[at],
        kind=np.full(n, KIND_MESSAGE, np.uint8),
        priority=np.zeros(n, np.uint8),
        attempt=np.zeros(n, np.uint16),
        flags=flags[at],
        records=words.view(np.uint8),
        created_ms=applying.envelope.now_ms,
    )
    return Fresh(applying.store.append(batch), batch.due_ms, batch.topic, batch.tags, batch.priority)


def conflicts(applying: Applying, command: Schedule) -> dict[int, KeyEntry]:
    """The rows whose keys another message has, with what the catalog knows of it. Nothing is written."""
    store = applying.store
    found: dict[int, KeyEntry] = {}
    for key in command.keys:
        topic = store.catalog.topic(command.topics[int(command.topic[key.row])], command.namespace)
        holder = None if topic is None else store.catalog.key(topic.number, key.key)
        if holder is not None and _verdict(key, holder.fingerprint) == CONFLICT:
            found[key.row] = holder
    held = _still_held(store, [*found.values()], applying.envelope)
    return {row: holder for row, holder in found.items() if holder.position in held}


def topics_of(store: Store, command: Schedule, envelope: Envelope) -> tuple[U32, list[int]]:
    """The number of each row's topic, and the topics created here. A topic that does not exist is created with default
    settings.
    """
    created: list[int] = []
    numbers = np.empty(len(command.topics), np.uint32)
    for i, name in enumerate(command.topics):
        topic = store.catalog.topic(name, command.namespace)
        if topic is None:
            topic = store.catalog.put_topic(name, {}, now_ms=envelope.now_ms, namespace=command.namespace)
            created.append(topic.number)
        numbers[i] = topic.number
    return numbers[command.topic], created


Holders = dict[int, tuple[KeyEntry | None, int | None]]


def _holders(store: Store, command: Schedule, topic: U32, envelope: Envelope, status: U8) -> Holders:
    """The holders of the taken keys, by row: the key's entry in the catalog, or the earlier row of this command that
    has the key.

    Sets the status of these rows.
    """
    holders: Holders = {}
    here: dict[tuple[int, bytes], Key] = {}
    names = [(int(topic[key.row]), key.key) for key in command.keys]
    entries = {name: store.catalog.key(*name) for name in dict.fromkeys(names)}
    held = _still_held(store, [entry for entry in entries.values() if entry is not None], envelope)
    for key, name in zip(command.keys, names, strict=True):
        earlier = here.get(name)
        if earlier is not None:
            holders[key.row] = (None, earlier.row)
            status[key.row] = _verdict(key, earlier.fingerprint)
            continue
        holder = entries[name]
        if holder is not None and holder.position in held:
            holders[key.row] = (holder, None)
            status[key.row] = _verdict(key, holder.fingerprint)
        else:
            here[name] = key
    return holders


def name_holders(
    store: Store, holders: Mapping[int, KeyEntry], status: U8, position: U64, random: U64, due_ms: I64
) -> None:
    """Put the holders of the keys of some rows into the columns of the answer. A REPLAYED row has the due time that the
    holder got when it was scheduled, any other that of its present place. If the hour of that place was unlinked, it
    has the first one too.
    """
    if not holders:
        return
    rows = np.array([*holders], np.intp)
    position[rows] = home = np.array([entry.position for entry in holders.values()], np.uint64)
    random[rows] = np.array([entry.random for entry in holders.values()], np.uint64)
    due_ms[rows] = np.array([entry.due_ms for entry in holders.values()], np.int64)
    asked = np.flatnonzero(status[rows] != REPLAYED)
    known = asked[store.state_only(home[asked]) != UNKNOWN]
    place = store.last_places(home[known])
    there = place != GONE
    due_ms[rows[known[there]]] = store.units(place[there])["due_ms"]


def _verdict(key: Key, fingerprint: bytes) -> int:
    if key.fingerprint == fingerprint:
        return REPLAYED
    return KEPT if key.on_conflict == KEEP else CONFLICT


def _still_held(store: Store, holders: Sequence[KeyEntry], envelope: Envelope) -> set[int]:
    """The homes of those holders that still have their keys. A key is free when its message ended longer ago than the
    key retention."""
    genesis = store.catalog.genesis
    assert genesis is not None
    if not holders:
        return set()
    home = np.array([entry.position for entry in holders], np.uint64)
    state = store.state_only(home)
    ended_ms = np.where(state == UNKNOWN, 0, envelope.now_ms)  # of an unlinked home: long ago
    settled = np.flatnonzero(IS_SETTLED[state])
    ended_ms[settled] = store.newest(home[settled])["at_ms"]
    held: list[int] = home[ended_ms + genesis.key_retention_ms >= envelope.now_ms].tolist()
    return set(held)


def _take_keys(
    store: Store, command: Schedule, topic: U32, status: U8, position: U64, random: U64, due_ms: I64
) -> None:
    for key in command.keys:
        if status[key.row] == NEW:
            row = key.row
            entry = KeyEntry(int(position[row]), int(random[row]), key.fingerprint, int(due_ms[row]))
            store.catalog.put_key(int(topic[row]), key.key, entry)
