"""The command that changes one member in one way."""

from __future__ import annotations

from dataclasses import dataclass

from replication.command.column import ColumnReader, filled, pack_map
from replication.command.entry import EntryRefused, Kind, Packed, Section

ADD, PROMOTE, REMOVE = "add", "promote", "remove"


@dataclass(frozen=True, slots=True)
class ChangeMember:
    """Add a learner, give a learner its vote, or remove a member. It has an entry of its own.

    `basis` is the log index of the newest change that its proposer had applied. On another basis the command is void.
    """

    what: str  # ADD, PROMOTE or REMOVE
    id: str
    basis: int
    raft: str = ""  # host:port, of ADD
    http: str = ""

    def pack(self) -> Packed:
        """As a section."""
        value = {name: getattr(self, name) for name in ("what", "id", "basis", "raft", "http")}
        return Kind.CHANGE_MEMBER, 1, [pack_map(value)]

    @classmethod
    def unpack(cls, section: Section) -> ChangeMember:
        """From a section. Raises `EntryRefused`."""
        reader = ColumnReader(section.payload, section.rows)
        value = reader.map()
        reader.end()
        what, node_id, raft, http = (filled(value.get(name), str, name) for name in ("what", "id", "raft", "http"))
        if what not in (ADD, PROMOTE, REMOVE) or not node_id:
            raise EntryRefused(f"a change of members that does {what!r} with {node_id!r}")
        return cls(what, node_id, filled(value.get("basis"), int, "basis"), raft, http)
