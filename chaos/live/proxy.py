"""A cluster on loopback whose nodes reach each other through TCP proxies: what can be done without root.

Every node has two doors, one before each of its ports, and the others are told of the doors. A connection that comes to
a door is passed on by this process, and what it carries each way is held up, delayed, throttled or slowed down as the
link that way is. Whose connection it is no port tells; but both ends are on this machine, and the kernel's tables say
which process holds the other end. One that belongs to no node is a client's, and is passed on as it is.

A stream can lose nothing and repeat nothing. A piece that is lost is therefore one that comes late, as TCP would make
of it: after a retransmission timeout, doubled for each time that it is lost again. What is cut off is not read: it
stands in the sockets' buffers, as it would in those of a machine whose cable is pulled, and comes when the link is
whole again, unless the connection was given up meanwhile.
"""

import asyncio
import contextlib
import math
import os
import random
import socket
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from chaos.ground import Ground, free_ports
from chaos.links import WHOLE, Condition, Link, Links
from cli.local_cluster import LOOPBACK, LocalNode

PIECE_BYTES: Final = 65_536
#: Pieces on the way in one direction of a connection; more wait in the socket.
PIECES: Final = 64
#: What TCP sends in one packet, and after how long it sends it again.
PACKET_BYTES: Final = 1_448
AGAIN_S: Final = 0.2
AGAIN_MAX_S: Final = 6.4

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ProxyLinks(Links):
    """Links as conditions that the proxies ask for."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._chance = random.Random(seed)
        self._conditions: dict[Link, Condition] = {}
        self._free_s: defaultdict[Link, float] = defaultdict(float)
        self._whole: defaultdict[Link, asyncio.Event] = defaultdict(_set_event)

    def apply(self, conditions: dict[Link, Condition]) -> None:
        """See Links."""
        for link, condition in conditions.items():
            self._conditions[link] = condition
            if condition.cut:
                self._whole[link].clear()
            else:
                self._whole[link].set()

    async def whole(self, link: Link | None) -> None:
        """Until it is not cut."""
        if link is not None:
            await self._whole[link].wait()

    def arrives_s(self, link: Link | None, now_s: float, size: int) -> float:
        """When so many bytes that are sent now have arrived."""
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


class ProxyGround(Ground):
    """Loopback with doors, as above. `seed` draws what is lost, and how long things take."""

    name = "loopback with proxies"

    def __init__(self, seed: int = 0) -> None:
        self.links = self._links = ProxyLinks(seed)
        self.not_run: Mapping[str, str] = {
            "duplicate": "needs network namespaces: between proxies there are streams, and a stream repeats nothing"
        }
        self._pids: dict[str, int] = {}
        self._doors: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aexit__(self, *error: object) -> None:
        loop = asyncio.get_running_loop()
        for door in self._doors:
            loop.remove_reader(door)
            door.close()
        for task in list(self._tasks):
            task.cancel()
        for end in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(end, Exception):
                raise end

    def place(self, ids: Sequence[str], directory: Path) -> list[LocalNode]:
        """See Ground; from now on the doors are open."""
        ports = free_ports(2 * len(ids))
        nodes: list[LocalNode] = []
        for number, node_id in enumerate(ids):
            http_port, raft_port = ports[2 * number : 2 * number + 2]
            doors = (self._open(node_id, http_port), self._open(node_id, raft_port))
            nodes.append(LocalNode(node_id, http_port, raft_port, directory / node_id, doors=doors))
        return nodes

    def started(self, node_id: str, pid: int) -> None:
        """See Ground."""
        self._pids[node_id] = pid

    def _open(self, node_id: str, port: int) -> int:
        door = socket.create_server((LOOPBACK, 0), backlog=128)
        door.setblocking(False)
        self._doors.append(door)
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
        """One connection; when either side ends it, or this is cancelled, both ends are closed."""
        source = owner_of(accepted.getpeername()[1], accepted.getsockname()[1], self._pids)
        there: Link | None = (source, target) if source not in (None, target) else None
        back: Link | None = (there[1], there[0]) if there else None
        writers: list[asyncio.StreamWriter] = []
        try:
            near = await asyncio.open_connection(sock=accepted)
            writers.append(near[1])
            # What greets the caller goes back, what it asks goes there: neither passes a link that is cut.
            await self._links.whole(there)
            await self._links.whole(back)
            far = await asyncio.open_connection(LOOPBACK, port)
            writers.append(far[1])
            async with asyncio.TaskGroup() as ways:
                ways.create_task(self._one_way(there, near[0], far[1]))
                ways.create_task(self._one_way(back, far[0], near[1]))
        except* OSError:
            pass  # a node is gone, or gave the connection up: the other one learns of it by the end of its own
        finally:
            for writer in writers:
                writer.transport.abort()
            if not writers:
                accepted.close()

    async def _one_way(self, link: Link | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until the end of the stream, which is passed on like what came before it."""
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(PIECES)

        async def read() -> None:
            at_s, piece = 0.0, b"-"
            while piece:
                await self._links.whole(link)
                piece = await reader.read(PIECE_BYTES)
                at_s = max(at_s, self._links.arrives_s(link, loop.time(), len(piece)))
                await pieces.put((at_s, piece))

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(read())
            while True:
                at_s, piece = await pieces.get()
                if at_s > loop.time():
                    await asyncio.sleep(at_s - loop.time())
                await self._links.whole(link)
                if not piece:
                    break
                writer.write(piece)
                await writer.drain()
        if not writer.is_closing():
            writer.write_eof()


def owner_of(port: int, to_port: int, pids: Mapping[str, int]) -> str | None:
    """Which of these processes holds the end at `port` of a loopback connection to `to_port`; None if none does."""
    address = int.from_bytes(socket.inet_aton(LOOPBACK), "little")
    ends = f" {address:08X}:{port:04X} {address:08X}:{to_port:04X} "
    table = Path("/proc/net/tcp").read_text(encoding="ascii")
    place = table.find(ends)
    if place < 0:
        return None
    held = f"socket:[{table[place + len(ends) :].split(maxsplit=7)[6]}]"
    for node_id, pid in pids.items():
        folder = f"/proc/{pid}/fd"
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            for name in os.listdir(folder):
                with contextlib.suppress(FileNotFoundError):
                    if os.readlink(f"{folder}/{name}") == held:
                        return node_id
    return None
