"""Which cluster a node belongs to that has not applied Genesis yet: told by a peer, proven by the own log.

A node without a cluster id is a guest, and its votes count for nothing (wire/door.py). A founder that has acknowledged
Genesis, and was stopped before it heard that Genesis is committed, is such a node. If the first leader is then lost for
good, the others need its vote. So it takes the id that a peer says, if the Genesis with that very id stands in its log:
a peer says only an id that it has applied, hence one that is committed, and the id is drawn by chance once. Its own
log alone would not do: the Genesis of a candidate that lost may stand there too.
"""

from __future__ import annotations

from replication.command.entry import EntryRefused, Kind, UnknownCommand, decode_entry
from replication.command.genesis import Genesis
from replication.journal.journal import Journal

LOOKED_AT = 64
"""Genesis is the first command of a log; before it stand the no-ops of leaders that were lost before they made it."""


def logged_clusters(journal: Journal, applied_index: int) -> set[bytes]:
    """The ids of those clusters whose Genesis stands in the log behind what is applied."""
    found: set[bytes] = set()
    at = max(applied_index + 1, journal.first_index)
    stop = min(at + LOOKED_AT, journal.last_index + 1)
    while at < stop:
        entries = journal[at - journal.first_index : stop - journal.first_index]
        for command, index, _term in entries:
            at = index + 1
            if len(command) > 1:
                found |= _founded_by(command)
    return found


def _founded_by(command: bytes) -> set[bytes]:
    try:
        sections = decode_entry(command).sections
        return {Genesis.unpack(section).cluster_id for section in sections if section.kind == Kind.GENESIS}
    except (EntryRefused, UnknownCommand):  # apply will say so
        return set()
