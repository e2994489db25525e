"""A Raft group on one node: proposals in, committed entries out, with votes and log matching from pysyncobj.

    journal = Journal.open(directory.journal, disk=disk)
    transport = AsyncTransport(identity, ("127.0.0.1", 7500), {"n2": ("127.0.0.1", 7501), "n3": ("127.0.0.1", 7502)})
    group = RaftGroup(GroupOptions("n1", ("n2", "n3")), journal, transport.attach, machine.apply,
                      monotonic=monotonic, random=random, node_report=lambda: NodeReport(clock.now_ms(), free_bytes))
    group.start_at(store.applied_index)
    driver = GroupDriver(group, transport, on_fatal=stop_the_process)
    await driver.start()
    outcome = await driver.propose(blob)        # Outcome(result, error, index); only on the leader

The group is a pure machine: messages, the journal's progress and the time go in (`receive`, `peer_connected`, `tick`),
messages, applied entries and callbacks come out. It reads only the clock it is given, starts no task, and touches files
only through the journal. `driver.py` runs it with asyncio, tests/replication/sim_network.py with a virtual clock.

Where the library's flaws R1 to R20 (docs/adr/0001-raft-on-pysyncobj.md) are repaired:

    R1  raft/outbox.py (what leaves waits for the disk), raft/progress.py (the own copy counts when durable)
    R2  journal/journal.py, raft/follower.py           R3, R4   raft/progress.py
    R5  raft/votes.py, raft/leader.py                  R6       election/may_vote.py, raft/votes.py
    R7  election/trust.py                              R8       raft/context.py
    R9  journal/journal.py, node/upkeep/checkpointer.py       R10      snapshot/fetch.py, journal/install.py
    R11, R19  raft/pysyncobj_core.py                   R13      raft/proposal.py
    R12 `_apply`: a refused entry is a result; an exception would come on every node, so it ends the process
    R15, R16  wire/frame.py, wire/handshake.py, wire/link.py, wire/listener.py
    R17, R18  `max_pending_bytes`, the transport's bounds, segments; `max_entry_bytes` is below the frame limit
    R20 raft/members.py (a learner gets everything and counts for no majority)

An entry is applied when it is committed AND durable on this node. Raft needs only the commit. But the store's files
must never be ahead of the journal. So no checkpoint covers an entry that a power cut takes from this node's own log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Any

from replication.election.patience import Patience
from replication.election.silence import Silence
from replication.election.term_bound import TermBound
from replication.group_state import GroupState
from replication.journal.journal import Journal
from replication.raft.agreement import Agreement
from replication.raft.context import RaftContext
from replication.raft.follower import Follower
from replication.raft.leader import Leader
from replication.raft.members import Roster
from replication.raft.options import GroupOptions, NodeReport
from replication.raft.outbox import Outbox
from replication.raft.promise import Promises
from replication.raft.proposal import CHANGING, NOT_LEADER, OVERLOADED, Done, Outcome, Pending
from replication.raft.pysyncobj_core import FOLLOWER, LEADER, Core
from replication.raft.state_hashes import StateHashes
from replication.raft.votes import Votes
from replication.transfer import Transfer
from replication.wire.events import Wire, WireEvents
from replication.wire.frame import SNAPSHOT_KINDS, Message
from replication.wire.frame_bound import TERM_MAX
from replication.wire.said_seldom import SaidSeldom

Apply = Callable[[int, int, bytes], Any]
TICK_S = 0.01
"""The shortest time that a follower rests between ticks, and the time between ticks during a transfer."""
APPLY_LATER = 4
"""Committed entries that a follower may leave unapplied while its journal is being written."""
BEATS = ("heartbeat", "echo")
"""The kinds of message that come all the time and mostly need no step."""
log = logging.getLogger("hourwheel.group")


class StartRefused(Exception):
    """The group cannot start: the journal has no terms left, or it and the checkpoint do not belong together."""


class LogGap(StartRefused):
    """The journal ends before the checkpoint, or begins behind it. A damaged record at the journal's end looks like one
    that a crash tore. If the catalog's newest page is damaged, an older one is read. Only the gap shows such damage."""


def _nothing(*_: object) -> None:
    return


