"""Checks that the nodes have the same state. The leader names an index, and every node says its rolling hash after that
entry.

    leader                                     follower
    heartbeat: check_index = 1207     ->       (has applied 1207)
                                      <-       echo: sum_index = 1207, sum = 9f..
    a majority of the voters, itself counted, has 9f..: agreed
    heartbeat: agreed_index = 1207,
               agreed_sum = 9f..      ->       its own hash is the same: fine. Another: it asks all others itself
                                               (`sum_asked`), and if a majority has 9f.., it is the odd one out
                                               and stops

While all agree this costs no message of its own, no disk and no wait. A round takes a round trip. It takes up to a
second if a node has not applied the index yet. That node is asked again in a later round, and a difference does not go
away. A leader that finds itself against a majority is the odd one out like any other node. It stops, and the others
elect a leader.

A hash says by which version it was made (state_hashes.py). A hash of another version than this node's is left out of
the comparison.

If the nodes differ and no majority has one hash, the wrong node is unknown. Then no node stops, and `split` says each
node's hash. The split ends when enough nodes were heard for a majority. No node stops because of one other node, not
even the leader. A follower that differs asks the others, and stops only if a majority differs from it. So one faulty
node cannot stop the rest. Only the hash is compared. It does not say why a node differs (a bug, a bit of memory, an
edited file).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from replication.raft.state_hashes import StateHashes, comparable

ASK_AGAIN = 40
"""A follower that differs asks about one index for this many heartbeats, and then about a newer one.

The others may not remember the hash after the older entry any more.
"""
ROUND_S = 1.0
"""How long a round waits for nodes that are connected and have not applied its index."""


class OddOneOut(Exception):
    """This node's applied entries had another effect than those of a majority of the voters. Its data cannot be
    trusted.
    """

    def __init__(self, node_id: str, index: int, own: bytes, agreed: bytes) -> None:
        super().__init__(
            f"node {node_id} differs from the majority: after entry {index} its state has the hash {own.hex()}, "
            f"a majority of the cluster has {agreed.hex()}. Its data is not to be trusted, so it stops and does not "
            "start on this directory again: keep a copy of the directory for the cause, remove it, and start the node; "
            "with an empty directory it rejoins and is built anew from the others"
        )


@dataclass(frozen=True, slots=True)
class Split:
    """The state in which nodes differ and no majority has one hash. `sums` has the hash of each node that was heard,
    after entry `index`.
    """

    index: int
    sums: Mapping[str, bytes]

    def __str__(self) -> str:
        stand = ", ".join(f"{node_id} at {held.hex()[:12]}" for node_id, held in sorted(self.sums.items()))
        return f"after entry {self.index} nodes differ and no majority agrees: {stand}"


class Agreement:
    """Compares the hashes of the members. The leader asks in rounds, and a follower checks what the leader says.

    `agreed_index` and `agreed_sum`: the newest entry after which a majority is known to have one hash, and that hash.
    They are 0 and b"" until a first one is known in this process.
    """

    def __init__(self, node_id: str, sums: StateHashes) -> None:
        self.agreed_index = 0
        self.agreed_sum = b""
        self.split: Split | None = None
        self.differing: tuple[str, ...] = ()
        """Members that were found in this term to have another hash than the majority. They stop by themselves."""
        self.asked = 0
        """The index that the leader asks about in this round. 0 while there is nothing to compare."""
        self._accused = 0
        self._asks = 0
        self._witnesses: dict[str, bytes] = {}
        self._node_id = node_id
        self._sums = sums
        self._said: dict[str, bytes] = {}
        self._until = float("-inf")

    def lead(self) -> None:
        """Begin a term as leader. Answers of earlier terms are forgotten."""
        self.asked, self.split, self.differing = 0, None, ()
        self._said.clear()
        self._until = float("-inf")

    def sum_at(self, index: int) -> bytes:
        """This node's hash after the entry at `index`, b"" if it does not have it."""
        return self._sums.at(index) or b""

    def tick(self, now: float, voters: Collection[str], connected: Collection[str]) -> None:
        """On the leader: begin the next round if all `connected` peers have answered, or if the round is older than
        ROUND_S.

        `connected` are ids of connected peers with a vote. `voters` are the voters but this node.
        """
        if self.asked and now < self._until and not set(connected) <= self._said.keys():
            return
        newest = self._sums.newest
        if newest > self.asked or now >= self._until:
            self.asked, self._until = newest, now + ROUND_S
            self._said.clear()
            self._decide(voters)

    def answered(self, peer: str, index: int, held: bytes, voters: Collection[str]) -> None:
        """On the leader: take from `peer` its hash `held` after the entry at `index`. `voters` are the voters but this
        node.

        Raises OddOneOut if a majority has another hash than this node.
        """
        if index == self.asked and index:
            self._said[peer] = held
            self._decide(voters)

    def forget(self, peer: str) -> None:
        """Drop the peer's answers: its disk was emptied, or it is no member any more. This may end a split."""
        self._said.pop(peer, None)
        if self.split is not None:
            sums = {node_id: held for node_id, held in self.split.sums.items() if node_id != peer}
            self.split = Split(self.split.index, sums) if len(set(sums.values())) > 1 else None

    def heard(self, index: int, held: bytes) -> int:
        """On a follower: take from the leader that a majority has the hash `held` after the entry at `index`. Return an
        index about which this node should ask all other nodes.

        Returns 0 if there is nothing to ask: this node has the same hash, or none for that entry.
        """
        own = self._sums.at(index)
        if own is None or not comparable(own, held):
            return 0
        if own == held:
            self.agreed_index, self.agreed_sum, self._accused = index, held, 0
            return 0
        if not self._accused or self._asks >= ASK_AGAIN:
            self._accused, self._asks = index, 0
            self._witnesses.clear()
        self._asks += 1
        return self._accused

    def told(self, peer: str, index: int, held: bytes, voters: Collection[str], majority: int) -> None:
        """On a follower: take the answer of `peer` to this node's question about the entry at `index`. `held` is the
        peer's hash, b"" if it has none. `voters` are the voters but this node.

        Raises OddOneOut when `majority` of the `voters` have the same hash, and it is not this node's.
        """
        own = self._sums.at(index)
        if index != self._accused or own is None or not held or not comparable(own, held):
            return
        self._witnesses[peer] = held
        stands = [said for witness, said in self._witnesses.items() if witness in voters]
        if held != own and stands.count(held) >= majority:
            raise OddOneOut(self._node_id, index, own, held)

    def _decide(self, voters: Collection[str]) -> None:
        own = self._sums.at(self.asked)
        if own is None:
            return
        said = {peer: held for peer, held in self._said.items() if comparable(own, held)}
        held = said | {self._node_id: own}
        stands = [own, *(held[peer] for peer in voters if peer in held)]
        most = max(stands, key=stands.count)
        if stands.count(most) <= (len(voters) + 1) // 2:
            if len(set(stands)) > 1:
                self.split = Split(self.asked, held)
            return
        if most != own:
            raise OddOneOut(self._node_id, self.asked, own, most)
        self.agreed_index, self.agreed_sum, self.split = self.asked, most, None
        odd = [peer for peer, said in held.items() if said != most]
        self.differing = tuple(sorted({*self.differing, *odd}))
