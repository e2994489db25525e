"""Opens a node's Raft group: makes its options from the configuration, and reads from its directory which silence the
node may still owe."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Final

from node.port.group_frames import VERSIONS
from node.runtime.clock import NodeClock
from node.runtime.config import Config
from node.runtime.entropy import Entropy
from node.runtime.lifecycle import Lifecycle
from replication.apply.machine import Machine
from replication.command.entry import is_change
from replication.group import RaftGroup
from replication.journal.journal import Journal
from replication.raft.leader import UNSAID_S
from replication.raft.options import GroupOptions, NodeReport
from replication.snapshot.in_thread import in_thread
from replication.wire.contacts import address_of
from replication.wire.handshake import CALLS_FORMAT
from replication.wire.transport import Transport
from storage.file.disk import Disk
from storage.file.silence_file import read_silence, write_silence
from storage.format.level import LEVELS, has

__all__ = ["READS", "address_of", "group_options", "open_group"]

READS: Final = {"entry": LEVELS, CALLS_FORMAT: VERSIONS}
"""Versions that this build reads, (oldest, newest) by name. A hello names them."""


def group_options(config: Config, peers: tuple[str, ...], number: int = 0) -> GroupOptions:
    """The options of this node's group with this number and these peers."""
    raft = config.raft
    return GroupOptions(
        node_id=config.node_id,
        peers=peers,
        founds=not config.join,
        number=number,
        is_change=is_change,
        heartbeat_s=raft.heartbeat_ms / 1000,
        trust_s=raft.trust_ms / 1000,
        election_min_s=raft.election_min_ms / 1000,
        election_max_s=raft.election_max_ms / 1000,
        apart_ms=config.clock.skew_max_ms,
        fallback_s=(raft.trust_ms + raft.election_min_ms) / 2000,
    )


def open_group(
    config: Config,
    number: int,
    peers: tuple[str, ...],
    journal: Journal,
    transport: Transport,
    machine: Machine,
    clock: NodeClock,
    entropy: Entropy,
    disk: Disk,
    life: Lifecycle,
    *,
    node_report: Callable[[], NodeReport],
    created: bool,
) -> RaftGroup:
    """Open the Raft group with this number of a node whose directory is open. `created` is True if this start of the
    node made the directory. Raises Corrupt, FormatRefused, DiskFailed."""
    group = RaftGroup(
        group_options(config, peers, number),
        journal,
        transport.attach,
        machine.apply,
        monotonic=clock.monotonic,
        random=entropy.random().random,
        node_report=node_report,
        sums=machine.sums,
        kept_silence_s=_owed_ms(config, disk, created) / 1000,
    )

    async def write(seconds: float) -> None:
        await in_thread(write_silence, config.directory, ceil(seconds * 1000), disk)
        group.silence.kept(seconds)

    def keep(seconds: float) -> None:
        life.spawn(write(seconds))

    group.silence.on_keep = keep
    group.silence.may_grow = lambda: has(machine.level, "longer-silence")
    return group


def _owed_ms(config: Config, disk: Disk, created: bool) -> int:
    """The silence that this node may still owe because of votes before its start, ms. Afterwards the directory's
    silence file says at least the shortest election timeout, `election_min_ms`.

    A directory without a silence file is new, or an older build's. An older build wrote none and owed UNSAID_S.
    """
    least_ms, path = config.raft.election_min_ms, config.directory
    said_ms = read_silence(path, disk)
    if said_ms < least_ms:
        write_silence(path, least_ms, disk)
    unsaid_ms = 0 if said_ms or created else ceil(UNSAID_S * 1000)
    return max(least_ms, said_ms, unsaid_ms)
