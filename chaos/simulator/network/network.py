"""The simulated network: hosts, listeners, connections that behave as TCP's do, and their faults.

A connection keeps order and delivers each piece once, late, or never. It is not made again by itself. So the faults are
those that TCP lets through to a program:

- delay, bandwidth: pieces come later; other connections overtake.
- loss: the piece and all behind it come a retransmission later (0.2 s, doubling), or the connection is reset.
- cut, one way: pieces that way wait until the link is healed. The connection stands until a side gives it up.
- killed process: its connections are reset. Bytes that it had sent still arrive.
- power cut: the peer is sent nothing. It finds out by silence, or by a reset when the host is up again.
- paused process: its kernel takes connections and bytes, but the process reads nothing.

TCP makes no duplicates. A program makes them when it sends a message again on a new connection, because it does not
know if the first one arrived. `duplicate` makes SimTransport (transport.py) do so with a share of all messages.
"""

from __future__ import annotations

import random
import zlib
from collections import deque
from collections.abc import Callable
from typing import Any

from chaos.simulator.time.loop import Scheduler
from chaos.simulator.time.trace import Trace

Address = tuple[str, int]
Run = Callable[..., None]

#: The default one-way delay in seconds: machines of one rack.
DELAY_S = (0.0001, 0.0005)
#: The first retransmission. It doubles with each loss of the same piece.
RETRANSMIT_S = 0.2
#: Share of losses that end the connection instead.
RESET_SHARE = 0.2


class Socket:
    """One end of a connection. `attach` sets the callbacks for pieces and for the end. `run(callback, *args)` calls
    them on the loop of the socket's owner. If `drained` is set, it is called each time that a piece sent from this end
    arrives at the other end."""

    __slots__ = (
        "_early",
        "_lost",
        "_received",
        "busy_s",
        "closed",
        "drained",
        "host",
        "network",
        "overdue",
        "peer",
        "queue",
        "queued_bytes",
        "run",
    )

    def __init__(self, network: Network, host: str, run: Run) -> None:
        self.network = network
        self.host = host
        self.run = run
        self.peer: Socket = self
        self.closed = False  # by its owner, by the other end, or because its process ended
        self.queue: deque[tuple[Any, int]] = deque()  # sent and not arrived, the first in front
        self.queued_bytes = 0
        self.overdue = 0  # pieces that would have arrived, and wait for the cut link to be healed
        self.busy_s = 0.0  # nothing sent from here arrives before then
        self.drained: Callable[[], None] | None = None
        self._early: list[Any] = []  # pieces that came before `attach`
        self._received: Callable[[Any], None] = self._early.append
        self._lost: Callable[[], None] = _nothing

    def attach(self, received: Callable[[Any], None], lost: Callable[[], None]) -> None:
        """Pass pieces to `received`, first those that came before this call. Call `lost` when the other end or the
        network closes the connection."""
        self._received, self._lost = received, lost
        early, self._early = self._early, []
        for data in early:
            received(data)
        if self.closed:
            lost()

    def hand(self, data: Any) -> None:
        """Pass a piece that has arrived to the owner."""
        if not self.closed:
            self._received(data)

    def end(self) -> None:
        """Close this end, because the other end or the network has closed the connection. Calls `lost`."""
        if not self.closed:
            self.closed = True
            self._lost()

    def send(self, data: Any, size: int) -> None:
        """Send a piece of `size` bytes. It is dropped if this end is closed."""
        if not self.closed:
            self.network.carry(self, data, size)

    def finish(self) -> None:
        """Close this end, once everything that it has sent has arrived. `lost` is not called here."""
        if not self.closed:
            self.network.carry(self, _END, 0)
            self.closed = True

    def reset(self) -> None:
        """Close this end at once, and drop all its pieces that wait for a cut link. `lost` is not called here."""
        if not self.closed:
            self.closed = True
            self._drop_stuck()
            self.network.carry(self, _END, 0)

    def die(self, *, silently: bool) -> None:
        """Close this end, because its process has ended. `silently`: its host is down too, and the other end is not
        told."""
        if self.closed:
            return
        self.closed = True
        if silently:
            self._drop_stuck()
        else:
            self.network.carry(self, _END, 0)

    def _drop_stuck(self) -> None:
        """Drop the pieces that wait for a cut link. Pieces on their way still arrive."""
        if self.overdue or self.network.is_cut(self.host, self.peer.host):
            self.queue.clear()
            self.queued_bytes = self.overdue = 0


class _End:
    """The end of a connection, sent as its last piece."""


_END = _End()


def _nothing() -> None:
    return


