"""The wire of a Raft group: asyncio connections to every peer, and a listener that survives a shortage of descriptors.

Repairs R15 and R16 ask for this, because of flaws in the library's transport:

- There is no pickle. After a hello that handshake.py accepts come the frames of frame.py, and no other bytes.
- There are no utility or read-only peers, so no stranger reads payloads or changes the membership.
- One EMFILE does not close the listener for good. It closes the library's listener, and libuv's stream server treats
  it as fatal too. So acceptor.py calls `accept` itself.
- Reconnecting takes at most a second once the peer is back.

A peer has at most one connection in each direction. A new incoming one replaces the old one, whose frames do not count
any more. If a peer connects with another `store_id`, its directory has changed and all its other connections are
closed. So `peer_connected` announces the new directory, and no message of the former one is heard after that.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from replication.wire.acceptor import Acceptor
from replication.wire.contacts import Contact, Contacts, address_of
from replication.wire.dialler import Dialler, probe
from replication.wire.door import GUEST_S, Door
from replication.wire.events import WireEvents
from replication.wire.frame import Message
from replication.wire.handshake import (
    CALLS_FORMAT,
    REMOVED,
    Hello,
    Range,
    Refusal,
    check,
    entries_of,
    in_own_words,
    newer,
)
from replication.wire.link import PING_S, SILENT_S, Address, Connection, Incoming, log
from replication.wire.periodic import until_next_s
from replication.wire.refused import Refused
from replication.wire.said_seldom import SaidSeldom
from storage.format.level import FOUNDED

HEARSAY_MAX = 1 << 40
"""The index of another node's list of members may be ahead of the own log by this: decades of a busy cluster."""


def _nothing(*_: object) -> None:
    return


def _now() -> float:
    return asyncio.get_running_loop().time()


@dataclass(frozen=True)
class Identity:
    """The identity of this node, as its hellos say it.

    `store_id` names its data directory (at most 64 bytes). `formats` maps the name of a format to (oldest, newest)
    version. `level` is the cluster's, as far as it is applied here.
    """

    node_id: str
    store_id: bytes
    cluster_id: bytes | None = None
    formats: dict[str, Range] = field(default_factory=dict)
    level: int = FOUNDED


