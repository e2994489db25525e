"""`hourwheel nack TOPIC RECEIPT...`: gives messages back."""

import click

from cli.message.receipts import run
from cli.option import DURATION, number_or_text
from cli.output import client_options


@click.command()
@click.argument("topic")
@click.argument("receipts", nargs=-1, required=True, metavar="RECEIPT...")
@click.option("--delay", help=f"due again so long from now: {DURATION} (default: by the retry policy)")
@client_options
def command(topic: str, receipts: tuple[str, ...], delay: str | None, url: str, timeout: float, output: str) -> None:
    """Gives pulled messages of TOPIC back by their receipts ('-': from stdin, one a line)."""
    again = None if delay is None else number_or_text(delay)
    run(url, timeout, output, topic, "nack", "nacked", receipts, delay=again)
