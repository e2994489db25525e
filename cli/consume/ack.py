"""`hourwheel ack TOPIC RECEIPT...`: ends messages that the consumer is done with."""

import click

from cli.consume.receipts import run
from cli.output import client_options


@click.command()
@click.argument("topic")
@click.argument("receipts", nargs=-1, required=True, metavar="RECEIPT...")
@client_options
def command(topic: str, receipts: tuple[str, ...], url: str, timeout: float, output: str) -> None:
    """Acks pulled messages of TOPIC by their receipts ('-': from stdin, one a line)."""
    run(url, timeout, output, topic, "ack", "acked", receipts)
