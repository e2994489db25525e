"""What the groups of two nodes say to each other outside Raft: around a change of leader, and for the ledger.

A node that asks does not know by which way it is heard (node/peer_wire/remote_peers.py, node/front/peer_calls.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from api.port.leadership import OpenHandOvers, PushOutcome, TakeoverView
from api.port.ledger import RecordsAsked, RecordsFound

#: How long a request waits for a leader to appear.
LEADER_WAIT_S: Final = 2.0
#: What a former leader answered before another one was heard has so long to arrive. Less: unknown outcomes where a busy
#: one would have said that it did nothing; more: requests under way to a paused one wait longer for its successor.
FAREWELL_S: Final = 0.25
#: How soon a leader that refused is asked again while no other is known: it may not be established yet, or lead on.
AGAIN_S: Final = 0.02


class PeerPort(Protocol):
    """The other nodes of a group, as this one sees them."""

    async def outcomes(self, told: Sequence[PushOutcome]) -> bool:
        """Tell the leader what became of pushes of a former one. Whether they are settled: not while it refuses them
        for now, as one that is not sure to lead does. Raises `no-leader`, `outcome-unknown`."""

    async def takeover(self, told: OpenHandOvers) -> TakeoverView | None:
        """The account of the new leader; None if it gave none."""

    async def end_waits(self) -> None:
        """Let the leader answer the waits that this node passed on. Raises `no-leader`, `outcome-unknown`."""

    async def records(self, node: str, http: str, asked: RecordsAsked, within_s: float) -> RecordsFound | str:
        """What this node, whose HTTP is at this address, has on record, or why it gave nothing. Raises `over-limit`."""

    async def who(self, http: str) -> str | None:
        """The id of the node that answers HTTP at this address; None where none does."""
