"""`hourwheel dead TOPIC`: the dead letters of a topic, and why each died."""

from typing import Any
from urllib.parse import quote, urlencode

import click

from cli.connection import Connection
from cli.option import window_fields, window_options
from cli.output import client_options, show_json, show_table

COLUMNS = ("id", "asked_due", "died", "reason", "attempts", "tags", "key")


@click.command()
@click.argument("topic")
@window_options
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="at most so many a page")
@click.option("--cursor", help="the next_cursor of the page before")
@click.option("--all", "everything", is_flag=True, help="all pages")
@client_options
def command(
    topic: str, limit: int, cursor: str | None, everything: bool, url: str, timeout: float, output: str, **options: Any
) -> None:
    """Lists the dead messages of TOPIC (`hourwheel redrive` makes them due again)."""
    connection = Connection(url, timeout)
    path = f"/v1/topics/{quote(topic, safe='')}/dead"
    query = window_fields(options) | {"limit": limit}
    items: list[dict[str, object]] = []
    while True:
        page = query | ({"cursor": cursor} if cursor is not None else {})
        document = connection.call("GET", f"{path}?{urlencode(page)}").document
        items += document.get("items", [])
        cursor = document.get("next_cursor")
        if cursor is None or not everything:
            break
    if output == "json":
        show_json(document | {"items": items})
        return
    show_table(COLUMNS, [[item.get(column, "") for column in COLUMNS] for item in items])
    if cursor is not None:
        click.echo(f"more: --cursor {cursor}", err=True)
