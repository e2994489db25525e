"""Requests between the groups of two nodes, as calls. A node whose build knows no calls is asked over HTTP instead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, cast

import structlog

from api.port.leadership import OpenHandOvers, PushOutcome, TakeoverView
from api.port.ledger import RecordsAsked, RecordsFound
from api.port.problem import Problem
from node.peer_wire.connection import Answered, Busy, Lost
from node.peer_wire.to_leader import ToLeader
from node.peer_wire.wire import PeerWire
from node.port.codec import encode
from node.port.group_frames import read_answer
from node.port.group_port import GroupStatus, OutcomesSent, PeerNode
from node.port.peer_port import PeerPort

log = structlog.get_logger()

#: HTTP statuses of refusals after which the same request may succeed in a moment, perhaps at another leader.
LATER: Final = frozenset((429, 500, 503, 504))


class RemotePeers:
    """Implements PeerPort. `older` asks nodes that know no calls. `reaches` returns true if the leader takes calls."""

    def __init__(
        self,
        status: Callable[[], GroupStatus],
        reaches: Callable[[], bool],
        to_leader: ToLeader,
        wire: PeerWire,
        older: PeerPort,
    ) -> None:
        self._status, self._reaches, self._to_leader = status, reaches, to_leader
        self._wire, self._older = wire, older

    async def outcomes(self, told: Sequence[PushOutcome]) -> bool:
        """See PeerPort. Outcomes that a leader refuses for good are not sent again."""
        if not self._reaches():
            return await self._older.outcomes(told)
        answer = await self._to_leader.call("outcomes", encode(OutcomesSent(tuple(told))), 0)
        try:
            read_answer("outcomes", answer)
        except Problem as refused:
            if refused.status not in LATER:
                log.warning("a leader refused outcomes of pushes", error=str(refused), count=len(told))
            return refused.status not in LATER
        return True

    async def takeover(self, told: OpenHandOvers) -> TakeoverView | None:
        """See PeerPort."""
        if not self._reaches():
            return await self._older.takeover(told)
        try:
            return cast(TakeoverView, read_answer("takeover", await self._to_leader.call("takeover", encode(told), 0)))
        except Problem as refused:
            log.warning("the new leader gave no account", error=str(refused))
            return None

    async def end_waits(self) -> None:
        """See PeerPort. Waits that this node made as calls are ended one by one, by their numbers
        (ToLeader.end_wait)."""
        if not self._reaches():
            await self._older.end_waits()

    async def records(self, node: str, http: str, asked: RecordsAsked, within_s: float) -> RecordsFound | str:
        """See PeerPort."""
        peer = next((each for each in self._status().peers if each.node == node), None)
        if peer is None or not peer.calls:
            return await self._older.records(node, http, asked, within_s)
        try:
            async with asyncio.timeout(within_s):
                answered = await self._asked(peer, "records", encode(asked))
            return cast(RecordsFound, read_answer("records", answered.frame))
        except TimeoutError:
            return f"did not answer within {within_s:g} s"
        except (Lost, Busy) as why:
            return f"gave no answer: {why}"
        except Problem as refused:
            if refused.code == "over-limit":
                raise
            return f"refused: {refused.detail}"

    async def who(self, http: str) -> str | None:
        """See PeerPort. It goes over HTTP, because the node may be no member yet."""
        return await self._older.who(http)

    async def _asked(self, peer: PeerNode, name: str, frame: bytes) -> Answered:
        """Return the answer of the node `peer` to this call. Raises Lost, Busy."""
        connection = await self._wire.reach(peer)
        if connection is None:
            raise Lost(f"{peer.node} takes no connection", begun=False)
        call = connection.begin(name, frame)
        try:
            return await call.answer
        except asyncio.CancelledError:
            connection.end(call)
            raise