class AsyncTransport:
    """Implements events.Wire. Create it, `attach` the group, `start` it on the loop, and `close` it at the end.

    `refusals` has the last refusal of each peer, or remote address. An accepted connection removes it.
    """

    def __init__(self, identity: Identity, listen: Address, peers: dict[str, Address]) -> None:
        self._seldom = SaidSeldom(log, _now)
        self._refused = Refused(self._seldom, _now)
        self.refusals = self._refused.by_peer
        self._identity = identity
        self._listen = listen
        everybody = {identity.node_id: listen, **peers}
        self.contacts = self._own = Contacts(
            0, tuple(Contact(node_id, f"{host}:{port}", "") for node_id, (host, port) in everybody.items())
        )
        """The members this node knows: its own list, with the members of the newest other list that it believed."""
        self._heard = Contacts()
        self.believed: Callable[[int], bool] = lambda index: index <= HEARSAY_MAX
        """Says if another node's list of members, whose newest change has this index, should be believed."""
        self.logged: Callable[[bytes], bool] = lambda cluster_id: False
        """Says if the Genesis of this cluster is in the own log and not applied yet (journal/logged_cluster.py)."""
        self.on_contacts: Callable[[], None] = _nothing
        """Called when a peer's list changed `contacts`."""
        self.on_removed: Callable[[str], None] = _nothing
        """Called with a peer's words when it says that this node was removed from the cluster."""
        self.on_calls: Callable[[Connection, bytes], None] = lambda connection, _: connection.abort()
        """Called with a connection that asks for calls between nodes, and with its greeting. The function that is
        called has to close the connection.
        """
        self._formats: dict[str, dict[str, Range]] = {}  # by peer, from its last hello
        self._events: WireEvents | None = None
        self._diallers: dict[str, Dialler] = {}
        self._incoming = Incoming()
        self._door = Door(self._incoming, self._dialled, self._admit, self._turn_away, self._seldom)
        self._founded_s = float("-inf")
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._acceptor = Acceptor(listen, self._accepted)
        self._sweeper: asyncio.TimerHandle | None = None
        self._swept_s = 0.0

    def attach(self, events: WireEvents) -> AsyncTransport:
        """Set the group, which gets messages and learns of connections. Returns this transport."""
        self._events = events
        return self

    @property
    def address(self) -> Address:
        """The address on which it listens. If port 0 was asked for, the port is the one that the system chose."""
        return self._acceptor.address

    @property
    def listens(self) -> bool:
        """True if peers can connect."""
        return self._acceptor.listens

    async def start(self) -> None:
        """Listen, and dial the other members. Raises OSError if the address is not available here."""
        self._acceptor.start()
        self._begin()

    def _begin(self) -> None:
        """Connect to the other members, and look after incoming connections every PING_S. Called when this node
        listens.
        """
        loop = asyncio.get_running_loop()
        self._swept_s = loop.time()
        self._sweeper = loop.call_later(until_next_s(PING_S), self._sweep)
        self._dial()

    async def close(self) -> None:
        """Stop listening, and close all connections."""
        self._acceptor.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._sweeper = None  # from here on no new node is dialled
        for dialler in list(self._diallers.values()):
            await dialler.close()
        for connection in [*self._door.strangers, *self._incoming.all()]:
            connection.abort()
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # let aborted sockets be closed before the loop is

    # events.Wire

    def send(self, peer: str, message: Message) -> bool:
        """Send a message to `peer`, see events.Wire. False also if this is append_entries and the peer reads too
        slowly.
        """
        connection = self._dialled(peer)
        return connection is not None and connection.send(message)

    def connected(self, peer: str) -> bool:
        """True if the connection that this node made to `peer` is open."""
        connection = self._dialled(peer)
        return connection is not None and connection.alive

    def reads(self) -> dict[str, Range]:
        """The versions of entries that peers read, as their hellos say. Only peers with open connections in both
        directions are included.

        The leader proposes only versions that every member reads.
        """
        found = {}
        for peer, dialler in self._diallers.items():
            lines = (dialler.connection, self._incoming.get(peer))
            said = [entries_of(line.hello.formats) for line in lines if line and line.alive and line.hello]
            if len(said) == len(lines):
                found[peer] = min(said, key=lambda span: span[1])
        return found

    def reads_calls(self, peer: str) -> Range | None:
        """The versions of calls between nodes that this peer reads, by its last hello.

        None if its build knows no calls, or no hello has come yet.
        """
        return self._formats.get(peer, {}).get(CALLS_FORMAT)

    def set_level(self, level: int) -> None:
        """Take the new, higher level of the cluster. Peers that do not read it are disconnected, and refused from now
        on.
        """
        self._identity = replace(self._identity, level=level)
        for connection in self._connections():
            if connection.hello and entries_of(connection.hello.formats)[1] < level:
                connection.abort()

    def set_cluster_id(self, cluster_id: bytes) -> None:
        """Take the cluster's id. Nodes of another cluster are disconnected, and refused from now on.

        This node then renews its connections, with the id in its hello. So its peers do not take it for a guest any
        more.
        """
        if self._identity.cluster_id == cluster_id:
            return
        self._identity = replace(self._identity, cluster_id=cluster_id)
        for connection in self._connections():
            theirs = connection.hello.cluster_id if connection.hello else None
            if theirs not in (None, cluster_id):
                connection.abort()
        if self._sweeper is not None:
            self._founded_s = asyncio.get_running_loop().time()
            for dialler in self._diallers.values():
                dialler.renew()

    # Members.

    def set_contacts(self, contacts: Contacts) -> None:
        """Set this node's own list of members, from its applied entries. Connect to new nodes, and close the
        connections to nodes that are on no list any more.
        """
        self._own = self._own.merged(contacts)
        self._meet()

    def _meet(self) -> None:
        if self._heard.index <= self._own.index:
            self._heard = Contacts()
        self.contacts = self._own.beside(self._heard)
        if self._sweeper is not None:
            self._dial()

    async def probe(self, node_id: str, address: Address) -> Hello | Refusal | None:
        """The answer of a node at this address to a hello for `node_id`. None if nothing there speaks our protocol."""
        return await probe(self._hello(node_id), address)

    def _dial(self) -> None:
        """Start a dialler for each member but this node. Close diallers and connections of nodes that are no members
        any more.
        """
        own = self._identity.node_id
        wanted = {each.id: address_of(each.raft) for each in self.contacts.members if each.id != own}
        for peer, dialler in list(self._diallers.items()):
            if wanted.get(peer) != dialler.address:
                dialler.end()
                del self._diallers[peer]
        for connection in self._incoming.all():
            if connection.hello is not None and connection.hello.node_id not in wanted:
                connection.abort()
        for peer in sorted(wanted.keys() - self._diallers.keys()):
            self._diallers[peer] = Dialler(peer, wanted[peer], self._hello, self._judge, self._up, self._ended)

    # Greetings.

    def _hello(self, to: str, *, guest: bool = False) -> Hello:
        """This node's hello. A hello for a guest leaves out cluster and members, because any node may claim to be that
        guest.
        """
        own = self._identity
        who = (own.node_id, to, own.store_id)
        if guest:
            return Hello(*who, None, own.formats, level=own.level)
        return Hello(*who, own.cluster_id, own.formats, contacts=self.contacts, level=own.level)

    def _judge(self, peer: str, said: Hello | Refusal) -> Refusal | None:
        """Judge the answer of `peer` to this node's hello. Return a refusal, None if the connection is accepted."""
        refusal = in_own_words(said, peer) if isinstance(said, Refusal) else check(self._hello(peer), said)
        if refusal is None and isinstance(said, Hello) and said.node_id != peer:
            refusal = Refusal("wrong-address", f"at the address of {peer} there is {said.node_id}")
        if refusal is not None:
            self._refused.note(peer, refusal)
            if isinstance(said, Refusal) and refusal.reason == REMOVED and self._own.lists(peer):
                self.on_removed(refusal.detail)
        return refusal

    def _up(self, peer: str, hello: Hello) -> None:
        """Note that a connection with `peer`, in either direction, was accepted by both sides."""
        self.refusals.pop(peer, None)
        self._formats[peer] = hello.formats
        for connection in self._connections():
            other = connection.hello
            if other is not None and other.node_id == peer and other.store_id != hello.store_id:
                connection.abort()
        if self.believed(hello.contacts.index) and newer(self._hello(peer), hello):
            self._heard = hello.contacts
            self._meet()
            self.on_contacts()
        assert self._events is not None, "nothing attached"
        self._events.peer_connected(peer, hello.store_id)

    def _dialled(self, peer: str) -> Connection | None:
        dialler = self._diallers.get(peer)
        return dialler.connection if dialler is not None else None

    def _connections(self) -> list[Connection]:
        dialled = [dialler.connection for dialler in self._diallers.values() if dialler.connection]
        return [*dialled, *self._incoming.all()]

    # Accepting.

    def _accepted(self, accepted: socket.socket) -> None:
        self._door.make_room()
        task = asyncio.get_running_loop().create_task(self._adopt(accepted))
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Fail the node if a task ended with an error, a mistake in our code: without the task it may hear no peer."""
        self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._events is not None:
            self._events.fail(error)

    async def _adopt(self, accepted: socket.socket) -> None:
        connection = Connection(self._greeted, self._received, self._lost, self._seldom.warning)
        connection.calls = self._asked_for_calls
        self._door.strangers[connection] = None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, accepted)
        except OSError:
            self._door.strangers.pop(connection, None)
            accepted.close()
            return
        if connection.hello is None and connection not in self._door.strangers and not connection.carries:
            connection.abort()  # `make_room` removed it before there was a socket to close

    def _asked_for_calls(self, connection: Connection, greeting: bytes) -> None:
        self._door.strangers.pop(connection, None)
        self.on_calls(connection, greeting)

    def _greeted(self, connection: Connection, said: Hello | Refusal) -> None:
        if isinstance(said, Refusal):
            connection.abort()
            return
        own = self._hello(said.node_id)
        if said.contacts.index and not self.believed(said.contacts.index):
            said = replace(said, contacts=Contacts())
        refusal = check(own, said)
        if refusal is None:
            self._door.knock(connection, said, own)
        else:
            self._turn_away(connection, said, refusal)

    def _turn_away(self, connection: Connection, said: Hello, refusal: Refusal) -> None:
        own = self._hello(said.node_id)
        self._refused.note(said.node_id if self.contacts.lists(said.node_id) else connection.host, refusal)
        connection.finish(replace(refusal, formats=own.formats).encode(own.shared(said)))

    def _admit(self, connection: Connection, said: Hello) -> None:
        """Accept the connection. A guest is not believed to be the member that it names (door.py)."""
        self._door.strangers.pop(connection, None)
        connection.guest = self._identity.cluster_id is not None and said.cluster_id is None
        own = self._hello(said.node_id, guest=connection.guest)
        connection.open(said, own.shared(said))
        self._incoming.admit(connection, said)
        connection.write(own.encode(connection.protocol))
        if not connection.guest:
            self._up(said.node_id, said)
        if said.node_id in self._diallers:
            self._diallers[said.node_id].hurry()

    def _received(self, connection: Connection, message: Message) -> None:
        assert connection.hello is not None
        assert self._events is not None
        peer = connection.hello.node_id
        if self._incoming.get(peer) is not connection:
            return
        heard = self._door.heard(connection, message) if connection.guest else message
        if heard is not None:
            self._events.receive(peer, heard)

    def _lost(self, connection: Connection) -> None:
        self._door.strangers.pop(connection, None)
        self._incoming.lost(connection)

    def _sweep(self) -> None:
        """Close incoming connections that are silent or without a hello for SILENT_S, and guests that overstay."""
        now = asyncio.get_running_loop().time()
        paused, self._swept_s = now - self._swept_s > SILENT_S / 2, now
        if not paused:
            for connection in [*self._door.strangers, *self._incoming.values()]:
                silent = now - (connection.heard_s if connection.hello else connection.born_s) > SILENT_S
                if silent or self._overstays(connection, now):
                    connection.abort()
        if self._identity.cluster_id is None:
            said = {line.hello.cluster_id for line in self._connections() if line.hello}
            proven = [cluster_id for cluster_id in said if cluster_id is not None and self.logged(cluster_id)]
            if proven:
                self.set_cluster_id(proven[0])
        self._sweeper = asyncio.get_running_loop().call_later(until_next_s(PING_S), self._sweep)

    def _overstays(self, connection: Connection, now: float) -> bool:
        """True if the connection is a guest's that was made, and last asked for a piece of a snapshot, more than
        GUEST_S ago.
        """
        if self._identity.cluster_id is None or connection.hello is None or connection.hello.cluster_id is not None:
            return False
        return now - max(connection.born_s, connection.pulled_s, self._founded_s) > GUEST_S
