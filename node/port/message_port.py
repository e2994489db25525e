"""The border between a front and a group for messages: written, looked up, changed, counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from api.port.ledger import LedgerPage, LedgerQuery, LedgerSummary, MessageLedger
from api.port.message import MessagePage, MessageView
from api.port.port import CancelResult, MessageIn, RescheduleResult
from api.port.queries import (
    CountQuery,
    DeadPage,
    DeadQuery,
    Histogram,
    ListQuery,
    MessageCount,
    OperationIn,
    OperationPage,
    OperationVerb,
    OperationView,
    WheelHour,
    WheelQuery,
)
from node.port.draft import Draft
from node.port.plain import I64, U16, U64, Count, Ms, Plain
from node.port.refusal import Refusal


class Superseded(Plain, frozen=True):
    """The message that had the key of a REPLACED or EXTENDED row. `attempts` are its hand-overs, and `prior` says what
    is known of them: 0 none, 1 known, 2 unknown. `revision` is that of the message that has the key now."""

    position: U64
    random: U64
    attempts: Count
    prior: U16
    revision: Count


class Scheduled(Plain, frozen=True):
    """The results of n messages, in the order in which they were given, as little endian columns. A CONFLICT, KEPT or
    EXTENDED row has the position, random bits and due time of the message that holds the key. A FAILED row has zeros,
    and `refused` has its refusal, by row. `before` is there for REPLACED and EXTENDED rows."""

    position: bytes  # n * u64
    random: bytes  # n * u64
    due_ms: bytes  # n * i64
    status: bytes  # n * u8, storage/format/schedule_status.py
    refused: dict[Count, Refusal] = msgspec.field(default_factory=dict)
    before: dict[Count, Superseded] = msgspec.field(default_factory=dict)


class ScheduledRow(Plain, frozen=True):
    """The result of a single message, with the columns of `Scheduled` as numbers. A refusal is raised instead."""

    position: U64
    random: U64
    due_ms: Ms
    status: U16
    before: Superseded | None = None


class MessageAsked(Plain, frozen=True):
    """A look-up of a message. With `local` the asked node answers with what it has applied, otherwise the leader
    answers."""

    id: str
    local: bool = False


class CancelAsked(Plain, frozen=True):
    """A cancel of a message, if it still has this revision. None: at any revision."""

    id: str
    if_match: Count | None = None


class RescheduleAsked(Plain, frozen=True):
    """Another due time for a message: a time, or a delay that begins when the change is written. `if_match` as in
    CancelAsked."""

    id: str
    due_ms: I64 | None = None
    delay_ms: Ms | None = None
    if_match: Count | None = None


class HistogramAsked(Plain, frozen=True):
    """A count by due time, in buckets of `step_ms`. None: the leader chooses the step."""

    query: CountQuery
    step_ms: Ms | None


class OperationAsked(Plain, frozen=True):
    """A look-up of an operation."""

    id: str


class OperationChange(Plain, frozen=True):
    """An operation to pause, to let go on, or to end early."""

    id: str
    verb: OperationVerb


class OperationsAsked(Plain, frozen=True):
    """A page of at most `most` operations that began before the operation `after`. None: the newest ones."""

    after: str | None
    most: Count


class MessagePort(Protocol):
    """The calls about messages. Only the leader answers them, except `message` with `local`. Other nodes raise
    `no-leader`. A refusal is a `Problem` on both sides, and a `Refusal` on its way between them."""

    async def schedule(self, messages: Sequence[MessageIn] | Draft) -> Scheduled:
        """Schedule messages. They are durable on a majority and applied when it returns. The refusal of a single
        message is raised; in a batch each message has its own refusal. A direct call passes MessageIn structs, a call
        as bytes passes a Draft."""

    async def schedule_one(self, message: MessageIn | Draft) -> ScheduledRow:
        """Schedule a single message, as most requests do. Returns its numbers without arrays."""

    async def schedule_each(self, draft: Draft) -> Scheduled:
        """Schedule the messages of many requests, one row for each request, which their front has joined. Each message
        gets the result that it would get by itself."""

    async def schedule_all(self, draft: Draft) -> Scheduled:
        """Schedule all messages of a draft in one entry, or none. Each has a key. If the status of any is FAILED or
        CONFLICT, none was scheduled. Raises a refusal of them all."""

    async def message(self, asked: MessageAsked) -> MessageView:
        """Return a message. Raises `unknown-message`, also for text that is no id."""

    async def cancel(self, asked: CancelAsked) -> CancelResult:
        """Cancel a message. Raises `unknown-message`, `leased`, `already-settled`, `revision-mismatch`."""

    async def reschedule(self, asked: RescheduleAsked) -> RescheduleResult:
        """Give a message another due time. Raises what `cancel` raises, and `beyond-max-delay`."""

    async def messages(self, query: ListQuery) -> MessagePage:
        """Return a page of messages. Raises `unknown-topic`, `over-limit`, and `invalid-field` for a cursor of another
        query or another cluster."""

    async def count(self, query: CountQuery) -> MessageCount:
        """Count messages. Raises `unknown-topic`, `over-limit`."""

    async def histogram(self, asked: HistogramAsked) -> Histogram:
        """Count messages by due time. Raises what `count` raises, and `invalid-field` for more than
        HISTOGRAM_BUCKETS_MAX buckets."""

    async def wheel(self, query: WheelQuery) -> WheelHour:
        """Return an hour of the wheel, second by second. Raises what `count` raises."""

    async def dead(self, query: DeadQuery) -> DeadPage:
        """Return a page of dead letters. Raises `unknown-topic`."""

    async def ledger(self, query: LedgerQuery) -> LedgerPage:
        """Return a page of the ledger. Raises `unknown-topic`, `invalid-field` (text that is no cursor),
        `over-limit`."""

    async def ledger_summary(self, query: LedgerQuery) -> LedgerSummary:
        """Return counts of the ledger. Raises `unknown-topic`, `over-limit`."""

    async def message_ledger(self, asked: MessageAsked) -> MessageLedger:
        """Return the ledger of one message. Raises `unknown-message`, `over-limit`."""

    async def begin_operation(self, wish: OperationIn) -> OperationView:
        """See api.port.queries.OperationPort."""

    async def operation(self, asked: OperationAsked) -> OperationView:
        """Return an operation. Raises `unknown-operation`."""

    async def change_operation(self, asked: OperationChange) -> OperationView:
        """See api.port.queries.OperationPort."""

    async def operations(self, asked: OperationsAsked) -> OperationPage:
        """Return a page of operations, the newest first. Raises `invalid-field`."""
