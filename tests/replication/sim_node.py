"""One node of a simulated cluster (sim_network.py): its journal, its group, and what drives them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replication.group import RaftGroup
from replication.journal.journal import Journal
from replication.raft.options import GroupOptions, NodeReport
from replication.wire.events import WireEvents
from replication.wire.frame import Message
from storage.file.disk import Disk

if TYPE_CHECKING:
    from tests.replication.sim_network import SimNetwork

TICK_S = 0.01


def is_change(command: bytes) -> bool:
    """Such as "member add D 7", see SimNode._change; the number makes each one different."""
    return command.startswith(b"member ")


class LazyDisk(Disk):
    """Real files without the wait: in the simulation durability is when the event says so."""

    def fdatasync(self, fd: int) -> None:
        """Nothing."""

    def fsync_directory(self, path: Path) -> None:
        """Nothing."""


class SimNode:
    """One node: its journal, its group, what it applied (index, term, command) and what killed it."""

    def __init__(self, network: SimNetwork, node_id: str) -> None:
        self.network = network
        self.id = node_id
        self.alive = True
        self.paused = False
        self.fatal: BaseException | None = None
        self.applied: list[tuple[int, int, bytes]] = []
        self.voters = list(network.founders)
        self.learners: list[str] = []
        self.known = set(network.founders)
        self.established: list[int] = []
        directory = network.directory / node_id
        directory.mkdir(exist_ok=True)
        self.store_id = network.store_ids.setdefault(node_id, f"{node_id}-{len(network.store_ids)}".encode())
        self.journal = Journal.open(directory, disk=LazyDisk(), segment_bytes=network.segment_bytes)
        self._woken = self._syncing = False
        self.group = RaftGroup(
            GroupOptions(
                node_id,
                tuple(peer for peer in network.founders if peer != node_id),
                founds=node_id in network.founders,
                is_change=is_change,
                **{**network.options, **network.own_options[node_id]},
            ),
            self.journal,
            self._attach,
            self.apply,
            monotonic=lambda: network.now,
            random=network.random.random,
            node_report=self._node_report,
            kept_silence_s=network.silence_s[node_id],
        )
        network.silence_s[node_id] = self.group.silence.kept_s  # as node.group.options does before the start
        self.group.silence.on_keep = self._keep
        self.group.on_wake = self.wake
        self.group.on_fatal = self._died
        self.group.on_established = lambda: self.established.append(self.group.term)
        self.group.start_at(0)
        self.group.set_members(self.voters, self.learners)
        network.after(0, self._tick)

    def _node_report(self) -> NodeReport:
        network = self.network
        wall_ms, says = int(network.now * 1000) + network.skew_ms[self.id], network.says[self.id]
        told: dict[str, Any] = dict.fromkeys(says, True)
        return NodeReport(wall_ms, 1 << 30, ahead_ms=lambda: network.ahead_ms[self.id], **told)

    def _keep(self, seconds: float) -> None:
        """The silence is made durable, as by a thread."""

        def durable() -> None:
            if self.alive:
                self.network.silence_s[self.id] = seconds
                self.group.silence.kept(seconds)

        self.network.after(self.network.sync_s[self.id], durable)

    def _attach(self, events: WireEvents) -> SimNode:
        return self

    def apply(self, index: int, term: int, command: bytes) -> Any:
        """The machine: remembers. A command that begins with "raise" raises, a change of the members changes them."""
        if command.startswith(b"raise"):
            raise RuntimeError("poison")
        self.applied.append((index, term, command))
        if is_change(command):
            self._change(*command.decode().split()[1:3])
        return len(self.applied)

    def _change(self, what: str, node_id: str) -> None:
        """As told: add a learner, promote it, remove a member for good. What makes no sense does nothing."""
        if what == "add" and node_id not in self.known:
            self.known.add(node_id)
            self.learners.append(node_id)
        elif what == "promote" and node_id in self.learners:
            self.learners.remove(node_id)
            self.voters.append(node_id)
        elif what == "remove" and self.voters != [node_id]:
            self.learners = [each for each in self.learners if each != node_id]
            self.voters = [each for each in self.voters if each != node_id]
        self.group.set_members(self.voters, self.learners)

    def _died(self, error: BaseException) -> None:
        self.fatal = error

    # wire.events.Wire

    def send(self, peer: str, message: Message) -> bool:
        """Put a message on the link."""
        return self.network.send(self.id, peer, message)

    def connected(self, peer: str) -> bool:
        """Links look up until a node is dead: a cut is a black hole."""
        return peer in self.network.nodes

    # driving

    def wake(self) -> None:
        """As the driver does: one step for all that asks for one at this moment."""
        if not self._woken:
            self._woken = True
            self.network.after(0, self._step)

    def _tick(self) -> None:
        if self.alive:
            self.network.after(TICK_S, self._tick)
            if not self.paused:
                self._step()

    def _step(self) -> None:
        """As GroupDriver's: what waits is given to the disk before the group moves, and again after."""
        self._woken = False
        if not self.alive or self.paused:
            return
        self._collect()
        if self.group.tick(writing=self._syncing):
            self.wake()
        self._collect()

    def _collect(self) -> None:
        if self._syncing or self.fatal is not None or (sync := self.journal.collect()) is None:
            return
        self._syncing = True

        def durable() -> None:
            if self.alive:
                sync.run()
                self.journal.done(sync)
                self._syncing = False
                self._step()

        self.network.after(self.network.sync_s[self.id], durable)

    def stop(self) -> None:
        """The process ends here and now; what was not durable is gone."""
        self.alive = False
        self.group.close()
        for segment in self.journal._segments:
            if segment.fd >= 0:
                os.close(segment.fd)
                segment.fd = -1

    def texts(self) -> list[str]:
        """The applied commands."""
        return [command.decode() for _index, _term, command in self.applied]
