"""`hourwheel reschedule ID`: another due time for a message that is not handed over."""

from urllib.parse import quote

import click

from cli.connection import Connection
from cli.option import if_match_option
from cli.output import client_options, show_fields, show_json
from cli.time_option import DURATION, TIME, Duration, Time


@click.command()
@click.argument("message_id", metavar="ID")
@click.option("--delay", type=Duration(), help=f"how long from now: {DURATION}")
@click.option("--at", "deliver_at", type=Time(), help=f"when: {TIME}")
@if_match_option
@client_options
def command(
    message_id: str,
    delay: int | None,
    deliver_at: int | str | None,
    headers: dict[str, str],
    url: str,
    timeout: float,
    output: str,
) -> None:
    """Moves the message ID to another due time. It is not delivered before that time."""
    if (delay is None) == (deliver_at is None):
        raise click.UsageError("give exactly one of --delay and --at")
    request = {"delay": delay} if delay is not None else {"deliver_at": deliver_at}
    path = f"/v1/messages/{quote(message_id, safe='')}"
    document = Connection(url, timeout).call("PATCH", path, request, headers=headers).document
    if output == "json":
        show_json(document)
    else:
        show_fields(document.items())
