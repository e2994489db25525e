"""When a node may ask for votes and give one: what pysyncobj leaves out, as a small machine that is given the time.

Pre-vote (repair R6). The library campaigns as soon as its timer ends, so a node that was paused or half cut off comes
back with a higher term and deposes a healthy leader: 5 of 5 times after a 6 s pause, 147 terms in 120 s under a partial
partition. Here a node first asks whether it would be elected. A node says yes only if it has heard no leader within the
minimum election timeout, so a term moves only when a majority misses the leader. The same holds for the vote itself:
the leader's trust window (trust.py) is built on nobody voting within that time, counted also from a node's start,
because what it promised before a crash still holds. How long that time is stands in silence.py.

Votes (R5). The library counts answers without looking at who sent them; here each peer counts once.

Reluctance. A node whose clock is far from its leader's would hand over early or late as a leader, and a leader that a
majority contradicts gives leadership away (node/cluster/clock_skew.py), so it is the follower that is wrong. It waits
for one more timeout before it stands, so that when the leader dies another one is elected if there is any. It votes as
ever.

Voter rule. A node with an empty directory may have voted, and acknowledged entries, before it was wiped. It neither
votes nor campaigns until (a) every configured peer says that it is empty too, so there was nothing to forget, or (b) it
has from a leader a committed entry that was appended after this process began, counted without this node: then a
majority without it holds that entry, hence no candidate that got a forgotten vote can win, and what the forgotten
acknowledgements stood for is in the log it now has. `Census` keeps (a), `RegainVote` keeps (b).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from replication.election.silence import Silence


class Voters(Protocol):
    """What an election is won against; it may change meanwhile (raft/members.py)."""

    @property
    def majority(self) -> int: ...


class Election:
    """Timers and counts of one node. All times are seconds of the one monotonic clock of the process.

    `random` gives [0, 1). `silence` says for how long `may_grant` is False after the start and after a leader was
    heard. Invariant: that moment never comes nearer.
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
        """Stand only after the others had their chance."""
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
        """Doubles with each vote, asked or given, that brought no leader: on a slow disk it takes two fdatasyncs."""
        self._failures += 1
        return self._timeout() * (1 << min(self._failures - 1, 4))

    def heard_leader(self, now: float) -> None:
        """A leader of the current term spoke: nobody else gets a vote for the silence owed, and the timer starts
        again."""
        owed_until = self._silence.owe(now)
        self._quiet_until = max(self._quiet_until, owed_until)
        spread = (self._max_s - self._min_s) * self._random()
        self._deadline = owed_until + spread + (self._max_s if self.reluctant else 0.0)
        self._asked_term = self._failures = 0

    def granted(self, now: float) -> None:
        """A vote was given: leave the candidate time to win."""
        self._deadline = now + self._patience()
        self._asked_term = 0

    def due(self, now: float) -> bool:
        """Whether it is time to ask for pre-votes. False while the node has to stay quiet."""
        return now >= self._deadline and now >= self._quiet_until

    @property
    def due_s(self) -> float:
        """When it will be `due`, unless a leader is heard."""
        return max(self._deadline, self._quiet_until)

    def may_grant(self, now: float) -> bool:
        """Whether a vote or a pre-vote may be given now, as far as time is concerned."""
        return now >= self._quiet_until

    def ask(self, term: int, now: float) -> bool:
        """Begin a round of pre-votes for `term`; True if the own voice is a majority. Asks again soon if it fails."""
        self._asked_term = term
        self._yes.clear()
        self._deadline = now + self._min_s * (0.25 + 0.25 * self._random())
        return self._voters.majority == 1

    def pre_voted(self, peer: str, term: int) -> bool:
        """`peer` would vote for us in `term`; True once, when that makes a majority: campaign now."""
        if term != self._asked_term:
            return False
        self._yes.add(peer)
        if len(self._yes) + 1 < self._voters.majority:
            return False
        self._asked_term = 0
        return True

    def campaigned(self, now: float) -> None:
        """A real election began."""
        self._asked_term = 0
        self._votes.clear()
        self._deadline = now + self._patience()

    def first_vote(self, peer: str) -> bool:
        """Whether this is the first vote of `peer` in the running election."""
        if peer in self._votes:
            return False
        self._votes.add(peer)
        return True


class Census:
    """Rule (a): which peers have said, to this process, that they are empty."""

    PERIOD_S = 0.1

    def __init__(self, peers: Sequence[str]) -> None:
        self._missing = set(peers)
        self._next = 0.0

    def due(self, now: float) -> bool:
        """Whether to ask the peers (again) now."""
        if now < self._next:
            return False
        self._next = now + self.PERIOD_S
        return True

    def answered(self, peer: str, empty: bool) -> None:
        """`peer` said whether it is empty. One that is not ends rule (a) for good: it has seen a cluster."""
        if empty:
            self._missing.discard(peer)
        else:
            self._missing.add("")

    @property
    def all_empty(self) -> bool:
        """Every configured peer reported empty: this node may be a voter."""
        return not self._missing


class RegainVote:
    """Rule (b): the index that must be committed, in the term it was seen in, before a wiped node is a voter again.

    Invariant: never reached before a leader was heard. A new journal is in term 0 with its first entry committed; were
    term 0 also what was "seen" at first, a wiped node would take its own emptiness for having caught up.
    """

    def __init__(self) -> None:
        self._term: int | None = None
        self._beyond = 0

    def heartbeat(self, term: int, last_index: int) -> None:
        """The leader of `term` says where its log ends. Only the first word of each leader counts."""
        if term != self._term:
            self._term, self._beyond = term, last_index

    def reached(self, term: int, commit_index: int, durable_index: int) -> bool:
        """Whether an entry appended after that is committed and durable here."""
        return term == self._term and commit_index > self._beyond and durable_index >= commit_index
