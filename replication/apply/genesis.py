"""Applies Genesis, which founds a cluster: it sets the cluster's id, its secret and its first members."""

from __future__ import annotations

from replication.apply.applying import Applying
from replication.apply.member import found_members
from replication.command.genesis import Genesis
from storage.catalog.genesis import Genesis as GenesisRow
from storage.format.level import FOUNDED


def apply_genesis(applying: Applying, command: Genesis) -> None:
    """Found the cluster, unless it is founded already."""
    store = applying.store
    if store.cluster_id is not None:
        return
    store.found(command.cluster_id)
    store.catalog.found(
        GenesisRow(
            cluster_id=command.cluster_id,
            secret=command.secret,
            nodes=command.nodes,
            formats={"entry": FOUNDED},
            created_ms=applying.envelope.now_ms,
            retention_ms=command.retention_ms,
            key_retention_ms=command.key_retention_ms,
        )
    )
    found_members(store.catalog.members, command, applying.index)
    applying.told.founded(command.cluster_id)
    applying.told.members()
