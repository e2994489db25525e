"""The command in the first entry of a cluster's log. It makes its nodes one cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from replication.command.column import ColumnReader, filled, names, pack_map
from replication.command.entry import EntryRefused, Kind, Packed, Section


@dataclass(frozen=True, slots=True)
class Genesis:
    """The first leader's first command, which founds the cluster. A second Genesis has no effect."""

    cluster_id: bytes  # 16 random bytes
    secret: bytes  # 32 random bytes; keys the MAC of receipts
    nodes: tuple[str, ...]  # node ids; a node's number in records is its place in this list, from 1
    retention_ms: int  # how long an ended message stays known
    key_retention_ms: int  # how long a key stays taken after its message ended
    addresses: tuple[tuple[str, str], ...] = ()  # of each node, host:port for Raft and for HTTP; empty: not given

    def pack(self) -> Packed:
        """The command as a section."""
        value = {
            "cluster_id": self.cluster_id,
            "secret": self.secret,
            "nodes": list(self.nodes),
            "addresses": [list(pair) for pair in self.addresses],
            "retention_ms": self.retention_ms,
            "key_retention_ms": self.key_retention_ms,
        }
        return Kind.GENESIS, 1, [pack_map(value)]

    @classmethod
    def unpack(cls, section: Section) -> Genesis:
        """The command out of a section. Raises `EntryRefused`."""
        reader = ColumnReader(section.payload, section.rows)
        value = reader.map()
        reader.end()
        cluster_id = filled(value.get("cluster_id"), bytes, "cluster_id")
        if len(cluster_id) != 16:
            raise EntryRefused(f"cluster_id of {len(cluster_id)} bytes; 16 expected")
        nodes, addresses = names(value, "nodes"), _addresses(value)
        if not nodes or len(set(nodes)) != len(nodes) or len(addresses) not in (0, len(nodes)):
            raise EntryRefused(f"nodes {nodes} with {len(addresses)} addresses: each once, with one or none at all")
        return cls(
            cluster_id=cluster_id,
            secret=filled(value.get("secret"), bytes, "secret"),
            nodes=nodes,
            retention_ms=filled(value.get("retention_ms"), int, "retention_ms"),
            key_retention_ms=filled(value.get("key_retention_ms"), int, "key_retention_ms"),
            addresses=addresses,
        )


def _addresses(value: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    pairs = [filled(pair, list, "addresses") for pair in filled(value.get("addresses"), list, "addresses")]
    if any(len(pair) != 2 for pair in pairs):
        raise EntryRefused("addresses: two for each node expected")
    return tuple((filled(raft, str, "addresses"), filled(http, str, "addresses")) for raft, http in pairs)
