"""A node that goes on purpose: for good (SIGTERM), or only from leading and serving (`hourwheel node drain`).

The node gives leadership away first (transfer.py). Then it finishes its pushes on the wire and sends their outcomes to
the new leader (push/outcomes.py). That is enough as long as a majority stays. When a majority goes at once, as when a
whole cluster is stopped, it is not enough. Outcomes are entries, and entries need a majority. A push whose outcome got
into no log comes again when its lease ends. So nodes that leave stay until the leader lets them go:

    node that leaves     echo {leaving, busy} -->  leader   counts the nodes that stay
                       <-- heartbeat {released}             a majority stays: go; otherwise: wait, until all is written

A leader that sees that no majority stays is a *caretaker*, even if it leaves itself. It hands nothing over any more,
takes the outcomes of all nodes' pushes into the log, and then lets all nodes go. A node may be elected while it leaves,
because leadership was given to it a moment before it was told to stop. It is a caretaker from the beginning of its
term.

Every wait is bounded: a receiver that hangs, or a node that died, holds up no node for longer than LEAVE_S.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

import structlog

from api.port.leadership import DrainView
from api.port.problem import Problem
from node.cluster.transfer import LINGER_S, QUIESCE_S, Transfer
from node.handover.term import Leadership
from node.port.peer_port import PeerPort
from node.push.feed import DRAIN_S, PASS_ON_S, PushFeed
from node.runtime.clock import NodeClock
from node.runtime.lifecycle import Lifecycle
from node.write.proposer import Proposer
from replication.group import RaftGroup

log = structlog.get_logger()

#: Seconds that a node waits until the leader lets it go, its own pushes included. Process managers usually give 30 s.
LEAVE_S: Final = DRAIN_S + PASS_ON_S
#: A leader that leaves leads on for two heartbeats. In that time it hears if the nodes that could lead instead leave as
#: well. A node that is told to stop later than that leads already or soon, and becomes a caretaker.
HEAR_S: Final = 0.1
#: Seconds that the leader has to end the waits of pulls that this node passed on to it.
WAITS_S: Final = 0.3
#: Seconds between two checks of the other nodes' state, which comes with heartbeats and echoes.
LOOK_S: Final = 0.01
#: A node that leaves waits no longer than this for a leader to appear. An election takes 0.4 to 1.2 s.
ALONE_S: Final = 2.0
#: The caretaker does not wait for a peer that has not echoed for this long since the caretaker began.
SILENT_S: Final = 1.0


class Drain:
    """The work that one node does before it ends or is drained. It also remembers if an operator has drained the
    node."""

    def __init__(
        self,
        node_id: str,
        group: RaftGroup,
        transfer: Transfer,
        push_feed: PushFeed,
        proposer: Proposer,
        peers: PeerPort,
        clock: NodeClock,
        leadership: Leadership,
        life: Lifecycle,
        status_changed: Callable[[], None],
    ) -> None:
        self._node_id, self._group, self._transfer = node_id, group, transfer
        self._push_feed, self._proposer, self._peers = push_feed, proposer, peers
        self._clock, self._leadership, self._life = clock, leadership, life
        self._status_changed, self._drained = status_changed, False
        #: True once `leave` is done, so that the process may end.
        self.gone = False
        self._caring: asyncio.Task[None] | None = None

    @property
    def drained(self) -> bool:
        """True if an operator wants this node to lead nothing and to take no requests."""
        return self._drained

    @drained.setter
    def drained(self, drained: bool) -> None:
        self._drained = drained
        self._status_changed()

    @property
    def retiring(self) -> bool:
        """True if this node should not lead, because it is drained or ends. It may lead nevertheless, if no other node
        was up at the election."""
        return self.drained or self._life.draining

    # -- drain

    async def drain(self, name: str | None) -> DrainView:
        """Drain this node: give leadership away, refuse new requests, and wait for pushes on the wire. Raises
        `unknown-node` if `name` is another node, `not-caught-up` if no other node can lead, `change-in-progress`, and
        `draining`. After a refusal nothing has changed."""
        self._check(name)
        led, was = self._leadership.term is not None, self.drained
        self.drained = True  # from here on no node gives leadership back
        try:
            if self._group.is_leader and not (led and self._transfer.target_of_best()):
                raise Problem("not-caught-up", "no other node is up and able to lead; this node serves on")
            if led:
                await self._transfer.run(None)
        except Problem as problem:
            if problem.code != "outcome-unknown":  # leadership is gone, whichever node has it
                self.drained = was
                raise
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self._push_feed.quiet()
        log.info("drained", node=self._node_id, led=led, pushes=self._push_feed.on_wire)
        return self._view(led)

    async def undo(self, name: str | None) -> DrainView:
        """Let this node serve again. Raises `unknown-node` if `name` is another node."""
        self._check(name)
        self.drained = False
        return self._view(self._leadership.term is not None)

    def _check(self, name: str | None) -> None:
        own = self._node_id
        if name not in (None, own):
            raise Problem("unknown-node", f"this is node {own}, not {name}; ask the address of {name} itself")
        if self._life.draining:
            raise Problem("draining", "this node is shutting down")

    def _view(self, led: bool) -> DrainView:
        return DrainView(
            node=self._node_id,
            draining=self.drained,
            led=led,
            leader=self._group.leader_id,
            pushes=self._push_feed.on_wire,
        )

    # -- the end of the process

    async def leave(self) -> None:
        """Do all that a node does before it ends in order (see the module). Takes about LEAVE_S at most."""
        if self._group.peers:
            await self._leave()
        else:
            self._transfer.freeze()
            await self._push_feed.drain()  # no other node could take the outcomes
            await self._write_last()
        self.gone = True
        self._group.resign()  # so that an election begins while connections are closed

    async def _leave(self) -> None:
        group = self._group
        loop = asyncio.get_running_loop()
        until_s = loop.time() + LEAVE_S
        await self._end_waits()
        if self._leadership.term is not None:
            await asyncio.sleep(HEAR_S)
            await self._give_away()
        if self._leadership.term is None:
            await self._push_feed.drain()
        led_s = loop.time()
        while not self._life.failed and loop.time() < until_s and any(peer.connected for peer in group.peers.values()):
            # Leadership was given to this node before others knew that it leaves, or no other node could take it.
            if self._leadership.term is not None:
                await self._give_away()
                if self._leadership.term is not None:
                    await self._care(until_s)
                    break
                await self._push_feed.drain()  # deposed meanwhile: this node finishes its pushes on the wire
            if group.leader_id is not None and not group.is_leader:
                led_s = loop.time()
                if group.released:
                    break
            elif loop.time() - led_s > ALONE_S:
                break
            await asyncio.sleep(LOOK_S)

    async def _end_waits(self) -> None:
        """Let the leader answer the waiting pulls that this node passed on. Otherwise messages that it has just handed
        over to them would be lost with the connection."""
        if self._group.leader_id in (None, self._node_id):
            return
        with contextlib.suppress(Problem, TimeoutError):
            async with asyncio.timeout(WAITS_S):
                await self._peers.end_waits()

    async def _give_away(self) -> None:
        """Give leadership away if this node leads and another can take it, and wait until the new leader is heard."""
        number, moved = self._group.term, await self._transfer.leave()
        if moved:
            with contextlib.suppress(Problem):
                await self._transfer.successor(number)
            await asyncio.sleep(LINGER_S)
            await self._push_feed.drain()

    async def _care(self, until_s: float, over: Callable[[], bool] = lambda: False) -> None:
        """Act as caretaker until the loop's time `until_s` at most: hand nothing over, and take the outcomes of all
        nodes' pushes. Then let all nodes end. This node may be one of those that leave. Stop early if `over` returns
        true, because then no caretaker is needed. A leader that hands over again always has pushes on the wire, so the
        wait would not end."""
        loop = asyncio.get_running_loop()
        term, began_s = self._leadership.term, self._clock.monotonic()
        self._transfer.freeze()
        log.info("a majority leaves: nothing is handed over, what is on the wire is waited for")
        await _until(lambda: over() or loop.time() >= until_s or not self._push_feed.busy)
        await _until(
            lambda: self._leadership.term is not term or over() or loop.time() >= until_s or not self._awaited(began_s)
        )
        if self._leadership.term is term and not over():
            await self._write_last()
            if self._leadership.term is term:
                self._group.let_go()
                self._proposer.resume()

    async def _write_last(self) -> None:
        """Write to the log the Leases of all hand-overs that this leader made, and all commands that wait. The leader
        must hand nothing over any more. Takes at most 2 * QUIESCE_S."""
        proposer = self._proposer
        if await proposer.seal(QUIESCE_S, self._transfer.freeze):
            await proposer.landed(QUIESCE_S)

    def _awaited(self, began_s: float) -> list[str]:
        """Return the ids of connected peers that have pushes on the wire. A peer that has not reported since `began_s`
        counts too, for SILENT_S."""
        now_s = self._clock.monotonic()
        return [
            peer.node_id
            for peer in self._group.peers.values()
            if peer.connected and (peer.busy if peer.last_echo_s > began_s + LOOK_S else now_s - began_s < SILENT_S)
        ]

    def look(self) -> None:
        """Begin work that the leader owes to nodes that leave. Housekeeping calls it every 0.5 s, and it acts only on a
        leader. If nodes leave and no majority would stay, it becomes their caretaker. If this node is drained and was
        elected because no other node was up, it gives leadership away as soon as it can."""
        if self._leadership.term is None or self._life.draining or self._caring is not None:
            return
        if self._group.outnumbered and any(peer.leaving and peer.connected for peer in self._group.peers.values()):
            work = self._care_for_others()
        elif self.drained and self._transfer.target_of_best():
            work = self._transfer.give_up()
        else:
            return
        self._caring = self._life.spawn(work)
        self._caring.add_done_callback(self._cared)

    def _cared(self, task: asyncio.Task[None]) -> None:
        self._caring = None

    async def _care_for_others(self) -> None:
        """Act as caretaker while this node stays. It hands nothing over until a majority stays again, or until it leads
        no more. By then it may lead again in a later term. This task does not thaw it in that term, because it may be
        frozen for a transfer. `look` begins a new task in that term."""
        term = self._leadership.term

        def over() -> bool:
            return self._leadership.term is not term or not self._group.outnumbered

        await self._care(asyncio.get_running_loop().time() + LEAVE_S, over)
        await _until(lambda: over() or self._life.draining)
        if (self._leadership.term is term or not self._group.is_leader) and not self._life.draining:
            self._group.let_go(False)  # hand-overs go on; the next nodes that leave wait for theirs
            self._transfer.thaw()


async def _until(met: Callable[[], bool]) -> None:
    """Wait until `met` returns true. It is called every LOOK_S, because no event tells of a change in other nodes."""
    while True:
        if met():
            return
        await asyncio.sleep(LOOK_S)
