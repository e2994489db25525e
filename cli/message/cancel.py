"""`hourwheel cancel ID`: after exit 0 no delivery of the message starts."""

from urllib.parse import quote

import click

from cli.connection import Connection
from cli.option import if_match_option
from cli.output import client_options, show_fields, show_json


@click.command()
@click.argument("message_id", metavar="ID")
@if_match_option
@client_options
def command(message_id: str, headers: dict[str, str], url: str, timeout: float, output: str) -> None:
    """Cancels the message ID; says how many attempts were made before."""
    path = f"/v1/messages/{quote(message_id, safe='')}"
    document = Connection(url, timeout).call("DELETE", path, headers=headers).document
    if output == "json":
        show_json(document)
    else:
        show_fields(document.items())
