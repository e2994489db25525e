"""Votes, pre-votes and the voter rule as messages. may_vote.py decides, the library counts, and this file connects the
two.

The library answers RequestVote correctly (term, log, one vote a term). But it does not ask the peers before it
campaigns, forgets which peer answered, and knows no silence and no nodes that must not vote. So it gets requests only
when this node may vote at all, and answers only once per peer (R5, R6).

A transfer (transfer.py) is the one election without pre-votes, because the leader itself wants it. Its target campaigns
for the next term at once, and its requests say that they come from a transfer. A voter then does not wait for the end
of the silence that it owes the leader it heard last. That leader stepped down before it asked the target. All other
rules hold: one vote a term, on disk before it leaves, and to no shorter log.
"""

from __future__ import annotations

from collections.abc import Callable

from replication.election.may_vote import Census, Election, RegainVote
from replication.raft.context import RaftContext
from replication.raft.members import unapplied_changes
from replication.raft.pysyncobj_core import CANDIDATE, FOLLOWER, LEADER
from replication.wire.frame import Message
from replication.wire.frame_bound import TERM_MAX

YIELDS_FOR = 4
"""A node that shall not lead campaigns after all if it heard no leader for this many of the longest election timeouts.

Then the others cannot win, as when this node alone has the newest committed entries. If it waited for ever, the cluster
would have no leader.
"""


