"""The border between a front and a group for messages: written, looked up, changed, counted."""

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
    """The results of n messages, in the order given, as little endian columns. A CONFLICT or KEPT row has the position,
    random bits and due time of the key's holder. A FAILED row has zeros, and `refused` has its refusal."""

    position: bytes  # n * u64
    random: bytes  # n * u64
    due_ms: bytes  # n * i64
    status: bytes  # n * u8, storage/format/schedule_status.py
    refused: dict[Count, Refusal] = msgspec.field(default_factory=dict)


class ScheduledRow(Plain, frozen=True):
    """The result of a single message, whose refusal is raised."""

    position: U64
    random: U64
    due_ms: Ms
    status: U16


class MessageAsked(Plain, frozen=True):
    """A message, as the leader has it, or as this node has applied it (`local`)."""

    id: str
    local: bool = False


class CancelAsked(Plain, frozen=True):
    """End a message if it still has this revision. None: any revision."""

    id: str
    if_match: Count | None = None


class RescheduleAsked(Plain, frozen=True):
    """Another due time: absolute, or a delay from when it is written."""

    id: str
    due_ms: I64 | None = None
    delay_ms: Ms | None = None
    if_match: Count | None = None


class Counted(Plain, frozen=True):
    """A number of messages."""

    count: Count


class HistogramAsked(Plain, frozen=True):
    """Count by due time, in buckets of this length."""

    query: CountQuery
    step_ms: Ms


class Histogram(Plain, frozen=True):
    """The buckets, in order."""

    buckets: tuple[HistogramBucket, ...]


class RedriveAsked(Plain, frozen=True):
    """Make dead messages due now. `dry_run`: only count them."""

    query: DeadQuery
    dry_run: bool


class MessagePort(Protocol):
    """Refusals are Problems on both sides, and a Refusal between them. Only the leader answers, except `message` with
    `local`. Other nodes raise `no-leader`."""

    async def schedule(self, messages: Sequence[MessageIn] | Draft) -> Scheduled:
        """Schedule messages. They are durable on a majority and applied when it returns. The refusal of a single
        message is raised. In a batch each message has its own. A direct call passes structs, others the columns of a
        Draft."""

    async def schedule_one(self, message: MessageIn | Draft) -> ScheduledRow:
        """Schedule a single message, as most requests do. Returns numbers, not columns."""

    async def schedule_each(self, draft: Draft) -> Scheduled:
        """Schedule messages of as many requests, which their front has joined. Each gets the answer that it would get
        by itself."""

    async def message(self, asked: MessageAsked) -> MessageView:
        """Raises `unknown-message`, also for text that is no id."""

    async def cancel(self, asked: CancelAsked) -> CancelResult:
        """Raises `unknown-message`, `leased`, `already-settled`, `revision-mismatch`."""

    async def reschedule(self, asked: RescheduleAsked) -> RescheduleResult:
        """Raises what `cancel` raises, and `beyond-max-delay`."""

    async def count(self, query: CountQuery) -> Counted:
        """Raises `unknown-topic`, `over-limit`."""

    async def histogram(self, asked: HistogramAsked) -> Histogram:
        """Raises what `count` raises, and `invalid-field` past HISTOGRAM_BUCKETS_MAX buckets."""

    async def dead(self, query: DeadQuery) -> DeadPage:
        """Raises `unknown-topic`."""

    async def redrive(self, asked: RedriveAsked) -> BulkResult:
        """Raises `unknown-topic`."""

    async def ledger(self, query: LedgerQuery) -> LedgerPage:
        """Raises `unknown-topic`, `invalid-field` (a cursor that is none), `over-limit`."""

    async def ledger_summary(self, query: LedgerQuery) -> LedgerSummary:
        """Raises `unknown-topic`, `over-limit`."""

    async def message_ledger(self, asked: MessageAsked) -> MessageLedger:
        """Raises `unknown-message`, `over-limit`."""
