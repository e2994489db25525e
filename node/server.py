"""One node: opens what is on disk, joins the group, serves HTTP, and ends in order.

    data directory -> store (cut back to its checkpoint) -> machine -> journal -> Raft group -> service -> HTTP

Two rules hold everything together. Whatever fails for good (a write, an fsync, a checksum, an apply that raises) ends
the process: `Lifecycle.fatal` is called once and nothing is served after it. And leadership is a Reign object: while
this node is the established leader there is one, and it is gone in the same step of the loop in which leadership is
lost.
"""

from __future__ import annotations

import contextlib

import structlog

from api.http.server import GRACE_S
from api.port.address_guard import Addresses
from api.port.duration import parse_duration
from api.port.port import Limits
from api.port.problem import Problem
from node.cluster.clock_guard import Guard
from node.cluster.clock_skew import Skew
from node.cluster.drain import Leaving
from node.cluster.founding import genesis_of
from node.cluster.levels import Levels
from node.cluster.membership import Membership
from node.cluster.metrics import Metrics
from node.cluster.status import Status
from node.cluster.transfer import Transfer
from node.group_options import address_of, open_group
from node.handover.counters import Counters
from node.handover.delivery_log import DeliveryLog
from node.handover.lateness import Lateness
from node.handover.term import Leadership
from node.handover.topic_metrics import TopicMetrics
from node.leader.leader_term import Reign
from node.leader.term_record import TermRecord, end_killed
from node.message.count import Counting
from node.outside import Outside, Serving
from node.push.outcomes import Outcomes
from node.push.push import Pusher
from node.runtime.client_budget import client_budget
from node.runtime.config import Config
from node.runtime.free_space import Reserve
from node.runtime.lifecycle import Lifecycle
from node.service import Service
from node.upkeep.backup import Backups
from node.upkeep.checkpointer import Checkpointer, phase_of
from node.upkeep.export import Exports
from node.upkeep.housekeeping import keep_house, unlink_hours
from node.upkeep.journal_trim import Trimming, segment_bytes
from node.upkeep.retention import Retention
from node.upkeep.snapshot import Reinstalled, Snapshots
from node.write.command_queues import GROUP
from node.write.proposer import Proposer
from replication.apply.machine import Machine
from replication.command.entry import version_of
from replication.command.registry import DispatchState
from replication.driver import GroupDriver
from replication.journal.journal import Journal
from replication.raft.agreement import OddOneOut
from replication.raft.options import Vitals
from replication.wire.listener import Identity
from storage.catalog.level import LEVELS
from storage.directory.data_directory import DataDirectory
from storage.file.disk import DiskFailed
from storage.format.position import HOUR_MS
from storage.store import Store

log = structlog.get_logger()

#: What requests at work get before a node starts again in place: they are passed on to the leader, or read.
RESTART_GRACE_S = 1.0


