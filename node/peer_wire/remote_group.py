"""A group that another node leads, as the front of this node asks it.

Messages of single requests go to the leader as one draft. A call costs the leader ten times what a row of a draft does,
and an entry of the Raft log twenty times. Clients that send one message and wait for its answer come in waves. So a
draft stays open as long as each turn of the loop brings more requests. Each request gets the answer of its row.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast

import numpy as np

from api.port.forward import ANSWERED, Answered, tell
from api.port.port import MessageIn
from api.port.problem import Problem
from node.port.draft import Draft, encode_draft, join_drafts
from node.port.group_frames import FramedGroup, Frames
from node.port.message_port import Scheduled, ScheduledRow
from node.port.refusal import NOTHING_DONE, Refusal
from node.port.trust_window import TrustWindow

#: Bytes of records and rows at which a draft is full.
JOIN_BYTES: Final = 128 * 1024
JOIN_ROWS: Final = 1_024
#: A draft is open for at most this time.
JOIN_S: Final = 0.004

_Row = ScheduledRow | Refusal
_Waiting = tuple[Draft, "asyncio.Future[tuple[_Row, Answered]]"]


class RemoteGroup(FramedGroup):
    """A FramedGroup that joins the messages of single requests to drafts."""

    def __init__(self, number: int, window: TrustWindow, frames: Frames) -> None:
        super().__init__(number, window, frames)
        self._waiting: list[_Waiting] = []  # rows of the open draft
        self._before = 0  # rows that waited when the loop's turn began
        self._open_until_s = 0.0
        self._bytes = 0
        self._calls: set[asyncio.Task[None]] = set()

    async def schedule_one(self, message: MessageIn | Draft) -> ScheduledRow:
        """See MessagePort."""
        draft = message if isinstance(message, Draft) else encode_draft((message,))
        loop = asyncio.get_running_loop()
        if not self._waiting:
            self._before, self._open_until_s = 0, loop.time() + JOIN_S
            loop.call_soon(self._turned)
        future: asyncio.Future[tuple[_Row, Answered]] = loop.create_future()
        self._waiting.append((draft, future))
        self._bytes += len(draft.records)
        if self._bytes >= JOIN_BYTES or len(self._waiting) >= JOIN_ROWS:
            self._send()
        row, answered = await future
        tell(answered.node, answered.term)
        if isinstance(row, Refusal):
            raise row.problem()
        return row

    def _turned(self) -> None:
        """Note that a turn of the loop has ended. If it brought several requests, keep the draft open for another turn,
        which may bring more. Otherwise send the draft."""
        loop, count = asyncio.get_running_loop(), len(self._waiting)
        if count > self._before + (not self._before) and loop.time() < self._open_until_s:
            self._before = count
            loop.call_soon(self._turned)
        elif count:  # else the draft was full before the turn ended
            self._send()

    def _send(self) -> None:
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        call = asyncio.ensure_future(self._schedule(waiting))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def _schedule(self, waiting: list[_Waiting]) -> None:
        answered = Answered()
        ANSWERED.set(answered)  # of this task; each request sets its own
        try:
            rows = await self._answers([draft for draft, _ in waiting])
        except Exception as failed:  # each request fails with it, as with its own
            for _, future in waiting:
                if not future.done():
                    future.set_exception(failed)
            return
        for (_, future), row in zip(waiting, rows, strict=True):
            if not future.done():  # else its client has gone
                future.set_result((row, answered))

    async def _answers(self, drafts: list[Draft]) -> list[_Row]:
        """The answers of the leader. If it lost leadership in the middle, the rest goes to the next one. ToLeader sends
        a call there of which nothing was written. So each time fewer drafts are left."""
        try:
            if len(drafts) == 1:
                return [await super().schedule_one(drafts[0])]
            rows = _rows_of(cast(Scheduled, await self._call("schedule_each", join_drafts(drafts))))
        except Problem as refused:
            return [Refusal.of(refused)] * len(drafts)
        left = [at for at, row in enumerate(rows) if isinstance(row, Refusal) and row.code in NOTHING_DONE]
        if 0 < len(left) < len(drafts):
            for at, row in zip(left, await self._answers([drafts[at] for at in left]), strict=True):
                rows[at] = row
        return rows


def _rows_of(scheduled: Scheduled) -> list[_Row]:
    """Return the result of each message: its row, or its refusal."""
    position, random = (np.frombuffer(column, np.uint64).tolist() for column in (scheduled.position, scheduled.random))
    due_ms = np.frombuffer(scheduled.due_ms, np.int64).tolist()
    rows: list[_Row] = list(map(ScheduledRow, position, random, due_ms, scheduled.status))
    for row, before in scheduled.before.items():
        rows[row] = ScheduledRow(position[row], random[row], due_ms[row], scheduled.status[row], before)
    for row, refusal in scheduled.refused.items():
        rows[row] = refusal
    return rows
