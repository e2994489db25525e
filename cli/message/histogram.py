"""`hourwheel histogram [TOPIC]`: when messages are due, as numbers and as bars."""

from typing import Any

import click

from cli.connection import Connection
from cli.option import count_options, count_query
from cli.output import client_options, show_json, show_table

#: Characters of the longest bar.
BAR = 50


@click.command()
@count_options
@click.option("--step", metavar="DURATION", help="of one bucket: 1s 15m 1h, or ms  [default: 1m]")
@client_options
def command(url: str, timeout: float, output: str, **options: Any) -> None:
    """Shows how many messages of TOPIC, or of all topics, are due when; at most 1,000 buckets."""
    document = Connection(url, timeout).call("GET", f"/v1/messages/histogram{count_query(options)}").document
    if output == "json":
        show_json(document)
        return
    buckets = document.get("buckets", [])
    most = max((bucket["count"] for bucket in buckets), default=0)
    rows = [
        [bucket["from"], bucket["count"], "#" * (-(-BAR * bucket["count"] // most) if most else 0)]
        for bucket in buckets
    ]
    show_table(("from", "count", ""), rows)
