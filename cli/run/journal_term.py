"""The checks of `hourwheel node journal-term` before it changes anything: the directories of all members are given, and
the term has run out."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cli.failure import Failure
from node.runtime.exit_code import ExitCode

if TYPE_CHECKING:
    from storage.directory.data_directory import DataDirectory


def new_term(opened: Sequence["DataDirectory"]) -> int:
    """Return the term to which the journals of these directories are lowered. The caller has locked them. Raises
    Failure if they are not those of all members of one cluster, or if an election can still be won. Raises Corrupt or
    FormatRefused for a journal that cannot be read."""
    from cli.data.verify_journal import ReadOnlyDisk
    from replication.election.term_bound import CREDIT
    from replication.journal.lower_term import GAP, members_named, read_journal
    from replication.wire.frame_bound import TERM_MAX

    disk, here = ReadOnlyDisk(), [directory.node_id for directory in opened]
    members: set[str] = set()
    removed: set[str] = set()
    clusters: set[bytes] = set()
    newest = highest = 0
    for directory in opened:
        found = read_journal(directory.journal, disk)
        newest, highest = max(newest, found.last_term), max(highest, found.term)
        listed, out, cluster_id = _table(directory.catalog)
        members |= listed | members_named(directory.journal, disk)
        removed |= out
        clusters |= {cluster_id or found.cluster_id} - {bytes(16)}
    wanted = members - removed
    if len(clusters) > 1:
        raise _refused("the directories are of different clusters")
    if len(set(here)) < len(here) or set(here) != wanted:
        raise _refused(
            f"the members are {', '.join(sorted(wanted)) or 'not known'}, and directories were given of "
            f"{', '.join(sorted(here))}: it needs each member's once, and no other"
        )
    if newest + GAP >= TERM_MAX:
        raise _refused(f"an entry has the term {newest}, and terms end at {TERM_MAX}: restore a backup")
    if highest < TERM_MAX and highest - newest <= CREDIT:
        raise _refused(
            f"the term is {highest}, the newest entry's is {newest}: an election can be won, so start the nodes"
        )
    return newest + GAP


def _table(path: Path) -> tuple[set[str], set[str], bytes]:
    """Return the ids of members and of removed members, and the cluster's id, from the catalog's last checkpoint."""
    from storage.catalog.catalog import Catalog
    from storage.file.disk import Disk
    from storage.tables.members import REMOVED

    if not (path / "data.mdb").is_file():
        return set(), set(), b""
    catalog = Catalog.open(path, Disk(), read_only=True)
    try:
        everybody = catalog.members.all()
        removed = {member.id for member in everybody if member.role == REMOVED}
        genesis = catalog.genesis
        return {member.id for member in everybody} - removed, removed, genesis.cluster_id if genesis else b""
    finally:
        catalog.close()


def _refused(why: str) -> Failure:
    return Failure(ExitCode.DATA, f"{why}; nothing was changed")
