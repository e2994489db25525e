"""The border between a front and a group, as far as messages go: written, looked up, changed, counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from api.port.ledger import LedgerPage, LedgerQuery, LedgerSummary, MessageLedger
from api.port.port import CancelResult, MessageIn, MessageView, RescheduleResult
from api.port.queries import BulkResult, CountQuery, DeadPage, DeadQuery, HistogramBucket
from node.port.draft import Draft
from node.port.plain import I64, U16, U64, Count, Ms, Plain
from node.port.refusal import Refusal


class Scheduled(Plain, frozen=True):
    """What became of n messages, in the order given: little endian columns. Of a CONFLICT or KEPT row position and
    random bits are those of the key's holder, as its due time is; of a FAILED one they are 0, and `refused` has it."""

    position: bytes  # n * u64
    random: bytes  # n * u64
    due_ms: bytes  # n * i64
    status: bytes  # n * u8, storage/format/schedule_status.py
    refused: dict[Count, Refusal] = msgspec.field(default_factory=dict)


class ScheduledRow(Plain, frozen=True):
    """The same of a single message, whose refusal is raised."""

    position: U64
    random: U64
    due_ms: Ms
    status: U16


class MessageAsked(Plain, frozen=True):
    """One message, as the leader has it, or as this node has applied it (`local`)."""

    id: str
    local: bool = False


class CancelAsked(Plain, frozen=True):
    """End a message, if it still has this revision; None: whatever it has."""

    id: str
    if_match: Count | None = None


class RescheduleAsked(Plain, frozen=True):
    """Another due time: absolute, or from when it is written on."""

    id: str
    deliver_at_ms: I64 | None = None
    delay_ms: Ms | None = None
    if_match: Count | None = None


class Counted(Plain, frozen=True):
    """So many messages."""

    count: Count


class HistogramAsked(Plain, frozen=True):
    """The same by due time, in buckets of this length."""

    query: CountQuery
    step_ms: Ms


class Histogram(Plain, frozen=True):
    """One behind the other."""

    buckets: tuple[HistogramBucket, ...]


class RedriveAsked(Plain, frozen=True):
    """Make dead messages due now; `dry_run`: only count them."""

    query: DeadQuery
    dry_run: bool


class MessagePort(Protocol):
    """Refusals are Problems on both sides, and a Refusal between them. All but `message` with `local` are the leader's,
    and raise `no-leader` elsewhere."""

    async def schedule(self, messages: Sequence[MessageIn] | Draft) -> Scheduled:
        """Durable on a majority and applied when it returns. One message's refusal is raised; in a batch each has its
        own. The structs of a direct call are what a Draft says in columns."""

    async def schedule_one(self, message: MessageIn | Draft) -> ScheduledRow:
        """The same of a single message, as most requests are: numbers, not columns."""

    async def schedule_each(self, draft: Draft) -> Scheduled:
        """Messages of as many requests, which their front has joined: to each what it would be answered by itself."""

    async def message(self, asked: MessageAsked) -> MessageView:
        """`unknown-message` also for text that is no id."""

    async def cancel(self, asked: CancelAsked) -> CancelResult:
        """`unknown-message`, `leased`, `already-settled`, `revision-mismatch`."""

    async def reschedule(self, asked: RescheduleAsked) -> RescheduleResult:
        """The refusals of `cancel`, and `beyond-max-delay`."""

    async def count(self, query: CountQuery) -> Counted:
        """`unknown-topic`, `over-limit`."""

    async def histogram(self, asked: HistogramAsked) -> Histogram:
        """The refusals of `count`; `invalid-field` past HISTOGRAM_BUCKETS_MAX buckets."""

    async def dead(self, query: DeadQuery) -> DeadPage:
        """`unknown-topic`."""

    async def redrive(self, asked: RedriveAsked) -> BulkResult:
        """`unknown-topic`."""

    async def ledger(self, query: LedgerQuery) -> LedgerPage:
        """`unknown-topic`, `invalid-field` (a cursor that is none), `over-limit`."""

    async def ledger_summary(self, query: LedgerQuery) -> LedgerSummary:
        """`unknown-topic`, `over-limit`."""

    async def message_ledger(self, asked: MessageAsked) -> MessageLedger:
        """`unknown-message`, `over-limit`."""
