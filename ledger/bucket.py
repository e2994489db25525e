"""The input of one judgement: up to a million messages of one home hour with all their records, and the context.

A message's id is a position (home hour, global_index), so each of its records names a row of its home hour. A bucket is
a run of consecutive units of one hour. Units, settle records, hand-overs and receipts meet in arrays indexed by
global_index - first. Nothing is hashed or sorted to find the message of a record.

A moved message has settle records at each position where it stood, which may lie in other hours. The caller takes these
records out of the bucket of that position (`abroad_of` in ledger/moved.py), and gives them to the bucket of the home.
Hand-overs and receipts name the home themselves, and the caller gives them to the home's bucket too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from storage.tables.topic import NO_PAUSE, Pause, pause_of

BUCKET_UNITS: Final = 1 << 20
"""The most units of an hour that are judged together. To judge so many takes about 500 MB of memory."""

Rows = npt.NDArray[np.void]

PLACE: Final = np.dtype(
    [
        ("home", "<u8"),
        ("place", "<u8"),
        ("due_ms", "<i8"),
        ("asked_due_ms", "<i8"),
        ("attempt", "<u2"),  # hand-overs of the message before it was moved to this place
        ("pad", "<u2"),
        ("pad2", "<u4"),
    ]
)
"""A unit that was appended by a move: where a message born elsewhere stands, or stood."""

ABROAD: Final = np.dtype(
    [
        ("home", "<u8"),
        ("place", "<u8"),
        ("at_ms", "<i8"),
        ("when", "<i8"),
        ("term", "<u4"),
        ("attempt", "<u2"),
        ("node", "<u2"),
        ("code", "<u2"),
        ("what", "u1"),
        ("pad", "u1"),
        ("order", "<u4"),  # its ordinal in the settle file of the hour of `place`
    ]
)
"""A settle record at a position that is not the message's home."""

RECEIPT: Final = np.dtype(
    [
        ("home", "<u8"),
        ("random", "<u8"),
        ("at_ms", "<i8"),
        ("term", "<u4"),  # 0: the consumer did not keep it
        ("attempt", "<u2"),
        ("pad", "<u2"),
    ]
)
"""A consumer's own record that it got a message."""

TWIN: Final = np.dtype([("home", "<u8"), ("likeness", "<u8"), ("created_ms", "<i8"), ("first_ms", "<i8")])
"""A message as its likeness, which is equal for messages with the same topic, due time asked for, tags and payload. It
is 0 for messages with a key (ledger/scheduled_twice.py makes it). `first_ms` is when it was first handed over, 0:
never. The caller fills it in for messages before a bucket."""

TERM: Final = np.dtype(
    [
        ("term", "<u4"),
        ("node", "<u2"),
        ("how", "<u2"),  # `code` of the record that ended it; 0 without one
        ("begun_ms", "<i8"),  # When its leader began, and could hand over; 0: no record of the beginning.
        ("ended_ms", "<i8"),  # 0: no record of its end; its leader was killed, or still leads.
        ("seen_ms", "<i8"),  # Latest time in its records but for the one of its end; 0: there is only that one.
        ("first_ms", "<i8"),  # Earliest time in its records, the one of its end included.
        ("before", "<u4"),  # If marked, the term before it in the Raft log; 0: none.
        ("marked", "<u4"),  # 1: the record of its beginning names the term before (level 3).
        ("found_ms", "<i8"),  # Begin of the second up to which its leader found all dispatched; 0: not on record.
        ("acted_ms", "<i8"),  # When its leader began the latest hand-over on record; 0: there is none.
    ]
)
"""A term in which a node led."""

SPAN: Final = np.dtype([("node", "<u2"), ("ahead", "<u2"), ("pad", "<u4"), ("from_ms", "<i8"), ("until_ms", "<i8")])
"""A span of time of one node's account: from_ms <= t < until_ms. Node 0 stands for the node that led then, if it is not
known which one that was. `ahead` is 1 for a span that lies after the moment of the ledger. Only a leader whose clock
was ahead has records of such times. A span with `ahead` touches only messages that can be handed over from some moment
in it on."""


