"""All records of messages under the detailed rules, as events that name hand-overs.

An event's key is (message, term, attempt) in one number. So starts, leases, acks and failures of one hand-over find
each other by binary search. The messages that are judged together are numbered from 0. That number is the `message` of
an event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ledger.bucket import Bucket
from ledger.by_message import Newest, RecordsByMessage, lift, name_of
from storage.format.array import I64, U8, U16, U32, U64
from storage.format.rows import take_rows
from storage.format.states import DEAD, DELIVERED, FORWARDED, LEASED, LEAVES, TELLS_FAILURE
from storage.record.delivery_record import DELIVERED as DONE
from storage.record.delivery_record import FAILED, GIVEN_BACK, LATE

RESCHEDULED: Final = 2000
REDRIVEN: Final = 2001
RESENT: Final = 2002
"""`code` of a settle record for a move that a client asked for. For any other move or death it is the failure."""
_ASKED_FOR: Final = (RESCHEDULED, REDRIVEN, RESENT)
LEASE_ENDED: Final = 1007
MAX_AGE: Final = 1008
"""`code` of a dead record whose reason says nothing of the last hand-over's outcome."""

_MESSAGE_SHIFT: Final = np.uint64(44)
_TERM_BITS: Final = 28

_Bools = npt.NDArray[np.bool_]


class HandOvers(NamedTuple):
    """The h hand-overs of the messages, [h] each. They are in order of message, then of (term, attempt), then of
    time."""

    key: U64
    message: I64
    at_ms: I64
    asked_due_ms: I64
    term: npt.NDArray[np.uint32]
    attempt: U16
    node: U16
    mode: U8
    row: npt.NDArray[np.intp]  # in the bucket's deliveries


class Settles(NamedTuple):
    """The settle records of the messages at all their positions, s of them, [s] each. Those of one position are in file
    order."""

    key: U64
    message: I64
    what: U8
    at_ms: I64
    when: I64
    code: U16
    node: U16
    term: U32


class Ends(NamedTuple):
    """The end records of hand-overs of the messages, e of them, [e] each."""

    key: U64
    message: I64
    outcome: U8
    at_ms: I64


class HandOverState(NamedTuple):
    """The state and the place of each message at the end of the records, [k] each."""

    what: U8  # its state, by the newest record at its place
    when: I64  # end of its lease, if leased
    astray: _Bools  # It was moved and has not ended, and no unit at its place was given.
    placed: _Bools  # It was moved, and the unit at its place was given. The due times below are that unit's.
    due_ms: I64
    asked_due_ms: I64


@dataclass(frozen=True, slots=True)
class Records:
    """All records of k messages. `at` [k] holds the rows of the messages' units in the bucket, rising."""

    at: I64
    hand_overs: HandOvers
    settles: Settles
    ends: Ends
    standing: HandOverState
    ended_by: U64  # [k] key of the hand-over that the newest record at home names
    ended_term: U32  # [k] its term


def ranks_of(key: U64) -> tuple[npt.NDArray[np.intp], U64]:
    """Return the indexes that sort `key`, and the sorted keys. Equal keys keep their order. Keys are rarely equal, so a
    sort that does not keep the order of equal keys is tried first: it is several times as fast."""
    order = np.argsort(key)
    ranked = key[order]
    if (ranked[1:] == ranked[:-1]).any():
        order = np.argsort(key, kind="stable")
    return order, ranked


class FoundRecords(NamedTuple):
    """The result of `Keyed.find` for n keys, [n] each: if the key is in `Keyed.keys`, and its index there."""

    there: _Bools  # the key is among them
    at: npt.NDArray[np.intp]  # its place, 0 for a key that is not among them


