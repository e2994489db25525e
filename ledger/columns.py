"""The words of the ledger: the class of a message, its flags, the cause of a duplicate, and the columns that hold them.

A message has exactly one `MessageClass`, and any number of `Flag`s. A duplicate has exactly one `Cause`. The numbers
are stable, because they stand in Parquet files and in answers of the API. A new number is added at the end, and an old
one never gets another meaning.

Rows are kept as columns, a dict of arrays of one length under the names of `LEDGER` or `DUPLICATES`. Arrow, numpy and a
page of JSON all take that form without a copy per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, IntFlag
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from storage.format.array import U8
from storage.format.registry import BadRow
from storage.format.states import DELIVERED, State, table

Columns = dict[str, npt.NDArray[Any]]
"""Arrays of one length, shape [n] each, by name."""


class MessageClass(IntEnum):
    """The class of a message, by how it ended or where it stands.

    - `pending` is also the class of a message whose lease ended without an outcome, and that will be handed over again.
    - `in_flight` is the class of a message whose lease still runs at `Context.until_ms`, where the records end.
    - `delivered` is the class of a message that a hand-over ended, if an account of some time is missing. In that time
      there may have been other hand-overs.
    """

    DELIVERED_ONCE = 1
    DELIVERED_MORE = 2
    DEAD = 3
    CANCELLED = 4
    EXPIRED = 5
    PENDING = 6
    IN_FLIGHT = 7
    LOST = 8
    DELIVERED = 9


def ended_class(row: State) -> MessageClass | int:
    """The class of a message whose unit is in this state. 0 if a message in this state has not ended, or if such a unit
    stands for no message. Raises BadRow."""
    if row.answers.lives_here or not row.shown:
        return 0
    name = MessageClass.DELIVERED_ONCE.name if row.number == DELIVERED else row.word.upper()
    if name not in MessageClass.__members__:
        raise BadRow(f'state {row.name}: the ledger has no class for what is "{row.word}"')
    return MessageClass[name]


ENDED_CLASSES: Final[U8] = table(ended_class, np.uint8(0))
"""The class by the state's number."""

DELIVERED_CLASSES: Final = (MessageClass.DELIVERED_ONCE, MessageClass.DELIVERED_MORE, MessageClass.DELIVERED)
"""The classes of messages that a hand-over ended."""


class Flag(IntFlag):
    """Facts that may be true of a message besides its class."""

    EARLY = 1 << 0
    """A hand-over began before the due time that was asked for, by the clock of the node that made it."""
    LATE = 1 << 1
    """The first hand-over began more than `Context.late_ms` after the due time. `late_cause` says why."""
    RETRIED = 1 << 2
    """Handed over again after a failure, a nack or a dead letter that is on record: no duplicate."""
    DELIVERED_AFTER_CANCEL = 1 << 3
    """A hand-over began after the cancel had taken effect."""
    UNKNOWN_OUTCOME = 1 << 4
    """The outcome of at least one hand-over whose lease is over is not known."""
    NODES_DISAGREE = 1 << 5
    """The nodes' copies of its records differ, or two nodes say that they made one and the same hand-over."""
    OUTSIDE_WINDOW = 1 << 6
    """Due before the window in which all records are retained. Records that are there are shown. Missing ones mean
    nothing."""
    RECORDS_MISSING = 1 << 7
    """A hand-over is known from the settle records only, because the node's own account has a hole there or is not
    given. Or a hand-over may have been in a time of which an account is missing. So the outcome is unknown, and the
    message does not count as lost."""
    UNTRACED = 1 << 8
    """A hand-over that ended the message is in no node's account, though the accounts cover its time."""
    DELIVERED_UNSETTLED = 1 << 9
    """A node's account or a receipt says delivered, and the settle records say otherwise. The message may come
    again."""
    OVERDUE = 1 << 10
    """Open, due for longer than the grace, and not with a consumer."""
    SCHEDULED_TWICE = 1 << 11
    """Equal to a message scheduled shortly before it, without a key that would have caught it."""
    RESCHEDULED = 1 << 12
    """Moved to another due time at a client's request."""
    REDRIVEN = 1 << 13
    """A dead message that was redriven."""
    NOT_RECEIVED = 1 << 14
    """Handed over, and in no consumer's receipts though they cover its time."""
    STRICT = 1 << 15
    """Its topic hands over strictly. A failover duplicate of it breaks a promise."""
    RESENT = 1 << 16
    """Delivered, and made due again by an operation."""


class LateCause(IntEnum):
    """Why the first hand-over was late."""

    NONE = 0
    NO_LEADER = 1
    """It fell due when no node led, or none that still could act. The first term after that handed it over."""
    WAITING_FOR_CONSUMER = 2
    """It had been dispatched, and no consumer pulled it."""
    WAITING_FOR_RECEIVER = 3
    """It had been dispatched, and its webhook receiver had no room or was ill."""
    DISPATCH = 4
    """The leader was behind. It was handed over as soon as it was dispatched."""
    SCHEDULED_LATE = 5
    """It was scheduled, or rescheduled, too near to its due time or after it."""
    PAUSE = 6
    """Its topic was paused for the longer part of the delay. A message that was never handed over has this cause, too,
    while its topic is paused."""


