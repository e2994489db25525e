"""What is judged at once, and by what: up to a million messages of one home hour with all that is on record of them.

A message's id is a position (home hour, global_index), so whatever speaks of it names a row of its home hour. A bucket
is a run of consecutive units of one hour: units, settle records, hand-overs and receipts meet in arrays indexed by
global_index - first, and nothing is hashed or sorted to find out who belongs to whom.

What happens to a message that was moved stands at its places, which may lie in other hours. Whoever has the bucket of
such a place lifts it out (`abroad_of`) and brings it to the bucket of the home, as with hand-overs and receipts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

BUCKET_UNITS: Final = 1 << 20
"""Units of an hour that are judged together, at most: about 500 MB while it lasts."""

Rows = npt.NDArray[np.void]

PLACE: Final = np.dtype(
    [
        ("home", "<u8"),
        ("place", "<u8"),
        ("due_ms", "<i8"),
        ("asked_due_ms", "<i8"),
        ("attempt", "<u2"),  # hand-overs before it came here
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
        ("order", "<u4"),  # its ordinal in the settle file of the place's hour
    ]
)
"""A settle record at a place that is not the message's home."""

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
"""A consumer's own word that it got a message."""

TWIN: Final = np.dtype([("home", "<u8"), ("likeness", "<u8"), ("created_ms", "<i8"), ("first_ms", "<i8")])
"""A message as its likeness: equal for messages with the same topic, due time asked for, tags and payload; 0 for those
that have a key (ledger/scheduled_twice.py makes them). `first_ms` is when it was first handed over, 0: never; the
caller's to fill in for those before a bucket."""

TERM: Final = np.dtype(
    [
        ("term", "<u4"),
        ("node", "<u2"),
        ("how", "<u2"),  # `code` of the record that ended it; 0 without one
        ("begun_ms", "<i8"),  # when it could hand over first
        ("ended_ms", "<i8"),  # 0: no record of its end; its leader was killed, or still leads
        ("seen_ms", "<i8"),  # latest moment that is told of it, but for its end; 0: its end alone is told
        ("first_ms", "<i8"),  # earliest such moment
        ("before", "<u4"),  # if marked, the term that the log shows before it; 0: none
        ("marked", "<u4"),  # 1: the record of its beginning says so (level 3)
        ("found_ms", "<i8"),  # begin of the second that its leader found the log dispatched to; 0: not told
        ("acted_ms", "<i8"),  # when its leader began the latest hand-over that is told of; 0: none is
    ]
)
"""A term in which a node led."""

SPAN: Final = np.dtype([("node", "<u2"), ("ahead", "<u2"), ("pad", "<u4"), ("from_ms", "<i8"), ("until_ms", "<i8")])
"""A stretch of time of one node's account: from_ms <= t < until_ms. Node 0: of whichever node led. `ahead`: a time to
come, which only a clock that was ahead has shown. It touches the messages that begin in it."""


class Topic(NamedTuple):
    """What the ledger has to know of a topic."""

    name: str
    push: bool = False
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    """What holds for all buckets of one reckoning."""

    from_ms: int
    """Since when all that is given retains everything: what fell due before it is told, not judged."""
    until_ms: int
    """Where the settle records end: leases that end after it are running. What the accounts tell of later moments is
    counted as `Ledger.beyond` and not judged: its Leases are not among the records yet."""
    terms: Rows = field(default_factory=lambda: np.zeros(0, TERM))
    """TERM rows, in order of term, each once."""
    nodes: tuple[int, ...] = ()
    """Numbers of all nodes that may have handed something over."""
    covered: Rows = field(default_factory=lambda: np.zeros(0, SPAN))
    """SPAN rows: the time for which each node's account of its hand-overs was given."""
    gaps: Rows = field(default_factory=lambda: np.zeros(0, SPAN))
    """SPAN rows: of that, what a power cut took, and what the terms show to be missing (ledger/unrecorded.py)."""
    topics: Mapping[int, Topic] = field(default_factory=dict)
    late_ms: int = 100
    """A first hand-over that begins so long after its due time counts as late."""
    grace_ms: int = 5_000
    """How long what has just happened may take to be on record."""
    skew_ms: int = 500
    """How far the clocks of two nodes may be apart."""
    lost_after_ms: int = 0
    """Not 0: a message due for so long and never handed over is lost, not pending; for runs that drained their topics.
    By itself it is pending: it is there, and its consumer may come tomorrow."""
    twins_ms: int = 60_000
    """Equal messages scheduled within it of each other may be one message scheduled twice; 0: do not look."""
    receipts_from_ms: int = 0
    receipts_until_ms: int = 0
    """The time that the consumers' receipts cover; equal: there are none."""
    receipt_topics: frozenset[int] | None = None
    """The topics whose consumers gave receipts; None: all."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Units first <= global_index < first + n of one hour, n <= BUCKET_UNITS, and what is on record of them.

    Each record is given once; `settles` in file order, the others in any. Records that name no unit of the bucket are
    counted by `judge`, never silently dropped.
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
    abroad: Rows = field(default_factory=lambda: np.zeros(0, ABROAD))  # ABROAD of messages born here
    receipts: Rows = field(default_factory=lambda: np.zeros(0, RECEIPT))  # RECEIPT of messages born here
    before: Rows = field(default_factory=lambda: np.zeros(0, TWIN))
    """TWIN rows of the messages born in this hour, before `first`, within Context.twins_ms of the first one here."""
    disputed: npt.NDArray[np.bool_] | None = None  # [n]: the nodes' copies of this unit's records differ
    restored: npt.NDArray[np.bool_] | None = None
    """[n]: the backup that the cluster was made from holds it. What the old cluster did with it no account tells."""
