"""The leader's record of its followers: the entries that each one has, what to send next, and what a majority has on
disk.

One append_entries is on its way to a follower at a time, with or without entries (repair R3). The library sends the
whole backlog again and again before the first answer. That makes 16 MB/s and hundreds of needless truncations, against
33-45 MB/s with one in flight. Entries that come meanwhile go together with the next append_entries (group commit).

Every append_entries has a number, and its answer repeats the number. So the leader knows which append_entries an answer
belongs to. The library cannot do that. There a follower with one conflicting entry and a backlog over one batch bounced
between "too far" and "conflict" for ever (R4: 600 s, 676 MB). Here, while the leader searches for the place where both
logs agree, the next index may only go down. Entries are sent again only when that place is found.

A peer whose disk was wiped has nothing of what it acknowledged. `forget` sets its match index to zero, and answers from
before count no more. A peer that has forgotten what it promised (election/may_vote.py), or is a learner (members.py),
gets everything and counts for no majority.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

NEVER = float("-inf")


@dataclass(slots=True)
class Follower:
    """The leader's record of one peer.

    - `match`: it has the log up to this entry. `next`: the next entry to send.
    - `seq`: the number of the append_entries that is not answered yet, 0 if there is none. `previous`: the entry before
      its first one. `sent_s`: when it was sent. `unanswered`: how often it was sent again.
    - `valid_from`: answers to a lower number are ignored. `backing_off`: the leader searches for where the logs agree.

    Invariants: match < next; match <= the leader's last index.
    """

    peer: str
    match: int = 0
    next: int = 2
    seq: int = 0
    valid_from: int = 0
    previous: int = 0
    sent_s: float = NEVER
    unanswered: int = 0
    backing_off: bool = False
    counts: bool = True
    """True if it has a vote, by the changes of members applied here. A learner has none."""
    voter: bool = False
    """True if it says that its disk has all it ever promised."""
    stranded: bool = False
    """True if the journal no longer has the entry that it needs next."""
    nudged_s: float = NEVER
    """When the leader last appended a no-op so that this peer can vote again."""


class Progress:
    """The followers by id, in sorted order. Times are seconds of the monotonic clock.

    - `resend_s`: an append_entries that is not answered is sent again after this, and after twice as long each further
      time. Only an answer lost on a living connection needs it. A follower with a slow disk must not drown in
      repetitions.
    - `idle_s`: an empty append_entries goes out this often when there is nothing to send.
    """

    def __init__(self, peers: Sequence[str], *, resend_s: float, idle_s: float) -> None:
        self.followers = {peer: Follower(peer) for peer in sorted(peers)}
        self._resend_s = resend_s
        self._idle_s = idle_s
        self._seq = 0
        self._own_counts = True

    def set_members(self, peers: Collection[str], voters: Collection[str], *, own: bool, last_index: int) -> None:
        """Set the members. `peers` are all members but this node, and `voters` have a vote. `own`: this node has one.

        For a new peer, the leader first compares the logs at `last_index`.
        """
        known, start = self.followers, self._seq + 1
        self.followers = {
            peer: known.get(peer) or Follower(peer, next=last_index + 1, valid_from=start) for peer in sorted(peers)
        }
        for follower in self.followers.values():
            follower.counts = follower.peer in voters
        self._own_counts = own

    def lead(self, last_index: int) -> None:
        """Begin a new term. Nothing is known of the followers, and their logs are first compared at `last_index`."""
        for peer in self.followers:
            counts = self.followers[peer].counts
            self.followers[peer] = Follower(peer, next=last_index + 1, valid_from=self._seq + 1, counts=counts)

    def forget(self, peer: str) -> None:
        """Forget what the peer has on its disk, because it came back with another disk."""
        former = self.followers[peer]
        self.followers[peer] = Follower(peer, next=former.next, valid_from=self._seq + 1, counts=former.counts)

    def reconnected(self, peer: str, last_index: int) -> None:
        """Take a new connection to or from the peer. Messages on the old one may be lost, so the next append_entries is
        sent at once.

        A peer that was stranded may have taken over a snapshot, and then its log ends further on. So its log is
        compared at `last_index` again.
        """
        follower = self.followers[peer]
        follower.seq = 0
        follower.sent_s = NEVER
        if follower.stranded:
            follower.stranded = follower.backing_off = False
            follower.next = last_index + 1

    def due(self, follower: Follower, last_index: int, now: float) -> bool:
        """True if it is time to send this follower an append_entries."""
        waited = now - follower.sent_s
        if follower.seq:
            return waited >= self._resend_s * (1 << min(follower.unanswered, 6))
        return follower.backing_off or follower.next <= last_index or waited >= self._idle_s

    def sent(self, follower: Follower, previous: int, now: float) -> int:
        """Note that an append_entries is sent whose entries follow entry `previous`. Return its number."""
        self._seq += 1
        follower.unanswered += follower.seq > 0
        follower.seq, follower.previous, follower.sent_s = self._seq, previous, now
        return self._seq

    def answered(self, peer: str, *, seq: int, next_index: int, reset: bool, success: bool, last_index: int) -> bool:
        """Take the peer's answer to the append_entries with number `seq`. Returns True if its match index rose.

        `success`: the logs agree before `next_index`. `reset`: they do not, and the leader should compare them at
        `next_index`. `last_index` is the end of the leader's log.
        """
        follower = self.followers[peer]
        if seq < follower.valid_from or seq > self._seq or not 1 < next_index <= last_index + 1:
            return False
        rose = success and next_index - 1 > follower.match
        if rose:
            follower.match = next_index - 1
        if seq != follower.seq:
            return rose
        follower.seq = follower.unanswered = 0
        if success:
            follower.backing_off = False
            follower.next = next_index
        elif reset:
            follower.backing_off = True
            follower.next = max(2, min(next_index, follower.previous))
            follower.match = min(follower.match, follower.next - 1)
        return rose

    def majority_index(self, own_durable: int) -> int:
        """The highest index that a majority of the voters has on disk. This node's disk has `own_durable`."""
        held = [follower.match if follower.voter else 0 for follower in self.followers.values() if follower.counts]
        held += [own_durable] * self._own_counts
        held.sort(reverse=True)
        return held[len(held) // 2]
