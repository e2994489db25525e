"""Giving leadership away on purpose: wait until one follower has everything, then tell it to stand for election.

The library's `transferLeadership` refuses unless the target has the last entry, which under load it never has, and lets
TimeoutNow count in a later term; both are put right here. In order, all in the leader's process:

1. From `begin` on nothing new is proposed in this group, so the log soon stands still, and heartbeats go to the target
   quickly until its echoes and answers say that all of the log is on its disk and applied. What does not come about
   within `transfer_s` is called off: nothing has happened, leadership stays.
2. The leader steps down in its term, FIRST, and then TimeoutNow leaves, in the same step. Who is no leader in a term
   never becomes one in it again, so from here on it neither proposes nor is trusted in that term, whatever becomes of
   the message. (Leader on until the next term is heard would only lengthen the gap when the message is lost: this way
   an ordinary election follows an election timeout later.)
3. The target campaigns at once for the next term and no other, without pre-votes, and its requests say that they come
   of a transfer: voters then grant although they heard a leader a moment ago (raft/votes.py).

Why this cannot make two leaders in one term. A transfer changes when a node campaigns and when a vote may be given,
never how often: the candidate's term is new to it, each node still gives one vote a term, on disk before it leaves, and
only to a log that is no shorter than its own. TimeoutNow that comes late is void in any term but the one it names.

Why trust has ended before the new leader can have any. Trust (election/trust.py) rests on voters staying quiet for 0.4
s after they heard the leader of term t. The one vote that breaks this silence is asked for by a transfer, for term u +
1, of which only the leader of u could be the origin. If u = t, that leader was untrusted before the message left. If u
> t, the leader of u was elected, either by voters who had been quiet for long enough, so that the trust of t had run
out, or by a transfer again: then the same holds one term earlier. So at every moment at most one node trusts itself,
transfer or not; test_model.py watches that at every step of thousands of random runs.
"""

from __future__ import annotations

from collections.abc import Callable

from replication.raft.context import RaftContext
from replication.raft.leader import Leader

BEAT_S = 0.004
"""How soon the target is asked again where it stands; its echo also says what it has applied."""

Told = Callable[[bool], None]


class Transfer:
    """The transfer under way on this node as leader, if any. `step_down` ends the leadership of this node."""

    def __init__(self, context: RaftContext, leading: Leader, step_down: Callable[[], None]) -> None:
        self._context = context
        self._leading = leading
        self._step_down = step_down
        self._to: str | None = None
        self._told: Told | None = None
        self._until_s = self._beat_s = 0.0

    @property
    def under_way(self) -> bool:
        """Whether proposals are to be refused."""
        return self._told is not None

    def begin(self, to: str, now: float, told: Told) -> None:
        """As leader: give leadership to `to`. `told` is called once, not from here: True when it was given away."""
        assert self._told is None, "one at a time"
        self._to, self._told = to, told
        self._until_s, self._beat_s = now + self._context.options.transfer_s, now

    def tick(self, now: float) -> None:
        """As leader: give it away if the target is there, call it off if it is too late, else ask how far it is."""
        if self._to is None:
            return
        if self._to not in self._leading.peers:  # it was removed from the cluster meanwhile
            self.call_off()
        elif self._arrived(self._to):
            self._give_away(self._to)
        elif now >= self._until_s:
            self.call_off()
        elif now >= self._beat_s:
            self._beat_s = now + BEAT_S
            self._leading.beat(self._to, now)

    def call_off(self) -> None:
        """It does not come about, as when leadership was lost meanwhile. Nothing to do when none is under way."""
        told, self._to, self._told = self._told, None, None
        if told is not None:
            told(False)

    def _arrived(self, to: str) -> bool:
        """Everything is committed, and on the disk of `to`, and applied there."""
        peer, last = self._leading.survey()[to], self._context.core.last_index
        held = peer.voter and peer.match_index == last and peer.applied_index == last
        return held and peer.connected and self._context.core.commit_index == last

    def _give_away(self, to: str) -> None:
        term = self._context.core.term
        told, self._to, self._told = self._told, None, None
        self._step_down()
        self._context.wire.send(to, {"type": "timeout_now", "term": term})
        assert told is not None
        told(True)
