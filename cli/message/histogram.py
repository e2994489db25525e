"""`hourwheel histogram [TOPIC]`: when messages are due, as numbers and as bars.

Without --step the leader chooses a step that fits the time over which the messages are spread.
"""

import itertools
from collections.abc import Iterator
from typing import Any, Final

import click

from cli.connection import Connection
from cli.option import count_options, count_query
from cli.output import client_options, say_settling, show_json, show_table
from cli.time_option import Duration

#: Characters of the longest bar.
BAR: Final = 50
#: So many empty buckets in a row have a line each.
EMPTY_MAX: Final = 3


@click.command()
@count_options
@click.option("--step", type=Duration(), help="of one bucket: 1s 15m 1h  [default: one that fits]")
@client_options
def command(url: str, timeout: float, output: str, **options: Any) -> None:
    """Shows how many messages of TOPIC, or of all topics, are due when; at most 1,000 buckets."""
    document = Connection(url, timeout).call("GET", f"/v1/messages/histogram{count_query(options)}").document
    if output == "json":
        show_json(document)
        return
    buckets = document.get("buckets", [])
    most = max((bucket["count"] for bucket in buckets), default=0)
    show_table(("from", "count", ""), _rows(buckets, most))
    say_settling(document.get("settling", 0))
    if options["step"] is None and buckets:
        click.echo(f"each line is {document.get('step')}; --step chooses another", err=True)


def _rows(buckets: list[dict[str, Any]], most: int) -> Iterator[tuple[str, object, str]]:
    """A line for each bucket, and one for several in a row that are empty."""
    for empty, run in itertools.groupby(buckets, lambda bucket: bucket["count"] == 0):
        shown = list(run)
        if empty and len(shown) > EMPTY_MAX:
            yield "...", f"{len(shown)} times 0", ""
            continue
        for bucket in shown:
            yield bucket["from"], bucket["count"], "#" * (-(-BAR * bucket["count"] // most) if most else 0)
