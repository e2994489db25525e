"""Gathers all nodes' accounts of some hand-overs, on the leader: each member is asked for its records.

If a member does not answer in time, or if its rows are damaged on the way, it is named with the reason. Facts that only
that node can know are then unknown to the ledger.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np

from api.port.ledger import RecordsAsked, RecordsFound
from api.port.problem import Problem
from node.cluster.members import Members
from node.ledger.own_log import HandOverRecords
from node.port.peer_port import PeerPort
from replication.group import RaftGroup
from storage.format.array import U64
from storage.format.rows import Corrupt, join_rows
from storage.record.delivery_record import DELIVERY, Deliveries, read_deliveries

#: Seconds that a member may search. Usually it is asked for a second or two of hand-overs.
ASK_S: Final = 10.0
#: Up to this many bytes of rows are verified on the loop, because that takes less time than to hand them to a thread.
INLINE_BYTES: Final = 16_384


@dataclass(slots=True)
class Accounts:
    """The accounts of all nodes for the time before `until_ms`.

    - `rows`: the records that were asked for.
    - `edges`: other records that the rules need, such as those that begin terms.
    - `begun`: two values for the number of each node that answered. They are the time of its log's first record, 0 if
      it has none, and True if older records were removed.
    - `holes`: (number of a node, from_ms, until_ms), a time of which its log lacks records. A later record of the same
      term follows.
    - `open_holes`: such a time after which no later record of the same term follows.
    - `unreachable`: for the id of each node without an account, the reason.
    """

    rows: Deliveries = field(default_factory=lambda: np.zeros(0, DELIVERY))
    edges: Deliveries = field(default_factory=lambda: np.zeros(0, DELIVERY))
    begun: dict[int, tuple[int, bool]] = field(default_factory=dict)
    holes: list[tuple[int, int, int]] = field(default_factory=list)
    open_holes: list[tuple[int, int, int]] = field(default_factory=list)
    unreachable: dict[str, str] = field(default_factory=dict)
    until_ms: int = 0


class MemberAccounts:
    """Asks the members of one node's cluster, this node included, for their records of hand-overs."""

    def __init__(self, own: HandOverRecords, members: Members, group: RaftGroup, peers: PeerPort) -> None:
        self._own, self._members, self._group, self._peers = own, members, group, peers

    async def gather(self, homes: U64, from_ms: int, until_ms: int, within_s: float = ASK_S) -> Accounts:
        """Ask all members for their records of the messages born at `homes` (ascending), with from_ms <= time <
        until_ms. A member that takes longer than `within_s` counts as unreachable.

        Raises Problem `over-limit` if a member would have to look at too many records.
        """
        asked = RecordsAsked(homes.tobytes(), from_ms, until_ms)
        others = [node_id for node_id in self._members.ids() if node_id != self._members.own]
        asking = (self._ask(node_id, asked, within_s) for node_id in others)
        answers = await asyncio.gather(_own(self._own, asked, within_s), *asking)
        joining = partial(_joined, [self._members.own, *others], answers, until_ms)
        size = sum(len(answer.rows) for answer in answers if isinstance(answer, RecordsFound))
        return joining() if size <= INLINE_BYTES else await asyncio.to_thread(joining)

    async def _ask(self, node_id: str, asked: RecordsAsked, within_s: float) -> RecordsFound | str:
        """Ask one member. Return its records, or the reason why they are missing."""
        peer = self._group.peers.get(node_id)
        if peer is None or not peer.connected:
            return "is down, or cannot be reached"
        contact = self._members.contact(node_id)
        if contact is None:
            return "has no known address"
        try:
            return await self._peers.records(node_id, contact.http, asked, within_s)
        except Problem as refused:
            raise Problem(refused.code, f"{node_id}: {refused.detail}") from None


def _joined(names: Sequence[str], answers: Sequence[RecordsFound | str], until_ms: int) -> Accounts:
    """Join the answers of the nodes `names` into one Accounts. The checksums of rows are verified here once more, after
    their way over the network."""
    accounts, rows, edges = Accounts(until_ms=until_ms), [], []
    for node_id, answer in zip(names, answers, strict=True):
        if isinstance(answer, str):
            accounts.unreachable[node_id] = answer
            continue
        try:
            its_rows, its_edges = (read_deliveries(part, node_id)[0] for part in (answer.rows, answer.edges))
        except Corrupt as damaged:
            accounts.unreachable[node_id] = f"what it answered is damaged: {damaged}"
            continue
        rows.append(its_rows)
        edges.append(its_edges)
        accounts.begun[answer.number] = answer.first_ms, answer.removed
        accounts.holes += [(answer.number, *hole) for hole in answer.holes if hole not in answer.open_holes]
        accounts.open_holes += [(answer.number, *hole) for hole in answer.open_holes]
    accounts.rows, accounts.edges = join_rows(rows, DELIVERY), join_rows(edges, DELIVERY)
    return accounts


async def _own(own: HandOverRecords, asked: RecordsAsked, within_s: float) -> RecordsFound | str:
    """Return this node's own records, or the reason why they are missing."""
    try:
        async with asyncio.timeout(within_s):
            return await own.find(asked)
    except TimeoutError:
        return f"did not find its records within {within_s:g} s"
