"""The input of one judgement: up to a million messages of one home hour with all their records, and the context.

A message's id is a position (home hour, global_index), so each of its records names a row of its home hour. A bucket is
a run of consecutive units of one hour. Units, settle records, hand-overs and receipts meet in arrays indexed by
global_index - first. Nothing is hashed or sorted to find the message of a record.

Settle records of a moved message stand at its positions, which may lie in other hours. The caller lifts them out of the
bucket of such a position (`abroad_of`). Then it brings them to the bucket of the home, as it does with hand-overs and
receipts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

BUCKET_UNITS: Final = 1 << 20
"""At most so many units of an hour are judged together: about 500 MB while it lasts."""

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
        ("begun_ms", "<i8"),  # When it could hand over first.
        ("ended_ms", "<i8"),  # 0: no record of its end; its leader was killed, or still leads.
        ("seen_ms", "<i8"),  # Latest moment that is told of it, except its end; 0: its end alone is told.
        ("first_ms", "<i8"),  # Earliest such moment.
        ("before", "<u4"),  # If marked, the term that the log shows before it; 0: none.
        ("marked", "<u4"),  # 1: the record of its beginning names the term before (level 3).
        ("found_ms", "<i8"),  # Begin of the second that its leader found the log dispatched to; 0: not told.
        ("acted_ms", "<i8"),  # When its leader began the latest hand-over that is told of; 0: none is.
    ]
)
"""A term in which a node led."""

SPAN: Final = np.dtype([("node", "<u2"), ("ahead", "<u2"), ("pad", "<u4"), ("from_ms", "<i8"), ("until_ms", "<i8")])
"""A stretch of time of one node's account: from_ms <= t < until_ms. Node 0: of the node that led, whichever it was.
`ahead`: a time to come, which only a clock that was ahead has shown. It touches the messages that begin in it."""


class Topic(NamedTuple):
    """A topic, as the ledger must know it."""

    name: str
    push: bool = False
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    """Facts that hold for all buckets of one reckoning."""

    from_ms: int
    """Since when all inputs retain everything. A message that fell due before is shown, not judged."""
    until_ms: int
    """The end of the settle records: leases that end after it are running. Later records of the accounts are counted as
    `Ledger.beyond` and not judged: their Leases are not among the records yet."""
    terms: Rows = field(default_factory=lambda: np.zeros(0, TERM))
    """TERM rows, in order of term, each once."""
    nodes: tuple[int, ...] = ()
    """Numbers of all nodes that may have handed something over."""
    covered: Rows = field(default_factory=lambda: np.zeros(0, SPAN))
    """SPAN rows: the time for which each node gave its account of hand-overs."""
    gaps: Rows = field(default_factory=lambda: np.zeros(0, SPAN))
    """SPAN rows, part of `covered`: times lost in a power cut, and those that the terms show to be missing
    (ledger/unrecorded.py)."""
    topics: Mapping[int, Topic] = field(default_factory=dict)
    late_ms: int = 100
    """A first hand-over that begins so long after its due time counts as late."""
    grace_ms: int = 5_000
    """How long a recent event may take to be on record."""
    skew_ms: int = 500
    """How far the clocks of two nodes may be apart."""
    lost_after_ms: int = 0
    """If not 0, a message that is due for so long and never handed over is lost, not pending. For runs that drained
    their topics. Otherwise it is pending: it is there, and its consumer may come tomorrow."""
    twins_ms: int = 60_000
    """Equal messages scheduled within this time of each other may be one message scheduled twice. 0: do not look."""
    receipts_from_ms: int = 0
    receipts_until_ms: int = 0
    """The time that the consumers' receipts cover. Equal bounds: there are none."""
    receipt_topics: frozenset[int] | None = None
    """The topics whose consumers gave receipts. None: all."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Units first <= global_index < first + n of one hour, n <= BUCKET_UNITS, and their records.

    Each record is given once. `settles` are in file order, the others in any. `judge` counts records that name no unit
    of the bucket. It drops none silently.
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
    """[n]: the backup that the cluster was made from holds it. No account tells what the old cluster did with it."""
