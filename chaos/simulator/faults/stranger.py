"""Strangers at the Raft ports: peers that nobody invited. They say hello to nodes, and then send every kind of frame,
with numbers at the edges of their ranges.

There are three kinds, by what they know:

- `nothing`;
- `nodes`: the ids of the nodes;
- `cluster`: the ids of the nodes and of the cluster, and every store id.

The first two may come at any time. A stranger that knows the cluster id can speak as a member that is not connected
(docs/guarantees.md, A8). So it comes only while every member is connected with every other, and speaks in the name of
such a member. It leaves before any fault is put on. A node without a cluster id believes any peer that offers to found
a cluster with it. So no stranger comes to such a node.

The frames are those of `make fuzz-frames` (chaos/plan/draw_frames.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from chaos.plan.draw_frames import frame, hello
from chaos.simulator.network.network import Socket
from chaos.simulator.network.transport import SimTransport
from chaos.simulator.world.world import RAFT_PORT, World
from node.node import Node
from replication.wire.frame import encode_message

NOTHING, NODES, CLUSTER = "nothing", "nodes", "cluster"
KNOWS: Final = (NOTHING, NODES, CLUSTER)
HOST: Final = "stranger-"
"""The name of a stranger's host begins with this, and goes on with the kind of its knowledge."""
INVENTED: Final = ("stranger", "someone", "n99")
PAUSE_S: Final = (0.05, 0.4)
"""The pause between two connections of one stranger."""
STAYS_S: Final = (0.1, 2.5)
"""The time on one connection. It may be longer than a contest for a place (replication/wire/door.py)."""
FRAMES_MAX: Final = 16
"""The most frames on one connection."""
GAP_S: Final = 0.1


class Strangers:
    """The strangers of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.random("strangers")
        self._knowing: dict[Socket, None] = {}  # connections of strangers that know the cluster id
        self._calm = False

    def come(self, node_id: str, knows: str, for_s: float) -> bool:
        """Let a stranger with this knowledge talk to the node for `for_s` seconds. False if a stranger with this
        knowledge may not come now (see the module)."""
        if knows == CLUSTER and not self._whole():
            return False
        self._knock(node_id, knows, self._world.now_s + for_s)
        return True

    def leave(self) -> None:
        """Reset the connections of strangers that know the cluster id. Call it before a fault is put on the cluster,
        and when a process has ended."""
        for socket in list(self._knowing):
            socket.reset()
        self._knowing.clear()

    def end(self) -> None:
        """End all connections, and let no stranger come any more."""
        self._calm = True
        self.leave()

    def _knock(self, node_id: str, knows: str, until_s: float) -> None:
        if self._calm or self._world.now_s >= until_s:
            return
        self._world.network.connect(
            HOST + knows, _run, (node_id, RAFT_PORT), lambda socket: self._talk(socket, node_id, knows), _nothing
        )
        self._world.after(self._chance.uniform(*PAUSE_S), self._knock, node_id, knows, until_s)

    def _talk(self, socket: Socket, node_id: str, knows: str) -> None:
        """Use a connection: send a hello, and frames at once or after the answer."""
        greeting = None if self._calm else self._greeting(node_id, knows)
        if greeting is None:
            socket.reset()
            return
        chance = self._chance
        if knows == CLUSTER:
            self._knowing[socket] = None
        if chance.random() < 0.3:
            for _ in range(FRAMES_MAX):
                greeting += frame(chance)
            socket.attach(lambda _: None, _nothing)
        else:
            socket.attach(lambda _: self._answered(socket), _nothing)
        socket.send(greeting, len(greeting))
        self._world.after(chance.uniform(*STAYS_S), self._part, socket)

    def _answered(self, socket: Socket) -> None:
        """The node has answered: send a few more frames, one at a time."""
        for number in range(FRAMES_MAX):
            said = frame(self._chance)
            if number % 4 == 3:
                said += b"".join(encode_message({"type": "pong"}))
            self._world.after(self._chance.uniform(0, GAP_S * number), socket.send, said, len(said))
        socket.attach(lambda _: None, _nothing)

    def _part(self, socket: Socket) -> None:
        self._knowing.pop(socket, None)
        if self._chance.random() < 0.5:
            socket.reset()
        else:
            socket.finish()

    def _greeting(self, node_id: str, knows: str) -> bytes | None:
        """A hello to this node from a stranger with this knowledge. None if it may send nothing now."""
        chance, nodes = self._chance, self._world.nodes()
        node = nodes.get(node_id)
        if node is None or node.group.store.cluster_id is None:
            return None
        if knows == NOTHING:
            stores = {name: chance.randbytes(16) for name in INVENTED}
            return hello(chance, chance.choice(INVENTED), chance.choice(INVENTED), None, stores)
        names = [name for name in self._world.ids if name != node_id]
        if knows == NODES:
            stores = {name: chance.randbytes(16) for name in self._world.ids}
            return hello(chance, chance.choice(names), node_id, None, stores)
        if not self._whole():
            return None
        stores = {name: each.group.directory.store_id for name, each in nodes.items()}
        return hello(chance, chance.choice(names), node_id, node.group.store.cluster_id, stores)

    def _whole(self) -> bool:
        """True if every node runs, has caught up, and is connected with each of the others by connections of its
        own."""
        world = self._world
        nodes = world.nodes()
        if len(nodes) < len(world.processes) or not world.network.sound:
            return False
        if any(process.paused for process in world.processes.values()):
            return False
        return all(_is_connected(node, nodes.keys() - {name}) for name, node in nodes.items())


def _is_connected(node: Node, others: set[str]) -> bool:
    transport = node.group.transport
    assert isinstance(transport, SimTransport)
    stands = all(transport.stands(other) for other in sorted(others))
    return (
        stands
        and node.group.store.cluster_id is not None
        and node.group.raft.role != "learner"
        and node.group.caught_up()
    )


def _run(call: Callable[..., None], *args: Any) -> None:
    call(*args)


def _nothing() -> None:
    return
