"""Moves leadership on purpose, so that no client notices: POST /v1/cluster/transfer, SIGTERM, a clock that is off.

    seal     when the entry in flight is applied, the last entry is proposed: all that waits, the Leases of all
             hand-overs, the dispatch state; after it nothing is proposed (write/proposer.py)
    freeze   in the same step: nothing is taken from ready, new requests wait in the forwarder for the next leader
    wait     until the target has all of that on disk and applied (replication/transfer.py)
    give     this node steps down in its term, and then tells the target to stand for election
    answer   when another leader is heard; the requests in the forwarder are sent to it
    account  the new leader says when it could hand over first, and if it repeated anything (leader/takeover.py)

Until this node steps down the transfer can be called off, and then everything goes on here.

- Why nothing is handed over twice: every hand-over of this term was made before the freeze. So its Lease is in the log
  before the target is asked, and the target has applied it.
- Why no request is proposed twice or lost: this node answers each request that it put into an entry. That entry is
  committed before the node steps down. Any other request is sent on, once, or refused as `no-leader`, which says that
  nothing happened.

The gap is the time in which no node could hand over. It is measured on one clock, the old leader's monotonic one, so no
two clocks are compared. It begins with the freeze, the last moment at which the old leader could hand anything over. It
ends when the new leader's account arrives, less the time for which the new leader says it could hand over by then. So
it is too long by the time that the account took to arrive, and never too short.
"""

from __future__ import annotations

import asyncio
import math

import msgspec
import numpy as np
import structlog

from api.port.leadership import TOLD_MAX, OpenHandOvers, TransferResult
from api.port.problem import Problem
from node.cluster.clock_skew import Skew
from node.cluster.members import Members
from node.handover.term import Leadership, Term
from node.port.peer_port import PeerPort
from node.push.feed import PushFeed
from node.runtime.clock import NodeClock
from node.runtime.lifecycle import Lifecycle
from node.write.proposer import Proposer
from replication.group import RaftGroup
from replication.raft.options import CATCHING_UP, Peer
from storage.format.states import IS_OPEN
from storage.store import Store

log = structlog.get_logger()

#: Seconds that the entry before the last one may take to be applied.
QUIESCE_S = 1.0
#: Seconds after which a leader whose clock is off tries again to hand leadership to a node of the majority that
#: outvotes it.
YIELD_EVERY_S = 10.0
#: Seconds for which a leader that stops still reads requests that followers passed on before they heard its successor.
#: It refuses them as `draining`, so that the followers pass them on to the successor. A closed connection would leave
#: their outcome unknown.
LINGER_S = 0.25
#: Seconds to wait until the new leader is heard: one lost message, an election timeout, an election, and a margin.
SUCCESSOR_S = 5.0


