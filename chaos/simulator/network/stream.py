"""A simulated connection with the methods of an asyncio transport, and the calls by which a node dials one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from chaos.simulator.network.network import Address, Network, Socket
from chaos.simulator.time.loop import SimLoop

#: Bytes that the kernels take before a program notices that the other side does not read.
KERNEL_BYTES = 2 * 1024 * 1024
#: Bytes beyond KERNEL_BYTES that have not arrived: above the first a protocol is told to stop writing, at the second it
#: may go on.
HIGH_BYTES, LOW_BYTES = 64 * 1024, 16 * 1024


class StreamTransport(asyncio.Transport):
    """An asyncio transport over a simulated socket: its protocol gets the bytes in order, and `connection_lost` at the
    end."""

    def __init__(self, socket: Socket, loop: SimLoop) -> None:
        super().__init__()
        self._socket = socket
        self._loop = loop
        self._protocol: Any = None
        self._closing = False
        self._held: list[bytes | None] | None = None  # bytes that came while reading is paused; None for the end

    def begin(self, protocol: Any) -> None:
        """Pass bytes to this protocol from now on, first those that came before this call."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._socket.attach(self._arrived, lambda: self._arrived(None))

    def _arrived(self, data: bytes | None) -> None:
        if self._held is not None:
            self._held.append(data)
        elif data is None:
            self._close()
        else:
            self._received(data)

    def pause_reading(self) -> None:
        """Hold the bytes that come, and the end of the connection, until reading resumes."""
        self._held = self._held or []

    def resume_reading(self) -> None:
        """Pass the held bytes on, and then those that come."""
        held, self._held = self._held or [], None
        for data in held:
            self._arrived(data)

    def _received(self, data: bytes) -> None:
        protocol = self._protocol
        view = memoryview(data)
        while view and not self._closing:
            buffer = protocol.get_buffer(len(view))
            count = min(len(buffer), len(view))
            buffer[:count] = view[:count]
            protocol.buffer_updated(count)
            view = view[count:]

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Send the bytes. Tells the protocol to stop writing if more than KERNEL_BYTES and HIGH_BYTES together have not
        arrived."""
        if self._closing:
            return
        self._socket.send(bytes(data), len(data))
        if self._socket.drained is None and self.get_write_buffer_size() > HIGH_BYTES:
            self._socket.drained = self._drained
            self._protocol.pause_writing()

    def _drained(self) -> None:
        if self._socket.drained is not None and self.get_write_buffer_size() <= LOW_BYTES:
            self._socket.drained = None
            self._protocol.resume_writing()

    def close(self) -> None:
        """Close once all bytes have arrived."""
        if not self._closing:
            self._socket.finish()
            self._close()

    def abort(self) -> None:
        """Close at once."""
        if not self._closing:
            self._socket.reset()
            self._close()

    def _close(self) -> None:
        if not self._closing:
            self._closing = True
            if self._protocol is not None:
                self._loop.call_soon(self._protocol.connection_lost, None)

    def is_closing(self) -> bool:
        """True if it is closed, or about to be."""
        return self._closing

    def get_write_buffer_size(self) -> int:
        """How many bytes beyond KERNEL_BYTES have not arrived yet."""
        return max(0, self._socket.queued_bytes - KERNEL_BYTES)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """The peer's address, for the name that asyncio has for it; the default for any other name."""
        return (self._socket.peer.host, 0) if name == "peername" else default


async def connect(network: Network, loop: SimLoop, factory: Callable[[], Any], address: Address) -> Any:
    """Dial `address` and make a transport with a protocol, as asyncio's create_connection does (SimLoop). Raises
    ConnectionRefusedError."""
    protocol = factory()
    transport = StreamTransport(await dial(network, loop, address), loop)
    transport.begin(protocol)
    return transport, protocol


async def dial(network: Network, loop: SimLoop, address: Address) -> Socket:
    """Connect a node (`loop`) with this address. Raises ConnectionRefusedError. Waits for ever if the host does not
    answer."""
    made: asyncio.Future[Socket] = loop.create_future()

    def connected(socket: Socket) -> None:
        if made.done():
            socket.reset()
        else:
            made.set_result(socket)

    def refused() -> None:
        if not made.done():
            made.set_exception(ConnectionRefusedError(f"{address[0]}:{address[1]}"))

    network.connect(loop.name, loop.arrive, address, connected, refused)
    return await made
