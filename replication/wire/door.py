"""Which connections may come in by the Raft port while there is no TLS: strangers, guests, and contested places.

A connection without a hello is a **stranger**. A node keeps STRANGERS_MAX of them. If another one comes, the node
closes a stranger: the oldest one of the address that has most strangers. So an address with many connections keeps no
other address out.

A peer whose hello has no cluster id is a **guest** of a node that has one. The guest has an empty disk, and cannot know
the id before another node tells it. A guest names a member, and this node dials that member's own address. It believes
the name only if the node at that address says the same store id as the guest. A guest may send the messages in
GUEST_KINDS. With them it asks and acknowledges, and its acknowledgements count for no majority. So a message of a guest
changes no term, no vote and no leader:

    a guest sends                          this node
    census, pre_vote, snapshot_pull        answers, at the member's own address; nothing here changes
    census_answer                          takes it: this node has a cluster id, so no answer makes it the first node
    next_node_idx                          takes it with `voter` false: the leader sends what comes next, and counts
                                           the answer for no majority
    echo, standing, sum_asked, sum_told,   ignores it
    stale_term, committed, pre_vote_ok,
    response_vote
    a message that only a leader or a      refuses it by name and closes the connection
    candidate sends

A connection made before this node had the id keeps its rights for GUEST_S. In that time the other nodes learn the id
too and connect again. This node closes a guest after GUEST_S as well, unless the guest pulls a snapshot. By then the
guest may have an id, and connects again with it.

**A place is kept.** A member has one connection to this node. A second connection may name the same member. It gets the
place only if the first one does not answer a ping within CONTEST_S. If a real member comes back after a cut, its first
connection does not answer. The node at the member's own address may say another store id than the new connection. Then
the new connection gets the place only if that node does not answer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final

from replication.wire.frame import Message, encode_message
from replication.wire.handshake import Hello, Refusal
from replication.wire.link import Connection
from replication.wire.said_seldom import SaidSeldom

STRANGERS_MAX: Final = 64
"""Bound on connections that sent no hello yet, or wait for a contested place."""
CONTEST_S: Final = 0.7
"""How long a connection may take to answer a ping when another one names the same member.

It is longer than a peer's pause between two pings. It is shorter than the second that a dialling node waits.
"""
LATE_S: Final = 0.05
GUEST_S: Final = 5.0
CONNECTED: Final = "connected"
GUEST_KINDS: Final = frozenset(("census", "census_answer", "pre_vote", "snapshot_pull", "next_node_idx"))
UNHEARD_KINDS: Final = frozenset(
    ("echo", "standing", "sum_asked", "sum_told", "stale_term", "committed", "pre_vote_ok", "response_vote")
)


class Door:
    """Keeps the strangers of one node, and decides which connection gets a member's place.

    `incoming` is the transport's table of connections that members made. `dialled` returns the connection that this
    node made to a member. `admit` accepts a connection, and `refuse` answers it with a refusal.
    """

    def __init__(
        self,
        incoming: dict[str, Connection],
        dialled: Callable[[str], Connection | None],
        admit: Callable[[Connection, Hello], None],
        refuse: Callable[[Connection, Hello, Refusal], None],
        seldom: SaidSeldom,
    ) -> None:
        self.strangers: dict[Connection, None] = {}  # in the order of arrival
        self._incoming = incoming
        self._dialled = dialled
        self._admit = admit
        self._refuse = refuse
        self._seldom = seldom

    def make_room(self) -> None:
        """Make room for a new stranger. If there are STRANGERS_MAX already, close the oldest one of the address that
        has most.
        """
        if len(self.strangers) < STRANGERS_MAX:
            return
        share = Counter(stranger.host for stranger in self.strangers)
        most = max(share.values())
        oldest = next(stranger for stranger in self.strangers if share[stranger.host] == most)
        del self.strangers[oldest]
        oldest.abort()

    def knock(self, connection: Connection, said: Hello, own: Hello) -> None:
        """Take a new connection whose hello `said` is acceptable. `own` is this node's hello.

        Admit it at once if no other connection keeps it from its place. Otherwise ping that other one first, and decide
        after CONTEST_S.
        """
        holder = self._holder(said, own)
        if holder is None:
            self._admit(connection, said)
            return
        asked_s = asyncio.get_running_loop().time()
        holder.write(encode_message({"type": "ping"}, holder.protocol))
        self._decide_at(asked_s + CONTEST_S, connection, said, own, (holder, asked_s))

    def heard(self, guest: Connection, message: Message) -> Message | None:
        """Return a guest's message in the form in which this node handles it, None if it is ignored. See the table of
        the module.
        """
        assert guest.hello is not None, "not greeted"
        kind, peer = message["type"], guest.hello.node_id
        if kind not in GUEST_KINDS:
            if kind not in UNHEARD_KINDS:
                self._seldom.warning("%s of %s is refused: it has no cluster id", kind, peer)
                guest.abort()
            return None
        there = self._dialled(peer)
        if there is None or there.hello is None or there.hello.store_id != guest.hello.store_id:
            return None
        if kind == "snapshot_pull":
            guest.pulled_s = guest.heard_s
        return message | {"voter": False} if "voter" in message else message

    def _holder(self, said: Hello, own: Hello) -> Connection | None:
        """The living connection that keeps the new connection with the hello `said` from its place. None if there is
        none.

        It has the place itself, or it leads to the peer's own address, where a node says another store id.
        """
        dialled, former = self._dialled(said.node_id), self._incoming.get(said.node_id)
        there = dialled.hello if dialled is not None and dialled.alive else None
        if there is not None and there.store_id != said.store_id:
            return dialled
        if former is None or not former.alive or former.hello is None:
            return None
        if said.cluster_id is not None and former.hello.cluster_id is None:
            return None
        confirmed = there is not None and former.hello.store_id != said.store_id
        return None if confirmed else former

    def _decide_at(
        self, at_s: float, connection: Connection, said: Hello, own: Hello, asked: tuple[Connection, float]
    ) -> None:
        asyncio.get_running_loop().call_at(at_s, self._decide, at_s, connection, said, own, asked)

    def _decide(
        self, at_s: float, connection: Connection, said: Hello, own: Hello, asked: tuple[Connection, float]
    ) -> None:
        now, (holder, asked_s) = asyncio.get_running_loop().time(), asked
        if connection not in self.strangers:
            return
        if now - at_s > LATE_S:  # this process stood still: an answer may wait unread
            self._decide_at(now + LATE_S, connection, said, own, asked)
            return
        standing = self._holder(said, own)
        if standing is holder and holder.heard_s <= asked_s:
            holder.abort()
        elif standing is not None:
            detail = f"{said.node_id} is connected with {own.node_id} already, and that connection answers"
            self._refuse(connection, said, Refusal(CONNECTED, detail))
            return
        self._admit(connection, said)