class RaftGroup(GroupState):
    """See the module. Not thread safe. After `on_fatal(exception)` the group is dead: it does not send or apply.

    `apply(index, term, command)` is called once for every committed command, in order. Its result goes to the proposer.
    The callbacks, called from `tick` and `receive`, mean: `on_wake`: call `tick` soon. `on_established`: this node
    leads and its no-op is applied. `on_stepped_down`: it led until now. `on_leader_changed`: `leader_id` has changed.
    `on_trusted`: its trust is back. `on_renewed`: the end of its trust may have changed. `on_snapshot(peer, message)`:
    a message about a snapshot, of the current term.
    """

    def __init__(
        self,
        options: GroupOptions,
        journal: Journal,
        transport_factory: Callable[[WireEvents], Wire],
        apply: Apply,
        *,
        monotonic: Callable[[], float],
        random: Callable[[], float],
        node_report: Callable[[], NodeReport],
        sums: StateHashes | None = None,
        kept_silence_s: float = 0.0,
    ) -> None:
        self.options = options
        self.journal = journal
        self.on_wake: Callable[[], None] = _nothing
        self.on_established: Callable[[], None] = _nothing
        self.on_stepped_down: Callable[[], None] = _nothing
        self.on_leader_changed: Callable[[], None] = _nothing
        self.on_trusted: Callable[[], None] = _nothing
        self.on_renewed: Callable[[], None] = _nothing
        self.on_fatal: Callable[[BaseException], None] = _nothing
        self.on_snapshot: Callable[[str, Message], None] = _nothing
        self.failure: BaseException | None = None  # the error that killed the group, if any
        self.established = False
        """Leader, and the no-op of its term is applied: all that any former leader committed is applied here."""
        self.elected_term = self.term_before = 0  # the last term it led; the term of the log's last entry before that
        self._closed = False
        self._apply_command = apply
        self._monotonic = monotonic
        wire = transport_factory(self)
        self._outbox = Outbox(journal, wire.send)
        peers = tuple(sorted(options.peers))
        core = self._core = Core(options.node_id, peers, journal, self._library_sends, self._state_changed)
        self.agreement = Agreement(options.node_id, sums or StateHashes())
        self.roster = Roster(options.node_id, peers)
        self._change_index = 0
        promises = self._promises = Promises(
            core, journal, wire.send, lambda: self._votes.distrust(), lambda peer: self._leading.forget(peer)
        )
        least_s = options.election_min_s
        self.silence = Silence(least_s, max(least_s, kept_silence_s), monotonic())
        shared = (self.agreement, promises, self.silence, Patience(least_s))
        context = RaftContext(options, self.roster, core, journal, wire, self._outbox, monotonic, node_report, *shared)
        self._votes = Votes(context, random)
        self._following = Follower(context, self._votes)
        self._leading = Leader(context)
        self._leading.on_trusted, self._leading.on_renewed = lambda: self.on_trusted(), lambda: self.on_renewed()
        self._transfer = Transfer(context, self._leading, self.resign)
        self._handlers = self._votes.handlers | self._following.handlers | self._leading.handlers
        self._handlers |= dict.fromkeys(SNAPSHOT_KINDS, self._snapshot) | promises.handlers
        self._terms = TermBound(monotonic())
        self._seldom = SaidSeldom(log, monotonic)
        self._send = wire.send
        self._pending = Pending(options.outcome_s)
        self._told_leader: str | None = None
        self._last_tick = self._next_second = monotonic()

    def let_go(self, goes: bool = True) -> None:
        """On the leader: tell all peers that leaving nodes may end. Holds until `let_go(False)` or the next term. No
        effect on a node that does not lead."""
        if self.is_leader:
            self._leading.lets_go = goes
            for peer in self.peers:
                self._leading.beat(peer, self._monotonic())

    def start_at(self, applied_index: int) -> None:
        """Call it before the first tick: the store has all entries up to `applied_index`. Raises StartRefused."""
        first, last = self.journal.first_index, self.journal.last_index
        if self._core.term >= TERM_MAX:
            raise StartRefused(
                f"the journal's term is {self._core.term} and terms end at {TERM_MAX}: no leader can be elected above "
                "it. Stop all nodes of the cluster and see `hourwheel node journal-term --help`"
            )
        if max(1, applied_index) > last:
            raise LogGap(
                f"the checkpoint covers the log up to {applied_index}, the journal ends with {last}: its end is "
                "damaged or was cut off, or they are not of one directory. With an empty one the node gets a snapshot"
            )
        if first > max(1, applied_index):
            raise LogGap(
                f"the checkpoint covers the log up to {applied_index}, the journal begins with {first}: the catalog's "
                "newest page is damaged, or they are not of one directory. With an empty one the node gets a snapshot"
            )
        self._core.applied_index = max(1, applied_index)
        self._core.commit_index = max(self._core.commit_index, applied_index)

    def set_members(self, voters: Collection[str], learners: Collection[str]) -> None:
        """Set the members. Call it when a change is applied. Call it also before the first tick, with the members of
        the store. See raft/members.py."""
        self.roster.set(voters, learners)
        self._core.set_voters(self.roster.others)
        self._leading.set_members()
        self.journal.keep_commit()
        self.on_wake()

    def propose(self, blob: bytes, done: Done) -> None:
        """Append a command (2 to max_entry_bytes bytes). `done` gets its outcome once, perhaps before this returns."""
        if not 2 <= len(blob) <= self.options.max_entry_bytes:
            raise ValueError(f"a command of {len(blob)} bytes; 2 to {self.options.max_entry_bytes} fit into an entry")
        if not self.is_leader or self._transfer.under_way:
            done(Outcome(error=NOT_LEADER))
        elif self.options.is_change(blob) and (self.changing or not self.established):
            done(Outcome(error=CHANGING))
        elif self._pending.bytes + len(blob) > self.options.max_pending_bytes:
            done(Outcome(error=OVERLOADED))
        else:
            index = self._core.append(blob)
            if self.options.is_change(blob):
                self._change_index = index
            self._pending.add(index, self._core.term, len(blob), self._monotonic(), done)
            self.on_wake()

    def transfer(self, to: str, told: Callable[[bool], None]) -> None:
        """Give leadership to the peer `to` (transfer.py). From here on every proposal is refused as `not-leader`.

        `told` is called once, perhaps before this returns. True: this node follows now, and has asked `to` to campaign.
        `on_leader_changed` reports the next leader. False: this node leads on, unless it lost leadership by another
        way. False at once: `to` is not connected, no voter or no member, another transfer is under way, or this node is
        not the established leader.
        """
        peer = self.peers.get(to)
        able = peer is not None and peer.connected and peer.voter and self.is_leader and self.established
        if not able or self._transfer.under_way:
            told(False)
        else:
            self._transfer.begin(to, self._monotonic(), told)
            self.on_wake()

    @property
    def given(self) -> bool:
        """True if the leader of the term before gave leadership to this node for this term (transfer.py)."""
        return self._votes.given_term == self._core.term

    def resign(self) -> None:
        """Step down on purpose, in the same term. The first node that misses the heartbeats leads, perhaps this one."""
        if self.is_leader:
            self._core.step_down()
            self._votes.heard_leader(self._monotonic())
            self.on_wake()

    def close(self) -> None:
        """Stop. Open proposals get `unknown`. The caller closes the journal."""
        self._closed = True
        self._transfer.call_off()
        self._pending.close()

    def fail(self, error: BaseException) -> None:
        """End the group, because something that it depends on failed for good (a sync, the transport, apply)."""
        if self.failure is None:
            self.failure, self._closed = error, True
            self.on_fatal(error)

    # Snapshots: the group only passes their messages on, see snapshot/send.py and snapshot/fetch.py.

    def send_snapshot(self, peer: str, message: Message) -> bool:
        """Send an offer, a pull or a piece of a snapshot to `peer`. False if the wire did not take it."""
        assert message["type"] in SNAPSHOT_KINDS, message["type"]
        return not self._closed and self._send(peer, message)

    def may_install(self, leader: str, term: int, index: int) -> bool:
        """True if this node may forget its log for a snapshot up to `index` that `leader` offered in `term`."""
        return not self._closed and self._following.may_forget(leader, term, index)

    def _snapshot(self, peer: str, message: Message) -> None:
        if message["term"] == self._core.term:
            self.on_snapshot(peer, message)

    # The wire and the driver call these.

    def receive(self, peer: str, message: Message) -> None:
        """Take a message of `peer`. An error here ends the group: a mistake in our code, or a disk that failed."""
        if self._closed:
            return
        core, kind, now = self._core, message["type"], self._monotonic()
        before = (core.term, core.last_index)
        why = self._why_unheard(peer, message, now)
        if why is not None:
            self._seldom.warning("%s of %s is not heard: %s", kind, peer, why)
            return
        try:
            self._handlers[kind](peer, message)
        except Exception as error:
            self.fail(error)
        if core.term > before[0]:
            self._terms.rose(before[0], core.term, now)
        if kind not in BEATS or before != (core.term, core.last_index) or not self._rests:
            self.on_wake()

    def _why_unheard(self, peer: str, message: Message, now: float) -> str | None:
        """The reason why a message is dropped before it has any effect. None if it is handled."""
        core, term = self._core, message.get("term", 0)
        if not self._terms.allows(core.term, term, now):
            return f"its term {term} is too far beyond term {core.term} of this node"
        if message["type"] not in ("heartbeat", "append_entries") or term != core.term:
            return None
        # A term has one leader. A follower follows one in a term, so two that claim to lead it never share a majority.
        # A leader with trust ignores the other claim. Without trust it stops, as two leaders (raft/follower.py).
        if core.state == LEADER:
            return f"this node leads term {term}" if now < self._leading.trust.until(now) else None
        return None if core.leader_id in (None, peer) else f"{core.leader_id} leads term {term}"

    @property
    def _rests(self) -> bool:
        """True if a step would find nothing to do. All entries that may be applied are applied, no transfer is under
        way, and all changes of the leader are reported. And this node has a vote."""
        if self.applied_index < min(self.commit_index, self.journal.durable_index) or self._transfer.under_way:
            return False
        told = self.leader_id == self._told_leader and self.established == self.is_leader
        return told and self.journal.voter and self.roster.votes  # a node without a vote takes a step for each message

    def peer_connected(self, peer: str, store_id: bytes) -> None:
        """Take a new connection to or from `peer`, which works on the directory `store_id`."""
        self._promises.greet(peer, store_id)
        self._leading.connected(peer, store_id)
        self._following.connected(peer)
        self.on_wake()

    def tick(self, *, writing: bool = False) -> bool:
        """Take one step. True if entries are left to apply, so call it again soon. Cheap when nothing happened.

        `writing`: the journal's thread is at work. A follower then leaves a few entries unapplied until that is done.
        The leader waits for a follower's write, and for no follower's apply.
        """
        if self._closed:
            return False
        try:
            return self._tick(self._monotonic(), writing)
        except Exception as error:
            self.fail(error)
            return False

    def rest_s(self) -> float:
        """Seconds until the next tick is needed, if no message or proposal comes meanwhile."""
        now, most_s = self._monotonic(), self.options.heartbeat_s
        if self._closed or self._transfer.under_way:
            return most_s if self._closed else TICK_S
        if self._core.state == LEADER:
            return min(most_s, self._leading.next_beat - now)
        return max(TICK_S, min(2 * most_s, self._votes.due_s - now))  # heartbeats come before that, and are ticks

    def _tick(self, now: float, writing: bool) -> bool:
        if now - self._last_tick > self.options.stall_s:
            self._leading.trust.resumed(now)
        self._last_tick = now
        self._outbox.release()
        if now >= self._next_second:
            self._next_second = now + 1
            self.journal.onOneSecondTimer()
        self._votes.tick(now)
        if self._core.state == LEADER:
            self._leading.tick(now)
        if self._core.state == LEADER:  # still
            self._leading.keep_time(now)
        later = writing and self._core.state != LEADER and self.commit_index - self.applied_index <= APPLY_LATER
        more = False if later else self._apply(now)
        if self._core.state == LEADER:
            self._leading.send(now)
            self._transfer.tick(now)
            self.on_renewed()
        self._pending.expire(now)
        if self.leader_id != self._told_leader:
            self._told_leader = self.leader_id
            self.on_leader_changed()
        return more

    def _apply(self, now: float) -> bool:
        core, until = self._core, now + self.options.apply_slice_s
        limit = min(core.commit_index, self.journal.durable_index)
        while core.applied_index < limit:
            start = core.applied_index + 1
            for command, index, term in core.entries(start, min(limit + 1 - start, 8)):
                result = None if len(command) == 1 else self._apply_command(index, term, command)
                core.applied_index = index
                if core.state == LEADER and index == core.noop_index and term == core.term:
                    self.established = True
                    self.on_established()
                self._pending.applied(index, term, result)
                if self._monotonic() >= until:  # looked at after each entry: a large one may take all the time
                    return core.applied_index < limit
        return False

    def _library_sends(self, peer: str, message: Message) -> None:
        if message["type"] == "next_node_idx":
            seq, voter = self._following.answering, self.journal.voter
            message |= {"term": self._core.term, "seq": seq, "voter": voter}
            self._following.answered = (peer, message)
            if message["success"]:
                self._promises.made(self._core.term, message["next_node_idx"] - 1)
        elif message["type"] == "response_vote":
            self._promises.made(self._core.term)
            self._votes.granted()
        self._outbox.send(peer, message)

    def _state_changed(self, old: int, new: int) -> None:
        if new == LEADER:
            self._change_index = 0  # a change of an earlier term is applied or lost before this term is established
            self.elected_term = self._core.term
            self.term_before = self.journal.term_at(self.journal.last_index) or 0  # the own no-op is not in the log yet
            assert self.term_before < self.elected_term, (self.term_before, self.elected_term)
            self._leading.begin(self._monotonic())
        elif old == LEADER:
            assert new == FOLLOWER, new
            self.established = False
            self._transfer.call_off()
            self.on_stepped_down()
