"""A node's Raft group: its options, from the configuration, and what its directory says that it owes."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING

from node.runtime.config import Config
from replication.command.entry import is_change
from replication.group import RaftGroup
from replication.raft.leader import UNSAID_S
from replication.raft.options import GroupOptions, Vitals
from replication.snapshot.in_thread import in_thread
from replication.wire.contacts import address_of
from storage.catalog.level import has
from storage.file.silence_file import read_silence, write_silence

if TYPE_CHECKING:
    from node.server import Node

__all__ = ["address_of", "group_options", "open_group"]


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


def open_group(node: Node, peers: tuple[str, ...], vitals: Callable[[], Vitals]) -> RaftGroup:
    """The group of a node that has opened its directory. Raises Corrupt, FormatRefused, DiskFailed."""
    group = RaftGroup(
        group_options(node.config, peers),
        node.journal,
        node.transport.attach,
        node.machine.apply,
        monotonic=node.clock.monotonic,
        random=node.entropy.random().random,
        vitals=vitals,
        sums=node.machine.sums,
        kept_silence_s=_owed_ms(node) / 1000,
    )

    def keep(seconds: float) -> None:
        node.life.spawn(_keep(node, seconds))

    group.silence.on_keep = keep
    group.silence.may_grow = lambda: has(node.store.level, "longer-silence")
    return group


def _owed_ms(node: Node) -> int:
    """What this directory may still owe from before the start; at least what is configured is on its disk then. A
    directory that does not say is new, or an older build's, which told nobody and had this default."""
    least_ms, path = node.config.raft.election_min_ms, node.config.directory
    said_ms = read_silence(path, node.disk)
    if said_ms < least_ms:
        write_silence(path, least_ms, node.disk)
    unsaid_ms = 0 if said_ms or node.directory.created else ceil(UNSAID_S * 1000)
    return max(least_ms, said_ms, unsaid_ms)


async def _keep(node: Node, seconds: float) -> None:
    await in_thread(write_silence, node.config.directory, ceil(seconds * 1000), node.disk)
    node.group.silence.kept(seconds)
