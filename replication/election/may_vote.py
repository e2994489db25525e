"""Decides when a node may ask for votes and give one, which pysyncobj does not. The classes here are given the time.

Pre-vote (repair R6). The library campaigns as soon as its timer ends. So a node that was paused or half cut off comes
back with a higher term and deposes a healthy leader. It did so 5 of 5 times after a 6 s pause. A partial partition gave
147 terms in 120 s. Here a node first asks the others if they would vote for it. A node says yes only if it has heard no
leader within the minimum election timeout. So a term grows only when a majority misses the leader.

The vote itself has the same rule, because the leader's trust (trust.py) needs that no node votes within that time. The
time counts also from a node's start, because a promise from before a crash still holds. silence.py has its length.

Votes (R5). The library counts answers without their sender. Here each peer counts one time.

Reluctance. A node whose clock is far from its leader's would deliver early or late as a leader. The follower's clock is
the wrong one, because a leader that a majority contradicts gives leadership away (node/cluster/clock_skew.py). So the
follower waits for one more timeout before it campaigns. When the leader dies, another node is elected if there is one.
A reluctant node votes like any other.

Voter rule. A node with an empty directory may have voted, and acknowledged entries, before it was wiped. It does not
vote or campaign until one of these is true:

- (a) Every configured peer says that its directory is empty too, so there was nothing to forget. `Census` keeps (a).
- (b) A leader gave it a committed entry that was appended after this process began. The majority that committed the
  entry does not count this node. `RegainVote` keeps (b).

Why (b) is enough: a majority without this node holds that entry, so no candidate with a forgotten vote can win. And all
entries that this node acknowledged and forgot are in the log that it now has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from replication.election.silence import Silence


class Voters(Protocol):
    """The voters that decide an election. The set may change during the election (raft/members.py)."""

    @property
    def majority(self) -> int: ...


class Election:
    """The timer of one node for elections, and its counts of votes and pre-votes. All times are seconds of the
    process's monotonic clock.

    `random` gives numbers in [0, 1). `silence` says how long `may_grant` stays False after the start and after each
    message of a leader. Invariant: the moment at which `may_grant` becomes True never moves to an earlier time.
    """

    def __init__(
        self,
        voters: Voters,
        *,
        min_s: float,
        max_s: float,
        random: Callable[[], float],
        now: float,
        silence: Silence | None = None,
    ) -> None:
        self._voters = voters
        self.reluctant = False
        """True if this node waits one more timeout before it campaigns, so that another node may be elected."""
        self._min_s = min_s
        self._max_s = max_s
        self._random = random
        self._silence = silence or Silence(min_s, min_s, now)
        self._quiet_until = now + self._silence.kept_s
        self._deadline = now + self._timeout()
        self._asked_term = 0
        self._yes: set[str] = set()
        self._votes: set[str] = set()
        self._failures = 0

    def _timeout(self) -> float:
        return self._min_s + (self._max_s - self._min_s) * self._random()

    def _patience(self) -> float:
        """Return the time until this node may campaign again, in seconds. It doubles with each election after which no
        leader was heard, up to 16 times.

        It grows because on a slow disk an election takes as long as two fdatasyncs.
        """
        self._failures += 1
        return self._timeout() * (1 << min(self._failures - 1, 4))

    def heard_leader(self, now: float) -> None:
        """Restart the timer, because a leader of the current term sent a message. This node votes for no other until
        the silence that it owes that leader ends.
        """
        owed_until = self._silence.owe(now)
        self._quiet_until = max(self._quiet_until, owed_until)
        spread = (self._max_s - self._min_s) * self._random()
        self._deadline = owed_until + spread + (self._max_s if self.reluctant else 0.0)
        self._asked_term = self._failures = 0

    def granted(self, now: float) -> None:
        """Note that this node gave a candidate its vote. This node then waits for a timeout before it campaigns itself,
        so that the candidate may win.
        """
        self._deadline = now + self._patience()
        self._asked_term = 0

    def due(self, now: float) -> bool:
        """True if it is time to ask for pre-votes. False while the node owes a leader silence."""
        return now >= self._deadline and now >= self._quiet_until

    @property
    def due_s(self) -> float:
        """The time at which `due` becomes True, unless a leader is heard."""
        return max(self._deadline, self._quiet_until)

    def may_grant(self, now: float) -> bool:
        """True if no silence is owed now, so that this node may give a vote or a pre-vote."""
        return now >= self._quiet_until

    def ask(self, term: int, now: float) -> bool:
        """Begin to count pre-votes for `term`; the caller asks the peers. If no majority answers, `due` is soon True
        again.

        Returns True if this node alone is a majority, so that the caller need not ask.
        """
        self._asked_term = term
        self._yes.clear()
        self._deadline = now + self._min_s * (0.25 + 0.25 * self._random())
        return self._voters.majority == 1

    def pre_voted(self, peer: str, term: int) -> bool:
        """Count that `peer` would vote for this node in `term`. Returns True when that makes a majority: the caller
        then campaigns.

        Later answers to the same question return False.
        """
        if term != self._asked_term:
            return False
        self._yes.add(peer)
        if len(self._yes) + 1 < self._voters.majority:
            return False
        self._asked_term = 0
        return True

    def campaigned(self, now: float) -> None:
        """Note that this node began an election. Votes of its earlier elections are forgotten."""
        self._asked_term = 0
        self._votes.clear()
        self._deadline = now + self._patience()

    def first_vote(self, peer: str) -> bool:
        """True if this is the first vote of `peer` in the running election."""
        if peer in self._votes:
            return False
        self._votes.add(peer)
        return True


class Census:
    """Keeps rule (a) of the module: notes the peers that told this process that their directory is empty."""

    PERIOD_S = 0.1

    def __init__(self, peers: Sequence[str]) -> None:
        self._missing = set(peers)
        self._next = 0.0

    def due(self, now: float) -> bool:
        """True if it is time to ask the peers (again)."""
        if now < self._next:
            return False
        self._next = now + self.PERIOD_S
        return True

    def answered(self, peer: str, empty: bool) -> None:
        """Note the answer of `peer`: its directory is `empty` or not. After one answer that is not, rule (a) never
        holds in this process, because there was a cluster.
        """
        if empty:
            self._missing.discard(peer)
        else:
            self._missing.add("")

    @property
    def all_empty(self) -> bool:
        """True if every configured peer said that its directory is empty. Then this node may be a voter."""
        return not self._missing


class RegainVote:
    """Keeps rule (b) of the module. A wiped node is a voter again when an entry beyond a certain index is committed.
    That index is where the leader's log ended at the leader's first heartbeat.

    Invariant: the rule does not hold before a leader was heard. A new journal is in term 0 with its first entry
    committed. If the first term heard were also 0, a wiped node would take its own emptiness for having caught up.
    """

    def __init__(self) -> None:
        self._term: int | None = None
        self._beyond = 0

    def heartbeat(self, term: int, last_index: int) -> None:
        """Note where the log of the leader of `term` ends. Only the first heartbeat in each term counts."""
        if term != self._term:
            self._term, self._beyond = term, last_index

    def reached(self, term: int, commit_index: int, durable_index: int) -> bool:
        """True if an entry beyond the noted index is committed, and is durable on this node."""
        return term == self._term and commit_index > self._beyond and durable_index >= commit_index
