"""A Raft group on one node: opens what is on disk, joins the others, leads or follows, and ends in order.

    data directory -> store (cut back to its checkpoint) -> machine -> journal -> Raft group -> port

Two rules hold everything together.

- A final failure (of a write, an fsync, a checksum, or an error in apply) ends the group. `Lifecycle.fatal` is called
  and nothing is served after it. `node/node.py` decides what that means for the process.
- Leadership is a LeaderTerm. There is one while this node is the established leader. It is gone in the same step of the
  loop in which leadership is lost.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial

import structlog

from node.cluster.clock_guard import ClockGuard
from node.cluster.clock_skew import Skew
from node.cluster.drain import Drain
from node.cluster.levels import Levels
from node.cluster.member_changes import MemberChanges
from node.cluster.members import Members
from node.cluster.metrics import Metrics
from node.cluster.status import Status
from node.cluster.transfer import Transfer
from node.cluster.values import Values
from node.group.environment import GroupEnvironment
from node.group.group_service import GroupService
from node.group.leading import Leading
from node.group.options import READS, address_of, open_group
from node.group.service_parts import ServiceParts
from node.group.status_feed import StatusFeed, peers_of
from node.handover.counters import Counters
from node.handover.delivery_log import DeliveryLog
from node.handover.lateness import Lateness
from node.handover.term import Leadership
from node.handover.topic_metrics import TopicMetrics, ready_of, topic_name
from node.leader.leader_parts import LeaderParts
from node.leader.leader_term import LeaderTerm
from node.message.count import Counting
from node.port.group_port import GroupStatus, ReceiptKey
from node.port.peer_port import PeerPort
from node.port.push_port import Receivers
from node.port.trust_window import NEVER
from node.push.feed import PushFeed
from node.push.outcomes import Outcomes
from node.runtime.config import Config
from node.runtime.free_space import Reserve
from node.runtime.lifecycle import Lifecycle
from node.upkeep.backup import Backups
from node.upkeep.checkpointer import Checkpointer, phase_of
from node.upkeep.export import Exports
from node.upkeep.housekeeping import keep_house, unlink_hours
from node.upkeep.journal_trim import Trimming, segment_bytes
from node.upkeep.retention import Retention
from node.upkeep.snapshot import Snapshots
from node.write.own_entry import OwnEntries
from node.write.proposer import Proposer
from replication.apply.machine import Machine
from replication.command.dispatch import DispatchState
from replication.command.entry import version_of
from replication.driver import GroupDriver
from replication.journal.journal import Journal
from replication.raft.agreement import OddOneOut
from replication.raft.options import NodeReport
from replication.wire.listener import Identity
from storage.directory.data_directory import DataDirectory
from storage.file.delivery_end import end_killed_term
from storage.file.disk import DiskFailed
from storage.format.level import has
from storage.format.message_id import GROUP_MAX
from storage.format.position import HOUR_MS
from storage.store import Store

log = structlog.get_logger()


class Group:
    """The parts of one group on this node, and how they are connected. Making it opens its files. It takes part in the
    cluster from `start` to `leave`, and `close` ends it. `life` says if it must end, and why. `port` serves it."""

    def __init__(
        self,
        number: int,
        config: Config,
        outside: GroupEnvironment,
        receivers: Receivers,
        peers: PeerPort,
        beat: Callable[[], None],
    ) -> None:
        """Open the directory of `config` and everything in it. `receivers`: the push wire. `peers`: the group on other
        nodes. `beat`: called at every step. Raises DirectoryRefused, FormatRefused, Corrupt, DiskFailed."""
        assert 0 <= number <= GROUP_MAX, f"group {number}"
        self.config, self.number = config, number
        self.outside = outside
        self._receivers, self.peers, self._beat = receivers, peers, beat
        self.clock = outside.clock()
        self.disk, self.entropy, self.boot = outside.disk(), outside.entropy(), outside.boot()
        self._closing = contextlib.ExitStack()
        self.life = Lifecycle(self._failing)
        self.leadership = Leadership[LeaderTerm](self.life)
        self.status_feed = StatusFeed(self._status)
        self._caught_up = self.closed = False
        self.lateness = Lateness()
        self.counters = Counters(self.lateness)
        try:
            self._open()
        except BaseException:
            self._closing.close()
            raise

    def _open(self) -> None:
        config, disk = self.config, self.disk
        self.directory = directory = DataDirectory.open(config.directory, config.node_id, disk, self.entropy.bytes(16))
        self._closing.callback(directory.close)
        self.store = Store.open(config.directory, disk=disk, group=self.number)
        self._closing.callback(self.store.close)
        self.store.begin_at(self.clock.now_ms() // HOUR_MS)
        self.machine = Machine(self.store)
        self.journal = Journal.open(
            directory.journal, disk=disk, cluster_id=self.store.cluster_id,
            segment_bytes=segment_bytes(config.storage.journal_keep_mb), version_of=version_of,
        )  # fmt: skip
        self._closing.callback(self.journal.close)
        self.members = Members(config, self.store.catalog.members, lambda: self.transport.contacts)
        peers = {peer.id: address_of(peer.raft) for peer in config.peers if peer.id != config.node_id}
        identity = Identity(config.node_id, directory.store_id, self.store.cluster_id, READS)
        self.transport = self.outside.transport(identity, (config.raft.host, config.raft.port), peers)
        self.raft = open_group(
            config, self.number, tuple(sorted(peers)), self.journal, self.transport, self.machine, self.clock,
            self.entropy, disk, self.life, node_report=self._node_report, created=directory.created,
        )  # fmt: skip
        self.raft.start_at(self.machine.applied_index)
        self.machine.told.on_founded = self._founded
        self._make_parts()
        self.leadership.on_change = self.status_feed.tell
        self.raft.on_established = self.leading.established
        self.raft.on_stepped_down = self.leading.stepped_down
        self.raft.on_leader_changed = self.leading.leader_changed
        self.raft.on_trusted = self.leading.trusted
        self.raft.on_renewed = self.leading.renewed
        self.member_changes.begin()

    def _make_parts(self) -> None:
        """Make the parts that work on the group, the store and each other."""
        config = self.config
        self.driver = GroupDriver(self.raft, self.transport, on_fatal=self.life.fatal, writer=self.outside.writer())
        self.reserve = Reserve(
            config.directory, self.disk, nodes=lambda: len(self.members.ids()), low_peers=self.raft.low_peers
        )
        self.proposer = Proposer(
            self.raft, self.clock, self.entropy, node=self.members.number,
            waiting_max=config.limits.max_waiting_messages, fatal=self.life.fatal,
        )  # fmt: skip
        self.own_entries = OwnEntries(self.raft, self.driver, self.clock, lambda: self.members.number)
        self.levels = Levels(
            self.members, self.machine, self.transport, self.raft, self.own_entries, self.proposer, self.leadership,
            self.life, upgrade=config.raft.upgrade,
        )  # fmt: skip
        self.snapshots = Snapshots(
            config, self.raft, self.store, self.journal, self.disk, self.reserve, self.clock, self.life,
            self.caught_up,
        )  # fmt: skip
        self.checkpointer = Checkpointer(
            self.machine,
            self.journal,
            config.storage,
            monotonic=self.clock.monotonic,
            needed_from=Trimming(
                self.journal,
                config.storage.journal_keep_mb,
                low_water=lambda: self.raft.low_water,
                hold=self.snapshots.sender.hold,
            ).needed_from,
            phase=phase_of(config.node_id, (peer.id for peer in config.peers)),
        )
        self.delivery_log = DeliveryLog(
            self.directory.deliveries, self.disk, group=self.number, node=self.members.number,
            cluster_id=lambda: self.store.cluster_id, state=self._dispatch_state,
        )  # fmt: skip
        self._closing.callback(self.delivery_log.close)
        end_killed_term(self.directory.deliveries, self.disk, self.boot)  # one that its process was killed in
        self.exports = Exports(
            config, self.store, self.directory.store_id, self.disk, self.reserve, self.clock, self.life
        )
        self.retention = Retention(self.machine, self.proposer, self.clock, self.exports.covers)
        self.skew = Skew(self.raft, self.clock, config.clock.skew_max_ms)
        self.guard = ClockGuard(self.skew, self.raft, self.clock, config.clock.skew_max_ms)
        catalog = self.store.catalog
        self.topic_metrics = TopicMetrics(partial(topic_name, catalog), partial(ready_of, catalog, self.leadership))
        self.push_feed = self._push_feed()
        self._make_cluster()
        self.counting = Counting(self.store, self.clock, lambda: self.raft.term)
        self.backups = Backups(config, self.store, self.checkpointer, self.disk, self.reserve, self.clock, self.life)
        self.leading = self._leading()
        self.metrics = self._metrics()
        self.port = self._port()

    def _make_cluster(self) -> None:
        """Make the parts that change the leader or the members, and the status of this node."""
        self.transfer = Transfer(
            self.members, self.raft, self.store, self.clock, self.skew, self.proposer, self.push_feed, self.peers,
            self.leadership, self.life,
        )  # fmt: skip
        self.drain = Drain(
            self.config.node_id, self.raft, self.transfer, self.push_feed, self.proposer, self.peers, self.clock,
            self.leadership, self.life, self.status_feed.tell,
        )  # fmt: skip
        self.member_changes = MemberChanges(
            self.members, self.machine, self.transport, self.raft, self.own_entries, self.journal, self.proposer,
            self.delivery_log, self.transfer, self.peers, self.leadership, self.life, self.status_feed.tell,
        )  # fmt: skip
        self.status = Status(
            self.members, self.raft, self.machine, self.transport, self.levels, self.guard, self.lateness,
            self.reserve, self.drain, self.leadership, self.life, snapshot=self.snapshots.status,
            caught_up=self.caught_up,
        )  # fmt: skip

    def _leading(self) -> Leading:
        parts = LeaderParts(
            node_id=self.config.node_id, options=self.config.dispatch, store=self.store, machine=self.machine,
            group=self.raft, clock=self.clock, entropy=self.entropy, life=self.life, proposer=self.proposer,
            leadership=self.leadership, delivery_log=self.delivery_log, counters=self.counters, reserve=self.reserve,
            topic_metrics=self.topic_metrics, push_feed=self.push_feed, count_topics=self.counting.topics_anew,
        )  # fmt: skip
        return Leading(
            parts, self.leadership, self.config, self.boot, self.skew, self.transfer, self.drain, self.status_feed.tell
        )

    def _metrics(self) -> Metrics:
        values = Values(
            self.leadership, self.proposer, self.counters, self.raft, self.machine, self.journal,
            self.checkpointer, self.reserve, self.clock,
            (self.guard.values, self.snapshots.values, self.exports.values, self.counting.values),
        )  # fmt: skip
        others = (self.lateness, self.push_feed.metrics, self.topic_metrics, self.guard)
        return Metrics(values.rows, *others)

    def _push_feed(self) -> PushFeed:
        outcomes = Outcomes(
            self.leadership, self.clock, self.entropy, self.proposer, self.delivery_log, self.topic_metrics,
            self.peers, self.life,
        )  # fmt: skip
        return PushFeed(
            self.number, self.store, self.clock, self.life, self.delivery_log, self.counters, self.topic_metrics,
            outcomes, self._receivers, self.leadership.window, self.config.push,
        )  # fmt: skip

    # -- life

    async def start(self) -> None:
        """Take part in the cluster. From now on a failure ends the group (see `life`)."""
        self.life.begin()
        self.push_feed.start()
        await self.driver.start()
        self.driver.on_step = self._beat
        self.life.spawn(self._keep_house())
        self.life.spawn(self.checkpointer.run())
        self.snapshots.start()
        self.life.spawn(self._unlink_hours())
        self.exports.start()
        self.life.spawn(self.member_changes.promote())

    async def until_ended(self) -> None:
        """Wait until the group must end. Raises the error that ended it."""
        await self.life.until_ended()

    @property
    def takes_over(self) -> bool:
        """True if the group must end for one reason only: a fetched snapshot is to take the place of its files."""
        return self.snapshots.whole is not None and not self.life.failed

    async def leave(self, *, in_order: bool) -> None:
        """Stop taking part. If `in_order`, first give leadership away, and wait for outcomes of pushes."""
        self.life.draining = True
        if in_order:
            await self.drain.leave()
        self.leading.stepped_down()
        # The driver closes before the requests at work. A leader that only waits for a slow client leads no other node.
        await self.driver.close()

    async def close(self) -> None:
        """End the group after `leave`, when no more calls come. `_close` sees to the files. Raises DiskFailed."""
        await self.port.close()
        await self.push_feed.close()
        await self.life.end_tasks()
        self._close()

    def let_go(self) -> None:
        """Close the files as they are. Used alone for a group that never took part in the cluster, or that failed."""
        self.closed = True
        self._closing.close()

    def _port(self) -> GroupService:
        parts = ServiceParts(
            config=self.config, deliveries=self.directory.deliveries, disk=self.disk, store=self.store,
            clock=self.clock, entropy=self.entropy, life=self.life, group=self.raft, driver=self.driver,
            proposer=self.proposer, leadership=self.leadership, peers=self.peers, counters=self.counters,
            delivery_log=self.delivery_log, topic_metrics=self.topic_metrics, reserve=self.reserve,
            counting=self.counting, members=self.members, member_changes=self.member_changes,
            tick=lambda: self.machine.tick, levels=self.levels, transfer=self.transfer, drain=self.drain,
            backups=self.backups, status=self.status, metrics=self.metrics, in_hand=self.leading.in_hand,
        )  # fmt: skip
        return GroupService(parts, self.status_feed)

    async def _keep_house(self) -> None:
        looks = (
            self.drain.look,
            self.levels.look,
            lambda: self.clock.bound(self.skew.least_median_ms()),
            self.guard.watch,
            self.reserve.measure,
            self.status_feed.tell,
            lambda: self.store.turn(self.clock.now_ms() // HOUR_MS),
        )
        await keep_house(
            self.clock, give_up=self.transfer.give_up,
            yield_if_outvoted=self.transfer.yield_if_outvoted, looks=looks,
        )  # fmt: skip

    async def _unlink_hours(self) -> None:
        retention_ms = self.config.storage.retention_ms
        await unlink_hours(self.clock, self.delivery_log, self.exports, self.retention, self.leadership, retention_ms)

    def _failing(self, error: BaseException) -> None:
        if isinstance(error, OddOneOut):
            with contextlib.suppress(DiskFailed):
                self.directory.condemn(str(error))
        log.error("fatal", error=str(error), kind=type(error).__name__)
        self.raft.fail(error)
        self.leadership.renew(NEVER, 0.0)  # a group that failed is not trusted from this step on

    def _close(self) -> None:
        """Make a last checkpoint, so that a restart has little to replay, or install a fetched snapshot. After a
        failure only close the files."""
        try:
            if self.raft.failure is None and self.snapshots.whole is not None:
                self.snapshots.put_in_place()
            elif self.raft.failure is None and self.store.cluster_id is not None:
                self.journal.sync_now()
                job = self.store.begin_checkpoint(self.machine.checkpoint_record())
                job.run()
                job.finish()
        finally:
            self.let_go()

    # -- questions of the parts

    @property
    def leader_term(self) -> LeaderTerm | None:
        """The term in which this node is the established leader. None while it is not."""
        return self.leadership.term

    def caught_up(self) -> bool:
        """True once this node has, since it started, applied all entries that were known to be committed."""
        group = self.raft
        self._caught_up |= group.leader_id is not None and group.applied_index >= group.known_commit
        return self._caught_up

    def _founded(self, cluster_id: bytes) -> None:
        self.journal.set_cluster_id(cluster_id)
        self.transport.set_cluster_id(cluster_id)

    def _dispatch_state(self) -> DispatchState:
        machine = self.machine
        return DispatchState(machine.tick, machine.local_index, machine.dispatched.applied_index)

    def _node_report(self) -> NodeReport:
        return NodeReport(
            self.clock.own_ms(), self.reserve.free_bytes, self.reserve.low, retiring=self.drain.retiring,
            leaving=self.life.draining, busy=self.push_feed.busy, ahead_ms=self.skew.told_ms,
        )  # fmt: skip

    def _status(self) -> GroupStatus:
        raft, genesis = self.raft, self.store.catalog.genesis
        key = None if genesis is None else ReceiptKey(genesis.secret, has(self.machine.level, "receipt-namespace"))
        return GroupStatus(
            group=self.number,
            node=self.config.node_id,
            term=raft.term,
            leader=raft.leader_id,
            leader_http=self._leader_http(),
            leads=self.leadership.term is not None and not self.leadership.frozen,
            drained=self.drain.drained,
            ahead_s=self.clock.ahead_s(),
            receipts=key,
            cluster=self.store.cluster_id,
            peers=peers_of(self.transport, self.config.node_id),
        )

    def _leader_http(self) -> str | None:
        leader = self.raft.leader_id
        if leader == self.config.node_id and (self.leader_term is None or self.leadership.frozen):
            return None
        contact = self.members.contact(leader) if leader is not None else None
        return contact.http if contact is not None else None
