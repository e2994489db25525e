"""`hourwheel count [TOPIC]`: how many messages there are."""

from typing import Any

import click

from cli.connection import Connection
from cli.option import count_options, count_query
from cli.output import client_options, say_settling, show_json


@click.command()
@count_options
@client_options
def command(url: str, timeout: float, output: str, **options: Any) -> None:
    """Counts the messages of TOPIC, or of all topics: those that have not ended, unless --state says which."""
    document = Connection(url, timeout).call("GET", f"/v1/messages/count{count_query(options)}").document
    if output == "json":
        show_json(document)
    else:
        click.echo(document.get("count", ""))
        say_settling(document.get("settling", 0))
