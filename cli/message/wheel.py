"""`hourwheel wheel [HOUR]`: which seconds of an hour of the wheel have messages."""

from typing import Any

import click

from cli.connection import Connection
from cli.option import count_query
from cli.output import client_options, show_answer, show_table
from cli.time_option import TIME, Time


@click.command(help=f"Shows which seconds of HOUR have messages: any time within it, or none for now. {TIME}")
@click.argument("at", metavar="[HOUR]", type=Time(), required=False)
@click.option("--topic", help="only the messages of this topic")
@client_options
def command(url: str, timeout: float, output: str, **options: Any) -> None:
    """Shows how many messages each second has, how many are open, and where the leader is."""
    reply = Connection(url, timeout).call("GET", f"/v1/wheel{count_query(options)}")
    if output == "json":
        show_answer(reply.payload)
        return
    document = reply.document
    rows = [(each["second"], each["open"], each["units"]) for each in document.get("seconds", [])]
    show_table(("second", "open", "units"), rows)
    opened, units = (sum(row[column] for row in rows) for column in (1, 2))
    hour, tick = document.get("hour"), document.get("tick")
    click.echo(f"{opened} open of {units} in the hour from {hour}; the leader is at {tick}", err=True)
