"""`hourwheel node`: drains one node, or lowers the term of stopped nodes when terms have run out.

A drained node leads nothing and takes no requests, until it is told otherwise or started anew. `journal-term` is
offline: it talks to no node, and the directories it is given are locked while it works
(replication/journal/lower_term.py).
"""

import contextlib
from pathlib import Path

import click

from cli.connection import Connection
from cli.failure import Failure
from cli.output import client_options, show_fields, show_json
from node.runtime.exit_code import ExitCode

#: The longest time that a drain waits for pushes on the wire, and for a leader to take their outcomes.
DRAIN_WAIT_S = 30.0


@click.group()
def command() -> None:
    """Looks after one node."""


@command.command()
@click.option("--node", "node", metavar="NODE", help="its id: refused if another node answers at --url")
@click.option("--undo", is_flag=True, help="let it serve and lead again")
@client_options
def drain(node: str | None, undo: bool, url: str, timeout: float, output: str) -> None:
    """Takes the node at --url out of service without stopping it.

    It gives leadership away, refuses requests with `draining`, and the command returns when its pushes are off the
    wire. It stays a follower that votes and keeps its copy, and does not stand for election, until --undo or a restart.
    """
    request = {} if node is None else {"node": node}
    method, wait_s = ("DELETE", 0.0) if undo else ("POST", DRAIN_WAIT_S)
    document = Connection(url, timeout).call(method, "/v1/node/drain", request, wait_s).document
    if output == "json":
        show_json(document)
    else:
        show_fields(document.items())


@command.command("journal-term")
@click.argument("directories", nargs=-1, required=True, metavar="DIR...", type=click.Path(path_type=Path))
@click.option("--yes", is_flag=True, help="do it; without this only what would be done is said")
def journal_term(directories: tuple[Path, ...], yes: bool) -> None:
    """Lowers the term of a cluster that can elect no leader, because its term has reached the end of terms.

    DIR... are the data directories (`data_dir`) of ALL members, learners too, with all nodes stopped: copy them to one
    machine, or mount them there. No message, hand-over or entry is touched. It refuses a directory that is in use, and
    fewer directories than the cluster has members. A vote that a missing member remembers could count twice.
    """
    from cli.data.verify_journal import ReadOnlyDisk
    from cli.run.journal_term import new_term
    from replication.journal.lower_term import lower_term, read_journal
    from storage.directory.data_directory import DataDirectory, DirectoryRefused
    from storage.file.disk import Disk, DiskFailed
    from storage.format.rows import Corrupt, FormatRefused

    disk = Disk()
    try:
        with contextlib.ExitStack() as locked:
            opened = [
                locked.enter_context(contextlib.closing(DataDirectory.inspect(path, disk))) for path in directories
            ]
            term = new_term(opened)
            for directory in opened:
                found = read_journal(directory.journal, disk if yes else ReadOnlyDisk())
                click.echo(f"{directory.node_id}: term {found.term} -> {min(found.term, term)}")
                if yes:
                    lower_term(directory.journal, disk, term)
    except (DirectoryRefused, Corrupt, FormatRefused, DiskFailed) as error:
        raise Failure(ExitCode.DATA, str(error)) from None
    click.echo("done: start the nodes" if yes else "nothing was changed; --yes does it")
