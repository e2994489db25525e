"""The options of a node's Raft group, from its configuration."""

from __future__ import annotations

from node.config import Config
from replication.contacts import address_of
from replication.envelope import is_change
from replication.options import GroupOptions

__all__ = ["address_of", "group_options"]


def group_options(config: Config, peers: tuple[str, ...]) -> GroupOptions:
    """Options of the group of this node with these others."""
    raft = config.raft
    return GroupOptions(
        node_id=config.node_id,
        peers=peers,
        founds=not config.join,
        is_change=is_change,
        heartbeat_s=raft.heartbeat_ms / 1000,
        trust_s=raft.trust_ms / 1000,
        election_min_s=raft.election_min_ms / 1000,
        election_max_s=raft.election_max_ms / 1000,
        apart_ms=config.clock.skew_max_ms,
        fallback_s=(raft.trust_ms + raft.election_min_ms) / 2000,
    )
