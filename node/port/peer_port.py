"""Requests between the groups of two nodes outside Raft: around a change of leader, and for the ledger.

The asking node does not know by which way it is heard (node/peer_wire/remote_peers.py, node/front/peer_calls.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from api.port.leadership import OpenHandOvers, PushOutcome, TakeoverView
from api.port.ledger import RecordsAsked, RecordsFound

#: How long a request waits for a leader to appear.
LEADER_WAIT_S: Final = 2.0
#: An answer of a former leader may arrive this long after another leader is heard. With less time, outcomes are unknown
#: where a busy leader would have said that it did nothing. With more, requests to a paused leader wait longer for its
#: successor.
FAREWELL_S: Final = 0.25
#: After this time a leader that refused is asked again, while no other is known. It may not be established yet, or may
#: lead on.
AGAIN_S: Final = 0.02


class PeerPort(Protocol):
    """The other nodes of a group, as this node sees them."""

    async def outcomes(self, told: Sequence[PushOutcome]) -> bool:
        """Send the leader the outcomes of a former leader's pushes. Return true if they are settled. They are not while
        it refuses them for now, as a leader does that is not sure to lead. Raises `no-leader`, `outcome-unknown`."""

    async def takeover(self, told: OpenHandOvers) -> TakeoverView | None:
        """Return the account of the new leader. None if it gave none."""

    async def end_waits(self) -> None:
        """Let the leader answer the waits that this node passed on. Raises `no-leader`, `outcome-unknown`."""

    async def records(self, node: str, http: str, asked: RecordsAsked, within_s: float) -> RecordsFound | str:
        """Return the records of this node, whose HTTP is at this address, or why it gave none. Raises `over-limit`."""

    async def who(self, http: str) -> str | None:
        """Return the id of the node that answers HTTP at this address. None if none does."""
