"""Finds the cluster of a node that has not applied Genesis yet: a peer says the cluster's id, and the node's own log
proves it.

A node without a cluster id is a guest of its peers, and its votes do not count (wire/door.py). A node may acknowledge
Genesis and stop before it hears that Genesis is committed. When it starts again it has no cluster id. If the first
leader is lost for good, the others need its vote. So it takes the id that a peer says, if its log has the Genesis with
that very id.

A peer says only an id that it has applied, so that Genesis is committed. The id is drawn at random, so no two are the
same. The node's own log alone is not enough, because it may have the Genesis of a candidate that lost.
"""

from __future__ import annotations

from replication.command.entry import EntryRefused, Kind, UnknownCommand, decode_entry
from replication.command.genesis import Genesis
from replication.journal.journal import Journal

LOOKED_AT = 64
"""The number of entries that are searched. Genesis is the first command of a log. Before it stand only the no-ops of
leaders that were lost before they proposed a Genesis.
"""


def logged_clusters(journal: Journal, applied_index: int) -> set[bytes]:
    """The cluster ids of all Genesis commands in the log's entries after `applied_index`. At most LOOKED_AT entries are
    searched.
    """
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
