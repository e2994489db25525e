"""`hourwheel cluster status`: who leads, who lags, whose clock is off; `hourwheel cluster transfer`: another leader;
`hourwheel cluster snapshot`: a backup."""

import click

from cli.connection import Connection
from cli.output import client_options, show_fields, show_json, show_table

COLUMNS = ("id", "role", "state", "http", "raft", "applied_index", "lag", "clock_offset_ms")


@click.group()
def command() -> None:
    """Looks at the cluster, moves its leadership."""


@command.command()
@client_options
def status(url: str, timeout: float, output: str) -> None:
    """Shows who leads, and every node.

    A node knows the figures of others only while it leads; ask the leader for them.
    """
    document = Connection(url, timeout).call("GET", "/v1/cluster").document
    if output == "json":
        show_json(document)
        return
    show_fields(
        (name, document.get(name))
        for name in ("cluster_id", "leader", "term", "commit_index", "dispatch", "lateness_ms")
    )
    click.echo()
    show_table(COLUMNS, [[node.get(column) for column in COLUMNS] for node in document.get("nodes", [])])


@command.command()
@click.option("--to", "to", metavar="NODE", help="who shall lead (default: the best follower)")
@client_options
def transfer(to: str | None, url: str, timeout: float, output: str) -> None:
    """Moves leadership to another node, on purpose and without a pause for an election."""
    request = {} if to is None else {"to": to}
    document = Connection(url, timeout).call("POST", "/v1/cluster/transfer", request).document
    if output == "json":
        show_json(document)
    else:
        show_fields(document.items())


@command.command()
@click.option("--directory", metavar="DIR", help="below the node's [backup] directory (default: that one)")
@click.option(
    "--wait", "wait_s", type=click.FloatRange(min=1), default=3600.0, show_default=True, help="seconds it may take"
)
@client_options
def snapshot(directory: str | None, wait_s: float, url: str, timeout: float, output: str) -> None:
    """Writes a backup: a consistent copy at one log index, on the disk of the node that is asked.

    A follower is the better one to ask. `hourwheel restore` starts a cluster from it.
    """
    request = {} if directory is None else {"directory": directory}
    document = Connection(url, timeout).call("POST", "/v1/cluster/snapshot", request, wait_s=wait_s).document
    if output == "json":
        show_json(document)
    else:
        show_fields(document.items())
