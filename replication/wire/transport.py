"""The interface by which a node uses its connections to other nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from replication.wire.contacts import Contacts
from replication.wire.events import Wire, WireEvents
from replication.wire.handshake import Hello, Range, Refusal
from replication.wire.link import Address, Connection


class Transport(Wire, Protocol):
    """The connections to the peers. replication/wire/listener.py implements it and describes each function."""

    refusals: dict[str, Refusal]
    contacts: Contacts
    on_contacts: Callable[[], None]
    on_removed: Callable[[str], None]
    on_calls: Callable[[Connection, bytes], None]
    believed: Callable[[int], bool]
    logged: Callable[[bytes], bool]

    def attach(self, events: WireEvents) -> Wire: ...

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def reads(self) -> dict[str, Range]: ...

    def reads_calls(self, peer: str) -> Range | None: ...

    def set_level(self, level: int) -> None: ...

    def set_cluster_id(self, cluster_id: bytes) -> None: ...

    def set_contacts(self, contacts: Contacts) -> None: ...

    async def probe(self, node_id: str, address: Address) -> Hello | Refusal | None: ...
