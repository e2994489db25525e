"""Which nodes count in the group: voters, learners, and why changing them one at a time is safe.

A change (ChangeMember: add a learner, give it a vote, remove a member) is an entry of the log like any other. It takes
effect on a node when that node APPLIES it, as in etcd. So the members depend on the applied entries alone, and come
from the replicated table alone. C0, C1, C2, ... are the sets of voters that the log's changes make, one after the
other. Neighbours differ by at most one voter, so every majority of one shares a node with every majority of the next.

Rules, each with the reason it is needed:

1. A leader proposes a change only when it is established and has applied every change before (`RaftGroup.changing`). So
   a log that holds change n + 1 was written by a leader that had applied change n, hence change n is committed.
2. A node campaigns only when it has applied all it knows to be committed. Its log may hold at most ONE change that it
   has not applied. If it holds more, all but the last are committed by rule 1: it applies them and then campaigns
   (`Votes._may_stand`). A commit index alone is not enough, for it is not on disk with every entry. A node that lost it
   in a power cut would count with voters of two changes ago.
3. The node that counts judges by its own applied log. The leader counts disks, echoes and votes of the voters of what
   IT has applied, and itself only if it is a voter. A node gives its vote, and acknowledges, whatever it believes of
   itself. A node that does not yet know of its own promotion may be needed for the majority that tells it.
4. A leader that applies its own removal leads on without counting itself. It steps down, and ends, when a majority of
   those that stay has applied the removal too. Sooner they might need its vote. If it loses leadership before, it does
   not campaign again, and tells what is committed to any node that asks it for a pre-vote (`Votes._committed`). Its log
   may be the longer one, and without that answer neither of the two would ever lead.

Claim: two leaders that count at the same time do it in neighbouring sets. Proof:

- Let X win with the voters of Cn, and let change n + 2 be committed, first by a leader in Cn+1, in a term before X's.
- A voter of X's majority of Cn is in the majority of Cn+1 that holds that entry. A vote goes to no shorter log, so X's
  log holds the entry too, hence changes n + 1 and n + 2.
- By rule 2 X applied n + 1 before it campaigned, and does not count in Cn. Contradiction.

With neighbouring sets every argument of plain Raft that rests on "two majorities have a node in common" stays valid.
That is one leader a term, committed entries stay, and the window of election/trust.py, whose common node keeps quiet.
The variant without rules 1 and 2 loses acknowledged entries in tests/replication/raft/test_members_model.py.

Learners (R20). The library counts an added node at once. So adding an empty node to three, of which one is down, stops
the cluster until it has caught up. A learner is sent everything and does not count, for commits, trust or elections.
The leader gives it a vote when it has caught up (node/cluster/member_changes.py).

By the rule in election/may_vote.py a node with an empty directory is no voter, whatever the table says. That rule is
about what a disk has forgotten, this page about which nodes were given a vote. Both must hold for a node to count.
"""

from __future__ import annotations

from collections.abc import Collection

from replication.raft.options import IsChange
from replication.raft.pysyncobj_core import Core


class Roster:
    """The voters and learners, by the entries that are applied here. Invariants: all sorted, and no node is both."""

    def __init__(self, node_id: str, peers: Collection[str]) -> None:
        self._node_id = node_id
        self.voters: tuple[str, ...] = tuple(sorted({node_id, *peers}))
        """All nodes with a vote, this node too if it has one."""
        self.learners: tuple[str, ...] = ()

    def set(self, voters: Collection[str], learners: Collection[str]) -> None:
        """Set the members, after a change was applied or from the table at the start."""
        assert not set(voters) & set(learners), (voters, learners)
        self.voters, self.learners = tuple(sorted(voters)), tuple(sorted(learners))

    @property
    def peers(self) -> tuple[str, ...]:
        """All members but this node."""
        return tuple(sorted({*self.voters, *self.learners} - {self._node_id}))

    @property
    def others(self) -> tuple[str, ...]:
        """The voters but this node."""
        return tuple(voter for voter in self.voters if voter != self._node_id)

    @property
    def votes(self) -> bool:
        """True if this node is a voter. Else it does not campaign or count itself."""
        return self._node_id in self.voters

    @property
    def majority(self) -> int:
        """The number of voters that are a majority."""
        return len(self.voters) // 2 + 1


def unapplied_changes(core: Core, is_change: IsChange) -> list[int]:
    """The indexes of the changes in the log that are not applied here. Reads the whole log behind the applied entries,
    so call it when that is short.
    """
    found: list[int] = []
    at = core.applied_index + 1
    while at <= core.last_index:
        entries = core.entries(at, core.last_index + 1 - at)
        assert entries, (at, core.last_index)
        found += [index for command, index, _term in entries if is_change(command)]
        at = entries[-1][1] + 1
    return found
