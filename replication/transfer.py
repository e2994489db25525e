"""Gives leadership away on purpose: waits until one follower has the whole log, then tells it to campaign.

The library's `transferLeadership` refuses unless the target has the last entry, which under load it never has. It also
lets TimeoutNow count in a later term. Both are repaired here. The steps, in the leader's process:

1. From `begin` on nothing new is proposed in this group, so the log soon stops growing. Heartbeats go to the target
   quickly, until its echoes and answers say that the whole log is on its disk and applied. A transfer that takes longer
   than `transfer_s` is called off, and this node leads on.
2. The leader steps down in its term, FIRST. Then TimeoutNow leaves, in the same step. A node that stopped leading a
   term never leads it again. So from here on it does not propose in that term and is not trusted in it, even if the
   message is lost. If the message is lost, an ordinary election follows an election timeout later. Leading on until the
   next term is heard would only make that gap longer.
3. The target campaigns at once for the next term and for no other, without pre-votes. Its requests say that they come
   from a transfer. So voters give their votes although they heard a leader a moment ago (raft/votes.py).

Why this cannot make two leaders in one term. A transfer changes when a node campaigns and when a vote may be given, and
does not change how often. The candidate's term is new to it. Each node still gives one vote a term, on disk before it
leaves, and only to a log that is no shorter than its own. A TimeoutNow that comes late is ignored in any term but the
one it names.

Why trust has ended before the new leader can have any. Trust (election/trust.py) rests on voters that stay silent for
0.4 s after they heard the leader of term t. Only a vote of a transfer breaks this silence. It is for term u + 1, and
only the leader of u can have started that transfer.

- If u = t, that leader was untrusted before the message left.
- If u > t and voters elected the leader of u after their silence, the trust of t had run out.
- If u > t and a transfer made the leader of u, the same holds one term earlier.

So at every moment at most one node trusts itself, with or without a transfer. The model test in tests/replication/raft
checks that at every step of thousands of random runs.
"""

from __future__ import annotations

from collections.abc import Callable

from replication.raft.context import RaftContext
from replication.raft.leader import Leader

BEAT_S = 0.004
"""The time between heartbeats to the target. Its echoes say how far it has applied the log."""

Told = Callable[[bool], None]


class Transfer:
    """The transfer that this leader has under way, if any. `step_down` ends the leadership of this node."""

    def __init__(self, context: RaftContext, leading: Leader, step_down: Callable[[], None]) -> None:
        self._context = context
        self._leading = leading
        self._step_down = step_down
        self._to: str | None = None
        self._told: Told | None = None
        self._until_s = self._beat_s = 0.0

    @property
    def under_way(self) -> bool:
        """True while a transfer is under way. Then the group refuses proposals."""
        return self._told is not None

    def begin(self, to: str, now: float, told: Told) -> None:
        """As leader: begin to give leadership to `to`. A later `tick` or `call_off` calls `told`. True: leadership was
        given away.
        """
        assert self._told is None, "one at a time"
        self._to, self._told = to, told
        self._until_s, self._beat_s = now + self._context.options.transfer_s, now

    def tick(self, now: float) -> None:
        """As leader: give leadership away if the target has everything, or call the transfer off if it took too long.
        Otherwise send the target a heartbeat.
        """
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
        """End the transfer without success, for example because leadership was lost. Does nothing if none is under
        way.
        """
        told, self._to, self._told = self._told, None, None
        if told is not None:
            told(False)

    def _arrived(self, to: str) -> bool:
        """True if the whole log is committed, and is on the disk of `to` and applied there."""
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