class Keyed:
    """Events grouped by their key. `keys` holds each key once, rising.

    `first`, `last` and `least` take an array with a value for each event, in the order in which the keys were given to
    this object. They return an array with one value for each of `keys`.
    """

    def __init__(self, key: U64) -> None:
        self._order, ranked = ranks_of(key)
        begins = np.ones(len(ranked), np.bool_)
        np.not_equal(ranked[1:], ranked[:-1], out=begins[1:])
        self._starts = np.flatnonzero(begins)
        self.keys = ranked[self._starts]

    def find(self, key: U64) -> FoundRecords:
        """Find for each of these keys its index in `keys`."""
        if not len(self.keys):
            return FoundRecords(np.zeros(len(key), np.bool_), np.zeros(len(key), np.intp))
        at = np.minimum(self.keys.searchsorted(key), len(self.keys) - 1)
        there = self.keys[at] == key
        return FoundRecords(there, np.where(there, at, 0))

    def first(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """For each of `keys` the value of its first event."""
        return values[self._order[self._starts]]

    def last(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """For each of `keys` the value of its last event."""
        ends = np.append(self._starts, len(self._order))[1:]
        last: npt.NDArray[Any] = values[self._order[ends - 1]]
        return last

    def least(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """For each of `keys` the smallest value of its events."""
        if not len(self._starts):
            return values[:0]
        least: npt.NDArray[Any] = np.minimum.reduceat(values[self._order], self._starts)
        return least


def read(of_keys: npt.NDArray[Any], found: FoundRecords, absent: int) -> npt.NDArray[Any]:
    """Return the value of each key that was looked up: its entry in `of_keys`, which `Keyed.first`, `last` or `least`
    returned. A key that was not found gets `absent`."""
    if not len(of_keys):
        return np.full(len(found.at), absent, of_keys.dtype)
    return np.where(found.there, of_keys[found.at], absent)


def records_of(bucket: Bucket, trail: RecordsByMessage, newest: Newest, at: I64) -> Records:
    """Gather all records of the messages whose units are `at`, rising rows of the bucket."""
    message_of = np.full(len(bucket.units), -1, np.int64)
    message_of[at] = np.arange(len(at))
    rank = _Ranks(bucket)
    settles, places = _settles(bucket, trail, message_of, rank)
    messages = np.arange(len(at))
    name = newest.name[at]
    ended_term = (name >> np.uint64(16)).astype(np.uint32)
    return Records(
        at=at,
        hand_overs=_hand_overs(bucket, trail, message_of, rank),
        settles=settles,
        ends=_ends(bucket, trail, message_of, rank),
        standing=_standing(bucket, newest, at, settles, places),
        ended_by=rank.key(messages, ended_term, name.astype(np.uint16)),
        ended_term=ended_term,
    )


class _Ranks:
    """Makes keys of (message, term, attempt), with 28 bits for the term. If a term of the bucket is larger, the keys
    have the ordinal of each term among all terms instead."""

    def __init__(self, bucket: Bucket) -> None:
        columns = [lift(rows, ["term"])[0] for rows in (bucket.deliveries, bucket.settles, bucket.abroad)]
        self._terms: npt.NDArray[np.uint32] | None = None
        if max(int(column.max(initial=0)) for column in columns) >> _TERM_BITS:
            self._terms = np.unique(np.concatenate(columns))

    def key(self, message: I64, term: npt.NDArray[np.uint32], attempt: U16) -> U64:
        rank = term if self._terms is None else self._terms.searchsorted(term).astype(np.uint32)
        key: U64 = message.astype(np.uint64) << _MESSAGE_SHIFT | name_of(rank, attempt)
        return key


def _hand_overs(bucket: Bucket, trail: RecordsByMessage, message_of: I64, rank: _Ranks) -> HandOvers:
    message = message_of[trail.start_at]
    mine = np.flatnonzero(message >= 0)
    message, row = message[mine], trail.starts[mine]
    at_ms, asked_due_ms, term, attempt, node, mode = lift(
        bucket.deliveries, ["at_ms", "asked_due_ms", "term", "attempt", "node", "mode"], row
    )
    key = rank.key(message, term, attempt)
    order, ranked = ranks_of(key)
    if (ranked[1:] == ranked[:-1]).any():
        order = np.lexsort((node, at_ms, key))
    return HandOvers(
        key[order], message[order], at_ms[order], asked_due_ms[order], term[order], attempt[order], node[order],
        mode[order], row[order],
    )  # fmt: skip


def _ends(bucket: Bucket, trail: RecordsByMessage, message_of: I64, rank: _Ranks) -> Ends:
    message = message_of[trail.end_at]
    mine = np.flatnonzero(message >= 0)
    term, attempt, outcome, at_ms = lift(bucket.deliveries, ["term", "attempt", "outcome", "at_ms"], trail.ends[mine])
    return Ends(rank.key(message[mine], term, attempt), message[mine], outcome, at_ms)


class _Places(NamedTuple):
    """Settle records of the messages at positions other than home, in order of position and file."""

    place: U64
    what: U8
    when: I64


def _settles(bucket: Bucket, trail: RecordsByMessage, message_of: I64, rank: _Ranks) -> tuple[Settles, _Places]:
    message = message_of[trail.settle_at]
    mine = np.flatnonzero(message >= 0)
    fields = ["term", "attempt", "what", "at_ms", "when", "code", "node"]
    here = lift(bucket.settles, fields, trail.settles[mine])
    home = (bucket.abroad["home"] - np.uint64(trail.origin)).view(np.int64)
    within = (home >= 0) & (home < len(message_of))
    its = np.where(within, message_of[np.where(within, home, 0)] if len(message_of) else -1, -1)
    order = np.lexsort((bucket.abroad["order"], bucket.abroad["place"]))
    order = order[its[order] >= 0]
    abroad = take_rows(np.ascontiguousarray(bucket.abroad), order)
    there = lift(abroad, fields)
    term, attempt, what, at_ms, when, code, node = (
        np.concatenate([mine_, theirs]) for mine_, theirs in zip(here, there, strict=True)
    )
    messages = np.concatenate([message[mine], its[order]])
    settles = Settles(rank.key(messages, term, attempt), messages, what, at_ms, when, code, node, term)
    return settles, _Places(abroad["place"].copy(), there[2], there[4])


def _standing(bucket: Bucket, newest: Newest, at: I64, settles: Settles, places: _Places) -> HandOverState:
    what = newest.what[at]
    forwards = np.flatnonzero(settles.what == FORWARDED)
    place = np.zeros(len(at), np.uint64)
    place[settles.message[forwards]] = settles.when[forwards].view(np.uint64)  # the last of a message stays
    units = Keyed(bucket.places["place"])
    unit = units.find(place)
    known = unit.there
    due_ms = read(units.last(bucket.places["due_ms"]), unit, 0)
    asked_due_ms = read(units.last(bucket.places["asked_due_ms"]), unit, 0)
    there = Keyed(places.place)
    newest_there = there.find(place)
    state = read(there.last(places.what), newest_there, 0)
    lease_end = read(there.last(places.when), newest_there, 0)
    away = what == FORWARDED
    state = np.where(away, state, what).astype(np.uint8)
    when = np.where(away, lease_end, newest.when[at])
    return HandOverState(LEAVES[state], when, away & ~known, known, due_ms, asked_due_ms)


def failures(settles: Settles) -> _Bools:
    """Return a boolean array, True for settle records that say that a hand-over failed, or that its message was given
    up."""
    told: _Bools = TELLS_FAILURE[settles.what]
    told &= ~np.isin(settles.code, _ASKED_FOR)
    return told


def answered(settles: Settles) -> _Bools:
    """Return a boolean array, True for settle records that tell the outcome of the hand-over that they name."""
    silent = (settles.what == DEAD) & ((settles.code == LEASE_ENDED) | (settles.code == MAX_AGE))
    told: _Bools = (settles.what == DELIVERED) | (failures(settles) & ~silent)
    return told


def leases(settles: Settles) -> _Bools:
    """Return a boolean array, True for leased records. Such a record tells of a hand-over or of an extension of its
    lease."""
    told: _Bools = settles.what == LEASED
    return told


def refused(ends: Ends) -> _Bools:
    """Return a boolean array, True for end records that say that the consumer did not take the message."""
    told: _Bools = (ends.outcome == FAILED) | (ends.outcome == GIVEN_BACK)
    return told


def done(ends: Ends) -> _Bools:
    """Return a boolean array, True for end records that say that the consumer took the message."""
    told: _Bools = (ends.outcome == DONE) | (ends.outcome == LATE)
    return told
