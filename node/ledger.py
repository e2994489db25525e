"""The ledger of recent hours, made on the leader: what became of each message, from the records of all nodes.

    the leader's store      units, settle records, places: as linearizable as any read
    every member            what it wrote down of its hand-overs (ledger_accounts.py)
    ledger.judge            the rules that Spark's reconciliation applies too

A window is worked through in pieces: so many messages in order of due time, those of one millisecond together. Each
piece is read as of one moment, in threads, then the members are asked, and then it is judged; between two the leader
asks whether it still leads. Hand-overs of the running term that began after that moment are left out, for their Leases
are not in what was read. So memory depends on a piece, and the loop is never held for longer than a gather takes.

A window of a million messages takes seconds. What is larger is for `hourwheel reconcile`, and refused by name.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from api.ledger import (
    CLASSES,
    LedgerEntry,
    LedgerPage,
    LedgerQuery,
    LedgerSight,
    LedgerSummary,
    MessageLedger,
    RecordsAsked,
    RecordsFound,
)
from api.problem import FieldFault, Problem
from ledger.bucket import BUCKET_UNITS, SPAN, Context, Topic
from ledger.columns import CLASS_WORDS, Columns
from ledger.judge import Ledger, judge
from ledger.summary import Summary
from ledger.terms import merge_terms, terms_of
from node.hand_over_records import HandOverRecords
from node.ledger_accounts import ASK_S, Accounts, gather_accounts
from node.ledger_reading import HourGone, Story, read_story
from node.ledger_view import show_entries, show_hand_overs
from storage.array import I64
from storage.delivery_record import START, Deliveries
from storage.format import FORWARDED, LEASED, PENDING, RELEASED, Corrupt, join_rows, take_rows
from storage.message_window import Born, MessageWindow, TooMany
from storage.position import HOUR_MS, INDEX_BITS, INDEX_MAX

if TYPE_CHECKING:
    from node.message_view import Found
    from node.reign import Reign
    from node.server import Node
    from storage.hour import Hour

#: Messages judged together, and in one hour of a request.
PIECE: Final = 1 << 16
WINDOW_MAX: Final = 4 << 20
#: Requests that work or wait to.
WAITING_MAX: Final = 8
#: Hand-overs are looked for from so long before a message fell due, the clocks of two leaders apart.
BEFORE_MS: Final = 10_000
#: And until so long after the moment of reading: a former leader's clock may have been ahead.
AHEAD_MS: Final = 1_000
#: How long after a message ended its last hand-overs' ends are looked for; and where it went out several times, when
#: the acks of earlier ones may come late.
AFTER_MS: Final = 60_000
AFTER_SEVERAL_MS: Final = 900_000
#: How long members may search when one message is asked for.
ASK_ONE_S: Final = 0.5
#: So few messages and hand-overs are judged in less time than the way to a thread takes.
INLINE_ROWS: Final = 64
#: A message is judged together with those due in the same millisecond, which may be the same one scheduled twice, if
#: these are no more.
TOGETHER_MAX: Final = 4_096

#: So long after the moment an account still counts as given.
COVER_AFTER_MS: Final = 60_000

_NEVER_MS: Final = 1 << 62
_CURSOR: Final = re.compile(r"([0-9a-f]{11})-([0-9a-f]{16})", re.ASCII)

Leads = Callable[[], "Reign"]
"""Raises `Problem` unless this node may answer as leader at this moment."""


@dataclass(slots=True)
class Judged:
    """Some messages of one hour. `rows` are the messages in the order in which they are shown."""

    story: Story
    ledger: Ledger
    messages: Columns
    duplicates: Columns
    rows: I64
    deliveries: Deliveries


@dataclass(slots=True)
class _Seen:
    """What the pieces of one request were made from."""

    unreachable: dict[str, str] = field(default_factory=dict)
    gaps: set[tuple[str, int, int]] = field(default_factory=set)


class Ledgers:
    """The ledgers that one node makes; the caller has asked that it leads, and `leads` asks again or raises."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._records = HandOverRecords(node)
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def records(self, asked: RecordsAsked) -> RecordsFound:
        """See api.ledger.LedgerPort.hand_over_records."""
        return await self._records.find(asked)

    async def page(self, query: LedgerQuery, leads: Leads) -> LedgerPage:
        """See api.ledger.LedgerPort.ledger."""
        after = _read_cursor(query.cursor)
        wanted = None
        if query.classes is not None:
            wanted = np.array([CLASS_WORDS.index(word) for word in CLASSES if word in query.classes], np.uint8)
        items: list[LedgerEntry] = []
        places: list[tuple[int, int]] = []
        seen = _Seen()
        size = query.limit if wanted is None else PIECE
        async with self._my_turn(), aclosing(self._judged(query, after, size, seen, leads)) as pieces:
            async for judged in pieces:
                rows = judged.rows
                if wanted is not None:
                    rows = rows[np.isin(judged.messages["class"][rows], wanted)]
                rows = rows[: query.limit + 1 - len(items)]
                items += self._shown(judged, rows)
                due_ms = judged.story.trail.units["due_ms"][rows].tolist()
                places += zip(due_ms, judged.messages["home"][rows].tolist(), strict=True)
                if len(items) > query.limit:
                    break
        more = len(items) > query.limit
        cursor = "{:011x}-{:016x}".format(*places[query.limit - 1]) if more else None
        return LedgerPage(items[: query.limit], self._sight(query.from_ms, query.to_ms, seen), cursor)

    async def summary(self, query: LedgerQuery, leads: Leads) -> LedgerSummary:
        """See api.ledger.LedgerPort.ledger_summary."""
        summary, seen = Summary(), _Seen()
        async with self._my_turn(), aclosing(self._judged(query, None, PIECE, seen, leads)) as pieces:
            async for judged in pieces:
                summary += Summary.of(judged.ledger)
        wrong = summary.wrong()
        assert not wrong, f"the ledger does not add up: {wrong}"
        return LedgerSummary(summary.document(), self._sight(query.from_ms, query.to_ms, seen))

    async def message(self, found: Found, leads: Leads) -> MessageLedger:
        """Of one message that is there."""
        node, hour_number, index = self._node, found.home >> INDEX_BITS, found.home & INDEX_MAX
        hour, _ = node.store.extent(hour_number)
        assert hour is not None, "found, and its hour is not there"
        due_ms = int(node.store.units(np.array([found.home], np.uint64))["due_ms"][0])
        at = np.array([index], np.int64)
        if hour.near and hour.heads().second(due_ms // 1000 % 3600)[1] <= TOGETHER_MAX:
            window = MessageWindow(hour, due_ms, due_ms + 1, found.record.topic, TOGETHER_MAX)
            at = np.union1d(at, (await self._born(window, hour)).at)
        seen = _Seen()
        try:
            judged = await self._judge(hour, np.sort(at), seen, ASK_ONE_S)
        except HourGone:
            raise Problem("unknown-message", "this message is past its retention since a moment ago") from None
        leads()
        row = int(judged.story.homes.searchsorted(np.uint64(found.home)))
        (entry,) = self._shown(judged, np.array([row], np.int64))
        its = np.flatnonzero(judged.deliveries["home"] == np.uint64(found.home))
        shown = show_hand_overs(take_rows(judged.deliveries, its), self._node.members.name)
        return MessageLedger(entry, shown, self._sight(found.record.created_ms, node.clock.now_ms(), seen))

    # -- pieces

    async def _judged(
        self, query: LedgerQuery, after: tuple[int, int] | None, size: int, seen: _Seen, leads: Leads
    ) -> AsyncGenerator[Judged]:
        """The messages of a window behind `after` (due time, home), `size` or a few more at a time."""
        store = self._node.store
        topic = self._topic(query.topic)
        from_ms = query.from_ms if after is None else max(query.from_ms, after[0])
        left = WINDOW_MAX
        for number in store.hours():
            hour, _ = store.extent(number)
            if hour is None or (number + 1) * HOUR_MS <= from_ms or number * HOUR_MS >= query.to_ms:
                continue
            born = await self._born(MessageWindow(hour, from_ms, query.to_ms, topic, left), hour)
            left -= len(born.at)
            behind = np.ones(len(born.at), np.bool_)
            if after is not None:
                position = born.at | number << INDEX_BITS
                behind = (born.due_ms > after[0]) | ((born.due_ms == after[0]) & (position > after[1]))
            for rows in _pieces(born.due_ms[behind], size):
                try:
                    judged = await self._judge(hour, np.sort(born.at[behind][rows]), seen, ASK_S)
                except HourGone:
                    break
                leads()
                yield judged

    async def _born(self, window: MessageWindow, hour: Hour) -> Born:
        try:
            return window.run() if window.quick else await asyncio.to_thread(window.run)
        except TooMany as many:
            detail = f"{many}; take a narrower window, or hourwheel reconcile"
            raise Problem("over-limit", detail) from None
        except Corrupt:
            if self._node.store.extent(hour.number)[0] is not hour:
                return Born(np.empty(0, np.int64), np.empty(0, np.int64))
            raise

    async def _judge(self, hour: Hour, at: I64, seen: _Seen, within_s: float) -> Judged:
        """Messages of one hour by their global indexes, ascending. Raises HourGone."""
        node = self._node
        moment_ms, term = node.clock.now_ms(), node.group.term
        story = await read_story(node.store, hour, at)
        accounts = await self._accounts(story, moment_ms, within_s) if _begun(story, moment_ms) else Accounts()
        rows = accounts.rows
        rows = take_rows(rows, np.flatnonzero((rows["at_ms"] <= moment_ms) | (rows["term"] != term)))
        for node_id, why in accounts.unreachable.items():
            seen.unreachable.setdefault(node_id, why)
        seen.gaps |= {(node.members.name(number), *span) for number, *span in accounts.holes}  # type: ignore[misc]
        context = self._context(story, accounts, moment_ms)
        bucket = story.bucket(rows)
        quick = max(len(rows), len(at)) <= INLINE_ROWS
        ledger = judge(bucket, context) if quick else await asyncio.to_thread(judge, bucket, context)
        due_ms = story.trail.units["due_ms"]
        order = np.lexsort((story.homes, due_ms))
        return Judged(story, ledger, story.named(ledger.messages), story.named(ledger.duplicates), order, rows)

    async def _accounts(self, story: Story, moment_ms: int, within_s: float) -> Accounts:
        """What the members know of these messages' hand-overs: until a while after they ended, or until now."""
        settles, due_ms = story.trail.settles, story.trail.units["due_ms"]
        earliest_ms = min(int(part.min()) for part in (due_ms, story.places["due_ms"]) if len(part)) - BEFORE_MS
        open_ = _open(story)
        ended_ms = int(max(settles["at_ms"].max(initial=0), story.abroad["at_ms"].max(initial=0)))
        now_ms = moment_ms + AHEAD_MS
        until_ms = now_ms if open_.any() else min(now_ms, ended_ms + AFTER_MS)
        found = await gather_accounts(self._node, self._records, story.homes, earliest_ms, until_ms + 1, within_s)
        later_ms = min(now_ms, ended_ms + AFTER_SEVERAL_MS)
        again = found.rows["home"][(found.rows["kind"] == START)]
        several, counts = np.unique(again, return_counts=True)
        several = several[counts > 1]
        if later_ms > until_ms and len(several):
            more = await gather_accounts(self._node, self._records, several, until_ms + 1, later_ms + 1, within_s)
            found.rows = join_rows([found.rows, more.rows], found.rows.dtype)
            found.unreachable |= more.unreachable
        return found

    def _context(self, story: Story, accounts: Accounts, moment_ms: int) -> Context:
        node = self._node
        covered = [
            (number, 0, 0, _covered_from(story, number, *begun), moment_ms + COVER_AFTER_MS)
            for number, begun in accounts.begun.items()
        ]
        gaps = np.array([(number, 0, 0, *span) for number, *span in accounts.holes], SPAN)
        members = {member.number for member in node.members.table.current()}
        named = set(np.unique(story.trail.settles["node"]).tolist()) | set(np.unique(story.abroad["node"]).tolist())
        return Context(
            from_ms=max((first_ms for first_ms, removed in accounts.begun.values() if removed), default=0),
            until_ms=moment_ms,
            terms=merge_terms([terms_of(accounts.edges), terms_of(accounts.rows)]),
            nodes=tuple(sorted((members | named) - {0})),
            covered=np.array(covered, SPAN),
            gaps=gaps,
            topics={
                topic.number: Topic(
                    topic.name,
                    push=topic.settings.get("mode") == "push",
                    strict=topic.settings.get("handover") == "strict",
                )
                for topic in node.store.catalog.topics()
            },
        )

    # -- what is shown

    def _shown(self, judged: Judged, rows: I64) -> list[LedgerEntry]:
        node = self._node

        def topic_name(number: int) -> str:
            topic = node.store.catalog.topic_by_number(number)
            return topic.name if topic else ""

        def twin(home: int) -> int:
            row = int(judged.story.homes.searchsorted(np.uint64(home)))
            return int(judged.messages["random"][row])

        return show_entries(
            judged.messages, judged.duplicates, rows, topic=topic_name, node=node.members.name, twin=twin
        )

    def _sight(self, from_ms: int, until_ms: int, seen: _Seen) -> LedgerSight:
        return LedgerSight(
            from_ms=from_ms,
            until_ms=until_ms,
            retained_from_ms=self._retained_ms(self._node.clock.now_ms()),
            unreachable=seen.unreachable,
            gaps=sorted(seen.gaps),
        )

    def _retained_ms(self, now_ms: int) -> int:
        return max(0, now_ms - self._node.config.storage.retention_ms)

    def _topic(self, name: str | None) -> int | None:
        if name is None:
            return None
        topic = self._node.store.catalog.topic(name)
        if topic is None:
            raise Problem("unknown-topic", f"no topic is named {name}; scheduling to it or PUT creates it")
        return topic.number

    @asynccontextmanager
    async def _my_turn(self) -> AsyncGenerator[None]:
        if self._waiting >= WAITING_MAX:
            raise Problem("over-limit", f"{self._waiting} ledgers are being made, as many as may; ask again later")
        self._waiting += 1
        try:
            async with self._turn:
                yield
        finally:
            self._waiting -= 1


def _covered_from(story: Story, number: int, first_ms: int, removed: bool) -> int:
    """Since when a node's account is whole, 0: since ever. Older files go by age; and when the records say that it
    leased before its log begins, that was lost with its directory, and it covers what it tells and no more."""
    leased_ms = min(
        (
            int(rows["at_ms"][its].min())
            for rows in (story.trail.settles, story.abroad)
            if (its := (rows["what"] == LEASED) & (rows["node"] == number)).any()
        ),
        default=0,
    )
    if not first_ms:
        return _NEVER_MS if leased_ms else 0
    return first_ms if removed or 0 < leased_ms < first_ms - AHEAD_MS else 0


def _begun(story: Story, moment_ms: int) -> bool:
    """Whether any of the messages can have been handed over by now: none is due, and none was ever touched, is no."""
    return len(story.trail.settles) > 0 or int(story.trail.units["due_ms"].min()) <= moment_ms + AHEAD_MS


def _open(story: Story) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which of the messages had not ended, [n]."""
    what = np.zeros(len(story.homes), np.uint8)
    settles = story.trail.settles
    at = story.trail.units["global_index"].searchsorted(settles["global_index"])
    what[at] = settles["what"]  # in the order of the file: the newest stays
    open_: np.ndarray[tuple[int], np.dtype[np.bool_]] = np.isin(what, (PENDING, LEASED, RELEASED, FORWARDED))
    return open_


def _pieces(due_ms: I64, size: int) -> Sequence[slice]:
    """Runs of `size` messages and those due at the same millisecond as the last of them, as far as a bucket holds."""
    pieces: list[slice] = []
    start = 0
    while start < len(due_ms):
        end = min(start + size, len(due_ms))
        end = min(int(due_ms.searchsorted(due_ms[end - 1], "right")), start + BUCKET_UNITS)
        pieces.append(slice(start, end))
        start = end
    return pieces


def _read_cursor(cursor: str | None) -> tuple[int, int] | None:
    """Due time and home of the last message of the page before."""
    if cursor is None:
        return None
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        detail = "the cursor is not one of a page of the ledger; send next_cursor as it came"
        raise Problem("invalid-field", detail, errors=[FieldFault("", detail, parameter="cursor")])
    return int(match[1], 16), int(match[2], 16)
