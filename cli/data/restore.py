"""`hourwheel restore BACKUP`: a data directory from a backup, the first node of a new cluster.

The command talks to no node. The random ids of the new cluster and of the directory are drawn here;
storage/directory/restore.py does the rest.
"""

import os
import re
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.failure import Failure
from cli.output import output_option, show_fields, show_json
from cli.time_option import BadTime, parse_duration
from node.runtime.exit_code import ExitCode

if TYPE_CHECKING:
    from storage.tables.overdue import OverdueRule


@click.command()
@click.argument("backup", metavar="BACKUP", type=click.Path(path_type=Path))
@click.option("--data-dir", required=True, type=click.Path(path_type=Path), help="new or empty: its node's `data_dir`")
@click.option("--node-id", required=True, metavar="ID", help="of the node that starts on it")
@click.option("--raft", metavar="HOST:PORT", help="where others reach its Raft listener (default: as in the backup)")
@click.option("--http", metavar="HOST:PORT", help="where others reach its HTTP listener (default: as in the backup)")
@click.option(
    "--catch-up",
    default="all",
    show_default=True,
    metavar="all|last=30m|none",
    help="which of the messages that became due since are delivered; the others are dead, reason `restored`",
)
@click.option("--alone", is_flag=True, help="remove the other members, instead of letting them join again, empty")
@output_option
def command(
    backup: Path,
    data_dir: Path,
    node_id: str,
    raft: str | None,
    http: str | None,
    catch_up: str,
    alone: bool,
    output: str,
) -> None:
    """Makes a data directory from a backup that `hourwheel cluster snapshot` wrote: the one voter of a new cluster.

    Restore one node. The others start with empty data directories and get everything from it.
    """
    from replication.journal.install import install_restored
    from storage.checkpoint.manifest import SnapshotRefused
    from storage.directory.restore import RestoreOptions, restore
    from storage.file.disk import Disk, DiskFailed

    disk = Disk()
    options = RestoreOptions(
        node_id=_node_id(node_id),
        cluster_id=os.urandom(16),
        store_id=os.urandom(16),
        now_ms=int(time.time() * 1000),
        raft=_address("--raft", raft),
        http=_address("--http", http),
        alone=alone,
        overdue=_overdue_rule(catch_up),
    )

    write_journal = partial(install_restored, disk=disk, cluster_id=options.cluster_id)

    try:
        manifest = restore(backup, data_dir, options, write_journal, disk)
    except (SnapshotRefused, DiskFailed) as error:
        raise Failure(ExitCode.DATA, str(error)) from None
    document = {
        "data_dir": str(data_dir),
        "node_id": node_id,
        "cluster_id": options.cluster_id.hex(),
        "restored_cluster_id": manifest.cluster_id.hex(),
        "applied_index": manifest.applied_index,
        "applied_term": manifest.applied_term,
        "hours": len(manifest.record.hours),
        "units": sum(hour.units for hour in manifest.record.hours.values()),
        "bytes": manifest.total_bytes,
        "catch_up": catch_up,
    }
    if output == "json":
        show_json(document)
    else:
        show_fields(document.items())


def _node_id(value: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9._-]{1,64}", value) is None:
        raise click.BadParameter("1 to 64 letters, digits, '-', '_' or '.'", param_hint="--node-id")
    return value


def _address(option: str, value: str | None) -> str | None:
    if value is not None and re.fullmatch(r"[^\s:]+:[0-9]{1,5}|\[[0-9a-fA-F:.]+\]:[0-9]{1,5}", value) is None:
        raise click.BadParameter(f"HOST:PORT is expected, found {value!r}", param_hint=option)
    return value


def _overdue_rule(value: str) -> "OverdueRule | None":
    """Return the rule that the restored cluster keeps for --catch-up. None means the default: the cluster delivers all
    overdue messages."""
    from storage.tables.overdue import OverdueRule

    if value == "all":
        return None
    if value == "none":
        return OverdueRule(last_ms=0)
    name, _, duration = value.partition("=")
    if name != "last":
        raise click.BadParameter(f"all, last=DURATION or none, found {value!r}", param_hint="--catch-up")
    try:
        return OverdueRule(last_ms=parse_duration(duration))
    except BadTime as bad:
        raise click.BadParameter(str(bad), param_hint="--catch-up") from None
