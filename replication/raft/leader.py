"""The leader's side: it sends heartbeats and entries, takes answers, decides what is committed, and when to stop
leading.

progress.py records how far each follower is, and election/trust.py their echoes. This file turns both into messages. A
heartbeat is small, and its echo waits for no disk. So trust depends on processes and network only. append_entries carry
the log, and are answered when it is on the follower's disk.
"""

from __future__ import annotations

from collections.abc import Callable

from replication.election.trust import NEVER, Trust
from replication.journal.record import NO_OP
from replication.raft.context import RaftContext
from replication.raft.options import Peer
from replication.raft.progress import Follower, Progress
from replication.raft.pysyncobj_core import LEADER
from replication.wire.frame import Message

UNSAID_S = 0.4
"""The silence of a voter whose build is older than protocol 2, in seconds. Its echoes do not say the silence.

This is the default of its configuration. If this node's own configured silence is shorter, that one counts.
"""


def _nothing() -> None:
    return


class Leader:
    """This node as leader. `peers` has what is known of each other member. It has the members also while this node does
    not lead.
    """

    def __init__(self, context: RaftContext) -> None:
        options = context.options
        self.peers = {peer: Peer(peer) for peer in context.peers}
        self.trust = Trust(
            context.peers,
            window_s=options.trust_s,
            fallback_s=options.fallback_s,
            silence_s=options.election_min_s,
        )
        self._context = context
        self._core = context.core
        self._progress = Progress(context.peers, resend_s=options.resend_s, idle_s=options.idle_s)
        self.next_beat = NEVER
        """When heartbeats go out again, while this node leads."""
        self._members_index = 0
        self._stores: dict[str, bytes] = {}  # by node, also of those that are no members: one may become a member later
        self.untrusted_s = 0.0
        """Seconds since the start for which trust had ended while this node led. Times before a first trust are left
        out."""
        self._sure_until = NEVER
        self.on_trusted: Callable[[], None] = _nothing
        """Called when trust returns, or comes for the first time."""
        self.on_renewed: Callable[[], None] = _nothing
        """Called when the time at which trust ends has changed."""
        self.lets_go = False
        """True if leaving nodes may end although no majority stays, because the whole cluster stops."""

    @property
    def handlers(self) -> dict[str, Callable[[str, Message], None]]:
        """The functions for the kinds of message that this role takes, by kind."""
        return {"next_node_idx": self._answered, "echo": self._echo}

    def set_members(self) -> None:
        """Add records for new members and drop those of removed ones. Call it when the roster has changed."""
        roster, last = self._context.roster, self._core.last_index
        for gone in sorted(self.peers.keys() - set(roster.peers)):
            self._context.agreement.forget(gone)
        self.peers = {peer: self.peers.get(peer) or Peer(peer) for peer in roster.peers}
        for peer in self.peers.values():
            peer.store_id = self._stores.get(peer.node_id, b"")
            peer.learner = peer.node_id in roster.learners
        self._members_index = self._core.applied_index + 1
        self.next_beat = NEVER  # they learn at once what is committed
        self.trust.set_members(roster.peers, roster.others, own=roster.votes)
        self._progress.set_members(roster.peers, roster.others, own=roster.votes, last_index=last)

    def begin(self, now: float) -> None:
        """Begin to lead. Call it before the no-op of the term is appended."""
        self._progress.lead(self._core.last_index)
        self.trust.lead(now)
        self._context.agreement.lead()
        self.next_beat = now
        self._sure_until = NEVER
        self.lets_go = False

    def tick(self, now: float) -> None:
        """Commit the entries that a majority has on disk. Step down if no majority has echoed for too long, or if this
        node was removed.
        """
        core, index = self._core, self._progress.majority_index(self._context.journal.durable_index)
        # Counting commits only an entry of the own term (figure 8 of the Raft paper); it brings the earlier ones along.
        if index > core.commit_index and self._context.journal.term_at(index) == core.term:
            core.commit_index = index
        if self._is_out() or not self.trust.holds(now):
            core.step_down()

    def keep_time(self, now: float) -> None:
        """Send heartbeats if they are due. Call it before anything that takes time, because trust counts from `now`."""
        if now >= self.next_beat:
            voters = self._context.roster.others
            self._context.agreement.tick(now, voters, [peer for peer in voters if self._context.wire.connected(peer)])
            self._beat_all(now)

    def send(self, now: float) -> None:
        """Send heartbeats and entries that are due."""
        self.keep_time(now)
        last = self._core.last_index
        for follower in self._progress.followers.values():
            if self._progress.due(follower, last, now) and self._context.wire.connected(follower.peer):
                self._append(follower, last, now)

    def _is_out(self) -> bool:
        """True if this node was removed, and a majority of the remaining voters has applied the removal.

        Before that they do not know that the removal is committed, and might need the vote of this node. This node
        stops voting when it steps down.
        """
        roster = self._context.roster
        if roster.votes:
            return False
        aware = sum(self.peers[voter].applied_index >= self._members_index for voter in roster.others)
        return aware >= roster.majority

    @property
    def _beat_s(self) -> float:
        return self._context.options.heartbeat_s * self.trust.pace

    def _beat_all(self, now: float) -> None:
        self.next_beat = now + self._beat_s
        self._context.silence.want(self._context.patience.silence_s(now), now)
        told = self._heartbeat(now)
        for peer in self._context.peers:
            self._context.wire.send(peer, self._told(peer, told))

    def connected(self, peer: str, store_id: bytes) -> None:
        """Take a new connection to or from the peer. Another `store_id` than before means that its disk was wiped and
        is empty.
        """
        former, self._stores[peer] = self._stores.get(peer, store_id), store_id
        known = self.peers.get(peer)
        if known is None:
            return
        if former != store_id:
            self.forget(peer)
        known.store_id = store_id
        self._progress.reconnected(peer, self._core.last_index)

    def forget(self, peer: str) -> None:
        """Forget what the peer acknowledged, because its disk was wiped or is an old copy of itself."""
        if peer in self.peers:
            self._progress.forget(peer)
            self.trust.forget(peer)
            self._context.agreement.forget(peer)
            self.on_renewed()

    def survey(self) -> dict[str, Peer]:
        """The records of all peers, brought up to date."""
        for peer in self.peers.values():
            follower = self._progress.followers[peer.node_id]
            peer.connected = self._context.wire.connected(peer.node_id)
            peer.match_index, peer.stranded = follower.match, follower.stranded
            peer.remembers, peer.voter = follower.voter, follower.voter and follower.counts
        return self.peers

    @property
    def low_water(self) -> int:
        """The index up to which every peer is known to have the log. No peer needs the journal before it."""
        return min((f.match for f in self._progress.followers.values()), default=self._core.applied_index)

    def beat(self, peer: str, now: float) -> None:
        """Send a heartbeat to this peer alone, between two regular ones. The peer learns what is committed, and its
        echo says what it has applied.
        """
        self._context.wire.send(peer, self._told(peer, self._heartbeat(now)))

    def outnumbered(self) -> bool:
        """True if the voters that are connected and do not leave are no majority. This node counts if it does not leave
        itself.
        """
        staying = int(self._context.roster.votes and not self._context.node_report().leaving)
        staying += sum(peer.voter and peer.connected and not peer.leaving for peer in self.survey().values())
        return staying < self._context.roster.majority

    def _told(self, peer: str, heartbeat: Message) -> Message:
        return heartbeat | {"released": self.peers[peer].leaving and (self.lets_go or not self.outnumbered())}

    def _heartbeat(self, now: float) -> Message:
        node_report, agreement = self._context.node_report(), self._context.agreement
        durable = self._context.journal.durable_index
        ahead_ms, slack_ms = node_report.ahead_ms()
        self._context.promises.made(self._core.term, durable)
        return {
            "type": "heartbeat",
            "term": self._core.term,
            "stamp_us": int(now * 1e6),  # rounded down: never later than the sending
            "wall_ms": node_report.wall_ms,
            "commit_index": self._core.commit_index,
            "last_index": self._core.last_index,
            "low_water": self.low_water,
            "wish_ms": int(self._context.patience.silence_s(now) * 1000),
            "released": False,
            "median_ms": max(0, node_report.wall_ms - ahead_ms),
            "median_slack_ms": slack_ms,
            "durable_index": durable,
            "check_index": agreement.asked,
            "agreed_index": agreement.agreed_index,
            "agreed_sum": agreement.agreed_sum,
        }

    def _append(self, follower: Follower, last: int, now: float) -> None:
        previous = follower.next - 1
        term = self._context.journal.term_at(previous)
        follower.stranded = term is None
        if term is None:
            return
        message = {
            "type": "append_entries",
            "term": self._core.term,
            "seq": self._progress.sent(follower, previous, now),
            "commit_index": self._core.commit_index,
            "prevLogIdx": previous,
            "prevLogTerm": term,
            "entries": [] if follower.backing_off else self._batch(follower.next, last),
        }
        if not self._context.wire.send(follower.peer, message):
            follower.seq = 0

    def _batch(self, start: int, last: int) -> list[tuple[bytes, int, int]]:
        if start > last:
            return []
        options = self._context.options
        entries = self._core.entries(start, options.max_batch_entries)
        size = 0
        for count, entry in enumerate(entries):
            size += len(entry[0])
            if size > options.max_batch_bytes and count:
                return entries[:count]
        return entries

    def _answered(self, peer: str, message: Message) -> None:
        if message["term"] != self._core.term or self._core.state != LEADER or peer not in self.peers:
            return  # R5: the library takes an answer of any term
        if message["success"] and message["next_node_idx"] <= self._core.last_index + 1:
            self._context.promises.showed(peer, message["term"], message["next_node_idx"] - 1)
        self._progress.followers[peer].voter = message["voter"]
        self._progress.answered(
            peer,
            seq=message["seq"],
            next_index=message["next_node_idx"],
            reset=message["reset"],
            success=message["success"],
            last_index=self._core.last_index,
        )

    def _echo(self, peer: str, message: Message) -> None:
        if message["term"] != self._core.term or self._core.state != LEADER or peer not in self.peers:
            return
        now, stamp = self._context.monotonic(), message["stamp_us"] / 1e6
        self.peers[peer].echoed(message, now, stamp, self._context.node_report().wall_ms)
        self._context.agreement.answered(peer, message["sum_index"], message["sum"], self._context.roster.others)
        follower = self._progress.followers[peer]
        follower.voter = message["voter"]
        if follower.voter:
            self._trust(peer, stamp, message["silence_ms"] / 1000, now)
        elif follower.match == self._core.last_index and now - follower.nudged_s >= self._context.options.nudge_s:
            # The peer has all entries. To vote again it needs a committed entry that is newer (RegainVote): append one.
            follower.nudged_s = now
            self._core.append(NO_OP)

    def _trust(self, peer: str, stamp: float, owed_s: float, now: float) -> None:
        """Extend trust by a voter's echo, which owes `owed_s` of silence for the heartbeat with this stamp.

        If the echo confirms a newer heartbeat by a majority, the age of the one confirmed before is recorded as
        lateness. The silence has to bridge it.
        """
        trust, options = self.trust, self._context.options
        confirmed, before = trust.confirmed(now), self._sure_until
        trust.echoed(peer, stamp, owed_s or min(UNSAID_S, options.election_min_s), now)
        self.next_beat = min(self.next_beat, now + self._beat_s)
        if trust.confirmed(now) > confirmed > NEVER:
            self._context.patience.saw((now - confirmed) * options.election_min_s / options.trust_s, now)
        until = trust.until(now)
        if until > now:
            returned, self._sure_until = now >= before, until
            self.on_renewed()
            if returned and before > NEVER:
                self.untrusted_s += now - before
            if returned:
                self.on_trusted()
