"""Nodes as of the build before. They read only formats up to level 1, and say so (docs/adr/0027-levels.md).

All nodes of a world run this build's code, which writes the same bytes at level 1 as the first builds. So an older
build is this one with smaller bounds on what it reads, during each step of its node. It refuses a file, an entry or a
peer where the real older build does. It never asks for a level, because the messages for that are newer than it. `make
soak-versions` runs the real older build.
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
    """In the block the code reads only what the first builds read."""
    with patched(_OLDER):
        yield


def as_older(said: Hello) -> Hello:
    """The hello of a first build: it names no formats, and only the first protocol."""
    return replace(said, formats={}, protocol=(PROTOCOL[0], PROTOCOL[0]), level=FOUNDED)


def is_refusal(error: BaseException | None) -> bool:
    """True if a build ended because of something that only a newer one reads."""
    return isinstance(error, FormatRefused | UnknownCommand)
