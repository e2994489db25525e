"""A deterministic cluster in one process: virtual clock, links with delays and cuts, crashes, real journals on disk.

Everything that happens is an event in one heap, ordered by (time, number), so a run depends on its seed alone. Messages
go through the real encoding. A node's disk is a real directory; a write becomes durable `sync_s` after it was begun,
and a crash loses what was not (a power cut, not only a kill). What a process killed has sent may still arrive.
"""

from __future__ import annotations

import heapq
import os
import random
import shutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from replication.frame import Message, decode_message, encode_message
from replication.group import RaftGroup
from replication.journal import Journal
from replication.options import GroupOptions, Vitals
from replication.proposal import Outcome
from replication.station import WireEvents
from storage.disk import Disk
from tests.replication.raw_frame import split

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
                **network.options,
            ),
            self.journal,
            self._attach,
            self.apply,
            monotonic=lambda: network.now,
            random=network.random.random,
            vitals=self._vitals,
        )
        self.group.on_wake = self.wake
        self.group.on_fatal = self._died
        self.group.on_established = lambda: self.established.append(self.group.term)
        self.group.start_at(0)
        self.group.set_members(self.voters, self.learners)
        network.after(0, self._tick)

    def _vitals(self) -> Vitals:
        network = self.network
        wall_ms, says = int(network.now * 1000) + network.skew_ms[self.id], network.says[self.id]
        return Vitals(wall_ms, 1 << 30, **dict.fromkeys(says, True))

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

    # station.Wire

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


