"""The command that changes one member: adds it, gives it a vote, or removes it."""

from __future__ import annotations

from dataclasses import dataclass

from replication.command.column import ColumnReader, filled, pack_map
from replication.command.entry import EntryRefused, Kind, Packed, Section

ADD, PROMOTE, REMOVE = "add", "promote", "remove"


@dataclass(frozen=True, slots=True)
class ChangeMember:
    """Add a learner, give a learner its vote, or remove a member. It has an entry of its own.

    `basis` is the log index of the newest change of members that the leader had applied when it proposed this. If there
    is a newer change, the command is void.
    """

    what: str  # ADD, PROMOTE or REMOVE
    id: str
    basis: int
    raft: str = ""  # host:port of the new member's Raft listener; only for ADD
    http: str = ""  # host:port of its HTTP listener; only for ADD

    def pack(self) -> Packed:
        """The command as a section."""
        value = {name: getattr(self, name) for name in ("what", "id", "basis", "raft", "http")}
        return Kind.CHANGE_MEMBER, 1, [pack_map(value)]

    @classmethod
    def unpack(cls, section: Section) -> ChangeMember:
        """The command out of a section. Raises `EntryRefused`."""
        reader = ColumnReader(section.payload, section.rows)
        value = reader.map()
        reader.end()
        what, node_id, raft, http = (filled(value.get(name), str, name) for name in ("what", "id", "raft", "http"))
        if what not in (ADD, PROMOTE, REMOVE) or not node_id:
            raise EntryRefused(f"a change of members that does {what!r} with {node_id!r}")
        return cls(what, node_id, filled(value.get("basis"), int, "basis"), raft, http)