class Votes:
    """This node in elections: it asks for votes and gives them."""

    def __init__(self, context: RaftContext, random: Callable[[], float]) -> None:
        options = context.options
        self._context = context
        self._core = context.core
        self._election = Election(
            context.roster,
            min_s=options.election_min_s,
            max_s=options.election_max_s,
            random=random,
            now=context.monotonic(),
            silence=context.silence,
        )
        self._census = Census(context.peers)
        self._regain = RegainVote()
        self._heard_s = context.monotonic()
        self.given_term = 0
        """The term in which this node leads by a transfer of the former leader, if it wins the election."""
        self._voted_seq = 0  # the number of the journal write with the own vote

    @property
    def handlers(self) -> dict[str, Callable[[str, Message], None]]:
        """The functions for the kinds of message that this role takes, by kind."""
        return {
            "stale_term": self._stale_term,
            "request_vote": self._request_vote,
            "response_vote": self._response_vote,
            "pre_vote": self._pre_vote,
            "pre_vote_ok": self._pre_vote_ok,
            "committed": self._committed,
            "timeout_now": self._timeout_now,
            "census": self._census_asked,
            "census_answer": self._census_answered,
        }

    def tick(self, now: float) -> None:
        """If this node is no voter, become one if it may. If it is a voter and does not lead, ask for pre-votes when it
        is time.
        """
        if not self._context.journal.voter:
            self._seek_vote(now)
        elif self._core.state == CANDIDATE and self._context.roster.majority == 1:
            # The own vote is a majority. Like every vote it counts when it is on disk. If it counted sooner, a node
            # whose power is cut could lead the same term twice, and be told that it has forgotten a vote.
            if self._context.journal.durable_seq >= self._voted_seq:
                self._core.win()
        elif self._core.state != LEADER and self._election.due(now) and self._ready(now):
            if self._election.ask(self._core.term + 1, now):
                self._campaign(now)
            else:
                self._ask({"type": "pre_vote", "term": self._core.term + 1})

    @property
    def due_s(self) -> float:
        """The monotonic second at which this node asks for votes, unless it hears a leader."""
        return self._election.due_s

    def heard_leader(self, now: float) -> None:
        """Note that a message of the leader of the current term came."""
        self._heard_s = now
        self._election.heard_leader(now)

    def heard_heartbeat(self, term: int, last_index: int, median_ms: int | None) -> None:
        """Note the end of the leader's log in `term`, and the median of the nodes' clocks. The median is None if the
        heartbeat waited on the way.
        """
        self._regain.heartbeat(term, last_index)
        if median_ms is not None:
            apart_ms = abs(self._context.node_report().wall_ms - median_ms)
            self._election.reluctant = apart_ms > self._context.options.apart_ms

    def granted(self) -> None:
        """Note that the library gives this node's vote to another node."""
        self._election.granted(self._context.monotonic())

    def distrust(self) -> None:
        """Give up the vote, because this node's disk has forgotten promises (promise.py). Only rule (b) of may_vote.py
        returns it.
        """
        self._context.journal.set_voter(False)
        self._regain = RegainVote()
        if self._core.state != FOLLOWER:
            self._core.step_down()

    def _seek_vote(self, now: float) -> None:
        core, journal = self._core, self._context.journal
        founds = self._context.options.founds and self._empty and self._census.all_empty
        if founds or self._regain.reached(core.term, core.commit_index, journal.durable_index):
            journal.set_voter(True)
        elif self._census.due(now):
            for peer in self._context.peers:
                self._context.wire.send(peer, {"type": "census"})

    @property
    def _empty(self) -> bool:
        return self._core.term == 0 and self._core.last_index <= 1

    def _ready(self, now: float) -> bool:
        node_report = self._context.node_report()
        alone = now - self._heard_s >= YIELDS_FOR * self._context.options.election_max_s
        return (not node_report.retiring or (alone and not node_report.leaving)) and self._may_stand()

    def _may_stand(self) -> bool:
        """True if rule 2 of members.py lets this node campaign, and it has a vote. False in the last possible term.

        A change that must be committed by that rule is committed here. Then this returns False until the change is
        applied.
        """
        context, core = self._context, self._core
        if core.term >= TERM_MAX or core.applied_index < core.commit_index:
            return False
        changes = unapplied_changes(core, context.options.is_change)
        if len(changes) > 1:  # all but the last are committed, or the last would not have been proposed
            core.commit_index = changes[-2]
            return False
        return context.roster.votes  # asked last: a change just found committed may make it a voter

    def _may_grant(self, *, transfer: bool = False) -> bool:
        # A leader does not vote either. It steps down when no majority echoes it, or when a peer tells it a later term.
        quiet = not transfer and not self._election.may_grant(self._context.monotonic())
        return self._context.journal.voter and self._core.state != LEADER and not quiet

    def _ask(self, message: Message) -> None:
        message |= {"last_log_index": self._core.last_index, "last_log_term": self._core.last_term}
        for peer in self._context.roster.others:
            self._context.outbox.send(peer, message)

    def _campaign(self, now: float, *, transfer: bool = False) -> None:
        self._election.campaigned(now)
        self._core.campaign()
        self._voted_seq = self._context.journal.write_seq
        self._context.promises.made(self._core.term)
        self._ask({"type": "request_vote", "term": self._core.term, "transfer": transfer})

    def _timeout_now(self, peer: str, message: Message) -> None:
        """Campaign at once: the leader of this term stepped down and chose this node. Ignored from any other term or
        peer.
        """
        core = self._core
        named = message["term"] == core.term and core.leader_id == peer and core.state == FOLLOWER
        if named and self._context.journal.voter and self._may_stand():
            self._campaign(self._context.monotonic(), transfer=True)
            self.given_term = core.term

    def _stale_term(self, peer: str, message: Message) -> None:
        if message["term"] > self._core.term:
            self._core.adopt(message["term"])

    def _request_vote(self, peer: str, message: Message) -> None:
        self._context.promises.showed(peer, message["term"])
        if not self._context.stale(peer, message) and self._may_grant(transfer=message["transfer"]):
            self._core.handle(peer, message)

    def _response_vote(self, peer: str, message: Message) -> None:
        if message["term"] > self._core.term:
            return  # a vote that this node did not ask for
        self._context.promises.showed(peer, message["term"])
        in_time = self._core.state == CANDIDATE and message["term"] == self._core.term
        if in_time and peer in self._context.roster.others and self._election.first_vote(peer):
            self._core.handle(peer, message)

    def _pre_vote(self, peer: str, message: Message) -> None:
        core = self._core
        if message["term"] <= core.term:
            # The peer would campaign in a term that is over. It can win only in a term above ours, so it is told ours.
            self._context.wire.send(peer, {"type": "stale_term", "term": core.term})
            return
        theirs = (message["last_log_term"], message["last_log_index"])
        if self._may_grant() and theirs >= (core.last_term, core.last_index):
            self._context.wire.send(peer, {"type": "pre_vote_ok", "term": message["term"]})
        elif self._election.may_grant(self._context.monotonic()):
            # A committed entry is a fact, whichever node says it. It may be a change of members that the peer has not
            # applied, so that it counts the wrong voters.
            index = core.commit_index
            entry_term = self._context.journal.term_at(index) or 0
            self._context.wire.send(peer, {"type": "committed", "index": index, "entry_term": entry_term})

    def _pre_vote_ok(self, peer: str, message: Message) -> None:
        wanted = message["term"] == self._core.term + 1 and self._core.state != LEADER
        if wanted and peer in self._context.roster.others and self._election.pre_voted(peer, message["term"]):
            self._campaign(self._context.monotonic())

    def _committed(self, peer: str, message: Message) -> None:
        """Take the message that the entry at an index is committed. `peer` sends it instead of a pre-vote. Commit up to
        that entry if our log has it.
        """
        core, index = self._core, message["index"]
        if core.state == LEADER or index <= core.commit_index:
            return
        if self._context.journal.term_at(index) == message["entry_term"]:
            if core.state == CANDIDATE:
                core.step_down()  # this node may have asked the former members for votes
            core.commit_index = index

    def _census_asked(self, peer: str, message: Message) -> None:
        self._context.wire.send(peer, {"type": "census_answer", "empty": self._empty})

    def _census_answered(self, peer: str, message: Message) -> None:
        self._census.answered(peer, message["empty"])
