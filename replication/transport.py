"""The wire of a Raft group: asyncio connections to every peer, and a listener that outlives a shortage of descriptors.

What R15 and R16 ask for, against the library's transport: no pickle, only the frames of frame.py after a hello that
handshake.py accepts; no utility or read-only peers, so no stranger reads payloads or changes the membership; one EMFILE
does not close the listener for good (the library's does, and libuv's stream server treats it as fatal too, which is why
accepting is done here by hand); reconnecting takes at most a second once the peer is back.

A peer has at most one connection in each direction. A new incoming one replaces the old: what the old process still had
in flight does not count. When a peer's directory changes (`store_id`) all its other connections go, so no message of
its former life is heard after `peer_connected` has announced the new one.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from replication.contacts import Contact, Contacts, address_of
from replication.frame import Message
from replication.handshake import REMOVED, Hello, Range, Refusal, check, check_entries, entries_of, newer
from replication.link import CONNECT_S, PING_S, SILENT_S, Address, Connection, Dialler, log
from replication.station import WireEvents
from storage.level import FOUNDED

ACCEPT_RETRY_S = 0.1
REFUSAL_LOG_S = 60.0
STRANGERS_MAX = 64
"""Connections that have not said hello yet; more are closed at once."""
_SHORTAGE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def _nothing(*_: object) -> None:
    return


@dataclass(frozen=True)
class Identity:
    """Who this node is. `store_id` names its data directory (at most 64 bytes); `formats`: name -> (oldest, newest);
    `level` is the cluster's, as far as it is applied here."""

    node_id: str
    store_id: bytes
    cluster_id: bytes | None = None
    formats: dict[str, Range] = field(default_factory=dict)
    level: int = FOUNDED