class Transfer:
    """Moves leadership from one node to another. At most one transfer is under way."""

    def __init__(
        self,
        members: Members,
        group: RaftGroup,
        store: Store,
        clock: NodeClock,
        skew: Skew,
        proposer: Proposer,
        push_feed: PushFeed,
        peers: PeerPort,
        leadership: Leadership,
        life: Lifecycle,
    ) -> None:
        self._members, self._group, self._store, self._clock, self._skew = members, group, store, clock, skew
        self._proposer, self._push_feed, self._peers = proposer, push_feed, peers
        self._leadership, self._life = leadership, life
        self._frozen_s = 0.0  # when the freeze began
        self._giving = asyncio.Lock()
        self._told: asyncio.Future[bool] | None = None
        self._task: asyncio.Task[TransferResult] | None = None
        self._heard = asyncio.Event()
        self._yield_s = 0.0

    async def run(self, to: str | None) -> TransferResult:
        """Move leadership from this node to node `to` (None: the node that lacks fewest entries), and return a report
        of the transfer. If the caller is cancelled, the transfer goes on. Raises `unknown-node`, `not-caught-up` (this
        node leads on), `change-in-progress`, `draining`, `no-leader`."""
        if self._leadership.term is not None:
            await self._leadership.term.sure()  # first of all: what is looked at below may change in it
        if to is not None and to not in self._members.ids():
            raise Problem("unknown-node", f"no node of this cluster is named {to}")
        term = self._leadership.require()
        if self._group.changing:
            raise Problem("change-in-progress", "the members are being changed; try again in a moment")
        if self._busy():
            raise Problem("change-in-progress", "another transfer is under way; look who leads when it is over")
        if to == self._members.own:
            return TransferResult(
                from_node=to,
                to_node=to,
                term_before=term.term,
                term_after=term.term,
                took_ms=0,
                gap_ms=0,
                in_flight_carried=0,
                repeated=0,
            )
        self._task = asyncio.get_running_loop().create_task(self._move(self._target(to)))
        self._task.add_done_callback(self._ended)
        return await asyncio.shield(self._task)

    async def leave(self) -> bool:
        """Give leadership away before this node stops. Return true if it was given away. If no node can take it, this
        node leads on."""
        if self._task is not None:
            await asyncio.wait((self._task,))
        target = self._best()
        return self._leadership.term is not None and target is not None and await self._give(target)

    def _busy(self) -> bool:
        return self._task is not None or self._giving.locked() or self._leadership.frozen

    def target_of_best(self) -> str | None:
        """Return the peer that a transfer without a named target would choose now. None if no peer can lead."""
        return self._best()

    @property
    def giving(self) -> bool:
        """True while leadership is being given away. Ask in the step of the loop in which this node stops leading. If
        it stops for another reason, any transfer has been called off by then, and this is False."""
        return self._told is not None and not self._told.done()

    def freeze(self) -> None:
        """From now on hand nothing over and begin no request on this leader, until `thaw`."""
        if not self._leadership.frozen:
            self._leadership.frozen, self._frozen_s = True, self._clock.monotonic()

    def thaw(self) -> None:
        """Hand over and begin requests again, because this leader goes on leading."""
        self._leadership.frozen = False
        self._proposer.resume()
        if self._leadership.term is not None:
            self._leadership.term.poke()

    async def give_up(self) -> None:
        """Give leadership to the best peer, because this leader should not lead. If no peer takes it, step down and
        leave it to an election."""
        if self._busy() or not self._group.is_leader:
            return
        target = self._best()
        if (target is None or not await self._give(target)) and self._group.is_leader:
            self._group.resign()

    async def yield_if_outvoted(self) -> None:
        """If a majority contradicts this leader's clock, give leadership to a peer of that majority. If no peer can
        take it, lead on, with stamps held to the majority's clocks, and try again after YIELD_EVERY_S."""
        if self._busy() or not self._clock.leading or not self._skew.outvoted():
            return
        now_s, target = self._clock.monotonic(), self._best()
        off_ms = round(-self._skew.median_ms())
        if target is not None and now_s >= self._yield_s and self._skew.agrees(self._group.peers[target]):
            self._yield_s = now_s + YIELD_EVERY_S
            log.warning("this leader's clock is off and it yields", ahead_ms=off_ms, to=target)
            await self._give(target)

    def leader_changed(self) -> None:
        """Note that another leader is known, or none."""
        self._heard.set()

    def _ended(self, task: asyncio.Task[TransferResult]) -> None:
        self._task = None
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, Problem):
            self._life.fatal(error)

    def _target(self, to: str | None) -> str:
        """Return the peer to give leadership to. Raises `not-caught-up` unless that peer is up, has a vote, and lacks
        at most CATCHING_UP entries."""
        if to is None:
            best = self._best()
            if best is None:
                peers = sorted(self._group.peers.items())
                whys = "; ".join(f"{name} {self._unable(peer)}" for name, peer in peers) or "there is no other node"
                raise Problem("not-caught-up", f"{whys}; this node leads on")
            return best
        peer = self._group.peers[to]
        why = self._unable(peer)
        if why is None and self._skew.outvotes(peer):
            why = f"has a clock that is {peer.clock_offset_ms:+.0f} ms off and would not keep leadership"
        if why is not None:
            raise Problem("not-caught-up", f"{to} {why}; this node leads on")
        return to

    def _best(self) -> str | None:
        """Return the able peer that lacks fewest entries. A peer whose clock agrees with the median comes first. None
        if no peer is able to lead."""
        able = [peer for peer in self._group.peers.values() if self._unable(peer) is None]
        in_time = [peer for peer in able if self._skew.agrees(peer)]
        best = max(in_time or able, key=lambda peer: (peer.match_index, peer.applied_index), default=None)
        return None if best is None else best.node_id

    def _unable(self, peer: Peer) -> str | None:
        """Return the reason why this peer cannot take leadership. None if it can."""
        if not peer.connected:
            return "is down"
        if not peer.voter:
            return "has no vote yet"
        if peer.retiring:
            return "is draining and shall not lead"
        lag = self._lag(peer)
        return f"lacks the last {lag} entries" if lag > CATCHING_UP else None

    def _lag(self, peer: Peer) -> int:
        """Return how many of the log's entries the peer lacks on disk or has not applied."""
        return self._group.last_index - min(peer.match_index, peer.applied_index)

    async def _move(self, to: str) -> TransferResult:
        leading = self._leadership.term
        if leading is None:  # lost since `run` looked, because a task begins in a later step of the loop
            raise Problem("no-leader", "leadership was lost by itself meanwhile; look who leads")
        term, begun_s = self._group.term, self._clock.monotonic()
        if not await self._give(to):
            if self._group.term != term or self._leadership.term is None:
                raise Problem("no-leader", "leadership was lost by itself meanwhile; look who leads")
            raise Problem("not-caught-up", f"{to} did not have all on disk and applied in time; this node leads on")
        told, given_s = self._open_hand_overs(leading), self._clock.monotonic()
        leader = await self.successor(term)
        heard_s, after = self._clock.monotonic(), self._group.term
        view = await self._peers.takeover(told)
        gap_s = None if view is None else self._clock.monotonic() - view.ready_us / 1e6 - self._frozen_s
        result = TransferResult(
            from_node=self._members.own,
            to_node=leader,
            term_before=term,
            term_after=after,
            took_ms=round((heard_s - begun_s) * 1000),
            gap_ms=None if gap_s is None or view is None or view.term != after else math.ceil(gap_s * 1000),
            in_flight_carried=None if view is None or view.term != after else view.in_flight_carried,
            repeated=None if view is None or view.term != after else view.repeated,
        )
        log.info(
            "leadership moved",
            asked=to,
            freeze_to_given_ms=round((given_s - self._frozen_s) * 1000, 1),
            given_to_heard_ms=round((heard_s - given_s) * 1000, 1),
            **msgspec.structs.asdict(result),
        )
        return result

    def _open_hand_overs(self, term: Term) -> OpenHandOvers:
        """Return this leader's hand-overs whose end it does not know, TOLD_MAX at most. They are the pushes on the
        wire, and the newest hand-overs by its records, if the unit has not ended."""
        pushes = [attempt for attempt in self._push_feed.attempts.values() if attempt.term == term.term]
        newest, newest_end_ms = term.newest_hand_overs()
        position = np.concatenate([np.array([a.unit.position for a in pushes], np.uint64), newest])
        ends_ms = np.concatenate([np.array([a.lease_end_ms for a in pushes], np.int64), newest_end_ms])
        rows = np.flatnonzero(IS_OPEN[self._store.state_only(position)])[:TOLD_MAX]
        return OpenHandOvers(term.term, position[rows].tobytes(), ends_ms[rows].tobytes())

    async def _give(self, to: str) -> bool:
        """Give leadership to `to`. Return true if it was given. If not, this node leads on as before. Calls run one at
        a time. Otherwise the end of a call that failed would thaw the leader while another call needs it frozen."""
        async with self._giving:
            return self._group.is_leader and await self._seal_and_give(to)

    async def _seal_and_give(self, to: str) -> bool:
        told = asyncio.get_running_loop().create_future()
        given = False
        try:
            if await self._proposer.seal(QUIESCE_S, self.freeze):  # in the log, so before any term of the target
                self._told = told
                self._group.transfer(to, told.set_result)
                given = await told
        finally:
            self._told = None
            if given:
                self._leadership.frozen = False
            else:
                self.thaw()
        return given

    async def successor(self, term: int) -> str:
        """Return the node that leads in a term after `term`. Raises `outcome-unknown` if none is heard within
        SUCCESSOR_S."""
        group = self._group
        try:
            async with asyncio.timeout(SUCCESSOR_S):
                while group.term <= term or (leader := group.leader_id) is None:
                    self._heard.clear()
                    await self._heard.wait()
                return leader
        except TimeoutError:
            detail = f"this node gave up leadership and heard no new leader within {SUCCESSOR_S:.0f} s"
            raise Problem("outcome-unknown", detail) from None
