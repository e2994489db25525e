"""The ledger at the port: the account of each message, and a node's records of hand-overs.

A part of the service port (api/port/port.py), whose rules hold here too. Classes, flags and causes are named as in
ledger/columns.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

#: The classes of the ledger. Every message has exactly one.
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
#: Most homes that a request for records may name, 8 bytes each.
ASKED_MAX: Final = 1 << 20
#: Length of a window of which the request names at most one end.
WINDOW_DEFAULT_MS: Final = 3_600_000


class LedgerQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Messages whose first due time is in [from_ms, to_ms). `topic` and `classes` leave out other topics and classes;
    None means all."""

    from_ms: int
    to_ms: int
    topic: str | None = None
    classes: tuple[str, ...] | None = None  # of CLASSES
    limit: int = 100  # 1 .. 1,000
    cursor: str | None = None


class LedgerDuplicate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A hand-over that repeats another one. The fields `before_*` and `lease_end_ms` are of that other hand-over. Both
    hand-overs are of the same message, except with the cause scheduled_twice: then the other one is of the message
    `other`. Unknown times are 0, and unknown nodes empty."""

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
    """The account of one message. Missing times are 0. `hand_overs` counts the hand-overs that nodes recorded."""

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
    """A hand-over as its node recorded it. `outcome` unknown: no end of it is on record (yet)."""

    at_ms: int
    node: str
    term: int
    attempt: int
    mode: str  # pull | push
    outcome: str  # delivered | failed | given_back | late | unknown
    ended_ms: int  # 0: no end
    code: int


class LedgerCoverage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The coverage of the ledger's answer.

    - `unreachable`: members whose accounts are missing, and why. Facts that only they have are unknown.
    - `gaps`: (node, from_ms, until_ms) that an account does not cover. Some of the messages may have been handed over
      then. The node is "" if no account says which node led.
    - `removed_until_ms`: some messages of the query whose first due time is before this were removed, because their
      retention had passed. 0: none was removed.
    """

    from_ms: int
    until_ms: int
    retained_from_ms: int
    unreachable: Mapping[str, str]
    gaps: Sequence[tuple[str, int, int]] = ()
    removed_until_ms: int = 0

    @property
    def complete(self) -> bool:
        """True if no account is missing and nothing was removed."""
        return not (self.unreachable or self.gaps or self.removed_until_ms)


class LedgerPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page of accounts, ordered by first due time, then by arrival. `sight` is its coverage. `next_cursor` None: the
    last page."""

    items: Sequence[LedgerEntry]
    sight: LedgerCoverage
    next_cursor: str | None = None


class LedgerSummary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The number of messages of each class. `counts` is the document that ledger.summary.Summary.document() makes."""

    counts: Mapping[str, Any]
    sight: LedgerCoverage


class MessageLedger(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ledger of one message, and its newest recorded hand-overs."""

    entry: LedgerEntry
    hand_overs: Sequence[HandOverEntry]
    sight: LedgerCoverage


class RecordsAsked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request for records of a node's delivery log in [from_ms, until_ms). `homes` has the first positions of the
    messages (little endian u64, ascending, each once)."""

    homes: bytes
    from_ms: int
    until_ms: int


class RecordsFound(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The records that a node found.

    `rows` and `edges` are rows of storage.record.delivery_record.DELIVERY, each with its checksum. For the last four
    fields see storage.query.delivery_search.FoundDeliveries. `number` is the number by which records name the node.
    """

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
        """Return a page of the ledger. Raises `unknown-topic`, `invalid-field` (a bad cursor), `over-limit` (too much
        fell due in that time)."""

    async def ledger_summary(self, query: LedgerQuery) -> LedgerSummary:
        """Return counts of the ledger. The query's limit, cursor and classes are ignored. Raises `unknown-topic`,
        `over-limit`."""

    async def message_ledger(self, id: str) -> MessageLedger:
        """Return the ledger of a message. Raises `unknown-message`, `over-limit`."""

    async def hand_over_records(self, asked: RecordsAsked) -> RecordsFound:
        """Return records of this node's own delivery log, whether it leads or not. Raises `over-limit`."""
