"""`hourwheel get ID`: a message with its history, its deliveries and what the ledger says of them."""

from urllib.parse import quote

import click

from cli.connection import Connection
from cli.message.ledger import show_message_ledger
from cli.output import client_options, show_answer, show_fields, show_table
from cli.shown import body

FIELDS = (
    "id",
    "topic",
    "state",
    "due",
    "asked_due",
    "created",
    "revision",
    "attempt",
    "tags",
    "headers",
    "key",
    "content_type",
    "body",
    "handed_over",
    "settled",
    "lateness_ms",
    "last_error",
    "held",
    "target",
    "retry",
)


@click.command()
@click.argument("message_id", metavar="ID")
@click.option("--local", is_flag=True, help="what the asked node knows, without asking the leader (may be old)")
@client_options
def command(message_id: str, local: bool, url: str, timeout: float, output: str) -> None:
    """Shows the message ID: state, times, body, history, and its ledger: class, deliveries, duplicates."""
    path = f"/v1/messages/{quote(message_id, safe='')}" + ("?consistency=local" if local else "")
    answer = Connection(url, timeout).call("GET", path)
    if output == "json":
        show_answer(answer.payload)
        return
    document = answer.document
    shown = document | {"body": body(document)}
    show_fields((name, shown[name]) for name in FIELDS if shown.get(name) is not None)
    history = document.get("history") or []
    if history:
        click.echo()
        columns = ("at", "event", "node", "term", "attempt")
        show_table(columns, [[event.get(column, "") for column in columns] for event in history])
    ledger = document.get("ledger") or {}
    if ledger:
        click.echo()
        show_message_ledger(ledger)
