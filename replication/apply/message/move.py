"""Moves messages to another due time. Also applies the two commands by which a client moves messages: Reschedule and
Redrive.

    home     pending/leased --> forwarded (names the newest place) -----------> as the message ended
    old place                   moved                                           (nothing more)
    new place                   pending --> ...                             --> delivered, cancelled, dead

A move appends the message again in the hour of its new due time. The message keeps its id, and its attempts count on:
the new unit's `attempt` is the number of earlier hand-overs. From then on a receipt of the old place is answered
`stale`, because a receipt names the place of its hand-over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from replication.apply.apply_notifier import Fresh, Moves
from replication.apply.applying import Applying
from replication.apply.message.attempt_order import first_of_each, rounds
from replication.apply.message.doubtful import DOUBTFUL_FIELD, with_doubt
from replication.apply.message.message_location import (
    FREE,
    UNKNOWN,
    MessageLocation,
    find_standing,
    revisions,
)
from replication.apply.message.running_sets import judged
from replication.command.column import Rows
from replication.command.entry import Envelope
from replication.command.message import Redrive, Reschedule
from storage.format.array import I64, U8, U16, U32, U64
from storage.format.batches import SettleBatch, UnitBatch
from storage.format.level import has
from storage.format.position import GONE
from storage.format.rows import CODE_REDRIVEN, CODE_RESCHEDULED
from storage.format.states import DEAD as DEAD_STATE
from storage.format.states import FORWARDED as FORWARDED_STATE
from storage.format.states import IS_OPEN
from storage.format.states import MOVED as MOVED_STATE
from storage.record.record import Record
from storage.record.record_rewrite import redraft
from storage.store import Store

RESCHEDULED = FREE  # the other results are those of replication.apply.message.message_location
REDRIVEN, NOT_DEAD = 1, 0


class Leaving(NamedTuple):
    """Messages about to move, by the places they leave. All columns are [n]."""

    home: U64
    place: U64
    due_ms: I64  # the new one, not before the second `tick`
    attempt: U16  # hand-overs so far
    # These three go into the settle records of the move.
    term: U32
    last_attempt: U16
    code: U16 | int

    @classmethod
    def rescheduled(cls, home: U64, standing: MessageLocation, rows: Rows, due_ms: I64) -> Leaving:
        """The open messages of these rows of `home` and `standing`, which get these due times, shape of `rows`."""
        attempt = standing.states.attempt[rows]
        return cls(
            home[rows], standing.place[rows], due_ms, attempt, standing.states.term[rows], attempt, CODE_RESCHEDULED
        )


class Rescheduled(NamedTuple):
    """A result per row: RESCHEDULED, LEASED, SETTLED, UNKNOWN, MISMATCH, HELD, or IN_PROGRESS: an operation is about to
    move the message.

    `due_ms` is the new due time as stored, 0 unless the message was rescheduled. `revision` and `position` are the
    message's present revision and place. They are 0 if the message has ended or is unknown.
    """

    result: U8
    due_ms: I64
    revision: U32
    position: U64


def move(
    store: Store,
    leaving: Leaving,
    records: Sequence[Record],
    envelope: Envelope,
    *,
    extensions: Sequence[dict[str, Any]],
    asked_due_ms: I64 | None = None,
    uncounted: U16 | None = None,
    tags: U64 | None = None,
    subscription: int = 0,
    heard: npt.NDArray[np.bool_] | None = None,
) -> Moves:
    """Append the messages at their new places. Write a settle record of the move at home, and at the old place if that
    is not the home.

    `records` and `extensions` belong to `leaving`, row by row. A message in doubt takes its doubt along. `uncounted` is
    the number of attempts that the retry policy does not count any more. If `asked_due_ms` or `uncounted` is None, that
    field of the records stays as it is. `tags` are masks of tags if the records have other tags than before. `heard` is
    a boolean array: True where the newest hand-over has a known outcome.
    """
    extensions = with_doubt(store, leaving.place, extensions, heard)
    again = redraft(records, asked_due_ms=asked_due_ms, attempts=uncounted, extensions=extensions)
    units = store.units(leaving.place)
    batch = UnitBatch(
        due_ms=leaving.due_ms,
        size=again.size,
        topic=units["topic"],
        tags=units["tags"] if tags is None else tags,
        kind=units["kind"],
        priority=units["priority"],
        attempt=leaving.attempt,
        flags=units["flags"],
        records=again.blob,
        created_ms=np.array([record.created_ms for record in records], np.int64),
        homes=leaving.home,
    )
    position = store.append(batch)
    abroad = leaving.place != leaving.home
    rows = np.concatenate([np.arange(len(position)), abroad.nonzero()[0]])
    what = np.full(len(rows), MOVED_STATE, np.uint8)
    what[: len(position)] = FORWARDED_STATE
    code = np.broadcast_to(np.asarray(leaving.code, np.uint16), len(position))
    store.settle(
        SettleBatch.of(
            np.concatenate([leaving.home, leaving.place[abroad]]),
            what=what,
            at_ms=envelope.now_ms,
            when=position.view(np.int64)[rows],
            term=leaving.term[rows],
            attempt=leaving.last_attempt[rows],
            node=envelope.node,
            code=code[rows],
            subscription=subscription,
        )
    )
    return Moves(leaving.home, leaving.place, Fresh(position, batch.due_ms, batch.topic, batch.tags, batch.priority))


def revised(records: Sequence[Record], revision: U32, doubtful: npt.NDArray[np.bool_]) -> list[dict[str, Any]]:
    """The extensions of records, [n], with these revisions. Those of messages in doubt get DOUBTFUL_FIELD."""
    return [
        record.extension | {"revision": number} | ({DOUBTFUL_FIELD: True} if doubt else {})
        for record, number, doubt in zip(records, revision.tolist(), doubtful.tolist(), strict=True)
    ]


def apply_reschedule(applying: Applying, command: Reschedule) -> Rescheduled:
    """Move messages to another due time.

    A message whose lease still runs is refused, as in a cancel. If a message stands in several rows, these rows move it
    one after the other.
    """
    store, envelope, floor_ms = applying.store, applying.envelope, applying.dispatched.floor_ms
    count = len(command.home)
    answer = Rescheduled(
        np.full(count, UNKNOWN, np.uint8), np.zeros(count, np.int64), np.zeros(count, np.uint32),
        np.zeros(count, np.uint64),
    )  # fmt: skip
    moved: list[Moves] = []
    for turn in rounds(command.home, np.arange(count, dtype=np.uint64)):  # no row repeats another
        moved += _reschedule_round(store, command, envelope, turn.rows, answer, floor_ms)
    applying.told.moved(moved, applying.index)
    return answer


def _reschedule_round(
    store: Store, command: Reschedule, envelope: Envelope, rows: Rows, answer: Rescheduled, floor_ms: int
) -> list[Moves]:
    """Move the messages that may be moved, and write the answers of all rows. The rows name each message at most one
    time.
    """
    home = command.home[rows]
    standing = find_standing(store, home)
    place, states = standing.place, standing.states
    result, _ = judged(store, standing, command.revision[rows], envelope)
    answer.result[rows] = result
    openly = IS_OPEN[states.state].nonzero()[0]
    records = dict(zip(openly.tolist(), store.records(place[openly]), strict=True))
    answer.revision[rows[openly]] = revisions(list(records.values()))
    answer.position[rows[openly]] = place[openly]
    free = (result == FREE).nonzero()[0]
    if not len(free):
        return []
    now = rows[free]
    asked_due_ms, revision = command.due_ms[now], answer.revision[now] + np.uint32(1)
    leaving = Leaving.rescheduled(home, standing, free, np.maximum(asked_due_ms, floor_ms))
    leaver = [records[row] for row in free.tolist()]
    doubtful = command.doubtful[now] > 0
    if not has(store.level, "doubt"):
        doubtful &= leaving.attempt == 0
    extensions = revised(leaver, revision, doubtful)
    moves = move(store, leaving, leaver, envelope, extensions=extensions, asked_due_ms=asked_due_ms)
    answer.due_ms[now], answer.position[now], answer.revision[now] = leaving.due_ms, moves.fresh.position, revision
    return [moves]


def apply_redrive(applying: Applying, command: Redrive) -> U8:
    """Schedule dead messages again, with attempts counted anew. The result of a row is REDRIVEN or NOT_DEAD.

    A message cannot be redriven once the hour in which it died is unlinked, even if its home is still there. All later
    changes of the message stood in that hour.
    """
    store, floor_ms = applying.store, applying.dispatched.floor_ms
    states = store.states(command.home)
    dead = (states.state == DEAD_STATE) & (store.homes(command.home) == command.home)
    rows = dead.nonzero()[0]
    rows = rows[first_of_each(command.home[rows])]
    rows = rows[has_topic(store, command.home[rows])]
    place = store.last_places(command.home[rows])
    gone = place == np.uint64(GONE)
    if has(store.level, "gone-with-its-place"):
        rows, place = rows[~gone], place[~gone]
    else:
        place[gone] = command.home[rows[gone]]
    result = np.full(len(command.home), NOT_DEAD, np.uint8)
    if not len(rows):
        return result
    result[rows] = REDRIVEN
    home = command.home[rows]
    attempt = np.maximum(states.attempt[rows], store.units(place)["attempt"])
    asked_due_ms = command.due_ms[rows]
    leaving = Leaving(
        home=home,
        place=place,
        due_ms=np.maximum(asked_due_ms, floor_ms),
        attempt=attempt,
        term=states.term[rows],
        last_attempt=states.attempt[rows],
        code=CODE_REDRIVEN,
    )
    records = store.records(place)
    extensions = [record.extension for record in records]
    envelope = applying.envelope
    moves = move(store, leaving, records, envelope, extensions=extensions, asked_due_ms=asked_due_ms, uncounted=attempt)
    applying.told.moved([moves], applying.index)
    return result


def has_topic(store: Store, homes: U64) -> npt.NDArray[np.bool_]:
    """A boolean array, [n]: True for messages whose topic still exists. The others are not moved, because no consumer
    could get them.
    """
    topics = store.units(homes)["topic"]
    gone = [number for number in set(topics.tolist()) if store.catalog.topic_by_number(number) is None]
    return ~np.isin(topics, gone)
