"""What crosses the port about the ledger: what became of each message, and what a node has on record of hand-overs.

A part of the service port (api/port/port.py), whose rules hold here too. The words are those of ledger/columns.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

#: The classes of the ledger: every message is exactly one.
CLASSES: Final = (
    "delivered_once",
    "delivered_more",
    "dead",
    "cancelled",
    "expired",
    "pending",
    "in_flight",
    "lost",
    "delivered",
)
#: Most homes that one request for records may name, 8 bytes each.
ASKED_MAX: Final = 1 << 20
#: How long a window may be that begins or ends by itself.
WINDOW_DEFAULT_MS: Final = 3_600_000


class LedgerQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Messages that fell due, where they were born, in [from_ms, to_ms); of a topic, of some classes (None: of all)."""

    from_ms: int
    to_ms: int
    topic: str | None = None
    classes: tuple[str, ...] | None = None  # of CLASSES
    limit: int = 100  # 1 .. 1,000
    cursor: str | None = None


class LedgerDuplicate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A hand-over that repeats another one of the message; with `cause` scheduled_twice one of the message `other`.
    Times are 0 and nodes empty where they are not known."""

    cause: str
    mode: str
    at_ms: int
    node: str
    term: int
    attempt: int
    before_ms: int
    before_node: str
    before_term: int
    before_attempt: int
    lease_end_ms: int
    other: str = ""


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One message of the ledger; times are 0 where there is none. `hand_overs` are those that the nodes wrote down."""

    id: str
    topic: str
    kind: str  # of CLASSES
    flags: Sequence[str]
    late_cause: str
    lost: str
    hand_overs: int
    retries: int
    created_ms: int
    asked_due_ms: int
    due_ms: int
    first_ms: int
    late_ms: int
    settled_ms: int
    mode: str
    term: int
    attempt: int
    node: str
    code: int
    duplicates: Sequence[LedgerDuplicate] = ()


class HandOverEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One hand-over as the node that made it wrote it down. `outcome` unknown: no end of it is on record (yet)."""

    at_ms: int
    node: str
    term: int
    attempt: int
    mode: str  # pull | push
    outcome: str  # delivered | failed | given_back | late | unknown
    ended_ms: int  # 0: no end
    code: int


class LedgerSight(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the ledger was made from. `unreachable`: members whose accounts are missing, and why; what only they know is
    unknown. `gaps`: (node, from_ms, until_ms) of which an account holds nothing, and in which some of the messages may
    have been handed over; the node is "" where nobody tells which one led. `removed_until_ms`: some messages of the
    window that were born before are gone, by age; 0: none is."""

    from_ms: int
    until_ms: int
    retained_from_ms: int
    unreachable: Mapping[str, str]
    gaps: Sequence[tuple[str, int, int]] = ()
    removed_until_ms: int = 0

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return not (self.unreachable or self.gaps or self.removed_until_ms)


class LedgerPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """In order of due time at home, then of arrival; `next_cursor` None: the last page."""

    items: Sequence[LedgerEntry]
    sight: LedgerSight
    next_cursor: str | None = None


class LedgerSummary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many of each; `counts` is ledger.summary.Summary.document()."""

    counts: Mapping[str, Any]
    sight: LedgerSight


class MessageLedger(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ledger of one message, and the newest hand-overs of it that are on record."""

    entry: LedgerEntry
    hand_overs: Sequence[HandOverEntry]
    sight: LedgerSight


class RecordsAsked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which records of a node's delivery log: of the messages born at `homes` (little endian u64, ascending, each
    once), in [from_ms, until_ms)."""

    homes: bytes
    from_ms: int
    until_ms: int


class RecordsFound(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`rows` and `edges` are rows of storage.record.delivery_record.DELIVERY, each with its checksum (see
    storage.query.delivery_search.FoundDeliveries, where the last four are told too); `number` is the node's in
    records."""

    node: str
    number: int
    rows: bytes
    edges: bytes
    holes: Sequence[tuple[int, int]] = ()
    open_holes: Sequence[tuple[int, int]] = ()
    first_ms: int = 0
    removed: bool = False


class LedgerPort(Protocol):
    """The ledger. A part of `api.port.port.Port`."""

    async def ledger(self, query: LedgerQuery) -> LedgerPage:
        """`unknown-topic`, `invalid-field` (a cursor that is none), `over-limit` (too much fell due in that time)."""

    async def ledger_summary(self, query: LedgerQuery) -> LedgerSummary:
        """`unknown-topic`, `over-limit`. Limit, cursor and classes do not matter."""

    async def message_ledger(self, id: str) -> MessageLedger:
        """`unknown-message`, `over-limit`."""

    async def hand_over_records(self, asked: RecordsAsked) -> RecordsFound:
        """From this node's own delivery log, whether it leads or not. `over-limit`."""
