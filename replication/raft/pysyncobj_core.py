"""pysyncobj behind a typed interface: what is used of it, what is replaced, and a check that its version is the one we
read.

Used as it is:

- the follower's side of AppendEntries (the log matching check) and the voter's side of RequestVote;
- counting votes, becoming leader with a no-op, and every change of term, vote and state.

Replaced, each for a flaw of the library (R1 to R20, see docs/adr/0001-raft-on-pysyncobj.md):

- the tick (R6, R7): election/may_vote.py says when to campaign, election/trust.py when to step down;
- committing (R1): a leader counts its own copy only when its disk has it, so progress.py computes the majority;
- sending entries (R3, R4, R18): one batch in flight per follower, never in chunks (`__sendAppendEntries` is empty);
- applying (R12, R15, R19): the library unpickles every command and finds the method by its place in a sorted list. An
  exception there stops ticks and network for good. Here an entry of one byte is the library's no-op. Every other entry
  is a command, given to one function as the bytes that came. `__doApplyCommand` is never reached;
- its journal and its transport, by objects of ours;
- its clock, random numbers, poller, pipe, DNS, dump file: none of them is used while the group runs.

The journal is put in place after construction, because the module-level `createJournal` would have to be patched for
the whole process. `_SyncObj__x` is the library's private `self.__x`. The check refuses a version that lacks one of
those names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pysyncobj.version
from pysyncobj import SyncObj, SyncObjConf
from pysyncobj.node import Node
from pysyncobj.transport import Transport

from replication.journal.journal import Journal
from replication.journal.record import NO_OP
from replication.wire.frame import Message

VERSION = "0.3.17"

FOLLOWER, CANDIDATE, LEADER = 0, 1, 2

_CONFIG = {
    "autoTick": False,
    "appendEntriesUseBatch": True,  # else the library opens a pipe and writes to it for every command
    "journalFile": None,
    "fullDumpFile": None,
    "dynamicMembershipChange": False,  # else it unpickles every entry that arrives
    "useFork": False,
    "onStateChanged": None,
}
_PRIVATE = (
    "raftState",
    "raftCurrentTerm",
    "votedForNodeId",
    "votesCount",
    "raftLeader",
    "raftLog",
    "raftCommitIndex",
    "raftLastApplied",
    "noopIDx",
    "setCurrentTerm",
    "setState",
    "onBecomeLeader",
    "onMessageReceived",
    "sendAppendEntries",
    "generateRaftTimeout",
    "connectedNodes",
    "otherNodes",
)


class LibraryRefused(Exception):
    """The installed pysyncobj is not the one this code was written and tested against."""


class _Gate(Transport):  # type: ignore[misc]  # pysyncobj has no types
    """The transport that the library gets. It hands every message of the library to the group."""

    def __init__(self, send: Callable[[str, Message], None]) -> None:
        super().__init__(None, None, [])
        self._send = send

    def send(self, node: Node, message: Message) -> bool:
        self._send(node.id, message)
        return True


class Core(SyncObj):  # type: ignore[misc]  # pysyncobj has no types
    """The library's object for one node, with our journal in place. Not thread safe; no method blocks."""

    def __init__(
        self,
        node_id: str,
        peers: Sequence[str],
        journal: Journal,
        send: Callable[[str, Message], None],
        on_state: Callable[[int, int], None],
    ) -> None:
        check_library()
        conf = SyncObjConf(**{**_CONFIG, "onStateChanged": on_state})
        self._nodes = {peer: Node(peer) for peer in sorted(peers)}
        self._me = Node(node_id)
        self.journal = journal  # first: the library's constructor looks at every attribute, properties included
        super().__init__(self._me, list(self._nodes.values()), conf, transport=_Gate(send))
        missing = [name for name in _PRIVATE if not hasattr(self, f"_SyncObj__{name}")]
        if missing:
            raise LibraryRefused(f"pysyncobj {VERSION} without {', '.join(missing)}")
        self._SyncObj__raftLog = journal
        if len(journal) == 0:
            journal.add(NO_OP, 1, 0)
        self._SyncObj__raftCurrentTerm = max(journal.getCurrentTerm(), journal.term_at(journal.last_index) or 0)
        self._SyncObj__votedForNodeId = journal.getVotedForNodeId()
        self._SyncObj__raftCommitIndex = min(journal.getRaftCommitIndex(), journal.last_index)  # R11
        self._SyncObj__connectedNodes = set(self._nodes.values())

    # Overridden, see above.

    def _SyncObj__sendAppendEntries(self) -> None:
        return

    def _SyncObj__generateRaftTimeout(self) -> float:
        return 0.0  # its timer is not used

    # The typed interface.

    @property
    def term(self) -> int:
        """Current term; never goes back."""
        return int(self._SyncObj__raftCurrentTerm)

    @property
    def state(self) -> int:
        """FOLLOWER, CANDIDATE or LEADER."""
        return int(self._SyncObj__raftState)

    @property
    def leader_id(self) -> str | None:
        """Id of the leader of the current term, None if this node knows none."""
        leader = self._SyncObj__raftLeader
        return None if leader is None else str(leader.id)

    @property
    def noop_index(self) -> int:
        """Index of the no-op of the term this node leads (or led last)."""
        return self._SyncObj__noopIDx or 0

    @property
    def commit_index(self) -> int:
        """The index up to which this node knows that all entries are on a majority of disks."""
        return int(self._SyncObj__raftCommitIndex)

    @commit_index.setter
    def commit_index(self, index: int) -> None:
        assert self.commit_index <= index <= self.journal.last_index, (self.commit_index, index)
        self._SyncObj__raftCommitIndex = index
        self.journal.setRaftCommitIndex(index)

    @property
    def applied_index(self) -> int:
        """The index up to which all entries have been applied here."""
        return int(self._SyncObj__raftLastApplied)

    @applied_index.setter
    def applied_index(self, index: int) -> None:
        self._SyncObj__raftLastApplied = index

    @property
    def last_index(self) -> int:
        """Index of the newest entry of the log, durable or not."""
        return self.journal.last_index

    @property
    def last_term(self) -> int:
        """Term of the newest entry."""
        return self.journal.term_at(self.journal.last_index) or 0

    def entries(self, start: int, count: int) -> list[tuple[bytes, int, int]]:
        """At most `count` entries (command, index, term) from index `start` on. They are fewer if one read of the
        journal gives fewer.
        """
        offset = start - self.journal.first_index
        return self.journal[offset : offset + count]

    def set_voters(self, others: Sequence[str]) -> None:
        """Set the voters besides this node. The library counts votes against their number."""
        self._SyncObj__otherNodes = {self._node(peer) for peer in others}

    def _node(self, peer: str) -> Node:
        # The peer may be no member by the entries applied here, and yet be the leader that sends the newer ones.
        return self._nodes.setdefault(peer, Node(peer))

    def handle(self, peer: str, message: Message) -> None:
        """Let the library handle a vote, a request for one, or append_entries of `peer`."""
        self._SyncObj__onMessageReceived(self._node(peer), message)

    def append(self, command: bytes) -> int:
        """As leader: put a command at the end of the log, and return its index. It is not durable and not committed
        yet.
        """
        index = self.last_index + 1
        self.journal.add(command, index, self.term)
        return index

    def adopt(self, term: int) -> None:
        """Take over a later term that a message showed, as a follower. This node has not voted in it yet."""
        assert term > self.term, (term, self.term)
        self._SyncObj__setCurrentTerm(term, None)
        self._SyncObj__setState(FOLLOWER)
        self._SyncObj__raftLeader = None

    def follow(self, peer: str) -> None:
        """Follow `peer`, the leader of the current term."""
        self._SyncObj__setState(FOLLOWER)
        self._SyncObj__raftLeader = self._node(peer)

    def step_down(self) -> None:
        """Stop leading, in the same term."""
        self._SyncObj__setState(FOLLOWER)
        self._SyncObj__raftLeader = None

    def campaign(self) -> None:
        """Begin an election in the next term, with this node's own vote. The caller asks the peers, or calls `win`."""
        self._SyncObj__raftLeader = None
        self._SyncObj__setState(CANDIDATE)
        self._SyncObj__setCurrentTerm(self.term + 1, self._me.id)
        self._SyncObj__votesCount = 1

    def win(self) -> None:
        """Become leader: this candidate's own vote is a majority."""
        assert self.state == CANDIDATE, self.state
        assert not self._SyncObj__otherNodes, "others have a vote"
        self._SyncObj__onBecomeLeader()


def check_library() -> None:
    """Check that pysyncobj is the pinned version and knows every setting we give it (R19). Raises LibraryRefused."""
    found = pysyncobj.version.VERSION
    if found != VERSION:
        raise LibraryRefused(f"pysyncobj {found}, this build needs {VERSION}: its private names are used")
    known = vars(SyncObjConf())
    unknown = [key for key in _CONFIG if key not in known]
    if unknown:
        raise LibraryRefused(f"pysyncobj has no setting {', '.join(unknown)}: it would have been ignored silently")
