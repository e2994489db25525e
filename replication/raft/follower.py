"""The follower's side: entries and heartbeats of the leader. The library checks and appends; this file guards its weak
points.

The library commits min(leader's commit, end of the own log). That is right for a log that every message cuts at the
message's end, as in the stock library. Our log keeps entries that were not contradicted (R2). Entries behind the last
one of a message may be another leader's. So this file lowers the commit index of a message before the library sees it.
It goes no further than the message's own entries prove. A heartbeat has no entries. So it commits only entries that
were proven before in this term (`_verified`).

Each entry committed here is in every later leader's log. A message may begin before the last committed entry, because
it came twice, or because a leader searches for where the logs agree. Then this file removes the committed entries from
the message. Otherwise the library would cut its log down to there, and report that applied entries are lost.
"""

from __future__ import annotations

from collections.abc import Callable

from replication.election.median import MedianHeard
from replication.raft.context import Diverged, RaftContext
from replication.raft.pysyncobj_core import FOLLOWER, LEADER
from replication.raft.votes import Votes
from replication.wire.frame import Message

NEVER = float("-inf")


class Follower:
    """This node as a follower, with what it heard from leaders.

    `_verified` is (term, index): up to `index` this log equals the log of the leader of `term`.
    """

    def __init__(self, context: RaftContext, votes: Votes) -> None:
        self.heard_s = NEVER
        """Monotonic second at which a leader was last heard in its term."""
        self.answering = 0
        """The `seq` of the append_entries that the library is handling. The answer gets it."""
        self.answered: tuple[str, Message] | None = None
        """The leader that got the newest answer to append_entries, and that answer."""
        self.low_water = 0
        """The index up to which every peer has the log, as the leader last said."""
        self.released = False
        """True if this node is leaving, and the leader said last that no majority needs it any more."""
        self.leader_commit = 0
        """The leader's commit index, as it last said. This node may lack entries up to it."""
        self.median = MedianHeard(context.options.heartbeat_s)
        self._context = context
        self._core = context.core
        self._votes = votes
        self._verified = (0, 0)
        self._beat = (0, NEVER)  # term and moment of the newest heartbeat

    @property
    def handlers(self) -> dict[str, Callable[[str, Message], None]]:
        """The functions for the kinds of message that this role takes, by kind."""
        return {
            "append_entries": self._append_entries,
            "heartbeat": self._heartbeat,
            "sum_asked": self._sum_asked,
            "sum_told": self._sum_told,
        }

    def may_forget(self, leader: str, term: int, index: int) -> bool:
        """True if this node may forget its log for a snapshot up to `index` that `leader` offered in `term`.

        It may not forget an entry that it acknowledged and that the snapshot lacks. There are three kinds of entries:

        - It acknowledged those up to `_verified` in this term. So `_verified` must not be later than `index`.
        - It acknowledged others in earlier terms, and they were committed. They are in this leader's log. The leader
          found no entry of this node's that it still has, so all such entries are older than its journal, which begins
          before `index`.
        - Entries that were not committed were promised to no client.

        A leader that is right about its own journal never offers less than `_verified`. Those entries are in its log,
        so it would have found them. This node checks all the same, for it cannot acknowledge again what it forgets.
        """
        core, (known_term, known) = self._core, self._verified
        follows = core.state == FOLLOWER and core.leader_id == leader and core.term == term
        return follows and core.commit_index < index and (known_term != term or known <= index)

    def connected(self, peer: str) -> None:
        """Repeat the last answer to a leader whose connection is new, because that answer may be lost.

        The leader sent as soon as its own connection was up, while ours was not. Without the repetition it would wait
        `resend_s`. Hearing an answer twice does no harm.
        """
        if self.answered is not None and self._core.leader_id == peer:
            told, message = self.answered
            if told == peer and message["term"] == self._core.term:
                self._context.outbox.send(peer, message)

    def _heard(self) -> None:
        self.heard_s = self._context.monotonic()
        self._votes.heard_leader(self.heard_s)

    def _listen(self, wish_s: float) -> None:
        """Set the silence that this node owes from now on. It follows from how late heartbeats come here, and from the
        leader's wish in seconds.
        """
        context, core = self._context, self._core
        now, before = context.monotonic(), self._beat
        self._beat = (core.term, now)
        if before[0] == core.term:
            context.patience.saw(now - before[1], now)
        context.silence.want(max(wish_s, context.patience.silence_s(now)), now)

    def _append_entries(self, peer: str, message: Message) -> None:
        core, journal = self._core, self._context.journal
        if self._context.stale(peer, message):
            return
        self._check(peer, message)
        self._heard()
        self.answering = message["seq"]
        message = self._shortened(message)
        previous = message["prevLogIdx"]
        proven = previous + len(message["entries"])
        core.handle(peer, message | {"commit_index": min(message["commit_index"], proven)})
        if journal.term_at(previous) == message["prevLogTerm"]:
            term, verified = self._verified
            self._verified = (core.term, max(verified, proven) if term == core.term else proven)

    def _check(self, peer: str, message: Message) -> None:
        """Raise Diverged if a message shows a second leader in one term, or another entry where one is committed here.
        In both cases a disk lost what its node had promised.
        """
        core = self._core
        if message["term"] == core.term and core.state == LEADER:
            raise Diverged(f"{peer} leads term {core.term}, and so does this node: a vote was given twice")
        before = (b"", message["prevLogIdx"], message["prevLogTerm"])
        for _command, index, term in (before, *message["entries"]):
            if index > core.commit_index:
                return
            here = self._context.journal.term_at(index)
            if here not in (term, None):
                raise Diverged(f"{peer} has entry {index} of term {term}, committed here is one of term {here}")

    def _shortened(self, message: Message) -> Message:
        """The same message without the entries that are committed here already."""
        committed = self._core.commit_index
        skip = committed - message["prevLogIdx"]
        if skip <= 0:
            return message
        term = self._context.journal.term_at(committed)
        assert term is not None, "the last committed entry is always kept"
        return message | {"prevLogIdx": committed, "prevLogTerm": term, "entries": message["entries"][skip:]}

    def _heartbeat(self, peer: str, message: Message) -> None:
        core, context = self._core, self._context
        if context.stale(peer, message):
            return
        if message["term"] > core.term:
            core.adopt(message["term"])
        if core.leader_id != peer:
            if core.state == LEADER:
                raise Diverged(f"{peer} leads term {core.term}, and so does this node: a vote was given twice")
            core.follow(peer)
        context.promises.showed(peer, core.term, message["durable_index"])
        now, stamp_s = context.monotonic(), message["stamp_us"] / 1e6
        median_ms, slack_ms = message["median_ms"], message["median_slack_ms"]
        counts = self.median.hear((peer, core.term), stamp_s, median_ms, now, slack_ms)
        self._votes.heard_heartbeat(core.term, message["last_index"], median_ms if counts else None)
        self._listen(message["wish_ms"] / 1000)
        self._heard()
        self.low_water, self.leader_commit = message["low_water"], message["commit_index"]
        self.released = message["released"]
        term, verified = self._verified
        if term == core.term:
            core.commit_index = max(core.commit_index, min(message["commit_index"], verified))
        node_report, index = context.node_report(), message["check_index"]
        held = context.agreement.sum_at(index)
        echo = {
            "type": "echo",
            "term": core.term,
            "stamp_us": message["stamp_us"],
            "wall_ms": node_report.wall_ms,
            "applied_index": core.applied_index,
            "free_bytes": node_report.free_bytes,
            "low": node_report.low,
            "retiring": node_report.retiring,
            "leaving": node_report.leaving,
            "busy": node_report.busy,
            "voter": context.journal.voter,
            "silence_ms": int(context.silence.promise_s * 1000),  # rounded down: never more than it owes
            "sum_index": index if held else 0,
            "sum": held,
        }
        context.wire.send(peer, echo)  # never behind an fdatasync: it says that we listen, not what we have
        doubtful = context.agreement.heard(message["agreed_index"], message["agreed_sum"])
        for other in context.peers if doubtful else ():
            context.wire.send(other, {"type": "sum_asked", "index": doubtful})

    def _sum_asked(self, peer: str, message: Message) -> None:
        index = message["index"]
        told = {"type": "sum_told", "index": index, "sum": self._context.agreement.sum_at(index)}
        self._context.wire.send(peer, told)

    def _sum_told(self, peer: str, message: Message) -> None:
        roster = self._context.roster
        self._context.agreement.told(peer, message["index"], message["sum"], roster.others, roster.majority)
