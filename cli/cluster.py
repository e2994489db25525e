"""`hourwheel cluster status`: who leads, who lags, whose clock is off; `hourwheel cluster transfer`: another leader."""

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
