"""Applies Supersede: new messages that replace the holders of their keys, or give them another due time.

    replace    the holder is cancelled, and the new message takes its key, in one step
    extend     the holder moves to another due time; it keeps its id, and by default gets the content of the new message
    neither    nobody holds the key, its holder has ended, or (extend) is handed over: the message is scheduled

A row changes no other holder than the one that its leader named, or one that was scheduled by an earlier row. The
leader may have handed over any other. Such a row is VOID and writes nothing, and the leader looks again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from replication.apply.applying import Applying
from replication.apply.message.cancel import cancel_free, priors
from replication.apply.message.message_location import (
    FREE,
    HELD,
    IN_PROGRESS,
    LEASED,
    SETTLED,
    UNKNOWN,
    MessageLocation,
    find_standing,
    revisions,
)
from replication.apply.message.move import Leaving, move, revised
from replication.apply.message.running_sets import NOBODY, Owners, count_cancelled, judged
from replication.apply.message.schedule import append_rows, random_of, topics_of
from replication.command.column import Rows
from replication.command.supersede import Supersede
from storage.format.array import I64, U8, U16, U32, U64, Mask
from storage.format.position import GONE
from storage.format.schedule_status import EXTEND, EXTENDED, FAILED, NEW, REPLACED
from storage.record.record_rewrite import with_content_of
from storage.tables.key import KeyEntry

VOID: Final = 7
"""The row names another holder than the key has, so nothing was done. The other reasons of a FAILED row are LEASED,
HELD and IN_PROGRESS of replication/apply/message/message_location.py."""

_NO_TOPIC: Final = 0xFFFFFFFF  # the number of no topic


class Superseded(NamedTuple):
    """A result per row. `status` is NEW, REPLACED, EXTENDED or FAILED (storage/format/schedule_status.py).

    `position`, `random`, `due_ms` and `revision` are those of the message that holds the key now. `attempts` and
    `prior` are those of the holder before, as in Cancelled. `previous` and `previous_random` name it. A FAILED row has
    its reason in `why`, and in `operation` the one that is about to move the holder.
    """

    status: U8
    why: U8
    position: U64
    random: U64
    due_ms: I64
    revision: U32
    previous: U64
    previous_random: U64
    attempts: U16
    prior: U8
    operation: I64


class _Holders(NamedTuple):
    """The holders of the keys of some rows, [n] each. A key that nobody ever had has GONE as its home. `verdict` is
    FREE where the holder may be changed. It is SETTLED where nobody holds the key any more."""

    home: U64
    random: U64
    standing: MessageLocation
    verdict: U8
    owner: Owners | None


class _Judged(NamedTuple):
    """Rows of a command and the holders of their keys, [n]. `new` rows find no holder that they change, and `free` ones
    change it. `extends` tells which rows have the rule `extend`."""

    holders: _Holders
    extends: Mask
    new: Mask
    free: Mask


def apply_supersede(applying: Applying, command: Supersede) -> Superseded:
    """Replace or extend the holders, or schedule the messages. Rows with the same key take effect one after the
    other.
    """
    messages = command.messages
    topic, created = topics_of(applying.store, messages, applying.envelope)
    applying.told.topics(created)
    answer = unanswered(len(topic), VOID)
    answer.random[:] = random_of(messages)
    turns: list[list[int]] = []
    seen: dict[tuple[int, bytes], int] = {}
    for row, key in enumerate(messages.keys):
        turn = seen[int(topic[row]), key.key] = seen.get((int(topic[row]), key.key), -1) + 1
        if turn == len(turns):
            turns.append([])
        turns[turn].append(row)
    for rows in turns:
        _turn(applying, command, topic, np.array(rows, np.intp), answer)
    return answer


def judge(applying: Applying, command: Supersede) -> Superseded:
    """Judge which rows of a command would take effect now, if each key has one row. Nothing is written. In the answer
    all rows are FAILED. `why` is FREE for a row that would take effect."""
    messages = command.messages
    topics = [applying.store.catalog.topic(name, messages.namespace) for name in messages.topics]
    numbers = np.array([_NO_TOPIC if topic is None else topic.number for topic in topics], np.uint32)
    answer = unanswered(len(messages.topic), VOID)
    rows = np.arange(len(messages.topic))
    judged = _judge(applying, command, numbers[messages.topic], rows, answer)
    answer.why[judged.new | judged.free] = FREE
    return answer


def unanswered(count: int, why: int) -> Superseded:
    """An answer of `count` rows that are FAILED for this reason."""
    return Superseded(
        status=np.full(count, FAILED, np.uint8),
        why=np.full(count, why, np.uint8),
        position=np.zeros(count, np.uint64),
        random=np.zeros(count, np.uint64),
        due_ms=np.zeros(count, np.int64),
        revision=np.ones(count, np.uint32),
        previous=np.zeros(count, np.uint64),
        previous_random=np.zeros(count, np.uint64),
        attempts=np.zeros(count, np.uint16),
        prior=np.zeros(count, np.uint8),
        operation=np.full(count, NOBODY, np.int64),
    )


def _judge(applying: Applying, command: Supersede, topic: U32, rows: Rows, answer: Superseded) -> _Judged:
    """Judge rows that name each key at most one time. The answer gets the holders, and the reasons of refused rows."""
    holders = _holders(applying, command, topic, rows)
    verdict = holders.verdict
    named = holders.home == command.changes.holder[rows]
    if applying.changed_keys:  # by an earlier row of this entry, which the leader knew of
        named |= np.isin(holders.home, np.concatenate(applying.changed_keys))
    lives = verdict != SETTLED
    extends = np.array([command.messages.keys[row].on_conflict == EXTEND for row in rows.tolist()], np.bool_)
    acts = named | ~lives
    new = acts & (~lives | (extends & (verdict == LEASED)))
    free = acts & (verdict == FREE)
    refused = acts & ~new & ~free
    answer.why[rows[refused]] = verdict[refused]
    if holders.owner is not None:
        answer.operation[rows[refused]] = holders.owner.move[refused]
    answer.previous[rows], answer.previous_random[rows] = holders.home, holders.random
    answer.attempts[rows] = holders.standing.states.attempt
    return _Judged(holders, extends, new, free)


def _turn(applying: Applying, command: Supersede, topic: U32, rows: Rows, answer: Superseded) -> None:
    """Apply rows that name each key at most one time."""
    holders, extends, new, free = _judge(applying, command, topic, rows, answer)
    answer.status[rows[new]] = NEW
    replaced, extended = (free & ~extends).nonzero()[0], (free & extends).nonzero()[0]
    if len(replaced):
        _cancel(applying, command, rows, holders, replaced, answer)
    _schedule(applying, command, topic, np.sort(np.concatenate([rows[new], rows[replaced]])), answer)
    if len(extended):
        _extend(applying, command, topic, rows, holders, extended, answer)


def _holders(applying: Applying, command: Supersede, topic: U32, rows: Rows) -> _Holders:
    store, envelope = applying.store, applying.envelope
    nobody = KeyEntry(GONE, 0, b"", 0)
    entries = [store.catalog.key(int(topic[row]), command.messages.keys[row].key) or nobody for row in rows.tolist()]
    home = np.array([entry.position for entry in entries], np.uint64)
    standing = find_standing(store, home)
    verdict, owner = judged(store, standing, np.zeros(len(rows), np.uint32), envelope)
    verdict[verdict == UNKNOWN] = SETTLED
    assert set(verdict.tolist()) <= {FREE, LEASED, SETTLED, HELD, IN_PROGRESS}, "no revision was asked for"
    return _Holders(home, np.array([entry.random for entry in entries], np.uint64), standing, verdict, owner)


def _doubtful(command: Supersede, rows: Rows, holders: _Holders) -> Mask:
    """The leader's judgement of each row's holder. It is of the holder that the row names, and of no other."""
    judged: Mask = (command.changes.doubtful[rows] > 0) & (holders.home == command.changes.holder[rows])
    return judged


def _cancel(
    applying: Applying, command: Supersede, rows: Rows, holders: _Holders, at: Rows, answer: Superseded
) -> None:
    """Cancel the holders of the rows `at` of `rows`."""
    doubtful = _doubtful(command, rows, holders)
    prior = cancel_free(applying.store, holders.home, holders.standing, doubtful, at, applying.envelope)
    count_cancelled(applying, None if holders.owner is None else holders.owner.at(at), prior[at])
    answer.prior[rows[at]], answer.status[rows[at]] = prior[at], REPLACED
    applying.told.settled(holders.standing.place[at])


def _schedule(applying: Applying, command: Supersede, topic: U32, rows: Rows, answer: Superseded) -> None:
    """Append the messages of these rows, which take their keys."""
    if not len(rows):
        return
    due_ms = np.maximum(command.messages.due_ms, applying.dispatched.floor_ms)
    fresh = append_rows(applying, command.messages, topic, due_ms, rows)
    answer.position[rows], answer.due_ms[rows] = fresh.position, fresh.due_ms
    applying.changed_keys.append(fresh.position)
    _put_keys(applying, command, topic, rows, answer)
    applying.told.units(fresh, applying.index)


def _put_keys(applying: Applying, command: Supersede, topic: U32, rows: Rows, answer: Superseded) -> None:
    """Give the keys of these rows to the messages that the answer names, with the fingerprints of the requests."""
    for row in rows.tolist():
        key = command.messages.keys[row]
        entry = KeyEntry(int(answer.position[row]), int(answer.random[row]), key.fingerprint, int(answer.due_ms[row]))
        applying.store.catalog.put_key(int(topic[row]), key.key, entry)


def _extend(
    applying: Applying,
    command: Supersede,
    topic: U32,
    rows: Rows,
    holders: _Holders,
    at: Rows,
    answer: Superseded,
) -> None:
    """Give the holders of the rows `at` of `rows` another due time. It is the new one, but at most the longest wait
    after the holder's creation. That bound makes no holder due earlier than it is.
    """
    store, now = applying.store, rows[at]
    place = holders.standing.place[at]
    units, before, asked = store.units(place), store.records(place), command.records()
    created_ms = np.array([record.created_ms for record in before], np.int64)
    latest_ms = np.maximum(created_ms + command.changes.max_wait_ms[now], units["due_ms"])
    due_ms = np.minimum(command.messages.due_ms[now], latest_ms)
    doubtful = _doubtful(command, rows, holders)
    prior = priors(store, holders.home, holders.standing, doubtful, at)[at]
    due_only = command.changes.due_only[now] > 0
    records = [
        record if only else with_content_of(record, asked[row])
        for record, row, only in zip(before, now.tolist(), due_only.tolist(), strict=True)
    ]
    masks = command.messages.tags[now] if len(command.messages.tags) else np.zeros(len(now), np.uint64)
    revision = revisions(before) + np.uint32(1)
    floored = np.maximum(due_ms, applying.dispatched.floor_ms)
    leaving = Leaving.rescheduled(holders.home, holders.standing, at, floored)
    moves = move(
        store, leaving, records, applying.envelope,
        extensions=revised(records, revision, doubtful[at]), asked_due_ms=due_ms,
        tags=np.where(due_only, units["tags"], masks),
        uncounted=np.where(due_only, [record.attempt for record in before], leaving.attempt).astype(np.uint16),
    )  # fmt: skip
    answer.status[now], answer.prior[now], answer.revision[now] = EXTENDED, prior, revision
    answer.position[now], answer.random[now], answer.due_ms[now] = leaving.home, holders.random[at], floored
    applying.changed_keys.append(leaving.home)
    _put_keys(applying, command, topic, now[~due_only], answer)
    applying.told.moved([moves], applying.index)
