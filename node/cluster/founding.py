"""The Genesis with which the first leader founds a cluster."""

from node.runtime.config import Config
from node.runtime.entropy import Entropy
from replication.command.genesis import Genesis


def genesis_of(config: Config, entropy: Entropy) -> Genesis:
    """Return a Genesis with a new cluster id, a new secret, and the nodes and retentions of the configuration."""
    founders = sorted(config.peers, key=lambda peer: peer.id)
    return Genesis(
        cluster_id=entropy.bytes(16),
        secret=entropy.bytes(32),
        nodes=tuple(peer.id for peer in founders),
        addresses=tuple((peer.raft, peer.http) for peer in founders),
        retention_ms=config.storage.retention_ms,
        key_retention_ms=config.storage.key_retention_ms,
    )