class SimNetwork:
    """The cluster. `ids` are node names; `delay_s(random)` draws the delay of one message."""

    def __init__(
        self, directory: Path, ids: str = "ABC", *, seed: int = 0, segment_bytes: int = 1 << 20, **options: Any
    ) -> None:
        self.directory = directory
        self.ids = list(ids)
        self.founders = list(ids)
        self.options = options
        self.segment_bytes = segment_bytes
        self.random = random.Random(seed)
        self.now = 100.0
        self.delay_s: Callable[[], float] = lambda: 0.001
        self.loss = 0.0
        """Share of the messages that are lost."""
        self.sync_s: dict[str, float] = defaultdict(lambda: 0.001)
        self.skew_ms: dict[str, int] = defaultdict(int)
        self.says: dict[str, set[str]] = defaultdict(set)
        """By node: which of the flags of its vitals are set."""
        self.store_ids: dict[str, bytes] = {}
        self.nodes: dict[str, SimNode] = {}
        self.cut: set[tuple[str, str]] = set()
        self.mute: set[str] = set()
        self.held: dict[tuple[str, str], list[tuple[SimNode, Message]]] = {}
        self.seen: list[tuple[float, str, str, Message]] = []
        self.watch: Callable[[str, str, Message], bool] = lambda source, target, message: False
        self.drop: Callable[[str, str, Message], bool] = lambda source, target, message: False
        """Messages that are lost."""
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._busy: dict[tuple[str, str], float] = defaultdict(float)
        for node_id in self.ids:
            self.start(node_id)

    # events

    def after(self, delay: float, call: Callable[[], None]) -> None:
        """`call` after that many virtual seconds."""
        self._number += 1
        heapq.heappush(self._events, (self.now + delay, self._number, call))

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let virtual time pass; True as soon as `until` holds, False if it never did."""
        end = self.now + seconds
        if until is not None and until():
            return True
        while self._events and self._events[0][0] <= end:
            self.now, _number, call = heapq.heappop(self._events)
            call()
            if until is not None and until():
                return True
        self.now = end
        return False

    # links

    def send(self, source: str, target: str, message: Message) -> bool:
        """A message enters a link: recorded if `watch` wants it, lost if the link is cut, kept if it is held."""
        if self.watch(source, target, message):
            self.seen.append((self.now, source, target, message))
        if target not in self.nodes:
            return False
        if (source, target) in self.cut or (source in self.mute and message["type"] == "pre_vote"):
            return True
        if self.drop(source, target, message):
            return True
        if self.loss and self.random.random() < self.loss:
            return True
        link = (source, target)
        at = self._busy[link] = max(self._busy[link], self.now + self.delay_s())
        receiver = self.nodes[target]
        copy = decode_message(*split(encode_message(message)))
        self.after(at - self.now, lambda: self._arrive(link, receiver, copy))
        return True

    def _arrive(self, link: tuple[str, str], receiver: SimNode, message: Message) -> None:
        if receiver.alive and (link in self.held or receiver.paused):
            self.held.setdefault(link, []).append((receiver, message))
        elif receiver.alive and link not in self.cut:
            receiver.group.receive(link[0], message)

    def hold(self, source: str, target: str) -> None:
        """Messages on this link wait until `release`."""
        self.held.setdefault((source, target), [])

    def release(self, source: str, target: str) -> None:
        """What waited on this link arrives now, in order."""
        for receiver, message in self.held.pop((source, target), []):
            self._arrive((source, target), receiver, message)

    def isolate(self, *ids: str) -> None:
        """Cut these nodes off from all others, both ways."""
        for inside in ids:
            for outside in set(self.ids) - set(ids):
                self.cut |= {(inside, outside), (outside, inside)}

    def heal(self) -> None:
        """All links work again, on new connections."""
        self.cut.clear()
        for link in list(self.held):
            self.release(*link)
        self.introduce(self.nodes)

    def introduce(self, ids: Any) -> None:
        """Connections of these nodes are made anew."""
        for one in sorted(ids):
            for other in sorted(self.nodes):
                if one != other and one in self.nodes:
                    self.nodes[one].group.peer_connected(other, self.nodes[other].store_id)
                    self.nodes[other].group.peer_connected(one, self.nodes[one].store_id)

    # nodes

    def join(self, node_id: str) -> SimNode:
        """Start a new node, with an empty disk, that is no member yet."""
        self.ids.append(node_id)
        return self.start(node_id)

    def change(self, node: SimNode, what: str, node_id: str, outcomes: list[tuple[str, Outcome]] | None = None) -> None:
        """Propose a change of the members; `what` as in SimNode._change."""
        self._number += 1
        self.propose(node, f"member {what} {node_id} {self._number}", outcomes)

    def change_now(self, node: SimNode, what: str, node_id: str) -> None:
        """The same, until its proposer has applied it."""
        outcomes: list[tuple[str, Outcome]] = []
        self.change(node, what, node_id, outcomes)
        assert self.answered(outcomes, 1)
        assert outcomes[0][1].error is None, outcomes

    def start(self, node_id: str) -> SimNode:
        """Start a node on what its disk holds."""
        node = self.nodes[node_id] = SimNode(self, node_id)
        self.introduce([node_id])
        return node

    def kill(self, node_id: str) -> None:
        """Power cut: what was not durable is gone; what waits for the node is lost."""
        self.nodes.pop(node_id).stop()
        for link in list(self.held):
            if link[1] == node_id:
                self.held[link].clear()

    def restart(self, node_id: str) -> SimNode:
        """Kill and start."""
        self.kill(node_id)
        return self.start(node_id)

    def wipe(self, node_id: str) -> SimNode:
        """Kill, empty the directory, start: a new disk under the old name."""
        self.kill(node_id)
        shutil.rmtree(self.directory / node_id)
        self.store_ids[node_id] = f"{node_id}-new-{self._number}".encode()
        return self.start(node_id)

    def pause(self, node_id: str) -> None:
        """SIGSTOP."""
        self.nodes[node_id].paused = True

    def resume(self, node_id: str) -> None:
        """SIGCONT: the clock has moved on; the node ticks before it reads what has piled up."""
        node = self.nodes[node_id]
        node.paused = False
        node._step()
        for link in sorted(self.held):
            if link[1] == node_id:
                self.release(*link)

    # questions

    def leaders(self) -> list[str]:
        """Nodes that believe to lead."""
        return [node.id for node in self.nodes.values() if node.group.is_leader]

    def leader(self) -> SimNode:
        """The established leader of the latest term."""
        return max((n for n in self.nodes.values() if n.group.established), key=lambda n: n.group.term)

    def elect(self, node_id: str | None = None, seconds: float = 30.0) -> SimNode:
        """Run until there is an established, trusted leader; `node_id`: nobody else asks for votes meanwhile."""
        self.mute = set() if node_id is None else set(self.ids) - {node_id}
        found = self.run(seconds, lambda: any(self._trusted(one) for one in self.nodes if one not in self.mute))
        assert found, f"{node_id or 'nobody'} was not elected"
        self.mute = set()
        return self.leader()

    def _trusted(self, node_id: str) -> bool:
        return self.nodes[node_id].group.trusted(self.now)

    def propose(self, node: SimNode, text: str, outcomes: list[tuple[str, Outcome]] | None = None) -> None:
        """Propose a command; its outcome is appended to `outcomes`."""
        kept = [] if outcomes is None else outcomes
        node.group.propose(text.encode(), lambda outcome: kept.append((text, outcome)))

    def others(self, node: SimNode) -> list[SimNode]:
        """All nodes but this, in order."""
        return [each for _id, each in sorted(self.nodes.items()) if each is not node]

    def fill(self, node: SimNode, count: int, prefix: str = "m") -> list[tuple[str, Outcome]]:
        """Commit that many commands, "m0", "m1", ..."""
        outcomes: list[tuple[str, Outcome]] = []
        for number in range(count):
            self.propose(node, f"{prefix}{number}", outcomes)
        assert self.answered(outcomes, count)
        assert all(outcome.error is None for _text, outcome in outcomes)
        return outcomes

    def answered(self, outcomes: list[tuple[str, Outcome]], count: int, seconds: float = 5.0) -> bool:
        """Run until there are so many outcomes, and not a moment longer."""
        return self.run(seconds, lambda: len(outcomes) >= count)

    def equal(self) -> bool:
        """All nodes have applied the same."""
        logs = [node.applied for node in self.nodes.values()]
        return all(log == logs[0] for log in logs)