class _Host:
    """A machine: if its power is on (`up`), and the listeners and sockets of its process."""

    def __init__(self) -> None:
        self.up = True
        self.listeners: dict[int, tuple[Run, Callable[[Socket], None]]] = {}
        self.sockets: dict[Socket, None] = {}


class Network:
    """All hosts and the links between them. A link is a pair of hosts in one direction. A fault is set on a link. "*"
    for both hosts of a delay or loss stands for all links."""

    def __init__(self, scheduler: Scheduler, chance: random.Random, trace: Trace) -> None:
        self.sent = 0
        self.lost = 0
        self.resets = 0
        self.duplicate_share = 0.0
        self._scheduler = scheduler
        self._chance = chance
        self._trace = trace
        self._hosts: dict[str, _Host] = {}
        self._cut: dict[tuple[str, str], None] = {}
        self._delay_s: dict[tuple[str, str], tuple[float, float]] = {}
        self._loss: dict[tuple[str, str], float] = {}
        self._bytes_per_s: dict[tuple[str, str], float] = {}
        self._link_busy_s: dict[tuple[str, str], float] = {}

    # -- faults

    def cut(self, source: str, target: str) -> None:
        """Let no piece get from `source` to `target`. The way back is another link, and stays as it is."""
        self._cut[source, target] = None

    def heal(self, source: str, target: str) -> None:
        """Let pieces get from `source` to `target` again. Pieces that waited for the link arrive within two
        retransmission times (RETRANSMIT_S)."""
        self._cut.pop((source, target), None)
        for socket in list(self._host(source).sockets):
            if socket.peer.host == target and socket.overdue:
                wait_s = self._chance.random() * 2 * RETRANSMIT_S
                self._scheduler.after(wait_s, self._flush, socket)

    def heal_all(self) -> None:
        """End all faults of links: cuts, loss, delay, bandwidth, duplicates."""
        self._delay_s.clear()
        self._loss.clear()
        self._bytes_per_s.clear()
        self.duplicate_share = 0.0
        for source, target in list(self._cut):
            self.heal(source, target)

    def partition(self, *groups: tuple[str, ...]) -> None:
        """Cut hosts of different groups off from each other."""
        for group in groups:
            for other in groups:
                if group is not other:
                    for source in group:
                        for target in other:
                            self.cut(source, target)

    def delay(self, source: str, target: str, low_s: float, high_s: float) -> None:
        """Let each piece from `source` to `target` take between `low_s` and `high_s`."""
        self._delay_s[source, target] = (low_s, high_s)

    def loss(self, source: str, target: str, share: float) -> None:
        """Lose this share, below 1, of the pieces from `source` to `target`."""
        self._loss[source, target] = share

    def bandwidth(self, source: str, target: str, bytes_per_s: float) -> None:
        """Limit the link from `source` to `target` to this rate. 0: no limit."""
        self._bytes_per_s[source, target] = bytes_per_s

    def duplicate(self, share: float) -> None:
        """Send this share of Raft messages a second time, later."""
        self.duplicate_share = share

    def is_cut(self, source: str, target: str) -> bool:
        """True if nothing gets from `source` to `target`."""
        return (source, target) in self._cut

    @property
    def sound(self) -> bool:
        """True if nothing is cut, lost or late."""
        late = any(delay_s != DELAY_S for delay_s in self._delay_s.values())
        return not (self._cut or late or any(self._loss.values()))

    # -- hosts

    def _host(self, name: str) -> _Host:
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = _Host()
        return host

    def power(self, name: str, *, up: bool) -> None:
        """Set if a host is up. A host that is down answers nothing."""
        self._host(name).up = up

    def process_ended(self, name: str, *, silently: bool) -> None:
        """Remove the listeners and sockets of the host's process, which has ended. `silently`: the host is down too."""
        host = self._host(name)
        host.listeners.clear()
        for socket in list(host.sockets):
            socket.die(silently=silently)
        if silently:
            host.sockets.clear()

    def listen(self, address: Address, run: Run, accepted: Callable[[Socket], None]) -> None:
        """Pass each connection to this address to `accepted`, called by `run`. Raises OSError if the address is in
        use."""
        listeners = self._host(address[0]).listeners
        if address[1] in listeners:
            raise OSError(98, f"{address[0]}:{address[1]} is in use")
        listeners[address[1]] = (run, accepted)

    def unlisten(self, address: Address) -> None:
        """Stop taking connections to this address."""
        self._host(address[0]).listeners.pop(address[1], None)

    # -- connections

    def connect(
        self, host: str, run: Run, address: Address, connected: Callable[[Socket], None], refused: Callable[[], None]
    ) -> None:
        """Dial `address` from `host`. `run` calls one of the two callbacks, or none if the host does not answer."""
        there = address[0]
        arrives_s = self._scheduler.now + self._draw_delay(host, there)
        self._scheduler.at(arrives_s, self._dialled, host, run, address, connected, refused)

    def _dialled(
        self, host: str, run: Run, address: Address, connected: Callable[[Socket], None], refused: Callable[[], None]
    ) -> None:
        there = address[0]
        if (host, there) in self._cut or (there, host) in self._cut or not self._host(there).up:
            return  # the dialler gives up by itself
        back_s = self._scheduler.now + self._draw_delay(there, host)
        listener = self._host(there).listeners.get(address[1])
        if listener is None:
            self._scheduler.at(back_s, run, refused)
            return
        here_run, accepted = listener
        near, far = Socket(self, host, run), Socket(self, there, here_run)
        near.peer, far.peer = far, near
        near.busy_s = far.busy_s = back_s
        self._host(host).sockets[near] = None
        self._host(there).sockets[far] = None
        here_run(accepted, far)
        self._scheduler.at(back_s, run, connected, near)

    def carry(self, socket: Socket, data: Any, size: int) -> None:
        """Take a piece from a socket and bring it to the other end, behind the pieces sent before."""
        here, there = socket.host, socket.peer.host
        self.sent += 1
        socket.queue.append((data, size))
        socket.queued_bytes += size
        scheduler = self._scheduler
        at_s = scheduler.now + self._draw_delay(here, there)
        if self._bytes_per_s:
            at_s = self._throttled(here, there, size, at_s)
        if self._loss:
            at_s += self._losses(socket)
        if at_s < socket.busy_s:
            at_s = socket.busy_s
        socket.busy_s = at_s
        scheduler.at(at_s, self._arrive, socket)

    def _arrive(self, socket: Socket) -> None:
        """Give the first piece of this socket that has not arrived yet to the other end. If the link is cut, the piece
        waits."""
        if (socket.host, socket.peer.host) in self._cut or socket.overdue:
            socket.overdue += 1
        elif socket.queue:
            data, size = socket.queue.popleft()
            socket.queued_bytes -= size
            if socket.drained is not None and not socket.closed:
                socket.run(socket.drained)
            self._deliver(socket, data)

    def _deliver(self, socket: Socket, data: Any) -> None:
        peer = socket.peer
        if data is _END:
            self._hosts[socket.host].sockets.pop(socket, None)
            if not peer.closed:
                peer.run(self._end, peer)
            return
        if peer.closed:
            if not socket.closed and self._host(peer.host).up:
                self._scheduler.after(self._draw_delay(peer.host, socket.host), socket.run, self._end, socket)
            return
        crc = zlib.crc32(data) if isinstance(data, bytes) else data.trace
        self._trace.note(peer.host, "net", socket.host, crc)
        peer.run(peer.hand, data)

    def _end(self, socket: Socket) -> None:
        self._hosts[socket.host].sockets.pop(socket, None)
        self.resets += not socket.closed
        socket.end()

    def _flush(self, socket: Socket) -> None:
        """Let the pieces that waited for a cut link arrive in order, unless the link is cut again."""
        if (socket.host, socket.peer.host) in self._cut:
            return
        overdue, socket.overdue = socket.overdue, 0
        for _ in range(overdue):
            self._arrive(socket)

    def _draw_delay(self, source: str, target: str) -> float:
        delays = self._delay_s
        low, high = DELAY_S
        if delays:
            low, high = delays.get((source, target)) or delays.get(("*", "*")) or DELAY_S
        return low + (high - low) * self._chance.random()

    def _throttled(self, source: str, target: str, size: int, at_s: float) -> float:
        rate = self._bytes_per_s.get((source, target), 0.0)
        if not rate:
            return at_s
        link = (source, target)
        begin_s = max(self._link_busy_s.get(link, 0.0), self._scheduler.now)
        self._link_busy_s[link] = begin_s + size / rate
        return max(at_s, self._link_busy_s[link])

    def _losses(self, socket: Socket) -> float:
        """The seconds by which losses delay a piece. May also reset the connection."""
        share = self._loss.get((socket.host, socket.peer.host)) or self._loss.get(("*", "*"), 0.0)
        late_s, wait_s = 0.0, RETRANSMIT_S
        while share and self._chance.random() < share:
            self.lost += 1
            if self._chance.random() < RESET_SHARE:
                for end in (socket, socket.peer):
                    self._scheduler.after(late_s, end.run, self._end, end)
            late_s += wait_s
            wait_s *= 2
        return late_s
