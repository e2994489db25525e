"""A node: the groups, the front and the push wire that run in one process, and how they end.

    clients -- Front --+-- Group 0 --+-- PushWire -- receivers
                 |     '-- Group n --'
              PeerWire     | Raft, PeerPort
                 '---- other nodes

No other part knows how many groups there are, or which parts share a process. A group that fails ends the process. A
group that has fetched a snapshot is closed and opened again, while the front goes on. The clients of such a group
notice no more than at an election.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Mapping
from functools import partial
from typing import cast

import structlog

from api.http.server import GRACE_S
from api.port.duration import parse_duration
from api.port.port import Limits
from node.environment import Environment, Serving
from node.front.front import Front
from node.front.groups import GroupDirectory, Place
from node.front.metrics_page import MetricsPage
from node.front.peer_calls import HttpPeers
from node.group.group import Group
from node.peer_wire.remote_group import RemoteGroup
from node.peer_wire.remote_peers import RemotePeers
from node.peer_wire.served_group import ServedGroup
from node.peer_wire.to_leader import ToLeader
from node.peer_wire.wire import PeerWire
from node.port.group_port import GroupPort
from node.port.peer_port import PeerPort
from node.push_wire.wire import PushWire
from node.runtime.client_budget import client_budget
from node.runtime.clock import ProcessClock
from node.runtime.config import Config
from node.runtime.lifecycle import Lifecycle
from node.runtime.open_files import pushes_max

log = structlog.get_logger()

Opened = Callable[[Group], None]


class Node:
    """The parts of one node's process. `run` serves until `life` ends. `groups` has the open groups by number."""

    def __init__(
        self,
        config: Config,
        outside: Environment | None = None,
        groups: Mapping[int, Config] | None = None,
        opened: Opened = lambda group: None,
    ) -> None:
        """Open the directories and everything in them. `groups` has the configuration of each group by number; None
        means one group, number 0, with `config`. `opened` is called with every group before it takes part. Raises
        DirectoryRefused, FormatRefused, Corrupt, DiskFailed."""
        self.config, self._opened = config, opened
        self.outside = outside = outside or Environment()
        self.life = Lifecycle(lambda error: None)
        self._configs = dict(groups or {0: config})
        self.watchdog = outside.watchdog(config.watchdog.held_ms)
        self.clock = ProcessClock(outside.clock())
        self.push_wire = PushWire(
            partial(outside.push_client, config.push.allow, self.clock.now_ms), self.clock.monotonic
        )
        self.groups: dict[int, Group] = {}
        self.group_directory = GroupDirectory(
            config.node_id, tuple(self._configs), lambda: self.forwarder.leader_changed()
        )
        home = self.group_directory.home
        home.listen(lambda status: self.clock.follow(status.ahead_s))
        self.forwarder = outside.forwarder(lambda: home.status.leader_http)
        self._numbers = itertools.count(1)  # of all calls that wait in this process
        self.peer_wires: dict[int, PeerWire] = {}
        self._peers: dict[int, PeerPort] = {}
        for number in self._configs:
            self._lead_elsewhere(self.group_directory.of_number(number))
        self.front = self._front()
        try:
            for number in self._configs:
                self._open(number)
                self._attach(number)
        except BaseException:
            for group in self.groups.values():
                group.let_go()
            raise

    def _front(self) -> Front:
        config = self.config
        budget = client_budget(config.limits, len(self._configs) * pushes_max(config.push.total))
        limits = Limits(
            delay_levels_ms=tuple(map(parse_duration, config.limits.delay_levels)),
            push_allow=config.push.allow,
            max_delay_ms=config.limits.max_delay_ms,
            body_bytes_max=config.limits.max_body_bytes,
        )
        page = MetricsPage(budget, self.watchdog.held)
        return Front(
            config.node_id, self.group_directory, self.forwarder, limits, budget, config.http_names, self.clock, page,
            self._numbers,
        )  # fmt: skip

    def _lead_elsewhere(self, place: Place) -> None:
        """Make two ways for calls of a group. One leads from this node to the group's leader on another node. The other
        leads from other nodes to the group on this node."""
        served = ServedGroup(lambda: place.port, lambda: place.status.term, self._numbers, self.clock.monotonic)
        wire = PeerWire(lambda: place.status, served.answer)
        to_leader = ToLeader(lambda: place.status, lambda: place.port, wire, self.clock.monotonic)
        wire.closing.append(to_leader.close)
        remote = RemoteGroup(place.number, place.sent, to_leader)
        place.lead_elsewhere(cast(GroupPort, remote), to_leader.leader_changed)
        older = HttpPeers(self.config.node_id, self.forwarder)
        self.peer_wires[place.number] = wire
        self._peers[place.number] = RemotePeers(
            lambda: place.status, lambda: place.reaches_leader, to_leader, wire, older
        )

    def _open(self, number: int) -> None:
        """Open a group. No other part calls it before `_attach`."""
        receivers = self.outside.receivers(self.push_wire)
        peers = self._peers[number]
        group = Group(number, self._configs[number], self.outside, receivers, peers, self.watchdog.beat)
        group.transport.on_calls = self.peer_wires[number].accepted
        self.groups[number] = group
        self._opened(group)

    def _attach(self, number: int) -> None:
        """Let the front call the group from this step of the loop on. From then on a call may end the group."""
        self.group_directory.attach(self.outside.fronted(self.groups[number].port))

    @property
    def group(self) -> Group:
        """The only group of a node with one group. Tests and the simulator use it to look inside."""
        (group,) = self.groups.values()
        return group

    # -- life

    async def run(self) -> None:
        """Serve until `life` ends, or a group ends for good. Raises the failure or the verdict that ended it."""
        self.life.begin()
        http: Serving | None = None
        keeping: list[asyncio.Task[None]] = []
        served = False
        try:
            await self.forwarder.start()
            await self.push_wire.start()
            for group in self.groups.values():
                await group.start()
            http = await self.outside.serve(self.front, self.config.http.host, self.config.http.port)
            log.info("serving", node=self.config.node_id, http=self.config.http.listen, raft=self.config.raft.listen)
            keeping = [asyncio.ensure_future(self._keep(number)) for number in self._configs]
            with self.watchdog:
                await self._until_one_ends(keeping)
            served = True
        finally:
            await self._end(http, keeping, served=served)
        failures = [task.exception() for task in keeping]
        for group in self.groups.values():
            group.life.raise_why()
        for failure in filter(None, failures):  # of a group that could not be opened again
            raise failure

    async def _until_one_ends(self, keeping: list[asyncio.Task[None]]) -> None:
        ended = asyncio.ensure_future(self.life.until_ended())
        try:
            await asyncio.wait((ended, *keeping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()

    async def _keep(self, number: int) -> None:
        """Serve a group until it ends for good. Each time it has fetched a snapshot, close it and open it again. Raises
        the error if it cannot be opened."""
        while True:
            group = self.groups[number]
            await group.until_ended()
            if not group.takes_over:
                return
            self.group_directory.detach(number)
            await group.leave(in_order=False)
            await group.close()
            if group.life.failed or not self.life.serves:
                return
            self._open(number)
            await asyncio.sleep(0)  # the caller that waited for that comes first, and finds no group yet
            self._attach(number)
            await self.groups[number].start()
            log.info("opened again", group=number, applied_index=self.groups[number].machine.applied_index)

    async def _end(self, http: Serving | None, keeping: list[asyncio.Task[None]], *, served: bool) -> None:
        """End everything: groups give leadership away, clients have up to GRACE_S for requests at work, and then all is
        closed."""
        self.life.stop()
        for group in self.groups.values():
            group.life.draining = True
        if http is not None:
            http.drain()
        for group in self.groups.values():
            group.life.stop()
        if keeping:
            await asyncio.wait(keeping)  # a group that is being opened again is then closed, or open
        groups = [group for group in self.groups.values() if not group.closed]
        failed = any(not task.cancelled() and task.exception() is not None for task in keeping)
        in_order = served and not failed and all(group.life.in_order for group in groups)
        for group in groups:
            await group.leave(in_order=in_order)
        if http is not None:
            await http.close(GRACE_S if in_order else 0)
        async with contextlib.AsyncExitStack() as closing:  # each is closed, whatever the others meet
            closing.push_async_callback(self.forwarder.close)
            closing.push_async_callback(self.push_wire.close)
            for wire in self.peer_wires.values():
                closing.push_async_callback(wire.close)
            for group in groups:
                closing.push_async_callback(group.close)
