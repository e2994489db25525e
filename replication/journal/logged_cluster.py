"""The cluster of a node that has not applied Genesis yet: a peer says its id, and the own log proves it.

A node without a cluster id is a guest, and its votes do not count (wire/door.py). A founder may acknowledge Genesis and
stop before it hears that Genesis is committed. Then it is such a node. If the first leader is lost for good, the others
need its vote. So it takes the id that a peer says, if the Genesis with that very id stands in its log.

A peer says only an id that it has applied, so Genesis is committed. The id is drawn at random once. The own log alone
is not enough, because the Genesis of a candidate that lost may stand there too.
"""

from __future__ import annotations

from replication.command.entry import EntryRefused, Kind, UnknownCommand, decode_entry
from replication.command.genesis import Genesis
from replication.journal.journal import Journal

LOOKED_AT = 64
"""Entries that are searched. Genesis is the first command of a log. Before it stand the no-ops of leaders that were
lost before they made it.
"""


def logged_clusters(journal: Journal, applied_index: int) -> set[bytes]:
    """The ids of the clusters whose Genesis stands in the log behind the applied entries."""
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
