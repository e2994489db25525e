"""`hourwheel ack TOPIC RECEIPT...`: these messages are done."""

import click

from cli.message.receipts import run
from cli.output import client_options


@click.command()
@click.argument("topic")
@click.argument("receipts", nargs=-1, required=True, metavar="RECEIPT...")
@client_options
def command(topic: str, receipts: tuple[str, ...], url: str, timeout: float, output: str) -> None:
    """Settles pulled messages of TOPIC by their receipts ('-': from stdin, one a line)."""
    run(url, timeout, output, topic, "ack", "acked", receipts)
