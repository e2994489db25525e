"""The leader's book on its followers: what each has, what it is sent next, and what a majority has on disk.

One append_entries is on its way to a follower at a time, with or without entries (repair R3). The library sends the
whole backlog again and again before the first answer. That makes 16 MB/s and hundreds of needless truncations, against
33-45 MB/s with one in flight. Entries that wait meanwhile go together with the next one (group commit).

Every append_entries carries a number, and its answer carries it back. So an answer is matched with its question. The
library cannot do that. There a follower with one conflicting entry and a backlog over one batch bounced between "too
far" and "conflict" for ever (R4: 600 s, 676 MB). Here, while backing off, the next index may only go down. Entries are
sent again only when the place where both logs agree is found.

A peer whose disk was wiped has nothing of what it acknowledged. `forget` sets its match index to zero and voids answers
from before. A peer that has forgotten what it promised (election/may_vote.py), or is a learner (members.py), is sent
everything and does not count.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

NEVER = float("-inf")


@dataclass(slots=True)
class Follower:
    """A peer. Invariants: match < next; match <= the leader's last index; 0 < seq while an answer is awaited."""

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
    """True if it has a vote, as far as the members are known here. A learner has none."""
    voter: bool = False
    """True if it says that its disk has all it ever promised."""
    stranded: bool = False
    nudged_s: float = NEVER


class Progress:
    """All followers, in sorted order. Times are seconds of the monotonic clock.

    - `resend_s`: an unanswered append is given up after this, and after twice as long each further time. Only an answer
      lost on a living connection needs it. A follower with a slow disk must not drown in repetitions.
    - `idle_s`: an empty append goes out this often when there is nothing to send.
    """

    def __init__(self, peers: Sequence[str], *, resend_s: float, idle_s: float) -> None:
        self.followers = {peer: Follower(peer) for peer in sorted(peers)}
        self._resend_s = resend_s
        self._idle_s = idle_s
        self._seq = 0
        self._own_counts = True

    def set_members(self, peers: Collection[str], voters: Collection[str], *, own: bool, last_index: int) -> None:
        """From now on `peers` are all others, and `voters` have a vote. `own`: this node has one.

        A new peer is asked at the end of the log first.
        """
        known, start = self.followers, self._seq + 1
        self.followers = {
            peer: known.get(peer) or Follower(peer, next=last_index + 1, valid_from=start) for peer in sorted(peers)
        }
        for follower in self.followers.values():
            follower.counts = follower.peer in voters
        self._own_counts = own

    def lead(self, last_index: int) -> None:
        """Begin a new term: nothing is known, and every peer is asked at the end of the log."""
        for peer in self.followers:
            counts = self.followers[peer].counts
            self.followers[peer] = Follower(peer, next=last_index + 1, valid_from=self._seq + 1, counts=counts)

    def forget(self, peer: str) -> None:
        """Forget what the peer had: it came back with another disk."""
        former = self.followers[peer]
        self.followers[peer] = Follower(peer, next=former.next, valid_from=self._seq + 1, counts=former.counts)

    def reconnected(self, peer: str, last_index: int) -> None:
        """Take a new connection to or from the peer: messages on their way may be lost.

        A peer that was stranded is asked at the end of the log again. It may have taken over a snapshot, and then its
        log ends further on.
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
        """Note that an append_entries behind entry `previous` leaves. Return the number it carries."""
        self._seq += 1
        follower.unanswered += follower.seq > 0
        follower.seq, follower.previous, follower.sent_s = self._seq, previous, now
        return self._seq

    def answered(self, peer: str, *, seq: int, next_index: int, reset: bool, success: bool, last_index: int) -> bool:
        """Take the peer's answer to append `seq`. True if its match index rose. `last_index` is the end of the leader's
        log.
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