class Cause(IntEnum):
    """Why a message was handed over again."""

    NONE = 0
    FAILOVER = 1
    """A leader died with the Lease of the earlier hand-over uncommitted. The leader of a later term handed it over."""
    LEASE_ENDED = 2
    """Pull: the earlier lease is on record and ran out without outcome."""
    UNKNOWN_OUTCOME = 3
    """Push: the earlier lease is on record, and no outcome reached the records before it ended."""
    ACKED_LATE = 4
    """The consumer did acknowledge the earlier hand-over, after its lease had ended and the message had gone out."""
    SCHEDULED_TWICE = 5
    """Another message, equal to this one, was scheduled shortly before it and handed over as well."""
    UNEXPLAINED = 6
    """None of these: a promise is broken."""
    RESENT = 7
    """An operation made it due again after it was delivered, at a client's request."""


class Lost(IntEnum):
    """Why a message counts as lost."""

    NONE = 0
    NO_TRACE = 1
    """Settled as delivered, and no node handed it over, though all accounts cover the time."""
    NEVER_RECEIVED = 2
    """Settled as delivered, and in no consumer's receipts, though they cover the time."""
    NOT_FOUND = 3
    """Acknowledged to its producer, and in no node's hours."""
    NEVER_HANDED_OVER = 4
    """Open, due for longer than `Context.lost_after_ms`, and never handed over."""


def word(member: IntEnum | IntFlag) -> str:
    """The name of a member of an enumeration as reports and the API write it, such as `delivered_once`."""
    assert member.name is not None
    return member.name.lower()


def words_of(kind: type[IntEnum]) -> tuple[str, ...]:
    """The words of an enumeration in a list by number, with "" for each number that no member has. It serves as the
    dictionary of a column of codes."""
    names = [""] * (max(kind) + 1)
    for member in kind:
        names[member] = word(member)
    return tuple(names)


CLASS_WORDS: Final = words_of(MessageClass)
CAUSE_WORDS: Final = words_of(Cause)
LATE_WORDS: Final = words_of(LateCause)
LOST_WORDS: Final = words_of(Lost)


def flag_words(flags: int) -> list[str]:
    """The words of the flags that are set, in order of their bits."""
    return [word(flag) for flag in Flag if flags & flag]


LEDGER: Final[dict[str, np.dtype[Any]]] = {
    name: np.dtype(kind)
    for name, kind in {
        "home": "<u8",  # position of the message; with `random` its id
        "random": "<u8",
        "topic": "<u4",
        "class": "u1",  # MessageClass
        "late_cause": "u1",  # LateCause
        "lost": "u1",  # Lost
        "mode": "u1",  # of the first hand-over: PULL or PUSH of storage.record.delivery_record, 0 without one
        "flags": "<u4",  # Flag
        "hand_overs": "<u2",  # hand-overs that began, by the nodes' accounts; 65,535 stands for that many or more
        "retries": "<u2",  # hand-overs after a failure on record
        "duplicates": "<u2",  # all other hand-overs after the first
        "received": "<u2",  # receipts of consumers
        "created_ms": "<i8",  # 0: its record header is not known
        "asked_due_ms": "<i8",  # as last asked for
        "due_ms": "<i8",  # as last stored; after a retry, when it is tried again
        "first_ms": "<i8",  # when the first hand-over began, 0 without one
        "late_ms": "<i8",  # first_ms minus the due time asked for then; 0 without a hand-over
        "settled_ms": "<i8",  # when it ended, 0 while open
        "term": "<u4",  # of the first hand-over, 0 without one
        "attempt": "<u2",
        "node": "<u2",
        "code": "<u2",  # HTTP status or reason of its end
    }.items()
}
"""The columns of messages, one row a message."""

DUPLICATES: Final[dict[str, np.dtype[Any]]] = {
    name: np.dtype(kind)
    for name, kind in {
        "home": "<u8",
        "random": "<u8",
        "topic": "<u4",
        "cause": "u1",  # Cause
        "mode": "u1",
        "term": "<u4",  # the extra hand-over, named by (term, attempt), and the node that made it
        "attempt": "<u2",
        "node": "<u2",
        "at_ms": "<i8",
        "before_term": "<u4",  # the hand-over that it repeats
        "before_attempt": "<u2",
        "before_node": "<u2",
        "before_ms": "<i8",
        "lease_end_ms": "<i8",  # end of the earlier lease; 0: not on record
        "other": "<u8",  # the message that it repeats: `home`, except for scheduled_twice
    }.items()
}
"""The columns of extra hand-overs, one row each, in order of home, then of (term, attempt)."""


def empty_columns(schema: dict[str, np.dtype[Any]], count: int = 0) -> Columns:
    """Columns of zeros, with `count` rows each."""
    return {name: np.zeros(count, kind) for name, kind in schema.items()}


def take_columns(columns: Columns, rows: npt.NDArray[Any] | slice) -> Columns:
    """The rows that a boolean array, an index array or a slice names, as columns."""
    return {name: column[rows] for name, column in columns.items()}


def join_columns(parts: Sequence[Columns], schema: dict[str, np.dtype[Any]]) -> Columns:
    """Join the rows of several sets of columns, one set behind the other."""
    if not parts:
        return empty_columns(schema)
    return {name: np.concatenate([part[name] for part in parts]) for name in schema}
