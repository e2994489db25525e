"""Requests between the groups of two nodes over the public HTTP API, for nodes of a build that knows no calls.

Only this file makes such requests. The next release removes it (node/peer_wire/remote_peers.py has the calls).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import structlog

from api.port.forward import ForwardAnswer, ForwardRequest
from api.port.leadership import OpenHandOvers, PushOutcome, TakeoverView
from api.port.ledger import RecordsAsked, RecordsFound
from api.port.problem import Problem
from node.front.forwarding import Forwarding

log = structlog.get_logger()

OUTCOMES: Final = "/v1/cluster/outcomes"
TAKEOVER: Final = "/v1/cluster/takeover"
WAITS: Final = "/v1/cluster/waits"
RECORDS: Final = "/v1/ledger/records"
#: Seconds for a node to answer with its id.
WHO_S: Final = 1.0
#: HTTP statuses after which the same request may succeed in a moment, perhaps at another leader.
_LATER: Final = (429, 500, 502, 503, 504)
_JSON: Final = {"Content-Type": "application/json"}
_MSGPACK: Final = {"Content-Type": "application/msgpack"}
_FOUND: Final = msgspec.msgpack.Decoder(RecordsFound)
_TAKEOVER: Final = msgspec.json.Decoder(TakeoverView)


class HttpPeers:
    """Implements PeerPort for the nodes that this one, `node_id`, reaches over HTTP."""

    def __init__(self, node_id: str, forwarder: Forwarding) -> None:
        self._node_id, self._forwarder = node_id, forwarder

    async def outcomes(self, told: Sequence[PushOutcome]) -> bool:
        """See PeerPort. Outcomes that a leader refuses for good are not sent again."""
        answer = await self._to_leader(OUTCOMES, {"outcomes": told})
        if answer.status not in (200, *_LATER):
            log.warning("a leader refused outcomes of pushes", status=answer.status, count=len(told))
        return answer.status not in _LATER

    async def takeover(self, told: OpenHandOvers) -> TakeoverView | None:
        """See PeerPort."""
        try:
            answer = await self._to_leader(TAKEOVER, told)
            return _TAKEOVER.decode(answer.body) if answer.status == 200 else None
        except (Problem, msgspec.DecodeError) as error:
            log.warning("the new leader gave no account", error=str(error))
            return None

    async def end_waits(self) -> None:
        """See PeerPort."""
        await self._to_leader(WAITS, {"node": self._node_id})

    async def records(self, node: str, http: str, asked: RecordsAsked, within_s: float) -> RecordsFound | str:
        """See PeerPort."""
        request = ForwardRequest("POST", RECORDS, _MSGPACK, msgspec.msgpack.encode(asked))
        answer = await self._forwarder.ask(http, request, within_s)
        if answer is None:
            return f"did not answer within {within_s:g} s"
        if answer.status == 200:
            try:
                return _FOUND.decode(answer.body)
            except msgspec.DecodeError as wrong:
                return f"answered what cannot be read: {wrong}"
        if answer.status == 429:
            raise Problem("over-limit", str(msgspec.json.decode(answer.body).get("detail", "")))
        return f"answered {answer.status}"

    async def who(self, http: str) -> str | None:
        """See PeerPort."""
        answer = await self._forwarder.ask(http, ForwardRequest("GET", "/livez", {}, b""), WHO_S)
        return None if answer is None else answer.headers.get("Hourwheel-Node")

    async def _to_leader(self, target: str, told: object) -> ForwardAnswer:
        return await self._forwarder.forward(ForwardRequest("POST", target, _JSON, msgspec.json.encode(told)))
