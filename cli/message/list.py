"""`hourwheel list [TOPIC]`: which messages there are, in order of due time.

A page of the node may be short although others follow. The command asks for further pages until it has --limit messages
or there are no more.
"""

from typing import Any

import click

from cli.connection import Connection
from cli.option import count_options, count_query
from cli.output import client_options, say_settling, show_answer, show_table
from cli.shown import body

COLUMNS = ("id", "topic", "state", "due", "attempt", "tags", "key")


@click.command()
@count_options
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="at most so many messages")
@click.option("--cursor", help="where an earlier list ended")
@click.option("--all", "everything", is_flag=True, help="all messages; --limit is the size of a page")
@click.option("--body", "with_body", is_flag=True, help="show their bodies too")
@client_options
def command(
    limit: int,
    cursor: str | None,
    everything: bool,
    with_body: bool,
    url: str,
    timeout: float,
    output: str,
    **options: Any,
) -> None:
    """Lists the messages of TOPIC, or of all topics: those that have not ended, unless --state says which."""
    connection = Connection(url, timeout)
    columns = (*COLUMNS, "body") if with_body else COLUMNS
    rows: list[list[object]] = []
    left, settling = limit, 0
    while left:
        page = {"limit": left, "cursor": cursor, "body": str(with_body).lower()}
        reply = connection.call("GET", f"/v1/messages{count_query({**options, **page})}")
        items, cursor = reply.document.get("items", []), reply.document.get("next_cursor")
        settling += reply.document.get("settling", 0)
        left = limit if everything else left - len(items)
        if output == "json":
            show_answer(reply.payload)
        rows += [[_cell(item, column) for column in columns] for item in items]
        if cursor is None:
            break
    if output == "json":
        return
    show_table(columns, rows)
    say_settling(settling)
    if cursor is not None:
        click.echo(f"more: --cursor {cursor}", err=True)


def _cell(item: dict[str, Any], column: str) -> object:
    return body(item) if column == "body" else item.get(column, "")