class Topic(NamedTuple):
    """The facts about a topic that the ledger needs: its name, if its messages are pushed, if it is strict, and its
    newest pause."""

    name: str
    push: bool = False
    strict: bool = False
    pause: Pause = NO_PAUSE

    @classmethod
    def of(cls, name: str, settings: Mapping[str, Any]) -> Topic:
        """Return the facts about a topic with these settings."""
        push, strict = settings.get("mode") == "push", settings.get("handover") == "strict"
        return cls(name, push, strict, pause_of(settings))


@dataclass(frozen=True, slots=True)
class Context:
    """Facts and limits that hold for all buckets of one ledger."""

    from_ms: int
    """The begin of the window: all inputs still hold all records from here on. A message that fell due before it is
    shown, and not judged."""
    until_ms: int
    """The moment of the newest settle records that are given. A lease that ends after it is running. Later records of
    the accounts are counted as `Ledger.beyond` and not judged, because their Leases are not among the settle
    records yet."""
    terms: Rows = field(default_factory=lambda: np.zeros(0, TERM))
    """TERM rows, in order of term, one for each term."""
    nodes: tuple[int, ...] = ()
    """Numbers of all nodes that may have handed something over."""
    covered: Rows = field(default_factory=lambda: np.zeros(0, SPAN))
    """SPAN rows: the time for which each node gave its account of hand-overs."""
    gaps: Rows = field(default_factory=lambda: np.zeros(0, SPAN))
    """SPAN rows of times that are missing from the accounts after all, although `covered` may include them. A power cut
    took the records, or the terms show that some are missing (ledger/unrecorded.py)."""
    topics: Mapping[int, Topic] = field(default_factory=dict)
    held_topics: frozenset[int] = frozenset()
    """The topics whose messages an operation that runs may have. While it runs, none of them is lost by its wait."""
    late_ms: int = 100
    """A first hand-over counts as late if it begins more than this long after its due time."""
    grace_ms: int = 5_000
    """How long an event may take until it stands in the records. A younger one may still be missing from them."""
    skew_ms: int = 500
    """How far the clocks of two nodes may be apart."""
    lost_after_ms: int = 0
    """If not 0, a message that is due for longer than this and was never handed over counts as lost, not as pending.
    That suits a run whose consumers have emptied their topics. With 0 it is pending, because its consumer may still
    come."""
    twins_ms: int = 60_000
    """Equal messages scheduled within this time of each other may be one message scheduled twice. 0: do not look."""
    receipts_from_ms: int = 0
    receipts_until_ms: int = 0
    """The time that the consumers' receipts cover: from the first to the last of them. If both are equal, there are no
    receipts with times."""
    receipt_topics: frozenset[int] | None = None
    """The topics whose consumers gave receipts. None: all."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Units first <= global_index < first + n of one hour, n <= BUCKET_UNITS, and their records.

    Each record is given once. `settles` are in file order, all other records in any order. `judge` counts records that
    name no unit of the bucket, so none is dropped silently.
    """

    group: int
    hour: int
    first: int
    units: Rows  # storage.format.rows.UNIT [n]; row i is the unit first + i
    settles: Rows  # storage.format.rows.SETTLE, of these units
    headers: Rows | None  # storage.record.record.HEADER [n]; row i is of unit i. None: not known
    deliveries: (
        Rows  # storage.record.delivery_record.DELIVERY: starts and ends of all nodes whose home is in the bucket
    )
    places: Rows = field(default_factory=lambda: np.zeros(0, PLACE))  # PLACE of messages born here
    abroad: Rows = field(default_factory=lambda: np.zeros(0, ABROAD))  # `ABROAD` of messages born here
    receipts: Rows = field(default_factory=lambda: np.zeros(0, RECEIPT))  # RECEIPT of messages born here
    before: Rows = field(default_factory=lambda: np.zeros(0, TWIN))
    """TWIN rows of the messages born in this hour, before `first`, within Context.twins_ms of the first one here."""
    disputed: npt.NDArray[np.bool_] | None = None  # [n]: the nodes' copies of this unit's records differ
    restored: npt.NDArray[np.bool_] | None = None
    """[n]: True for a unit that stood in the backup from which this cluster was made. No account tells what the cluster
    before the backup did with its message."""
