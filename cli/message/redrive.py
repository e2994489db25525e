"""`hourwheel redrive TOPIC`: dead messages are due again, now, their attempts counted anew.

A wrong filter would deliver messages that were given up for good reason. So the command first counts the messages and
asks the user.
"""

from typing import Any

import click

from cli.connection import Connection
from cli.message.confirm import confirm
from cli.option import window_fields, window_options
from cli.output import client_options, show_fields, show_json

PATH = "/v1/messages/redrive"


@click.command()
@click.argument("topic")
@window_options
@click.option("--dry-run", is_flag=True, help="only count them")
@click.option("--yes", is_flag=True, help="do not ask")
@client_options
def command(topic: str, dry_run: bool, yes: bool, url: str, timeout: float, output: str, **options: Any) -> None:
    """Makes the dead messages of TOPIC due now; asks first, with their number."""
    connection = Connection(url, timeout)
    request: dict[str, object] = {"topic": topic} | window_fields(options)
    if dry_run or not yes:
        document = connection.call("POST", PATH, request | {"dry_run": True}).document
        if not dry_run and document.get("matched"):
            confirm(f"{document['matched']} dead messages of {topic} match. Make them due now?")
    if not dry_run:
        document = connection.call("POST", PATH, request).document
    if output == "json":
        show_json(document)
    else:
        show_fields(document.items())
