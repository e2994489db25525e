"""Who has a voice in the group: voters, learners, and why changing them one at a time is safe.

A change (ChangeMember: add a learner, give it a vote, remove a member) is an entry of the log like any other. It takes
effect on a node when that node APPLIES it, as etcd does it, so the members are always a function of what is applied and
come from the replicated table alone. C0, C1, C2, ... are the sets of voters that the log's changes make, one after the
other; neighbours differ by at most one voter, so every majority of one shares a node with every majority of
the next.

Rules, each with the reason it is needed:

1. A leader proposes a change only when it is established and has applied every change before (`RaftGroup.changing`).
   So a log that holds change n + 1 was written by a leader that had applied change n: change n is committed.
2. A node stands for election only when it has applied all it knows to be committed and its log holds at most ONE change
   that it has not applied. If it holds more, rule 1 says that all but the last are committed: it takes them for that,
   applies them, and then stands (`Ballot`). A commit index alone would not do: it is not on disk with every entry, and
   a node that lost it in a power cut would count with voters of two changes ago.
3. Who counts is judged by the one who counts: the leader counts disks, echoes and votes of the voters of what IT has
   applied, itself only if it is one. A node gives its vote, and acknowledges, whatever it believes of itself: one that
   does not yet know of its own promotion may be needed for the majority that tells it.
4. A leader that applies its own removal leads on, without counting itself, until a majority of those that stay has
   applied it too, and steps down then. They might need its vote otherwise, and it ends. Should it lose leadership
   before, it stands no more, and whoever asks it for a pre-vote hears what is committed (`Ballot._committed`): the log
   of who knows may be longer, and without that word neither of the two would ever lead.

Claim: two leaders that count at the same time do it in neighbouring sets. Let X win with the voters of Cn, and let
change n + 2 be committed, first by a leader in Cn+1, in a term before X's. A voter of X's majority of Cn is in the
majority of Cn+1 that holds that entry, so X's log holds it too (a vote goes to no shorter log), hence changes n + 1 and
n + 2; by rule 2 X has applied n + 1 before it stood, and does not count in Cn. Contradiction. With neighbouring sets
every argument of plain Raft that rests on "two majorities have a node in common" holds as it stands: one leader a term,
committed entries stay, and election/trust.py's window, whose common node keeps quiet. The variant without rules 1 and 2
loses acknowledged entries in tests/replication/raft/test_members_model.py.

Learners (R20: the library counts a node that was just added at once, so adding an empty one to three of which one is
down stops the cluster until it has caught up): a learner is sent everything and counts for nothing, neither for commits
nor for trust nor for elections. The node's leader gives it a vote when it has caught up
(node/cluster/member_changes.py).

A node with an empty directory is no voter by the rule in election/may_vote.py, whatever the table says: that one is
about what a disk has forgotten, this one about who was asked. Both must hold for a node to count.
"""

from __future__ import annotations

from collections.abc import Collection

from replication.raft.options import IsChange
from replication.raft.pysyncobj_core import Core


class Roster:
    """Who counts, by what is applied here. Invariants: all sorted; nobody is a voter and a learner."""

    def __init__(self, node_id: str, peers: Collection[str]) -> None:
        self._node_id = node_id
        self.voters: tuple[str, ...] = tuple(sorted({node_id, *peers}))
        """All with a vote, this node too if it has one."""
        self.learners: tuple[str, ...] = ()

    def set(self, voters: Collection[str], learners: Collection[str]) -> None:
        """Another change is applied, or the table was read at the start."""
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
        """Whether this node is a voter: else it neither stands nor counts itself."""
        return self._node_id in self.voters

    @property
    def majority(self) -> int:
        """How many voters are one."""
        return len(self.voters) // 2 + 1


def unapplied_changes(core: Core, is_change: IsChange) -> list[int]:
    """Indexes of the changes in the log behind what is applied. Reads that part of the log: ask when it is short."""
    found: list[int] = []
    at = core.applied_index + 1
    while at <= core.last_index:
        entries = core.entries(at, core.last_index + 1 - at)
        assert entries, (at, core.last_index)
        found += [index for command, index, _term in entries if is_change(command)]
        at = entries[-1][1] + 1
    return found
