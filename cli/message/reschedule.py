"""`hourwheel reschedule ID`: another due time for a message that is not handed over."""

from urllib.parse import quote

import click

from cli.connection import Connection
from cli.option import DURATION, if_match_option, number_or_text
from cli.output import client_options, show_fields, show_json


@click.command()
@click.argument("message_id", metavar="ID")
@click.option("--delay", help=f"how long from now: {DURATION}")
@click.option("--at", "deliver_at", help="when: 2026-11-21T02:10:20.125Z, or integer milliseconds since 1970")
@if_match_option
@client_options
def command(
    message_id: str,
    delay: str | None,
    deliver_at: str | None,
    headers: dict[str, str],
    url: str,
    timeout: float,
    output: str,
) -> None:
    """Moves the message ID to another due time: nothing of it is handed over before."""
    if (delay is None) == (deliver_at is None):
        raise click.UsageError("give exactly one of --delay and --at")
    given = {"delay": delay} if delay is not None else {"deliver_at": deliver_at}
    request = {name: number_or_text(value) for name, value in given.items() if value is not None}
    path = f"/v1/messages/{quote(message_id, safe='')}"
    document = Connection(url, timeout).call("PATCH", path, request, headers=headers).document
    if output == "json":
        show_json(document)
    else:
        show_fields(document.items())
