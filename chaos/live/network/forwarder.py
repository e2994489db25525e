"""The proxies of proxy.py: a process of its own between the nodes of a cluster on loopback.

The forwarder listens at doors, ports of its own, each before one port of a node. It passes each connection to a door on
to the port behind it. It holds up, delays, throttles or slows down the bytes of each direction, as the condition of
that link says. The file callers.py finds the node that opened a connection. A connection that no node opened is a
client's, and is passed on unchanged.

A stream can lose nothing and repeat nothing. So a lost piece comes late, as TCP makes it: after a retransmission
timeout, doubled for each further loss. While a link is cut, the forwarder reads nothing from it. The bytes stay in the
sockets' buffers, as on a machine whose cable is pulled. They arrive when the link is whole again, unless a node gave
the connection up meanwhile.

A connection that is opened while its link is cut is not passed on. It is closed when the link is whole, and the node
opens it again. Bytes that the node had sent meanwhile would arrive too late.

Commands come on stdin, one JSON object a line. Each is answered when it is done:

- `open`: opens doors before ports (by node). The answer has the doors' ports.
- `pids`: the pids of the nodes.
- `links`: the conditions of links (`n1>n2`).

The process ends when stdin does.
"""

import asyncio
import contextlib
import json
import math
import random
import socket
import sys
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

import uvloop

from chaos.cluster.links import WHOLE, Condition, Link
from chaos.live.network.callers import Callers
from cli.local.local_nodes import LOOPBACK

PIECE_BYTES: Final = 65_536
#: Pieces on the way in one direction of a connection. More wait in the socket.
PIECES: Final = 64
#: The bytes that TCP sends in one packet, and the time after which it sends them again.
PACKET_BYTES: Final = 1_448
AGAIN_S: Final = 0.2
AGAIN_MAX_S: Final = 6.4


class Conditions:
    """The condition of each link, for the streams on it. The link None, of a connection to or from a client, is always
    whole."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._conditions: dict[Link, Condition] = {}
        self._free_s: defaultdict[Link, float] = defaultdict(float)
        self._whole: defaultdict[Link, asyncio.Event] = defaultdict(_set_event)

    def apply(self, conditions: Mapping[Link, Condition]) -> None:
        """Set the conditions of these links."""
        for link, condition in conditions.items():
            self._conditions[link] = condition
            if condition.cut:
                self._whole[link].clear()
            else:
                self._whole[link].set()

    def cut(self, link: Link | None) -> bool:
        """True if the link is cut, so that nothing passes on it."""
        return link is not None and not self._whole[link].is_set()

    async def whole(self, link: Link | None) -> None:
        """Wait until the link is not cut."""
        if link is not None:
            await self._whole[link].wait()

    def arrives_s(self, link: Link | None, now_s: float, size: int) -> float:
        """Return the moment at which `size` bytes arrive that are sent now, by the link's bandwidth, losses and
        delay."""
        condition = self._conditions.get(link, WHOLE) if link is not None else WHOLE
        if link is None or not condition.shaped:
            return now_s
        at_s = now_s
        if condition.bits_per_s:
            self._free_s[link] = at_s = max(self._free_s[link], now_s) + size * 8 / condition.bits_per_s
        lost, again_s = 1 - (1 - condition.loss) ** math.ceil(size / PACKET_BYTES), AGAIN_S
        while lost and self._chance.random() < lost and again_s <= AGAIN_MAX_S:
            at_s, again_s, lost = at_s + again_s, again_s * 2, condition.loss
        return at_s + self._chance.uniform(condition.low_s, condition.high_s)


def _set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


class Forwarder:
    """All doors of a cluster. `seed` draws the losses and the delays."""

    def __init__(self, seed: int) -> None:
        self._conditions = Conditions(seed)
        self._callers = Callers()
        self._tasks: set[asyncio.Task[None]] = set()

    def obey(self, command: Mapping[str, Any]) -> object:
        """Carry out one command. Return the answer when it is done."""
        match command:
            case {"open": ports}:
                return {name: [self._open(name, port) for port in several] for name, several in ports.items()}
            case {"pids": pids}:
                self._callers.pids |= pids
            case {"links": links}:
                self._conditions.apply({_link(name): Condition(**fields) for name, fields in links.items()})
        return {}

    def _open(self, node_id: str, port: int) -> int:
        door = socket.create_server((LOOPBACK, 0), backlog=128)
        door.setblocking(False)
        asyncio.get_running_loop().add_reader(door, self._knocked, door, node_id, port)
        return int(door.getsockname()[1])

    def _knocked(self, door: socket.socket, node_id: str, port: int) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            accepted, _ = door.accept()
            accepted.setblocking(False)
            task = asyncio.create_task(self._pass_on(accepted, node_id, port))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, accepted: socket.socket, target: str, port: int) -> None:
        """Pass one connection on. When either side ends it, or this is cancelled, both ends are closed."""
        source = self._callers.of(accepted)
        there: Link | None = (source, target) if source not in (None, target) else None
        back: Link | None = (there[1], there[0]) if there else None
        writers: list[asyncio.StreamWriter] = []
        try:
            near = await asyncio.open_connection(sock=accepted)
            writers.append(near[1])
            if self._conditions.cut(there) or self._conditions.cut(back):
                await self._conditions.whole(there)
                await self._conditions.whole(back)
                return
            far = await asyncio.open_connection(LOOPBACK, port)
            writers.append(far[1])
            async with asyncio.TaskGroup() as ways:
                ways.create_task(self._one_way(there, near[0], far[1]))
                ways.create_task(self._one_way(back, far[0], near[1]))
        except* OSError:
            pass  # a node is gone, or gave the connection up: the other node learns it by the end of its own connection
        finally:
            for writer in writers:
                writer.transport.abort()
            if not writers:
                accepted.close()

    async def _one_way(self, link: Link | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one direction on until the end of the stream. The end is passed on like the bytes before it."""
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(PIECES)

        async def read() -> None:
            at_s, piece = 0.0, b"-"
            while piece:
                await self._conditions.whole(link)
                piece = await reader.read(PIECE_BYTES)
                at_s = max(at_s, self._conditions.arrives_s(link, loop.time(), len(piece)))
                await pieces.put((at_s, piece))

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(read())
            while True:
                at_s, piece = await pieces.get()
                if at_s > loop.time():
                    await asyncio.sleep(at_s - loop.time())
                await self._conditions.whole(link)
                if not piece:
                    break
                writer.write(piece)
                await writer.drain()
        if not writer.is_closing():
            writer.write_eof()


def _link(name: str) -> Link:
    source, target = name.split(">")
    return source, target


async def main() -> None:
    """Run until stdin ends."""
    forwarder = Forwarder(int(sys.argv[1]))
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    print("ready", flush=True)
    while line := await commands.readline():
        print(json.dumps(forwarder.obey(json.loads(line))), flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