class Node:
    """The parts of one node and how they hang together. `run` serves until `life` ends."""

    def __init__(self, config: Config, outside: Outside | None = None) -> None:
        """Opens the directory and everything in it. Raises DirectoryRefused, FormatRefused, Corrupt, DiskFailed."""
        self.config = config
        self.outside = outside = outside or Outside()
        self.clock = outside.clock()
        self.disk, self.entropy, self.boot = outside.disk(), outside.entropy(), outside.boot()
        self._closing = contextlib.ExitStack()
        self.life = Lifecycle(self._failing)
        self.leadership = Leadership(self.life)
        self.reign: Reign | None = None  # the term of leadership
        self._told_term = 0  # the newest that was reigned in or passed by
        self._caught_up = False
        self.lateness, self.watchdog = Lateness(), outside.watchdog(config.watchdog.held_ms)
        self.counters = Counters(self.lateness)
        self.addresses = Addresses(config.push.allow)
        try:
            self._open()
        except BaseException:
            self._closing.close()
            raise

    def _open(self) -> None:
        config, disk = self.config, self.disk
        self.directory = directory = DataDirectory.open(config.directory, config.node_id, disk, self.entropy.bytes(16))
        self._closing.callback(directory.close)
        self.store = Store.open(config.directory, disk=disk)
        self._closing.callback(self.store.close)
        self.store.begin_at(self.clock.now_ms() // HOUR_MS)
        self.machine = Machine(self.store)
        self.journal = Journal.open(
            directory.journal,
            disk=disk,
            cluster_id=self.store.cluster_id,
            segment_bytes=segment_bytes(config.storage.journal_keep_mb),
            version_of=version_of,
        )
        self._closing.callback(self.journal.close)
        self.members = Membership(self)
        peers = {peer.id: address_of(peer.raft) for peer in config.peers if peer.id != config.node_id}
        identity = Identity(config.node_id, directory.store_id, self.store.cluster_id, {"entry": LEVELS})
        self.transport = self.outside.transport(identity, (config.raft.host, config.raft.port), peers)
        self.group = open_group(self, tuple(sorted(peers)), self._vitals)
        self.group.start_at(self.machine.applied_index)
        self.machine.on_founded = self._founded
        self.group.on_established = self._established
        self.group.on_stepped_down = self._stepped_down
        self.group.on_leader_changed = self._leader_changed
        self.group.on_trusted = self._trusted
        self._make_parts()
        self.members.begin()

    def _make_parts(self) -> None:
        """What works on the group, the store and each other."""
        config = self.config
        self.driver = GroupDriver(self.group, self.transport, on_fatal=self.life.fatal, writer=self.outside.writer())
        self.reserve = Reserve(
            config.directory, self.disk, nodes=lambda: len(self.members.ids()), low_peers=self._low_peers
        )
        self.proposer = Proposer(
            self.group,
            self.clock,
            self.entropy,
            node=self.members.number,
            waiting_max=config.limits.max_waiting_messages,
            fatal=self.life.fatal,
        )
        self.levels = Levels(self)
        self.snapshots = Snapshots(self)
        self.checkpointer = Checkpointer(
            self.machine,
            self.journal,
            config.storage,
            monotonic=self.clock.monotonic,
            needed_from=Trimming(
                self.journal,
                config.storage.journal_keep_mb,
                low_water=lambda: self.group.low_water,
                hold=self.snapshots.sender.hold,
            ).needed_from,
            phase=phase_of(config.node_id, (peer.id for peer in config.peers)),
        )
        self.delivery_log = DeliveryLog(
            self.directory.deliveries,
            self.disk,
            group=GROUP,
            node=self.members.number,
            cluster_id=lambda: self.store.cluster_id,
            state=self._dispatch_state,
        )
        self._closing.callback(self.delivery_log.close)
        end_killed(self)
        self.exports = Exports(self)
        self.retention = Retention(self.machine, self.proposer, self.clock, self.exports.covers)
        self.skew = Skew(self.group, self.clock, config.clock.skew_max_ms)
        self.guard = Guard(self)
        self.transfer = Transfer(self)
        self.leaving = Leaving(self)
        self.forwarder = self.outside.forwarder(self._leader_http)
        self.status = Status(self)
        self.topic_metrics = TopicMetrics(self.status.topic_name, self.status.ready_of)
        self.pusher = self._pusher()
        others = (self.lateness, self.watchdog.held, self.pusher.metrics, self.topic_metrics, self.guard)
        self.metrics = Metrics(self.status.values, *others)
        self.counting = Counting(self.store, self.clock, lambda: self.group.term)
        self.backups = Backups(self)
        self.service = Service(self, self._limits(), client_budget(config.limits, self.pusher.total))

    def _pusher(self) -> Pusher:
        outcomes = Outcomes(
            self.leadership,
            self.clock,
            self.entropy,
            self.proposer,
            self.delivery_log,
            self.topic_metrics,
            self.forwarder,
            self.life,
        )
        return Pusher(
            self.store,
            self.clock,
            self.life,
            self.delivery_log,
            self.counters,
            self.topic_metrics,
            outcomes,
            self.outside.receivers(self.addresses, self.clock.now_ms),
            self.config.push,
        )

    # -- life

    async def run(self) -> None:
        """Serve until `stop`; raises what ended the node otherwise, Reinstalled if it is to be started again."""
        self.life.begin()
        http: Serving | None = None
        try:
            await self.forwarder.start()
            await self.pusher.start()
            await self.driver.start()
            http = await self.outside.serve(self.service, self.config.http.host, self.config.http.port)
            self.life.spawn(keep_house(self))
            self.life.spawn(self.checkpointer.run())
            self.snapshots.start()
            self.life.spawn(unlink_hours(self))
            self.exports.start()
            self.life.spawn(self.members.promote())
            log.info("serving", node=self.config.node_id, http=self.config.http.listen, raft=self.config.raft.listen)
            await self.life.until_ended()
        finally:
            self.life.draining = True
            if http is not None:
                http.drain()
            restarts = self.snapshots.whole is not None
            ordered = self.life.in_order and not restarts
            if ordered:
                await self.leaving.leave()
            self._stepped_down()
            # Before the requests that are still at work: a leader that only waits for a slow client leads nobody.
            await self.driver.close()
            if http is not None:
                await http.close(GRACE_S if ordered else RESTART_GRACE_S if restarts else 0)
            await self.pusher.close()
            await self.forwarder.close()
            await self.life.end_tasks()
            self._close()
        self.life.raise_why()
        if self.snapshots.whole is not None:
            raise Reinstalled

    def _limits(self) -> Limits:
        """What a request may carry, as the HTTP layer asks."""
        configured = self.config.limits
        return Limits(
            delay_levels_ms=tuple(map(parse_duration, configured.delay_levels)),
            allows_address=self.addresses.allows,
            max_delay_ms=configured.max_delay_ms,
            body_bytes_max=configured.max_body_bytes,
        )

    def _failing(self, error: BaseException) -> None:
        if isinstance(error, OddOneOut):
            with contextlib.suppress(DiskFailed):
                self.directory.condemn(str(error))
        log.error("fatal", error=str(error), kind=type(error).__name__)
        self.group.fail(error)

    def _close(self) -> None:
        """A last checkpoint, unless the node failed, so that a restart has little to replay; then let go."""
        try:
            if self.group.failure is None and self.snapshots.whole is not None:
                self.snapshots.put_in_place()
            elif self.group.failure is None and self.store.cluster_id is not None:
                self.journal.sync_now()
                job = self.store.begin_checkpoint(self.machine.checkpoint_record())
                job.run()
                job.finish()
        finally:
            self._closing.close()

    # -- leadership

    def _established(self) -> None:
        """The no-op of the own term is applied: found the cluster if nobody did, then reign."""
        self.clock.leading = True
        self.clock.bound(self.skew.least_median_ms())  # before the first stamp: who committed the no-op has echoed too
        self.life.spawn(self._begin_reign(self.group.term))

    async def _begin_reign(self, term: int) -> None:
        record = TermRecord(self, term)
        if self.leaving.gone:
            self.group.resign()  # elected at the last moment: another one shall be
            return
        self.leadership.frozen = self.life.draining  # elected while it leaves: a caretaker (node/cluster/drain.py)
        await self.transfer.yield_if_outvoted()
        if self.store.cluster_id is None:
            genesis = genesis_of(self.config, self.entropy)
            while self.store.cluster_id is None and self._leads(term):
                with contextlib.suppress(Problem):  # not known to have happened; a second Genesis changes nothing
                    await self.proposer.propose_single(genesis)
        if self._leads(term) and self._told_term < term:
            self._told_term = term
            self.leadership.term = self.reign = Reign(self, record)
            self.reign.begin()
            self.forwarder.leader_changed()
            log.info("leading", node=self.config.node_id, term=term)

    def _leads(self, term: int) -> bool:
        return self.group.established and self.group.term == term

    def _stepped_down(self) -> None:
        """Leadership is lost: nothing of it goes on."""
        self.clock.leading = False
        if self.reign is not None:
            self.reign.end()
            self.leadership.term = self.reign = None
            log.info("stepped down", node=self.config.node_id, term=self.group.term)
        if self.group.elected_term > self._told_term:
            self._told_term = self.group.elected_term
            TermRecord(self, self._told_term).pass_by()
        self.proposer.step_down()

    def _trusted(self) -> None:
        if self.reign is not None:
            self.reign.trust_returned()

    def _leader_changed(self) -> None:
        if self.group.is_leader:
            self.skew.led_since_s = self.clock.monotonic()  # in the step that sends the first heartbeats of the term
        self.forwarder.leader_changed()
        self.transfer.leader_changed()

    # -- what the parts ask

    def caught_up(self) -> bool:
        """Whether this node has, since it started, applied everything that was known to be committed; stays True."""
        group = self.group
        self._caught_up |= group.leader_id is not None and group.applied_index >= group.known_commit
        return self._caught_up

    def _founded(self, cluster_id: bytes) -> None:
        self.journal.set_cluster_id(cluster_id)
        self.transport.set_cluster_id(cluster_id)

    def _dispatch_state(self) -> DispatchState:
        machine = self.machine
        return DispatchState(machine.tick, machine.local_index, machine.state_applied_index)

    def _vitals(self) -> Vitals:
        return Vitals(
            self.clock.own_ms(),
            self.reserve.free_bytes,
            self.reserve.low,
            retiring=self.leaving.retiring,
            leaving=self.life.draining,
            busy=self.pusher.busy,
            ahead_ms=self.skew.told_ms,
        )

    def _low_peers(self) -> int:
        return sum(peer.low for peer in self.group.peers.values())

    def _leader_http(self) -> str | None:
        leader = self.group.leader_id
        if leader == self.config.node_id and (self.reign is None or self.leadership.frozen):
            return None
        contact = self.members.contact(leader) if leader is not None else None
        return contact.http if contact is not None else None
