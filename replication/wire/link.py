"""A TCP connection between two nodes, and the table of those that members made. dialler.py keeps the outgoing ones
open.

Messages to a peer go over the connection that this node made. Messages from the peer come over the one that the peer
made. So a network that is cut in one direction breaks one direction. And when both nodes connect at once, they need not
agree on which connection stays.

Why not the library's connections (R16, R17): after a partition heals they take 28 s to reconnect, and their send
buffers grow without bound. Here:

- An attempt to connect gets one second. The pause between attempts grows to at most one second. It ends early when
  the peer connects to this node.
- A silent connection is closed after two seconds. A ping goes out every half second.
- A peer that does not read first gets no more entries, and then loses the connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from replication.wire.frame import (
    FRAME_BYTES_MAX,
    HELLO_BYTES_MAX,
    PROTOCOL,
    FrameRefused,
    Message,
    decode_message,
    encode_message,
    speaks,
    unseal,
)
from replication.wire.frame_reader import FrameReader
from replication.wire.handshake import Hello, HelloRefused, Refusal, asks_for_calls, decode_greeting

CONNECT_S = 1.0
PING_S = 0.5
SILENT_S = 2.0
BACK_OFF_FIRST_S = 0.05
BACK_OFF_MAX_S = 1.0
OUTBOX_BYTES_MAX = 64 * 1024 * 1024
"""A connection with more unsent bytes is closed: the peer does not read."""
OUTBOX_APPEND_MAX = 16 * 1024 * 1024
"""A connection with more unsent bytes takes no append_entries: they would only wait behind those bytes."""
JOIN_BYTES = 128 * 1024
"""The pieces of a smaller frame are joined and sent with one system call. Those of a larger one are sent uncopied."""

Address = tuple[str, int]
Frames = Callable[[bytes, memoryview, int], None]
"""Takes the parts of a frame: meta, blob, checksum. The blob is valid only during the call."""
log = logging.getLogger("hourwheel.transport")


class Connection(asyncio.BufferedProtocol):
    """One socket to a peer, with frames in both directions. The first frame is the greeting, which `greeted` gets. All
    later frames are messages of Raft, which `received` gets.

    If the first frame asks for calls between nodes, `calls` gets the connection instead. It then calls `carry` to get
    all frames. Until the peer was accepted, a frame may have HELLO_BYTES_MAX at most. Bytes that are no frame of ours
    close the connection and have no other effect.
    """

    def __init__(
        self,
        greeted: Callable[[Connection, Hello | Refusal], None],
        received: Callable[[Connection, Message], None],
        lost: Callable[[Connection], None],
        complain: Callable[..., None] = log.warning,
    ) -> None:
        self.hello: Hello | None = None
        """The peer's hello, once it was accepted."""
        self.protocol = PROTOCOL[0]
        """The protocol that both sides use, once the peer was accepted."""
        self.guest = False
        """True if the peer has no cluster id and this node has one (door.py)."""
        self.pulled_s = float("-inf")
        """The loop's time at which the guest last asked for a piece of a snapshot."""
        self.calls: Callable[[Connection, bytes], None] | None = None
        """Gets the connection and its greeting if that asks for calls. None if this node takes no calls here."""
        self.writable = True
        """False while so much is unsent that the caller should wait."""
        self.on_writable: Callable[[], None] = lambda: None
        """Called when `writable` becomes True again."""
        self._carried: Frames | None = None
        self._loop = asyncio.get_running_loop()
        self.born_s = self.heard_s = self._loop.time()
        self._reader = FrameReader(self._frame, HELLO_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._greeted = greeted
        self._received = received
        self._lost = lost
        self._complain = complain
        self.closed: asyncio.Future[None] = self._loop.create_future()

    def open(self, hello: Hello, protocol: int) -> None:
        """Accept the peer. From now on frames are messages of this protocol, up to the full size."""
        self.hello, self.protocol = hello, protocol
        self.trust()

    def carry(self, frames: Frames) -> None:
        """Give all frames from now on to `frames` as they are. They are no messages of Raft."""
        self._carried = frames

    def trust(self) -> None:
        """Allow frames of the full size from now on."""
        self._reader.trust(FRAME_BYTES_MAX)

    def pause_writing(self) -> None:
        """Called by asyncio when much is unsent."""
        self.writable = False

    def resume_writing(self) -> None:
        """Called by asyncio when little is unsent any more."""
        self.writable = True
        self.on_writable()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio when the socket is connected."""
        self._transport = cast(asyncio.Transport, transport)  # asyncio and uvloop set TCP_NODELAY on every TCP socket

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio when the socket is closed."""
        self._transport = None
        self._reader.close()
        if not self.closed.done():
            self.closed.set_result(None)
        self._lost(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Called by asyncio. Returns the memory into which the next bytes that arrive are written."""
        return self._reader.space()

    def buffer_updated(self, nbytes: int) -> None:
        """Called by asyncio when `nbytes` bytes have arrived."""
        self.heard_s = self._loop.time()
        try:
            self._reader.received(nbytes)
        except FrameRefused as error:
            who = self.hello.node_id if self.hello else self.remote
            self._complain("closing the connection with %s: %s", who, error)
            if isinstance(error, HelloRefused):
                self.finish(error.refusal.encode())
            else:
                self.abort()

    def _frame(self, meta: bytes, blob: memoryview, crc: int) -> None:
        if self._transport is None or self._transport.is_closing():
            return  # the connection was refused or replaced, so its frames do not count any more
        if self._carried is not None:
            self._carried(meta, blob, crc)
            return
        if self.hello is None:
            if self.calls is not None and asks_for_calls(meta):
                unseal(meta, blob, crc)
                self.calls(self, meta)
            else:
                self._greeted(self, decode_greeting(meta))
            return
        message = decode_message(meta, blob, crc, self.protocol)
        if message["type"] == "ping":
            self.write(encode_message({"type": "pong"}, self.protocol))
        elif message["type"] != "pong":
            self._received(self, message)

    @property
    def carries(self) -> bool:
        """True if `carry` was called, so that the frames do not go to Raft."""
        return self._carried is not None

    @property
    def remote(self) -> str:
        """The other end's address, for log lines."""
        return str(self._transport.get_extra_info("peername")) if self._transport else "?"

    @property
    def host(self) -> str:
        """The IP address of the other end, without its port."""
        name = self._transport.get_extra_info("peername") if self._transport else None
        return str(name[0]) if isinstance(name, tuple) else "?"

    @property
    def unsent(self) -> int:
        """The number of bytes that were written here and not yet taken by the socket."""
        return self._transport.get_write_buffer_size() if self._transport else 0

    @property
    def alive(self) -> bool:
        """True if there is a socket and it is not being closed."""
        return self._transport is not None and not self._transport.is_closing()

    def write(self, pieces: list[bytes]) -> None:
        """Send one frame, given in pieces. Does nothing if the connection is closed."""
        if not self.alive:
            return
        transport = cast(asyncio.Transport, self._transport)
        if len(pieces) > 1 and sum(map(len, pieces)) < JOIN_BYTES:
            transport.write(b"".join(pieces))
        else:
            for piece in pieces:
                transport.write(piece)

    def send(self, message: Message) -> bool:
        """Send a message. Returns False if it was not sent: too much is unsent, or the peer's build does not know this
        kind of message.

        If much more is unsent, because the peer reads nothing at all, the connection is closed.
        """
        if not speaks(self.protocol, message["type"]):
            return False
        unsent = self.unsent
        if unsent > OUTBOX_APPEND_MAX and message["type"] == "append_entries":
            return False
        if unsent > OUTBOX_BYTES_MAX:
            log.warning("closing the connection with %s: it does not read, %d bytes are unsent", self.remote, unsent)
            self.abort()
            return False
        self.write(encode_message(message, self.protocol))
        return self.alive

    def finish(self, pieces: list[bytes]) -> None:
        """Send a last frame and close."""
        self.write(pieces)
        if self._transport is not None:
            self._transport.close()

    def end(self) -> None:
        """Close after the unsent bytes are sent, and after SILENT_S in any case."""
        self.finish([])
        self._loop.call_later(SILENT_S, self.abort)

    def abort(self) -> None:
        """Close at once. Unsent bytes are lost."""
        if self._transport is not None:
            self._transport.abort()

    def renewed_by(self, said: Hello) -> bool:
        """True if the hello `said` comes from the peer of this connection, which has learned its cluster's id since."""
        return (
            self.alive
            and not self.guest
            and self.hello is not None
            and (self.hello.store_id, self.hello.cluster_id) == (said.store_id, None)
            and said.cluster_id is not None
        )

    def stand_behind(self, former: Connection) -> None:
        """Read nothing until the connection `former` has ended. After CONNECT_S `former` is closed, since a stranger
        may have made it and keep it open.
        """
        assert self._transport is not None, "not connected"
        self._transport.pause_reading()
        former.closed.add_done_callback(self._go_on)
        self._loop.call_later(CONNECT_S, former.abort)

    def _go_on(self, _: asyncio.Future[None]) -> None:
        if self.alive:
            self.heard_s = self._loop.time()
            cast(asyncio.Transport, self._transport).resume_reading()


class Incoming(dict[str, Connection]):
    """The connections that members made to this node, by the member's id.

    A member that renews its connection uses the old one until it hears that the new one was accepted. So this node
    reads the old one to its end, and reads the new one after that. No message is lost, and the order is kept.
    """

    def __init__(self) -> None:
        super().__init__()
        self._behind: dict[str, Connection] = {}

    def admit(self, connection: Connection, said: Hello) -> None:
        """Make this the connection of the member that sent the hello `said`, and abort the former one.

        There is one exception. A member may connect again only because it has learned its cluster's id (`renewed_by`).
        Then this connection waits until the former one has ended. One that waited already is aborted.
        """
        peer = said.node_id
        former, other = self.get(peer), self._behind.pop(peer, None)
        if other is not None:
            other.abort()
        if former is not None and former.renewed_by(said):
            self._behind[peer] = connection
            connection.stand_behind(former)
            return
        if former is not None:
            former.abort()
        self[peer] = connection

    def lost(self, connection: Connection) -> None:
        """Remove a connection that has ended."""
        peer = connection.hello.node_id if connection.hello is not None else ""
        if self._behind.get(peer) is connection:
            del self._behind[peer]
        elif self.get(peer) is connection:
            del self[peer]
            if peer in self._behind:
                self[peer] = self._behind.pop(peer)

    def all(self) -> list[Connection]:
        """All connections. Those that wait until a former one ends are included."""
        return [*self.values(), *self._behind.values()]
