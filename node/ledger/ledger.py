"""The ledger of recent hours, made on the leader: what became of each message, from the records of all nodes.

    the leader's store      units, settle records, places: as linearizable as any read
    every member            the hand-overs in its own delivery log (ask_members.py)
    ledger.judge            the rules, which Spark's reconciliation applies too

A window of time is worked through in pieces of PIECE messages, in order of due time. Messages due in the same
millisecond stay together. The store is read for a piece as of one moment, in threads. Then the members are asked, and
then the rules are applied. Between two pieces the leader asks if it still leads. Hand-overs after the moment are left
out, because their Leases are not in what was read. So memory depends on the size of a piece, and the loop is never held
for longer than one gather takes.

A window of a million messages takes seconds. A larger one is for `hourwheel reconcile`, and the refusal names it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np

from api.port.ledger import (
    CLASSES,
    HandOverEntry,
    LedgerCoverage,
    LedgerEntry,
    LedgerPage,
    LedgerQuery,
    LedgerSummary,
    MessageLedger,
    RecordsAsked,
    RecordsFound,
)
from api.port.problem import FieldFault, Problem
from ledger.bucket import BUCKET_UNITS, Topic
from ledger.columns import CLASS_WORDS
from ledger.summary import Summary
from node.cluster.members import Members
from node.handover.term import Leads
from node.ledger.ask_members import ASK_S, Accounts, MemberAccounts
from node.ledger.judge import (
    COVER_AFTER_MS,
    Judged,
    hand_over_time,
    handed_over_again,
    judge_story,
    may_be_handed_over,
)
from node.ledger.own_log import HandOverRecords
from node.ledger.read import HourGone, HourMessages, read_hour_messages
from node.ledger.view import show_entries, show_hand_overs
from node.message.view import FoundMessage
from node.runtime.clock import NodeClock
from node.runtime.one_at_a_time import OneAtATime
from storage.format.array import I64
from storage.format.position import HOUR_MS, INDEX_BITS, INDEX_MAX
from storage.format.rows import Corrupt, join_rows
from storage.hour.hour import Hour
from storage.query.due_in_window import Born, MessageWindow, TooMany
from storage.record.delivery_record import DELIVERY
from storage.store import Store

#: Most messages in one piece, and in one window.
PIECE: Final = 1 << 15
WINDOW_MAX: Final = 4 << 20
#: Most requests for ledgers at a time, those that wait included, and most of them that take turns at work. Each of the
#: latter holds a piece in memory.
WAITING_MAX: Final = 64
TAKE_TURNS: Final = 8
#: Seconds that members may search when a client asks for one message.
ASK_ONE_S: Final = 0.5
#: Up to this many messages and hand-overs are judged on the loop, because that takes less time than to hand them to a
#: thread.
INLINE_ROWS: Final = 64
#: A message is judged together with others due in the same millisecond, because one of them may be the same message
#: scheduled twice. If they are more than this, it is judged alone.
TOGETHER_MAX: Final = 4_096

_CURSOR: Final = re.compile(r"([0-9a-f]{11})-([0-9a-f]{16})", re.ASCII)


@dataclass(slots=True)
class _Seen:
    """The members and times for which accounts were missing, in all pieces of one request."""

    unreachable: dict[str, str] = field(default_factory=dict)
    gaps: set[tuple[str, int, int]] = field(default_factory=set)


class Ledgers:
    """Makes ledgers on one node. The caller has checked that the node leads. The functions get `leads`, which checks
    that again and raises if the node does not lead."""

    def __init__(
        self,
        store: Store,
        clock: NodeClock,
        members: Members,
        records: HandOverRecords,
        accounts: MemberAccounts,
        retention_ms: int,
    ) -> None:
        """`records` finds hand-overs that this node made. `retention_ms` is how long delivery logs are kept."""
        self._store, self._clock, self._members = store, clock, members
        self._records, self._member_accounts, self._retention_ms = records, accounts, retention_ms
        self._turns = OneAtATime("ledgers", WAITING_MAX, TAKE_TURNS)

    async def records(self, asked: RecordsAsked) -> RecordsFound:
        """See api.port.ledger.LedgerPort.hand_over_records."""
        return await self._records.find(asked)

    async def page(self, query: LedgerQuery, leads: Leads) -> LedgerPage:
        """See api.port.ledger.LedgerPort.ledger."""
        after = _read_cursor(query.cursor)
        wanted = None
        if query.classes is not None:
            wanted = np.array([CLASS_WORDS.index(word) for word in CLASSES if word in query.classes], np.uint8)
        items: list[LedgerEntry] = []
        places: list[tuple[int, int]] = []
        seen = _Seen()
        size = query.limit + 1 if wanted is None else PIECE
        judging = partial(self._judged, query, after, size, seen, leads)
        async with self._turns.shared() as turn, aclosing(judging(turn)) as pieces:
            async for judged in pieces:
                rows = judged.rows
                if wanted is not None:
                    rows = rows[np.isin(judged.messages["class"][rows], wanted)]
                rows = rows[: query.limit + 1 - len(items)]
                items += self._shown(judged, rows)
                due_ms = judged.hour_messages.trail.units["due_ms"][rows].tolist()
                places += zip(due_ms, judged.messages["home"][rows].tolist(), strict=True)
                if len(items) > query.limit:
                    break
        more = len(items) > query.limit
        cursor = "{:011x}-{:016x}".format(*places[query.limit - 1]) if more else None
        return LedgerPage(items[: query.limit], self._window(query, seen), cursor)

    async def summary(self, query: LedgerQuery, leads: Leads) -> LedgerSummary:
        """See api.port.ledger.LedgerPort.ledger_summary."""
        summary, seen = Summary(), _Seen()
        judging = partial(self._judged, query, None, PIECE, seen, leads)
        async with self._turns.shared() as turn, aclosing(judging(turn)) as pieces:
            async for judged in pieces:
                summary += Summary.of(judged.ledger)
        wrong = summary.wrong()
        assert not wrong, f"the ledger does not add up: {wrong}"
        return LedgerSummary(summary.document(), self._window(query, seen))

    async def message(self, found: FoundMessage, leads: Leads) -> MessageLedger:
        """Return the ledger of one message, which the caller has found in the store."""
        hour_number, index = found.home >> INDEX_BITS, found.home & INDEX_MAX
        hour = self._store.hour(hour_number)
        assert hour is not None, "found, and its hour is not there"
        due_ms = int(self._store.units(np.array([found.home], np.uint64))["due_ms"][0])
        at = np.array([index], np.int64)
        if hour.near and hour.heads().second(due_ms // 1000 % 3600)[1] <= TOGETHER_MAX:
            window = MessageWindow(hour, due_ms, due_ms + 1, found.record.topic, TOGETHER_MAX)
            at = np.union1d(at, (await self._born(window, hour)).at)
        seen = _Seen()
        try:
            judged = await self._judge(hour, np.sort(at), seen, ASK_ONE_S)
        except HourGone:
            raise Problem("unknown-message", "this message is past its retention since a moment ago") from None
        row = int(judged.hour_messages.homes.searchsorted(np.uint64(found.home)))
        (entry,) = self._shown(judged, np.array([row], np.int64))

        def shows() -> list[HandOverEntry]:
            return show_hand_overs(judged.hand_overs_of(found.home), self._members.name)

        shown = shows() if len(judged.deliveries) <= INLINE_ROWS else await asyncio.to_thread(shows)
        leads()
        return MessageLedger(entry, shown, self._sight(found.record.created_ms, self._clock.now_ms(), seen))

    # -- pieces

    async def _judged(
        self,
        query: LedgerQuery,
        after: tuple[int, int] | None,
        size: int,
        seen: _Seen,
        leads: Leads,
        turn: asyncio.Lock,
    ) -> AsyncGenerator[Judged]:
        """Yield the messages of the query's window, judged in pieces of about `size`. The work on each piece holds the
        lock `turn`. With `after` (due time, home) the first piece begins behind that message."""
        store = self._store
        topic = self._topic(query.topic)
        from_ms = query.from_ms if after is None else max(query.from_ms, after[0])
        left = WINDOW_MAX
        for number in store.hours(from_ms // HOUR_MS, -(-query.to_ms // HOUR_MS)):
            hour = store.hour(number)
            if hour is None:
                continue
            async with turn:
                born = await self._born(MessageWindow(hour, from_ms, query.to_ms, topic, left), hour)
            left -= len(born.at)
            behind = np.ones(len(born.at), np.bool_)
            if after is not None:
                position = born.at | number << INDEX_BITS
                behind = (born.due_ms > after[0]) | ((born.due_ms == after[0]) & (position > after[1]))
            for rows in _pieces(born.due_ms[behind], size):
                try:
                    async with turn:
                        judged = await self._judge(hour, np.sort(born.at[behind][rows]), seen, ASK_S)
                except HourGone:
                    break
                leads()
                yield judged

    async def _born(self, window: MessageWindow, hour: Hour) -> Born:
        try:
            return window.run() if window.quick else await asyncio.to_thread(window.run)
        except TooMany:
            detail = (
                f"more than {WINDOW_MAX} messages fell due in that time; take a narrower one, or hourwheel reconcile"
            )
            raise Problem("over-limit", detail) from None
        except Corrupt:
            if not self._store.is_linked(hour):
                return Born(np.empty(0, np.int64), np.empty(0, np.int64))
            raise

    async def _judge(self, hour: Hour, at: I64, seen: _Seen, within_s: float) -> Judged:
        """Apply the rules to the messages of one hour with the global indexes `at`, ascending. Note in `seen` which
        accounts were missing. Raises HourGone."""
        moment_ms = self._clock.now_ms()
        hour_messages = await read_hour_messages(self._store, hour, at)
        accounts = Accounts()
        if may_be_handed_over(hour_messages, moment_ms):
            accounts = await self._accounts(hour_messages, moment_ms, within_s)
        for node_id, why in accounts.unreachable.items():
            seen.unreachable.setdefault(node_id, why)
        judging = partial(
            judge_story,
            hour_messages,
            accounts,
            moment_ms=moment_ms,
            members=[member.number for member in self._members.table.current()],
            topics=self._topics(),
            restored=self._store.catalog.restored,
        )
        quick = max(len(accounts.rows), len(at)) <= INLINE_ROWS
        judged = judging() if quick else await asyncio.to_thread(judging)
        name = self._members.name
        seen.gaps |= {(name(number) or "", from_ms, until_ms) for number, from_ms, until_ms in judged.gaps}
        for number in judged.unheard:
            node_id = name(number) or f"number {number}"
            seen.unreachable.setdefault(node_id, "made hand-overs, and is no member any more")
        return judged

    async def _accounts(self, hour_messages: HourMessages, moment_ms: int, within_s: float) -> Accounts:
        """Ask the members for the hand-overs of these messages."""
        quick = len(hour_messages.homes) <= INLINE_ROWS
        when = partial(hand_over_time, hour_messages, moment_ms)
        time = when() if quick else await asyncio.to_thread(when)
        found = await self._member_accounts.gather(hour_messages.homes, time.from_ms, time.until_ms, within_s)
        again = partial(handed_over_again, found.rows)
        several = again() if len(found.rows) <= INLINE_ROWS else await asyncio.to_thread(again)
        if time.later_ms > time.until_ms and len(several):
            more = await self._member_accounts.gather(several, time.until_ms, time.later_ms, within_s)
            found.rows = join_rows([found.rows, more.rows], DELIVERY)
            found.unreachable |= more.unreachable
        return found

    def _topics(self) -> dict[int, Topic]:
        """Return the topics that have settings, by number, as the rules need them. Other topics are left out."""
        return {
            topic.number: Topic.of(topic.name, topic.settings) for topic in self._store.catalog.topics_with_settings()
        }

    # -- what is shown

    def _shown(self, judged: Judged, rows: I64) -> list[LedgerEntry]:
        store = self._store

        def topic_name(number: int) -> str:
            topic = store.catalog.topic_by_number(number)
            return topic.name if topic else ""

        def twin(home: int) -> int:
            row = int(judged.hour_messages.homes.searchsorted(np.uint64(home)))
            return int(judged.messages["random"][row])

        return show_entries(
            store.group, judged.messages, judged.duplicates, rows, topic=topic_name, node=self._members.name, twin=twin
        )

    def _window(self, query: LedgerQuery, seen: _Seen) -> LedgerCoverage:
        hours = query.from_ms // HOUR_MS, -(-query.to_ms // HOUR_MS)
        removed = self._store.catalog.last_unlinked(*hours)
        removed_until_ms = 0 if removed is None else (removed + 1) * HOUR_MS
        return self._sight(query.from_ms, query.to_ms, seen, removed_until_ms)

    def _sight(self, from_ms: int, until_ms: int, seen: _Seen, removed_until_ms: int = 0) -> LedgerCoverage:
        now_ms = self._clock.now_ms()
        return LedgerCoverage(
            from_ms=from_ms,
            until_ms=until_ms,
            # A clock that was ahead may have removed hours that are not old by this clock.
            retained_from_ms=max(self._retained_ms(now_ms), removed_until_ms),
            removed_until_ms=removed_until_ms,
            unreachable=seen.unreachable,
            gaps=sorted(
                {
                    (name, begin or min(from_ms, end), min(end, max(begin, now_ms + COVER_AFTER_MS)))
                    for name, begin, end in seen.gaps
                }
            ),
        )

    def _retained_ms(self, now_ms: int) -> int:
        return max(0, now_ms - self._retention_ms)

    def _topic(self, name: str | None) -> int | None:
        if name is None:
            return None
        topic = self._store.catalog.topic(name)
        if topic is None:
            raise Problem("unknown-topic", f"no topic is named {name}; scheduling to it or PUT creates it")
        return topic.number


def _pieces(due_ms: I64, size: int) -> Sequence[slice]:
    """Cut n due times, ascending, into pieces of `size`. A piece goes on while the due time stays the same, up to
    BUCKET_UNITS."""
    pieces: list[slice] = []
    start = 0
    while start < len(due_ms):
        end = min(start + size, len(due_ms))
        end = min(int(due_ms.searchsorted(due_ms[end - 1], "right")), start + BUCKET_UNITS)
        pieces.append(slice(start, end))
        start = end
    return pieces


def _read_cursor(cursor: str | None) -> tuple[int, int] | None:
    """Decode the cursor of a page: the due time and home of the last message of the page before. None without a
    cursor."""
    if cursor is None:
        return None
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        detail = "the cursor is not one of a page of the ledger; send next_cursor as it came"
        raise Problem("invalid-field", detail, errors=[FieldFault("", detail, parameter="cursor")])
    return int(match[1], 16), int(match[2], 16)
