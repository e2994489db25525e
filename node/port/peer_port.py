"""Requests between the groups of two nodes outside Raft: around a change of leader, and for the ledger.

A request goes as a call (node/peer_wire/remote_peers.py), or over HTTP (node/front/peer_calls.py). The node that asks
does not know which.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from api.port.leadership import OpenHandOvers, PushOutcome, TakeoverView
from api.port.ledger import RecordsAsked, RecordsFound

#: Seconds that a request waits for a leader to appear.
LEADER_WAIT_S: Final = 2.0
#: Seconds for which answers of a former leader still count after another leader is heard. With less time, requests
#: would end with an unknown outcome where a busy leader would have answered that it did nothing. With more, requests to
#: a paused leader wait longer before they go to its successor.
FAREWELL_S: Final = 0.25
#: Seconds after which a leader that refused is asked again, while no other leader is known. It may not be established
#: yet, or it may keep its leadership.
AGAIN_S: Final = 0.02


class PeerPort(Protocol):
    """The other nodes of a group, as this node sees them."""

    async def outcomes(self, told: Sequence[PushOutcome]) -> bool:
        """Send the leader the outcomes of a former leader's pushes. Return true if the leader has settled them, or has
        refused them for good. False if it refuses them for now, because it is not sure to lead. Raises `no-leader`,
        `outcome-unknown`."""

    async def takeover(self, told: OpenHandOvers) -> TakeoverView | None:
        """Return the new leader's account of its takeover. None if no account came."""

    async def end_waits(self) -> None:
        """Ask the leader to end and answer the waits that this node passed on. Raises `no-leader`,
        `outcome-unknown`."""

    async def records(self, node: str, http: str, asked: RecordsAsked, within_s: float) -> RecordsFound | str:
        """Return the records of the node `node`, whose HTTP address is `http`. If they do not come within `within_s`,
        return the reason as text. Raises `over-limit`."""

    async def who(self, http: str) -> str | None:
        """Return the id of the node that answers HTTP at this address. None if no node does."""
