"""The options of a node's Raft group, from its configuration."""

from __future__ import annotations

from node.config import Config
from replication.link import Address
from replication.options import GroupOptions


def address_of(text: str) -> Address:
    """(host, port) of `host:port`."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def group_options(config: Config, peers: tuple[str, ...]) -> GroupOptions:
    """Options of the group of this node with these others."""
    raft = config.raft
    return GroupOptions(
        node_id=config.node_id,
        peers=peers,
        heartbeat_s=raft.heartbeat_ms / 1000,
        trust_s=raft.trust_ms / 1000,
        election_min_s=raft.election_min_ms / 1000,
        election_max_s=raft.election_max_ms / 1000,
        fallback_s=(raft.trust_ms + raft.election_min_ms) / 2000,
    )
