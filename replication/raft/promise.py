"""Records what nodes promised, so that a node which comes back with less does not vote as if nothing had happened.

An old copy of a data directory may be put back (a VM's snapshot, a restored backup of one node). The copy is whole and
passes every checksum. But it has forgotten votes it gave and entries it acknowledged. Raft has no answer to that. With
one other node such a copy can elect a leader that lacks an acknowledged entry. But the other nodes remember.

A node's promises only grow, in the order of (term, index). A promise says that the node has voted, campaigned or led in
`term`. It also says that the node has on its disk all entries up to `index` of that term's leader. Each promise is
durable before the message that shows it leaves. So a node whose disk lost nothing never has less than any message of it
ever showed.

On each connection a node sends `standing`: its own promises, and what it knows of the peer's. A node may find that it
has less than others know. Then it gives up its vote and is handled like a wiped disk. It follows, and votes again when
a leader has committed, without it, an entry made after that (election/may_vote.py, RegainVote). A leader may find that
a follower has less than the leader knows. Then it forgets what it believed to be on that follower's disk.

A node sends over the connection it made and hears over the one that the peer made. So a restarted node is often heard
before a message can reach it. What it has forgotten is kept for the `standing` that reaches it.

A node keeps what it knows of others in memory only, from the messages to itself. So an old copy stays undetected in two
cases:

- It reaches no node that remembers before the vote. All of them were restarted too, or are cut off, or the only one
  that heard the promise is gone.
- It promised nothing between the moment of the copy and its end.

docs/guarantees.md says what follows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from replication.journal.journal import Journal
from replication.raft.pysyncobj_core import Core
from replication.wire.frame import Message

Promise = tuple[int, int]
"""(term, index), compared in this order."""

NOTHING: Promise = (0, 0)
log = logging.getLogger("hourwheel.promise")


class Promises:
    """A node's own promises, and what it knows of the promises of other nodes.

    If others know more of its own promises than it has, it calls `distrust()`. If a peer has less than this node knows
    of it, it calls `forget(peer)`. Invariant: `own` never goes back. It is at least what this node's disk had at its
    start.
    """

    def __init__(
        self,
        core: Core,
        journal: Journal,
        send: Callable[[str, Message], bool],
        distrust: Callable[[], None],
        forget: Callable[[str], None],
    ) -> None:
        self.own: Promise = (core.term, journal.last_index)
        self._admitted = NOTHING  # the newest promise that others knew and this node had forgotten
        self._known: dict[str, Promise] = {}
        self._forgotten: dict[str, Promise] = {}  # by peer, until it has as much again; it may not know of it yet
        self._stores: dict[str, bytes] = {}
        self._send = send
        self._distrust = distrust
        self._forget = forget

    @property
    def handlers(self) -> dict[str, Callable[[str, Message], None]]:
        """The functions for the kinds of message that this part takes, by kind."""
        return {"standing": self._standing}

    def made(self, term: int, index: int = 0) -> None:
        """Note that this node has promised (`term`, `index`). Call it before a message shows the promise."""
        self.own = max(self.own, (term, index))

    def showed(self, peer: str, term: int, index: int = 0) -> None:
        """Note that a message of `peer` showed the promise (`term`, `index`)."""
        self._known[peer] = max(self._known.get(peer, NOTHING), (term, index))

    def greet(self, peer: str, store_id: bytes) -> None:
        """Send `standing` on a new connection: this node's promises, and what it knows of the peer's.

        A peer with another directory than before was wiped. It knows that it has forgotten its promises, so this node
        drops what it knows of them.
        """
        if self._stores.setdefault(peer, store_id) != store_id:
            self._stores[peer] = store_id
            self._known.pop(peer, None)
            self._forgotten.pop(peer, None)
        self._greet(peer)

    def _greet(self, peer: str) -> None:
        known = max(self._known.get(peer, NOTHING), self._forgotten.get(peer, NOTHING))
        self._send(
            peer,
            {
                "type": "standing",
                "term": self.own[0],
                "index": self.own[1],
                "known_term": known[0],
                "known_index": known[1],
            },
        )

    def _standing(self, peer: str, message: Message) -> None:
        stands, known = (message["term"], message["index"]), self._known.get(peer, NOTHING)
        if stands < known:
            log.error(
                "%s stands at term %d, entry %d and had promised term %d, entry %d: an old copy of its data directory",
                peer,
                *stands,
                *known,
            )
            self._known[peer] = stands
            self._forgotten[peer] = max(known, self._forgotten.get(peer, NOTHING))
            self._forget(peer)
            self._greet(peer)
        elif stands >= self._forgotten.get(peer, NOTHING):
            self._forgotten.pop(peer, None)
        told = (message["known_term"], message["known_index"])
        if told > max(self.own, self._admitted):
            log.error(
                "this data directory is an old copy: it stands at term %d, entry %d, and %s knows of a promise of term "
                "%d, entry %d; the node gives up its vote until it has caught up",
                *self.own,
                peer,
                *told,
            )
            self._admitted = told
            self._distrust()
