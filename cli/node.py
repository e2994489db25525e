"""`hourwheel node drain`: one node leads nothing and takes no requests, until it is told otherwise or started anew."""

import click

from cli.connection import Connection
from cli.output import client_options, show_fields, show_json

#: What a drain may wait for pushes on the wire, and for a leader to take their outcomes.
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