class AsyncTransport:
    """Implements station.Wire. Create it, `attach` the group, `start` it inside the loop, `close` it.

    `refusals` keeps, by peer (or remote address), why the last connection was refused; a success clears it.
    """

    def __init__(self, identity: Identity, listen: Address, peers: dict[str, Address]) -> None:
        self.refusals: dict[str, Refusal] = {}
        self._said_s: dict[tuple[str, str], float] = {}
        self._identity = identity
        self._listen = listen
        everybody = {identity.node_id: listen, **peers}
        self.contacts = Contacts(
            0, tuple(Contact(node_id, f"{host}:{port}", "") for node_id, (host, port) in everybody.items())
        )
        """The newest list of members this node knows of."""
        self.on_contacts: Callable[[], None] = _nothing
        """`contacts` is another, by what a peer said."""
        self.on_removed: Callable[[str], None] = _nothing
        """A peer says that this node was removed from the cluster, in these words."""
        self._events: WireEvents | None = None
        self._diallers: dict[str, Dialler] = {}
        self._incoming: dict[str, Connection] = {}
        self._strangers: dict[Connection, None] = {}  # dicts: iterated in the order of arrival
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._socket: socket.socket | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._swept_s = 0.0

    def attach(self, events: WireEvents) -> AsyncTransport:
        """Who is told of messages and connections; the `transport_factory` of RaftGroup."""
        self._events = events
        return self

    @property
    def address(self) -> Address:
        """Where it listens: the port is the real one if 0 was asked for."""
        assert self._socket is not None, "not started"
        host, port = self._socket.getsockname()[:2]
        return str(host), int(port)

    async def start(self) -> None:
        """Listen and dial. Raises OSError when the address cannot be had (in use, not of this machine)."""
        family = socket.AF_INET6 if ":" in self._listen[0] else socket.AF_INET
        server = socket.socket(family, socket.SOCK_STREAM)
        try:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.setblocking(False)
            server.bind(self._listen)
            server.listen(64)
        except BaseException:
            server.close()
            raise
        self._socket = server
        asyncio.get_running_loop().add_reader(server.fileno(), self._acceptable)
        self._begin()

    def _begin(self) -> None:
        """It listens: dial the others."""
        loop = asyncio.get_running_loop()
        self._swept_s = loop.time()
        self._sweeper = loop.call_later(PING_S, self._sweep)
        self._dial()

    async def close(self) -> None:
        """Stop listening, close everything."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
        for timer in (self._sweeper, self._retry):
            if timer is not None:
                timer.cancel()
        self._sweeper = None  # from here on nobody new is dialled
        for dialler in list(self._diallers.values()):
            await dialler.close()
        for connection in [*self._strangers, *self._incoming.values()]:
            connection.abort()
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # let aborted sockets be closed before the loop is

    # station.Wire

    def send(self, peer: str, message: Message) -> bool:
        """See station.Wire. False also when the peer reads too slowly and this is append_entries."""
        dialler = self._diallers.get(peer)
        connection = dialler.connection if dialler else None
        return connection is not None and connection.send(message)

    def connected(self, peer: str) -> bool:
        """Whether the connection to `peer` is up."""
        dialler = self._diallers.get(peer)
        connection = dialler.connection if dialler else None
        return connection is not None and connection.alive

    def reads(self) -> dict[str, Range]:
        """Which versions of entries each peer reads that is connected both ways, as it said on both connections: the
        leader proposes only what every member reads."""
        found = {}
        for peer, dialler in self._diallers.items():
            lines = (dialler.connection, self._incoming.get(peer))
            said = [entries_of(line.hello.formats) for line in lines if line and line.alive and line.hello]
            if len(said) == len(lines):
                found[peer] = min(said, key=lambda span: span[1])
        return found

    def set_level(self, level: int) -> None:
        """The level rose: a peer that does not read it is refused from now on, and one that is connected goes."""
        self._identity = replace(self._identity, level=level)
        for connection in self._connections():
            if connection.hello and entries_of(connection.hello.formats)[1] < level:
                connection.abort()

    def set_cluster_id(self, cluster_id: bytes) -> None:
        """Genesis is applied: from now on others of another cluster are refused, and those connected already go."""
        self._identity = replace(self._identity, cluster_id=cluster_id)
        for connection in self._connections():
            theirs = connection.hello.cluster_id if connection.hello else None
            if theirs not in (None, cluster_id):
                connection.abort()

    # Members.

    def set_contacts(self, contacts: Contacts) -> None:
        """Another list of members, unless a newer one is known: dial who is new, part with who is on it no more."""
        self.contacts = self.contacts.merged(contacts)
        if self._sweeper is not None:
            self._dial()

    async def probe(self, node_id: str, address: Address) -> Hello | Refusal | None:
        """What a node at this address says to a hello meant for `node_id`; None if nothing that speaks so answers."""
        loop = asyncio.get_running_loop()
        greeting: asyncio.Future[Hello | Refusal | None] = loop.create_future()

        def greeted(_: Connection, said: Hello | Refusal | None = None) -> None:
            if not greeting.done():
                greeting.set_result(said)

        connection = Connection(greeted, lambda *_: None, greeted)
        try:
            async with asyncio.timeout(CONNECT_S):
                await loop.create_connection(lambda: connection, *address)
                connection.write(self._hello(node_id).encode())  # it may be of a build that reads no longer form
                said = await greeting
        except (OSError, TimeoutError):
            return None
        finally:
            connection.abort()
        if isinstance(said, Refusal):
            return check_entries(node_id, said.formats, self._identity.level) or said
        return said if said is None else check(self._hello(node_id), said) or said

    def _dial(self) -> None:
        """Diallers for all members but this node, and connections with nobody else."""
        own = self._identity.node_id
        wanted = {each.id: address_of(each.raft) for each in self.contacts.members if each.id != own}
        for peer, dialler in list(self._diallers.items()):
            if wanted.get(peer) != dialler.address:
                dialler.end()
                del self._diallers[peer]
        for connection in list(self._incoming.values()):
            if connection.hello is not None and connection.hello.node_id not in wanted:
                connection.abort()
        for peer in sorted(wanted.keys() - self._diallers.keys()):
            self._diallers[peer] = Dialler(peer, wanted[peer], self._hello, self._judge, self._up, self._ended)

    # Greetings.

    def _hello(self, to: str) -> Hello:
        own = self._identity
        who = (own.node_id, to, own.store_id, own.cluster_id)
        return Hello(*who, own.formats, contacts=self.contacts, level=own.level)

    def _judge(self, peer: str, said: Hello | Refusal) -> Refusal | None:
        """What `peer`, whom this node dialled, answered."""
        refusal = said if isinstance(said, Refusal) else check(self._hello(peer), said)
        if refusal is None and isinstance(said, Hello) and said.node_id != peer:
            refusal = Refusal("wrong-address", f"at the address of {peer} there is {said.node_id}")
        if refusal is not None:
            self._refused(peer, refusal)
            if refusal is said and refusal.reason == REMOVED:
                self.on_removed(refusal.detail)
        return refusal

    def _refused(self, whom: str, refusal: Refusal) -> None:
        now = asyncio.get_running_loop().time()
        last_s = self._said_s.pop((whom, refusal.reason), -REFUSAL_LOG_S)
        if now - last_s >= REFUSAL_LOG_S:  # said now and then, not with every attempt
            last_s = now
            log.error("no connection with %s: %s (%s)", whom, refusal.detail, refusal.reason)
        self._said_s[whom, refusal.reason] = last_s
        self.refusals[whom] = refusal
        _bound(self.refusals)
        _bound(self._said_s)

    def _up(self, peer: str, hello: Hello) -> None:
        """A connection with `peer`, in either direction, was agreed on."""
        self.refusals.pop(peer, None)
        for connection in self._connections():
            other = connection.hello
            if other is not None and other.node_id == peer and other.store_id != hello.store_id:
                connection.abort()
        if newer(self._hello(peer), hello):
            self.set_contacts(hello.contacts)
            self.on_contacts()
        assert self._events is not None, "nothing attached"
        self._events.peer_connected(peer, hello.store_id)

    def _connections(self) -> list[Connection]:
        dialled = [dialler.connection for dialler in self._diallers.values() if dialler.connection]
        return [*dialled, *self._incoming.values()]

    # Accepting.

    def _acceptable(self) -> None:
        if self._socket is None:
            return
        loop = asyncio.get_running_loop()
        for _ in range(16):
            try:
                accepted, _address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _SHORTAGE:
                    raise
                log.warning("cannot accept a connection: %s; trying again", error)
                loop.remove_reader(self._socket.fileno())
                self._retry = loop.call_later(ACCEPT_RETRY_S, self._listen_again)
                return
            accepted.setblocking(False)
            self._accepted(accepted)

    def _accepted(self, accepted: socket.socket) -> None:
        if len(self._strangers) >= STRANGERS_MAX:
            accepted.close()
            return
        task = asyncio.get_running_loop().create_task(self._adopt(accepted))
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A task that ends with an error ended by a mistake of ours: the node would be deaf without knowing it."""
        self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._events is not None:
            self._events.fail(error)

    def _listen_again(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().add_reader(self._socket.fileno(), self._acceptable)

    async def _adopt(self, accepted: socket.socket) -> None:
        connection = Connection(self._greeted, self._received, self._lost)
        self._strangers[connection] = None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, accepted)
        except OSError:
            self._strangers.pop(connection, None)
            accepted.close()

    def _greeted(self, connection: Connection, said: Hello | Refusal) -> None:
        if isinstance(said, Refusal):
            connection.abort()
            return
        own = self._hello(said.node_id)
        refusal = check(own, said)
        if refusal is not None:
            self._refused(said.node_id if self.contacts.lists(said.node_id) else connection.remote, refusal)
            connection.finish(replace(refusal, formats=own.formats).encode(own.shared(said)))
            return
        self._strangers.pop(connection, None)
        former = self._incoming.get(said.node_id)
        if former is not None:
            former.abort()
        connection.open(said, own.shared(said))
        self._incoming[said.node_id] = connection
        connection.write(own.encode(connection.protocol))
        self._up(said.node_id, said)
        if said.node_id in self._diallers:
            self._diallers[said.node_id].hurry()

    def _received(self, connection: Connection, message: Message) -> None:
        assert connection.hello is not None
        assert self._events is not None
        if self._incoming.get(connection.hello.node_id) is connection:
            self._events.receive(connection.hello.node_id, message)

    def _lost(self, connection: Connection) -> None:
        self._strangers.pop(connection, None)
        if connection.hello is not None and self._incoming.get(connection.hello.node_id) is connection:
            del self._incoming[connection.hello.node_id]

    def _sweep(self) -> None:
        """Close incoming connections that are silent, and strangers that do not say hello."""
        now = asyncio.get_running_loop().time()
        paused, self._swept_s = now - self._swept_s > SILENT_S / 2, now
        if not paused:
            for connection in [*self._strangers, *self._incoming.values()]:
                if now - (connection.heard_s if connection.hello else connection.born_s) > SILENT_S:
                    connection.abort()
        self._sweeper = asyncio.get_running_loop().call_later(PING_S, self._sweep)


def _bound(kept: dict[Any, Any]) -> None:
    """Forget the oldest of what strangers made us keep."""
    while len(kept) > STRANGERS_MAX:
        del kept[next(iter(kept))]
