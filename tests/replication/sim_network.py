"""A deterministic cluster in one process: virtual clock, links with delays and cuts, crashes, real journals on disk.

Everything that happens is an event in one heap, ordered by (time, number), so a run depends on its seed alone. Messages
go through the real encoding. A node's disk is a real directory; a write becomes durable `sync_s` after it was begun,
and a crash loses what was not (a power cut, not only a kill). What a process killed has sent may still arrive.
"""

from __future__ import annotations

import heapq
import random
import shutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from replication.raft.proposal import Outcome
from replication.wire.frame import PROTOCOL, Message, decode_message, encode_message, speaks
from tests.replication.raw_frame import split
from tests.replication.sim_node import SimNode


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
        self.protocol = PROTOCOL[1]
        """What all connections speak."""
        self.sync_s: dict[str, float] = defaultdict(lambda: 0.001)
        self.skew_ms: dict[str, int] = defaultdict(int)
        self.says: dict[str, set[str]] = defaultdict(set)
        """By node: which of the flags of its vitals are set."""
        self.ahead_ms: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
        """By node: how far its clock says to be ahead of the median, and how much more at most."""
        self.own_options: dict[str, dict[str, Any]] = defaultdict(dict)
        """By node: options of its own, from its next start on."""
        self.silence_s: dict[str, float] = defaultdict(float)
        """By node: the silence that its disk says it owes."""
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
        if target not in self.nodes or not speaks(self.protocol, message["type"]):
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
        copy = decode_message(*split(encode_message(message, self.protocol)), self.protocol)
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
        self.silence_s.pop(node_id, None)
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
