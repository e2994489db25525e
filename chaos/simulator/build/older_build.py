"""Nodes as of the build before: what they read, and say that they read, ends at level 1 (docs/adr/0027-levels.md).

All nodes of a world run this build's code. At level 1 it writes what the first builds wrote, byte for byte; so an older
build is this one with smaller bounds on what it reads, for as long as a step of its node runs. Where its own readers
refuse a file, an entry or a peer, the real older build does. What tells of a level is newer than it, so it never asks
for one. `make soak-versions` runs the real one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import node.cluster.levels
import node.group.group
import replication.command.entry
import storage.catalog.checkpoint_record
import storage.format.rows
from chaos.simulator.build.mutant import Patch, patched
from replication.command.entry import UnknownCommand
from replication.wire.frame import PROTOCOL
from replication.wire.handshake import Hello
from storage.format.level import FOUNDED
from storage.format.rows import MAGIC_JOURNAL, READS, FormatRefused

FIRST: Final = (FOUNDED, FOUNDED)
_OLDER: Final[list[Patch]] = [
    (node.cluster.levels, "LEVELS", FIRST),
    (node.group.group, "READS", {"entry": FIRST}),
    (replication.command.entry, "VERSIONS_READ", FIRST),
    (storage.catalog.checkpoint_record, "LEVELS", FIRST),
    (storage.catalog.checkpoint_record, "VERSIONS", FIRST),
    (storage.format.rows, "READS", {**READS, MAGIC_JOURNAL: FIRST}),
]


@contextmanager
def older() -> Iterator[None]:
    """What runs inside the block reads what the first builds read."""
    with patched(_OLDER):
        yield


def as_older(said: Hello) -> Hello:
    """The hello of a first build: it says nothing of formats, and speaks the first protocol only."""
    return replace(said, formats={}, protocol=(PROTOCOL[0], PROTOCOL[0]), level=FOUNDED)


def is_refusal(error: BaseException | None) -> bool:
    """Whether a build ended because of something that only a newer one reads."""
    return isinstance(error, FormatRefused | UnknownCommand)
